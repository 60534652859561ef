"""Builds of one configuration rank the same, however they are written; a fault planted in one of them is found, at its stage."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from kbsearch import migrate
from kbsearch.evaluate import Collection, EvaluationDocument, Query
from kbsearch.evaluate.aa import Asked, Difference, compare
from kbsearch.evaluate.build import PREFIX, Builder, BuildError, Scratch, in_bulk, in_reverse
from kbsearch.evaluate.variations import DUMP, SERVER, VARIATIONS, is_zero, some, summary, vary
from kbsearch.ingest import Source, read_paths
from kbsearch.ingest.splitter import Splitter
from tests.ingest.test_pipeline import HashEmbedder

PROFILES = ("vector@1", "keyword@1", "term_count@1", "rrf@1", "weighted@1", "arbitrate_reference@1")
WORDS = ("reset", "password", "invoice", "refund", "login", "email", "account", "delivery")


def tied(documents: int = 48, questions: int = 8) -> Collection:
    """A collection of few words and few directions: most of its places are settled by ids. Every text stands under three titles, each twice."""
    random = np.random.default_rng(7)
    texts = [" ".join(random.choice(WORDS, 3)) for _ in range(8)]
    directions = np.eye(4, dtype=np.float32)
    numbers = np.arange(questions)
    return Collection(
        name="tied",
        documents=tuple(
            EvaluationDocument(f"d{number:02}", f"Title {number % 3}", texts[number % 8]) for number in range(documents)
        ),
        queries=tuple(Query(f"q{number}", " ".join(random.choice(WORDS, 2))) for number in range(questions)),
        qrels={f"q{number}": {f"d{number:02}": 1} for number in range(questions)},
        document_vectors=directions[[number % 8 % 4 for number in range(documents)]],
        query_vectors=directions[numbers % 4] * np.float32(0.6) + directions[(numbers + 1) % 4] * np.float32(0.8),
    )


COLLECTION = tied()
TEXTS = [query.text for query in COLLECTION.queries]
WORD = "account"
"""As a lexeme it is the same; it stands in texts and questions."""


@pytest.fixture
def scratch(server_dsn: str) -> Iterator[Scratch]:
    with Scratch(server_dsn) as opened:
        yield opened


def left(server_dsn: str) -> list[str]:
    with psycopg.connect(server_dsn) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", (PREFIX,))
        return [name for (name,) in rows]


def test_all_ways_to_build_a_collection_rank_the_same(server_dsn: str) -> None:
    """The small version of `python -m benchmarks.aa`; on another server only where one is named."""
    progress: list[str] = []
    found = dict(
        vary(
            server_dsn,
            COLLECTION,
            profiles=PROFILES,
            progress=lambda what, _done, _size: progress.append(what),
        )
    )
    assert list(found) == list(VARIATIONS)
    assert isinstance(found.pop(SERVER), str)
    for name, one in found.items():
        assert isinstance(one, Difference), name
        assert (one.partings, one.differing, one.ids_in_order) == ((), 0, True), name
        assert (one.questions, one.rankings) == (8, 8 * len(PROFILES))
        assert one.ties > 8, "ties are the normal data here"
        assert one.ndcg_difference == 0
    assert DUMP in found
    assert is_zero(found)
    assert {"compare data", "compare rankings", "articles"} <= set(progress)
    assert left(server_dsn) == []


def test_another_server_is_a_variation(server_dsn: str) -> None:
    """Here it is the same one by another connection; how a container is named, too."""
    ((name, one),) = vary(server_dsn, COLLECTION, variations=[SERVER], other_dsn=server_dsn)
    assert isinstance(one, Difference)
    assert (name, one.stage, one.differing) == (SERVER, None, 0)


def test_two_folders_of_markdown_rank_the_same(scratch: Scratch, tmp_path: Path) -> None:
    """Through the whole of ingest: paths, headings, several chunks an article, with an embedder."""
    builder = Builder(COLLECTION, HashEmbedder(), Splitter.of(HashEmbedder(), characters=40))
    sides = []
    for place in ("one", "another/place"):
        root = tmp_path / place
        (root / "sub").mkdir(parents=True)
        for number, word in enumerate(WORDS):
            text = f"# {word}\n\n## How\n\n" + f"To {word} the {WORDS[number - 1]} is easy. " * 5
            (root / ("sub" if number % 2 else "") / f"{word}.md").write_text(text, encoding="utf-8")
        connection = scratch.connect(scratch.database())
        org_id = builder.build(
            connection,
            lambda one, opened, org, root=root: one.ingest(opened, org, [Source("f", read_paths(root, kind="a"))]),  # type: ignore[misc]
        )
        sides.append(builder.side(connection, org_id, TEXTS))
    found = compare(sides[0], sides[1], COLLECTION, texts=TEXTS, profiles=PROFILES)
    assert (found.partings, found.differing) == ((), 0)
    assert found.places > 0


class Pair:
    """The same build in two databases, to plant something in the second."""

    def __init__(self, scratch: Scratch, builder: Builder | None = None) -> None:
        self.builder = builder or Builder.of(COLLECTION, None, lambda _what, _done, _size: None)
        self.connections = [scratch.connect(scratch.database()) for _ in range(2)]
        self.org_ids: list[int] = []

    def build(self, *ways: Callable[..., None], builder: Builder | None = None) -> None:
        builders = (self.builder, builder or self.builder)
        for one, connection, way in zip(builders, self.connections, ways or (in_bulk, in_bulk), strict=True):
            self.org_ids.append(one.build(connection, way))

    def spoil(self, statement: str, **values: object) -> int:
        """Change the second past all triggers."""
        if self.connections[1].info.parameter_status("is_superuser") != "on":
            pytest.skip("needs a superuser")
        with self.connections[1].transaction():
            self.connections[1].execute("SET LOCAL session_replication_role = replica")
            return self.connections[1].execute(statement.encode(), values).rowcount

    def compare(self) -> Difference:
        sides = [
            self.builder.side(connection, org_id, TEXTS)
            for connection, org_id in zip(self.connections, self.org_ids, strict=True)
        ]
        return compare(Asked(sides[0]), sides[1], COLLECTION, texts=TEXTS, profiles=PROFILES)


@pytest.fixture
def pair(scratch: Scratch) -> Pair:
    return Pair(scratch)


class Leaking(Splitter):
    """Puts an absolute path into what the model is given, and keeps the chunk as it is."""

    @property
    def template(self) -> Any:
        inner = super().template

        class Template:
            fields = inner.fields

            def render(self, title: str | None, heading: str | None, content: str) -> str:
                return f"/home/somebody/docs/{inner.render(title, heading, content)}"

        return Template()


def hashing(splitter: Splitter, embedder: Any = None) -> Builder:
    return Builder(COLLECTION, embedder or HashEmbedder(), splitter)


def test_an_absolute_path_in_the_models_input_is_found_there(scratch: Scratch) -> None:
    pair = Pair(scratch, hashing(Splitter(guarded=False)))
    pair.build(builder=hashing(Leaking(guarded=False)))
    found = pair.compare()
    assert found.stage == "model input"
    assert [one.stage for one in found.partings] == ["model input", "vector", "fusion"]
    assert found.partings[0].count == len(COLLECTION.documents)
    assert "/home/somebody/docs/" in found.partings[0].what
    assert found.leg == "vector"
    assert found.differing > 0


class RemembersContent(HashEmbedder):
    """A cache whose key is the content alone, without the title."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, Any] = {}

    def embed_passages(self, texts: Sequence[str]) -> Any:
        keys = [text.split("\n")[-1] for text in texts]
        for key, text in zip(keys, texts, strict=True):
            if key not in self.known:
                self.known[key] = super().embed_passages([text])[0]
        return np.array([self.known[key] for key in keys], dtype=np.float32)


def test_a_cache_by_content_alone_is_found_at_the_vectors(scratch: Scratch) -> None:
    pair = Pair(scratch, hashing(Splitter()))
    pair.build(builder=hashing(Splitter(), RemembersContent()))
    found = pair.compare()
    assert found.stage == "vector"
    assert "the second has the vector of d" in found.partings[0].what
    assert found.leg == "vector"


def test_such_a_cache_is_found_by_another_order_of_writing(scratch: Scratch) -> None:
    """Also where both builds have it: whose vector is kept depends on who came first."""
    pair = Pair(scratch, hashing(Splitter(), RemembersContent()))
    pair.build(in_bulk, in_reverse, builder=hashing(Splitter(), RemembersContent()))
    found = pair.compare()
    assert found.stage == "vector"
    assert found.differing > 0


def without_id(name: str) -> str:
    """A file of a function whose order does not end in the id."""
    text = migrate.file_text(name)
    assert text.count("ORDER BY score DESC, article_id ASC\n") == 1
    return (
        text.replace("ORDER BY score DESC, article_id ASC\n", "ORDER BY score DESC\n")
        .replace(
            "row_number() OVER (ORDER BY p.score DESC, p.article_id ASC)", "row_number() OVER (ORDER BY p.score DESC)"
        )
        .replace("ORDER BY score DESC, article_id ASC;\nEND", "ORDER BY score DESC;\nEND")
    )


def test_an_order_without_the_id_is_found_there(pair: Pair) -> None:
    """The second build is written backwards, so that its rows lie otherwise."""
    pair.build(in_bulk, in_reverse)
    text = without_id("functions/search/rank_kb_articles_v1.sql").split("COMMENT ON")[0]
    connection = pair.connections[1]
    schema = connection.execute(
        "SELECT n.nspname FROM pg_extension AS e INNER JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
    ).fetchone()
    assert schema is not None
    connection.execute(f"SET search_path = pg_catalog, kbsearch, {schema[0]}".encode())
    connection.execute(text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").encode())
    found = pair.compare()
    assert found.stage == "order"
    assert [one.stage for one in found.partings] == ["order"]
    assert found.largest_displacement == 0
    assert found.leg is None
    assert found.ids_in_order
    assert any("rank_kb_articles_v1" in note for note in found.notes)


def test_ids_in_another_order_are_told(pair: Pair) -> None:
    """Two articles that are equal but for their names change ids: a tie is settled otherwise, and it is said why."""
    pair.build()
    twins = [COLLECTION.documents[0].id, COLLECTION.documents[24].id]
    swap = "UPDATE kbsearch.kb_articles SET external_ref = CASE external_ref WHEN %s THEN %s WHEN %s THEN %s END WHERE external_ref = ANY (%s)"
    connection = pair.connections[1]
    connection.execute(
        "UPDATE kbsearch.kb_articles SET external_ref = external_ref || '!' WHERE external_ref = ANY (%s)", (twins,)
    )
    marked = [f"{name}!" for name in twins]
    connection.execute(swap, (marked[0], twins[1], marked[1], twins[0], marked))
    found = pair.compare()
    assert not found.ids_in_order
    assert found.differing > 0


def test_a_lost_lexeme_is_found_at_the_lexemes(pair: Pair) -> None:
    """Of the chunk; its entries go with it, as they would where the analysis has lost it."""
    pair.build()
    lost = pair.spoil(
        """UPDATE kbsearch.kb_article_chunks AS c
        SET lexemes = array_remove(c.lexemes, %(word)s),
            term_counts = c.term_counts[:array_position(c.lexemes, %(word)s) - 1] || c.term_counts[array_position(c.lexemes, %(word)s) + 1:]
        WHERE c.id = (SELECT min(f.id) FROM kbsearch.kb_article_chunks AS f WHERE %(word)s = ANY (f.lexemes))""",
        word=WORD,
    )
    assert lost == 1
    pair.connections[1].execute("SELECT kbsearch.rebuild_kb_index_v1(%s)", (pair.org_ids[1],))
    found = pair.compare()
    assert found.stage == "lexemes"
    assert found.partings[0].count == 1
    assert "postings" in [one.stage for one in found.partings]
    assert found.leg == "keyword"


def test_a_lost_entry_is_found_at_the_postings(pair: Pair) -> None:
    pair.build()
    lost = pair.spoil(
        "UPDATE kbsearch.kb_postings SET entries = entries[2:], entry_count = entry_count - 1 WHERE lexeme = %(word)s AND entry_count > 1",
        word=WORD,
    )
    assert lost >= 1
    found = pair.compare()
    assert [one.stage for one in found.partings] == ["postings", "fusion"]
    assert found.leg == "keyword"


def test_entries_of_no_chunk_are_found(pair: Pair) -> None:
    pair.build()
    pair.spoil(
        "INSERT INTO kbsearch.kb_postings (org_id, lexeme, first_chunk_id, segment_id, sign, max_impact, entry_count, entries) "
        "VALUES (%(org_id)s, 'zebra', 999, 999999, 1, 1, 1, ARRAY[(999::bigint << 12) | 1])",
        org_id=pair.org_ids[1],
    )
    found = pair.compare()
    assert (found.stage, found.differing) == ("postings", 0)
    assert found.partings[0].what == "0 and 1"


def test_a_perturbed_vector_is_found_at_the_vectors(pair: Pair) -> None:
    pair.build()
    changed = pair.spoil(
        "UPDATE kbsearch.kb_article_embeddings AS e SET embedding = (SELECT ('[' || string_agg((v.x + 1e-4)::text, ',') || ']') "
        "FROM unnest(string_to_array(trim('[]' FROM e.embedding::text), ',')::float4[]) AS v (x))::"
        + extension_type(pair.connections[1])
        + " WHERE e.chunk_id = (SELECT min(f.chunk_id) FROM kbsearch.kb_article_embeddings AS f)"
    )
    assert changed == 1
    found = pair.compare()
    assert [one.stage for one in found.partings] == ["vector", "fusion"]
    assert (found.partings[0].count, found.partings[0].where) == (1, "d00")
    assert found.leg == "vector"
    assert 0 < found.largest_displacement < 1e-3
    assert summary({"x": found})["stage"] == "vector"
    assert not is_zero({"x": found})


def extension_type(connection: psycopg.Connection[Any]) -> str:
    row = connection.execute(
        "SELECT n.nspname || '.vector' FROM pg_extension AS e INNER JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
    ).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize(
    ("statement", "stage"),
    [
        (
            "UPDATE kbsearch.kb_article_chunks SET content = content || ' x' WHERE id = (SELECT min(id) FROM kbsearch.kb_article_chunks)",
            "documents",
        ),
        ("DELETE FROM kbsearch.kb_articles WHERE external_ref = 'd05'", "documents"),
        (
            "DELETE FROM kbsearch.kb_article_chunks WHERE id = (SELECT min(id) FROM kbsearch.kb_article_chunks)",
            "documents",
        ),
        ("UPDATE kbsearch.organizations SET reference_length = reference_length + 1", "postings"),
    ],
)
def test_what_else_is_different_is_found_at_its_stage(pair: Pair, statement: str, stage: str) -> None:
    pair.build()
    assert pair.spoil(statement) == 1
    assert pair.compare().stage == stage


def test_a_question_that_is_embedded_otherwise_is_found_at_the_vectors(pair: Pair) -> None:
    pair.build()
    sides = [pair.builder.side(c, o, TEXTS) for c, o in zip(pair.connections, pair.org_ids, strict=True)]
    assert sides[1].vectors is not None
    sides[1].vectors[3, 0] += 1e-4
    found = compare(sides[0], sides[1], COLLECTION, texts=TEXTS, profiles=PROFILES)
    assert (found.stage, found.partings[0].where) == ("vector", "question q3")
    assert found.differing == 1


def test_a_build_that_loses_a_document_is_an_error(scratch: Scratch) -> None:
    broken = Collection("c", (EvaluationDocument("a\0", "A", "x"),), (Query("1", "x"),), {"1": {"a": 1}})
    with pytest.raises(BuildError, match="rejected"):
        Builder(broken, HashEmbedder(), Splitter()).build(
            scratch.connect(scratch.database()),
            lambda one, opened, org: one.ingest(opened, org, [Source("s", one.documents())]),  # type: ignore[arg-type]
        )


def test_some_questions_are_spread_over_all() -> None:
    few = some(COLLECTION, 3)
    assert [query.id for query in few.queries] == ["q0", "q4", "q7"]
    assert few.query_vectors is not None
    assert COLLECTION.query_vectors is not None
    assert few.query_vectors.tolist() == COLLECTION.query_vectors[[0, 4, 7]].tolist()
    assert set(few.qrels) == {"q0", "q4", "q7"}
    assert some(COLLECTION, None) is COLLECTION


def test_what_a_killed_run_has_left_is_dropped_by_the_next(server_dsn: str) -> None:
    abandoned = f"{PREFIX}abandoned{os.getpid()}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {abandoned}".encode())
    with Scratch(server_dsn) as scratch:
        used = scratch.database(install=False)
        with Scratch(server_dsn):
            assert left(server_dsn) == [str(conninfo_to_dict(used)["dbname"])]
    assert left(server_dsn) == []
