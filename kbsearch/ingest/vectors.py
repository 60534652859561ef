"""Vectors for chunks that are there already: of articles that an application wrote, or that another model embedded before."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from kbsearch.embed.base import Embedder, Vectors
from kbsearch.ingest.documents import Rejected, printable
from kbsearch.ingest.embedding import Embedded, embed
from kbsearch.ingest.notes import Note
from kbsearch.ingest.report import Connection, EmbedReport, Progress, UsageError
from kbsearch.ingest.spaces import Space, activate, active_space, active_space_of, ensure_space
from kbsearch.ingest.splitter import Splitter
from kbsearch.ingest.template import Template
from kbsearch.models import Chunk
from kbsearch.schema import DEFAULT, in_schema
from kbsearch.statements import vector_text

CHUNKS_AT_ONCE = 128
"""Chunks that are embedded and committed together: some seconds of work."""

_COUNT = """SELECT count(*)
FROM kbsearch.kb_article_chunks AS c
WHERE c.org_id = %(org_id)s AND NOT EXISTS (
    SELECT FROM kbsearch.kb_article_embeddings AS e
    WHERE e.org_id = c.org_id AND e.article_id = c.article_id AND e.chunk_id = c.id AND e.space_id = %(space_id)s)"""
# A subquery, and not NOT EXISTS: looked up chunk by chunk, it costs the same whatever statistics say and however many vectors there are.
_MISSING = """SELECT c.article_id, c.id, c.chunk_no, c.title, c.heading, c.content
FROM kbsearch.kb_article_chunks AS c
WHERE c.org_id = %(org_id)s AND (c.article_id, c.id) > (%(article_id)s, %(chunk_id)s) AND (
    SELECT true FROM kbsearch.kb_article_embeddings AS e
    WHERE e.org_id = c.org_id AND e.article_id = c.article_id AND e.chunk_id = c.id AND e.space_id = %(space_id)s) IS NULL
ORDER BY c.article_id, c.id
LIMIT %(limit)s"""
_CHUNKS = """SELECT c.article_id, c.id, c.chunk_no, c.title, c.heading, c.content
FROM kbsearch.kb_articles AS a
INNER JOIN kbsearch.kb_article_chunks AS c ON c.org_id = a.org_id AND c.article_id = a.id
WHERE a.org_id = %s AND a.external_ref = %s
ORDER BY c.chunk_no, c.id"""
# A parameter of unknown type takes the column's type, in whatever schema the extension lives. The chunk must be as it was read: a vector of
# another text is worse than none.
_INSERT = """INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, chunk_id, article_id, embedding, input_sha256)
SELECT c.org_id, %(space_id)s, c.id, c.article_id, %(vector)s, decode(%(sha256)s, 'hex')
FROM kbsearch.kb_article_chunks AS c
WHERE c.org_id = %(org_id)s AND c.article_id = %(article_id)s AND c.id = %(chunk_id)s
    AND c.content = %(content)s AND c.heading IS NOT DISTINCT FROM %(heading)s::pg_catalog.text
    AND c.title IS NOT DISTINCT FROM %(title)s::pg_catalog.text
FOR KEY SHARE OF c
ON CONFLICT DO NOTHING"""

_COMPLETE = """SELECT a.id, a.content_sha256
FROM kbsearch.kb_articles AS a
WHERE a.org_id = %(org_id)s AND a.id = ANY (%(articles)s) AND NOT EXISTS (
    SELECT FROM kbsearch.kb_article_chunks AS c
    WHERE c.org_id = a.org_id AND c.article_id = a.id AND NOT EXISTS (
        SELECT FROM kbsearch.kb_article_embeddings AS e
        WHERE e.org_id = c.org_id AND e.article_id = c.article_id AND e.chunk_id = c.id AND e.space_id = %(space_id)s))"""
_NOTE = "UPDATE kbsearch.kb_articles SET content_sha256 = %s WHERE org_id = %s AND id = %s AND content_sha256 = %s"
_NAMES = "SELECT a.id, a.external_ref FROM kbsearch.kb_articles AS a WHERE a.org_id = %s AND a.id = ANY (%s)"


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as the database has it; title is its article's."""

    article_id: int
    id: int
    number: int
    title: str | None
    heading: str | None
    content: str

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """From a row of article_id, id, chunk_no, title, heading, content."""
        return cls(*row)

    @property
    def chunk(self) -> Chunk:
        """What was stored."""
        return Chunk(self.content, self.heading)


def stored_chunks(connection: Connection, org_id: int, external_ref: str, schema: str = DEFAULT) -> list[StoredChunk]:
    """The chunks of an article, in order."""
    rows = connection.execute(in_schema(_CHUNKS, schema).encode(), (org_id, external_ref)).fetchall()
    return [StoredChunk.of(row) for row in rows]


def insert_vectors(
    connection: Connection,
    org_id: int,
    space: Space,
    template: Template,
    chunks: Sequence[StoredChunk],
    vectors: Vectors,
    schema: str = DEFAULT,
) -> int:
    """Put vectors of a space, a row a chunk, beside what the chunks have; the number of those stored.

    A chunk that is not as it was read any more, or has got a vector of this space meanwhile, is passed over.
    """
    if not chunks:
        return 0
    with connection.cursor() as cursor:
        cursor.executemany(
            in_schema(_INSERT, schema).encode(),
            [
                {
                    "org_id": org_id,
                    "space_id": space.id,
                    "article_id": stored.article_id,
                    "chunk_id": stored.id,
                    "title": stored.title,
                    "heading": stored.heading,
                    "content": stored.content,
                    "vector": vector_text(vector),
                    "sha256": template.sha256(stored.title, stored.chunk),
                }
                for stored, vector in zip(chunks, vectors, strict=True)
            ],
        )
        return cursor.rowcount


def embed_missing(
    connection: Connection,
    org_id: int,
    embedder: Embedder,
    *,
    progress: Progress = lambda _stage, _done, _size: None,
    schema: str = DEFAULT,
) -> EmbedReport:
    """Embed every chunk of an organisation that has no vector in the space that searches use.

    Chunks that plain SQL or a trigger wrote have none. Where the space that searches use is of another model than the embedder's, or there
    is none, the vectors go into a space of the embedder's beside it, which searches use as soon as it is complete. The connection must be in
    autocommit mode: vectors are committed in batches, and a run that was stopped is completed by the next one.

    Raises EmbeddingError, or what else the embedder raises; psycopg.Error when the database fails. What was committed before stays.
    """
    if not connection.autocommit:
        raise UsageError("embedding needs a connection in autocommit mode: vectors are committed as they are made")
    started = time.monotonic()
    splitter = Splitter.of(embedder)
    run = _Missing(connection, org_id, embedder, splitter.template, progress, schema)
    space = active_space_of(connection, org_id, embedder, splitter, schema)
    if space is None and run.is_empty(None):
        raise UsageError("the organisation has no chunk to embed: ingest something first")
    space = space or ensure_space(connection, embedder, splitter, schema)
    truncated = int(getattr(embedder, "truncated", 0))
    run.embed(space)
    lacking = activate(connection, org_id, space, schema)
    return EmbedReport(
        org_id=org_id,
        space=space.name,
        space_active=active_space(connection, org_id, schema) == space,
        missing=run.missing,
        embedded=run.embedded,
        changed=run.taken - run.embedded - len(run.rejected),
        truncated=int(getattr(embedder, "truncated", 0)) - truncated,
        rejected=tuple(run.rejected),
        notes=(f"searches stay on the embedding space before: {lacking} chunks have no vector in {space.name} yet",)
        if lacking
        else (),
        seconds=time.monotonic() - started,
    )


class _Missing:
    """The chunks without a vector in a space, and what became of them."""

    def __init__(
        self,
        connection: Connection,
        org_id: int,
        embedder: Embedder,
        template: Template,
        progress: Progress,
        schema: str,
    ) -> None:
        self._connection, self._org_id, self._embedder = connection, org_id, embedder
        self._template, self._progress, self._schema = template, progress, schema
        self.missing = self.taken = self.embedded = 0
        self.rejected: list[Rejected] = []

    def is_empty(self, space_id: int | None) -> bool:
        return self._count(space_id) == 0

    def embed(self, space: Space) -> None:
        self.missing = self._count(space.id)
        last = (0, 0)
        while batch := self._next(space.id, last):
            last = (batch[-1].article_id, batch[-1].id)
            # A chunk of nothing, of an article without a title, has nothing to embed.
            chunks = [one for one in batch if self._render(one)]
            self.missing -= len(batch) - len(chunks)
            made = embed(self._embedder, [self._render(one) for one in chunks])
            self._store(space, chunks, made)
            self._progress("embed", self.taken, max(self.missing, self.taken))
            if made.error is not None:
                raise made.error

    def _render(self, stored: StoredChunk) -> str:
        return self._template.render(stored.title, stored.heading, stored.content)

    def _store(self, space: Space, chunks: Sequence[StoredChunk], made: Embedded) -> None:
        whole = [position for position in range(len(chunks)) if made.has(position)]
        with self._connection.transaction():
            self.embedded += insert_vectors(
                self._connection,
                self._org_id,
                space,
                self._template,
                [chunks[position] for position in whole],
                made.vectors[whole],
                self._schema,
            )
            self._note(space, {chunk.article_id for chunk in chunks})
        self.taken += len(chunks) - len(made.unfinished)
        self._reject({chunks[position]: reason for position, reason in made.refused.items()})

    def _note(self, space: Space, articles: set[int]) -> None:
        """Let the notes of ingest say that these articles have their vectors, those that have all."""
        rows = self._run(_COMPLETE, {"org_id": self._org_id, "articles": list(articles), "space_id": space.id})
        for article_id, noted in rows:
            note = Note.parse(noted)
            if note is not None and note.space != str(space.id):
                self._run_only(_NOTE, (str(replace(note, space=str(space.id))), self._org_id, article_id, noted))

    def _reject(self, refused: Mapping[StoredChunk, str]) -> None:
        if refused:
            articles = [chunk.article_id for chunk in refused]
            names = dict(self._run(_NAMES, (self._org_id, articles)))
            for chunk, reason in refused.items():
                reference = names.get(chunk.article_id)
                name = printable(reference) if reference else f"article {chunk.article_id}"
                self.rejected.append(Rejected(f"{name}, chunk {chunk.number}", reason, reference))

    def _next(self, space_id: int, last: tuple[int, int]) -> list[StoredChunk]:
        article_id, chunk_id = last
        keys = {
            "org_id": self._org_id,
            "space_id": space_id,
            "article_id": article_id,
            "chunk_id": chunk_id,
            "limit": CHUNKS_AT_ONCE,
        }
        return [StoredChunk.of(row) for row in self._run(_MISSING, keys)]

    def _count(self, space_id: int | None) -> int:
        ((number,),) = self._run(_COUNT, {"org_id": self._org_id, "space_id": space_id})
        return int(number)

    def _run(self, statement: str, parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(in_schema(statement, self._schema).encode(), parameters).fetchall()

    def _run_only(self, statement: str, parameters: Any) -> None:
        self._connection.execute(in_schema(statement, self._schema).encode(), parameters)
