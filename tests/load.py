"""Loads generated organisations with a few plain SQL statements, and asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row, tuple_row
from psycopg.types.json import Json, Jsonb

from tests.oracle import BUILT_IN, Article, Chunk, Profile, Row, Search, Vector
from tests.strategies import DIMENSIONS, UNKNOWN, WORDS, Organisation, numbered, padded

EVERYTHING = 1000
"""The highest limit."""

TYPES: dict[str, LiteralString] = {
    "p_org_id": "%(p_org_id)s::bigint",
    "p_query_text": "%(p_query_text)s::text",
    "p_query_embedding": "%(p_query_embedding)s",
    "p_limit": "%(p_limit)s::bigint",
    "p_offset": "%(p_offset)s::bigint",
    "p_cursor": "%(p_cursor)s::text",
    "p_kinds": "%(p_kinds)s::text[]",
    "p_kind_quota": "%(p_kind_quota)s::jsonb",
    "p_metadata": "%(p_metadata)s::jsonb",
    "p_min_score": "%(p_min_score)s::float8",
    "p_profile": "%(p_profile)s::text",
    "p_space_id": "%(p_space_id)s::bigint",
    "p_exploratory": "%(p_exploratory)s::boolean",
    "p_language": "%(p_language)s::text",
}


def vector_text(vector: Vector) -> str:
    return f"[{','.join(str(component) for component in vector)}]"


def arguments(org_id: int, search: Search, **others: Any) -> dict[str, Any]:
    """Arguments of the search functions; others: those that a Search does not hold, or other values."""
    given = {
        "p_org_id": org_id,
        "p_query_text": search.text,
        "p_query_embedding": None if search.vector is None else vector_text(search.vector),
        "p_limit": EVERYTHING,
        "p_offset": None,
        "p_cursor": None,
        "p_kinds": None if search.kinds is None else list(search.kinds),
        "p_kind_quota": None if search.quota is None else Jsonb(search.quota),
        "p_metadata": None if search.metadata is None else Jsonb(search.metadata),
        "p_min_score": search.min_score,
        "p_profile": f"{search.profile.name}@1",
        "p_language": search.language,
        **others,
    }
    return {name: value for name, value in given.items() if value is not None}


def call(function: LiteralString, given: Mapping[str, Any]) -> LiteralString:
    named: list[LiteralString] = [f"{name} => {cast}" for name, cast in TYPES.items() if name in given]
    return f"kbsearch.{function}({', '.join(named)})"


@dataclass(frozen=True, slots=True)
class Found:
    """A row of a search as it came: row as the oracle has it, and the row's cursor."""

    row: Row
    cursor: str
    settled_by_identity: bool


@dataclass(slots=True)
class Database:
    """A database with kbsearch.

    Attributes:
        spaces: for each number of dimensions the space that is searched and another that must not matter.
        window: organisations are searched approximately, with windows of so many articles; None: exactly.
    """

    dsn: str
    connection: psycopg.Connection[Any]
    spaces: dict[int, tuple[int, int]] = field(default_factory=dict)
    window: int | None = None

    def prepare(self) -> None:
        """Make the spaces, and a neighbour whose words and vectors must not count in any other organisation; unless they are there."""
        made = dict(self.connection.execute("SELECT name, id FROM kbsearch.kb_embedding_spaces").fetchall())
        if f"searched {DIMENSIONS[0]}" in made:
            self.spaces = {size: (made[f"searched {size}"], made[f"other {size}"]) for size in DIMENSIONS}
            return
        for dimensions in DIMENSIONS:
            first, second = (
                self.value(
                    "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES (%s, %s, %s) RETURNING id",
                    [f"{name} {dimensions}", name, dimensions],
                )
                for name in ("searched", "other")
            )
            self.spaces[dimensions] = (first, second)
        words = [*WORDS, WORDS[0], "north", *UNKNOWN]
        chunks = (Chunk(0, "lamp zebra", vector=(1, 0)), Chunk(0, "cloud", vector=(3, 4)))
        shapes = [Article(0, chunks, title=word, kind="policy") for word in words for _ in range(3)]
        self.load(Organisation(numbered(shapes, 1, 1, seed=1)))

    def value(self, statement: LiteralString, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        row = self.connection.execute(statement, parameters).fetchone()
        assert row is not None
        return row[0]

    def load(
        self, organisation: Organisation, profile: Profile | None = None, *, org_id: int | None = None, pieces: int = 1
    ) -> int:
        """Insert an organisation and return its id.

        Args:
            organisation: what to load.
            profile: made in it, unless it is built in.
            org_id: the id that it gets; None: a new one.
            pieces: number of INSERTs that the chunks are spread over: each adds a segment of postings.
        """
        articles = [*organisation.articles, *organisation.removed]
        chunks = [(article, chunk) for article in articles for chunk in article.chunks]
        if organisation.scattered:
            chunks.sort(key=lambda entry: (entry[1].id * 7919) % 101)
        with self.connection.transaction():
            if organisation.unmerged:
                # writers merge under READ COMMITTED only
                self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            if org_id is None:
                org_id = self.value("SELECT nextval('kbsearch.organizations_id_seq')")
            self.connection.execute(
                "INSERT INTO kbsearch.organizations (id, name, reference_length) VALUES (%s, 'generated', %s)",
                [org_id, organisation.reference_length],
            )
            self.connection.execute(
                """INSERT INTO kbsearch.kb_articles (org_id, id, external_ref, title, kind, metadata, published, language)
                SELECT %s, a.id, 'ref-' || a.id, a.title, a.kind, a.metadata, a.published, a.language::regconfig
                FROM jsonb_to_recordset(%s) AS a (id bigint, title text, kind text, metadata jsonb, published boolean, language text)""",
                [
                    org_id,
                    Jsonb(
                        [
                            {
                                "id": article.id,
                                "title": article.title,
                                "kind": article.kind,
                                "metadata": article.metadata,
                                "published": article.published,
                                "language": article.language,
                            }
                            for article in articles
                        ]
                    ),
                ],
            )
            size = max(1, -(-len(chunks) // pieces))
            for start in range(0, len(chunks), size):
                self.insert_chunks(org_id, organisation.dimensions, chunks[start : start + size])
            if organisation.removed:
                self.connection.execute(
                    "DELETE FROM kbsearch.kb_articles WHERE org_id = %s AND id = ANY (%s)",
                    [org_id, [article.id for article in organisation.removed]],
                )
            if profile is not None and profile not in BUILT_IN:
                self.create_profile(org_id, profile)
        assert org_id is not None
        if self.window is not None:
            self.approximate(org_id, self.window)
        return org_id

    def approximate(self, org_id: int, window: int, *, retrieval: str = "ann") -> None:
        """Build the index of an organisation, and let its searches use it."""
        self.value("SELECT kbsearch.create_kb_ann_index_v1(%s)", [org_id])
        self.connection.execute(
            "UPDATE kbsearch.organizations SET retrieval = %s, ann_window = %s WHERE id = %s",
            [retrieval, window, org_id],
        )

    def insert_chunks(self, org_id: int, dimensions: int, chunks: Sequence[tuple[Article, Chunk]]) -> None:
        """The chunks of given articles, with their vectors; the other space has the vectors of other chunks."""
        rows = [
            {
                "article": article.id,
                "id": chunk.id,
                "heading": chunk.heading,
                "content": chunk.content,
                "vector": None if chunk.vector is None else vector_text(chunk.vector),
                "other": vector_text(padded((chunk.id % 3, 1), dimensions)),
            }
            for article, chunk in chunks
        ]
        self.connection.execute(
            """INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, id, heading, content)
            SELECT %s, c.article, c.id, c.heading, c.content
            FROM json_to_recordset(%s) AS c (article bigint, id bigint, heading text, content text)""",
            [org_id, Json(rows)],
        )
        for space_id, column in zip(self.spaces[dimensions], ("vector", "other"), strict=True):
            self.connection.execute(
                f"""INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, article_id, chunk_id, embedding)
                SELECT %s, %s, c.article, c.id, c.{column}::ext.vector
                FROM json_to_recordset(%s) AS c (article bigint, id bigint, vector text, other text)
                WHERE c.{column} IS NOT NULL""",
                [org_id, space_id, Json(rows)],
            )
        self.connection.execute(
            "UPDATE kbsearch.organizations SET active_space_id = %s WHERE id = %s", [self.spaces[dimensions][0], org_id]
        )

    def create_profile(self, org_id: int, profile: Profile) -> str:
        """Make a profile, and its policy, and return name@version."""
        if profile.policy is not None:
            given = {
                f"p_{name}": Decimal(str(value)) if isinstance(value, float) else value
                for name, value in profile.policy.items()
                if name != "version"
            }
            statement = f"SELECT kbsearch.create_kb_arbitration_policy_v1(%(p_org_id)s, {', '.join(f'{name} => %({name})s' for name in given)})"
            self.value(statement, {"p_org_id": org_id, **given, "p_class_rules": Jsonb(profile.policy["class_rules"])})
        return str(
            self.value(
                "SELECT kbsearch.create_kb_ranking_profile_v1(%s, %s, %s, %s, %s, %s, %s, p_policy => %s)",
                [
                    org_id,
                    profile.name,
                    profile.fusion,
                    profile.scorer,
                    profile.vector_weight,
                    profile.keyword_weight,
                    profile.rrf_k,
                    profile.policy and f"{profile.policy['name']}@{profile.policy['version']}",
                ],
            )
        )

    def remove(self, org_id: int) -> None:
        self.connection.execute("DELETE FROM kbsearch.organizations WHERE id = %s", [org_id])
        if self.window is not None:
            for space_id, _ in self.spaces.values():
                self.value("SELECT kbsearch.drop_kb_ann_index_v1(%s, %s)", [org_id, space_id])

    @contextmanager
    def loaded(
        self, organisation: Organisation, profile: Profile | None = None, *, org_id: int | None = None, pieces: int = 1
    ) -> Iterator[int]:
        """As load(); removes the organisation in the end."""
        org_id = self.load(organisation, profile, org_id=org_id, pieces=pieces)
        try:
            yield org_id
        finally:
            with suppress(psycopg.OperationalError):
                self.remove(org_id)

    def search(self, org_id: int, search: Search, **others: Any) -> list[Found]:
        """Rows of search_kb_hybrid_v1, in the order in which they come."""
        given = arguments(org_id, search, **others)
        cursor = self.connection.cursor(row_factory=dict_row)
        cursor.execute(f"SELECT s.* FROM {call('search_kb_hybrid_v1', given)} AS s", given)
        return [found(row) for row in cursor]

    def lines(self, org_id: int, search: Search, **others: Any) -> list[str]:
        """The same rows as text, byte for byte."""
        given = arguments(org_id, search, **others)
        cursor = self.connection.cursor(row_factory=tuple_row)
        cursor.execute(f"SELECT s::text FROM {call('search_kb_hybrid_v1', given)} AS s", given)
        return [line for (line,) in cursor]

    def page(self, org_id: int, search: Search, **others: Any) -> dict[str, Any]:
        """What search_kb_hybrid_page_v1 returns."""
        given = arguments(org_id, search, **others)
        answer = self.connection.execute(f"SELECT {call('search_kb_hybrid_page_v1', given)}", given).fetchone()
        assert answer is not None
        page: dict[str, Any] = answer[0]
        return page


def found(row: Mapping[str, Any]) -> Found:
    score = round(row["score"] * 1e9)
    assert score / 1e9 == row["score"], f"{row['score']!r} is not a number of billionths"
    return Found(
        Row(
            place=row["place"],
            article_id=row["article_id"],
            score=score,
            chunk_id=row["chunk_id"],
            vector_similarity=row["vector_similarity"],
            keyword_score=row["keyword_score"],
            tied_with=row["tied_with"],
        ),
        row["cursor"],
        row["settled_by_identity"],
    )


def rows(answer: Sequence[Found]) -> list[Row]:
    return [each.row for each in answer]


def compare(got: Sequence[Any], expected: Sequence[Any]) -> None:
    """Assert that two lists are equal; says from where on they are not."""
    if list(got) == list(expected):
        return
    at = next(
        (n for n, (left, right) in enumerate(zip(got, expected, strict=False)) if left != right),
        min(len(got), len(expected)),
    )
    window = slice(max(0, at - 1), at + 3)
    listing = "\n".join(
        [
            f"{len(got)} rows, expected {len(expected)}; rows {window.start + 1} and on:",
            *(f"  got      {row}" for row in got[window]),
            *(f"  expected {row}" for row in expected[window]),
        ]
    )
    raise AssertionError(listing)
