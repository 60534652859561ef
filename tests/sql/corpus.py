"""A small organisation to search in, written with plain SQL, and the calls that tests make."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

Connection: TypeAlias = psycopg.Connection[Any]
Vector: TypeAlias = Sequence[float] | str


def literal(vector: Vector | None) -> str | None:
    """A vector as pgvector reads it."""
    return vector if vector is None or isinstance(vector, str) else "[" + ",".join(map(repr, vector)) + "]"


def call(function: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A call in named notation; a dict becomes jsonb."""
    casts = {
        "metadata": "::jsonb",
        "kind_quota": "::jsonb",
        "chunks": "::jsonb",
        "external_refs": "::text[]",
    }
    named = ", ".join(f"p_{name} => %({name})s{casts.get(name, '')}" for name in arguments)
    values = {
        name: Jsonb(value)
        if isinstance(value, dict) or (isinstance(value, list) and name in ("metadata", "chunks"))
        else value
        for name, value in arguments.items()
    }
    return f"kbsearch.{function}({named})", values


class Refusal:
    """What a refused call said, filled when the block ends."""

    sqlstate: str
    message: str
    detail: Any
    hint: str


@contextmanager
def refused(sqlstate: str) -> Iterator[Refusal]:
    """The block must fail with this SQLSTATE of ours, with JSON as DETAIL and with a HINT."""
    refusal = Refusal()
    try:
        yield refusal
    except psycopg.DatabaseError as error:
        if error.sqlstate != sqlstate:
            raise
        refusal.sqlstate, refusal.message = sqlstate, error.diag.message_primary or ""
        refusal.detail, refusal.hint = json.loads(error.diag.message_detail or ""), error.diag.message_hint or ""
        assert refusal.hint, "no HINT"
        return
    raise AssertionError(f"nothing was refused, expected {sqlstate}")


class Corpus:
    """One organisation on a connection in autocommit mode, with an embedding space of its own when it needs one."""

    def __init__(self, connection: Connection, name: str = "an organisation") -> None:
        self.connection = connection
        self.org_id = int(self.value("INSERT INTO kbsearch.organizations (name) VALUES (%s) RETURNING id", name))
        self._spaces: dict[int, int] = {}

    def value(self, statement: str, *parameters: Any) -> Any:
        """First column of the first row; None without a row."""
        row = self.connection.execute(statement.encode(), parameters or None).fetchone()
        return None if row is None else row[0]

    def run(self, statement: str, *parameters: Any) -> None:
        self.connection.execute(statement.encode(), parameters or None)

    def space(self, dimensions: int = 2) -> int:
        """The organisation's space of so many dimensions."""
        if dimensions not in self._spaces:
            self._spaces[dimensions] = int(
                self.value(
                    "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES (%s, 'model', %s) RETURNING id",
                    f"space of {self.org_id} with {dimensions}",
                    dimensions,
                )
            )
        return self._spaces[dimensions]

    def article(
        self,
        *chunks: str,
        title: str | None = None,
        vector: Vector | None = None,
        vectors: Sequence[Vector | None] = (),
        kind: str = "article",
        published: bool = True,
        metadata: Mapping[str, Any] | None = None,
        external_ref: str | None = None,
        language: str | None = None,
    ) -> int:
        """Insert an article with its chunks; `vector`: of every chunk, `vectors`: one for each."""
        article_id = int(
            self.value(
                "INSERT INTO kbsearch.kb_articles (org_id, kind, title, published, metadata, external_ref, language)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING id",
                self.org_id,
                kind,
                title,
                published,
                Jsonb(dict(metadata or {})),
                external_ref,
                language,
            )
        )
        for number, content in enumerate(chunks):
            chunk_id = self.value(
                "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, chunk_no, content) VALUES (%s, %s, %s, %s) RETURNING id",
                self.org_id,
                article_id,
                number,
                content,
            )
            self.embed(article_id, chunk_id, vectors[number] if vectors else vector)
        return article_id

    def embed(self, article_id: int, chunk_id: int, vector: Vector | None) -> None:
        """Insert a chunk's embedding by plain SQL."""
        if vector is not None:
            text = literal(vector) or ""
            self.run(
                "INSERT INTO kbsearch.kb_article_embeddings (org_id, article_id, chunk_id, space_id, embedding) VALUES (%s, %s, %s, %s, %s)",
                self.org_id,
                article_id,
                chunk_id,
                self.space(text.count(",") + 1),
                text,
            )

    def search(self, text: str | None, embedding: Vector | None = None, **arguments: Any) -> list[dict[str, Any]]:
        """Rows of search_kb_hybrid_v1 as dicts."""
        function, values = call("search_kb_hybrid_v1", self._arguments(text, embedding, arguments))
        with self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(f"SELECT * FROM {function}".encode(), values).fetchall()

    def page(self, text: str | None, embedding: Vector | None = None, **arguments: Any) -> dict[str, Any]:
        """What search_kb_hybrid_page_v1 returns."""
        function, values = call("search_kb_hybrid_page_v1", self._arguments(text, embedding, arguments))
        row = self.connection.execute(f"SELECT {function}".encode(), values).fetchone()
        assert row is not None
        page: dict[str, Any] = row[0]
        return page

    def found(self, text: str | None, embedding: Vector | None = None, **arguments: Any) -> list[int]:
        """Ids of the articles found, best first."""
        return [row["article_id"] for row in self.search(text, embedding, **arguments)]

    def call(self, function: str, **arguments: Any) -> Any:
        """First column of the first row of a function called by named arguments; the organisation is added unless it is given."""
        text, values = call(function, {"org_id": self.org_id, **arguments})
        row = self.connection.execute(f"SELECT {text}".encode(), values).fetchone()
        return None if row is None else row[0]

    def _arguments(self, text: str | None, embedding: Vector | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
        given = {"org_id": self.org_id, "query_text": text, **arguments}
        return given if embedding is None else {**given, "query_embedding": literal(embedding)}
