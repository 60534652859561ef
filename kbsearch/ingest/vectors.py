"""Vectors for chunks that are there already: of articles that an application wrote, or that another model embedded before."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from kbsearch.embed.base import Embedder
from kbsearch.errors import SpaceError
from kbsearch.ingest.documents import Rejected, printable
from kbsearch.ingest.embedding import Embedded
from kbsearch.ingest.machine import Machine
from kbsearch.ingest.notes import Note
from kbsearch.ingest.passages import Parts, Passages
from kbsearch.ingest.report import Connection, EmbedReport, Progress, UsageError, quiet
from kbsearch.ingest.spaces import Space, activate_space, active_space_of, ensure_space, splitter_of
from kbsearch.ingest.splitter import Splitter
from kbsearch.models import Chunk
from kbsearch.schema import DEFAULT, in_schema

CHUNKS_AT_ONCE = 128
"""Chunks that are embedded and committed together: some seconds of work."""

# A chunk lacks its vector where it has none, one of another content than it has now, or one without a direction. A subquery, and not NOT EXISTS:
# looked up chunk by chunk, it costs the same whatever statistics say and however many vectors there are.
_LACKS = """(
    SELECT coalesce(e.chunk_digest = kbsearch.digest_kb_chunk_v1(c.title, c.heading, c.content), true) AND e.has_direction
    FROM kbsearch.kb_article_embeddings AS e
    WHERE e.org_id = c.org_id AND e.article_id = c.article_id AND e.chunk_id = c.id AND e.space_id = %(space_id)s) IS NOT TRUE"""
_COUNT = f"SELECT count(*) FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %(org_id)s AND {_LACKS}"
_COLUMNS = """c.article_id, c.id, c.chunk_no, c.title, c.heading, c.content,
    kbsearch.digest_kb_chunk_v1(c.title, c.heading, c.content)"""
_MISSING = f"""SELECT {_COLUMNS}
FROM kbsearch.kb_article_chunks AS c
WHERE c.org_id = %(org_id)s AND (c.article_id, c.id) > (%(article_id)s, %(chunk_id)s) AND {_LACKS}
ORDER BY c.article_id, c.id
LIMIT %(limit)s"""
_CHUNKS = f"""SELECT {_COLUMNS}
FROM kbsearch.kb_articles AS a
INNER JOIN kbsearch.kb_article_chunks AS c ON c.org_id = a.org_id AND c.article_id = a.id
WHERE a.org_id = %s AND a.external_ref = %s
ORDER BY c.chunk_no, c.id"""
_LACKING_OF = f"""SELECT true
FROM kbsearch.kb_articles AS a
INNER JOIN kbsearch.kb_article_chunks AS c ON c.org_id = a.org_id AND c.article_id = a.id
WHERE a.org_id = %(org_id)s AND a.external_ref = %(external_ref)s AND {_LACKS}
LIMIT 1"""
_STORE = """SELECT count(*) FROM kbsearch.store_kb_cached_vectors_v1(
    p_org_id => %s, p_space_id => %s, p_article_ids => %s, p_chunk_ids => %s, p_chunk_digests => %s, p_input_sha256 => %s)"""

_COMPLETE = f"""SELECT a.id, a.content_sha256
FROM kbsearch.kb_articles AS a
WHERE a.org_id = %(org_id)s AND a.id = ANY (%(articles)s) AND NOT EXISTS (
    SELECT FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = a.org_id AND c.article_id = a.id AND {_LACKS})"""
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
    digest: bytes

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """From a row of article_id, id, chunk_no, title, heading, content, digest."""
        return cls(*row)

    @property
    def parts(self) -> Parts:
        """What the model's input is made of."""
        return self.title, self.heading, self.content

    @property
    def chunk(self) -> Chunk:
        """What was stored."""
        return Chunk(self.content, self.heading)


def stored_chunks(connection: Connection, org_id: int, external_ref: str, schema: str = DEFAULT) -> list[StoredChunk]:
    """The chunks of an article, in order."""
    rows = connection.execute(in_schema(_CHUNKS, schema).encode(), (org_id, external_ref)).fetchall()
    return [StoredChunk.of(row) for row in rows]


def is_whole(connection: Connection, org_id: int, space: Space, external_ref: str, schema: str = DEFAULT) -> bool:
    """Whether all chunks of an article have their vectors in a space."""
    keys = {"org_id": org_id, "space_id": space.id, "external_ref": external_ref}
    return connection.execute(in_schema(_LACKING_OF, schema).encode(), keys).fetchone() is None


def store_vectors(
    connection: Connection,
    org_id: int,
    space: Space,
    passages: Passages,
    chunks: Sequence[StoredChunk],
    schema: str = DEFAULT,
) -> int:
    """Give chunks their vectors of a space, which are in the cache; the number of those that got one.

    A chunk that is not as it was read any more, or has this vector already, is passed over.
    """
    if not chunks:
        return 0
    columns = (
        [chunk.article_id for chunk in chunks],
        [chunk.id for chunk in chunks],
        [chunk.digest for chunk in chunks],
        [bytes.fromhex(passages.sha256(chunk.parts)) for chunk in chunks],
    )
    row = connection.execute(in_schema(_STORE, schema).encode(), (org_id, space.id, *columns)).fetchone()
    return 0 if row is None else int(row[0])


def embed_missing(
    connection: Connection,
    org_id: int,
    embedder: Embedder,
    *,
    splitter: Splitter | None = None,
    machine: Machine | None = None,
    progress: Progress = quiet,
    schema: str = DEFAULT,
) -> EmbedReport:
    """Embed every chunk of an organisation that lacks its vector in the space that searches use: has none, or one of an older content.

    Chunks that plain SQL or a trigger wrote have none. Where the space that searches use is of another model than the embedder's, or there
    is none, the vectors go into a space of the embedder's beside it, which searches use as soon as it is whole. The connection must be in
    autocommit mode: vectors are committed in batches, and a run that was stopped is completed by the next one.

    Args:
        connection: to the database with kbsearch.
        org_id: the organisation.
        embedder: computes the vectors.
        splitter: has the template of what the model is given; by default that of the space that searches use, if it is of this model.
        machine: whose names are refused in what the model is given; by default this one.
        progress: told how far it is.
        schema: that kbsearch is installed in.

    Raises EmbeddingError, or what else the embedder raises; psycopg.Error when the database fails. What was committed before stays.
    """
    if not connection.autocommit:
        raise UsageError("embedding needs a connection in autocommit mode: vectors are committed as they are made")
    splitter = splitter or splitter_of(connection, org_id, embedder, schema)
    space = active_space_of(connection, org_id, embedder, splitter, schema)
    if space is None and count_lacking(connection, org_id, None, schema) == 0:
        raise UsageError("the organisation has no chunk to embed: ingest something first")
    space = space or ensure_space(connection, embedder, splitter, schema)
    filler = Filler(connection, org_id, space, embedder, splitter, machine, progress, schema)
    filler.run(noted=True)
    try:
        activate_space(connection, org_id, space, schema)
    except SpaceError as error:
        return filler.report(active=False, notes=(f"searches stay on the embedding space before: {error}",))
    return filler.report(active=True)


def count_lacking(connection: Connection, org_id: int, space_id: int | None, schema: str = DEFAULT) -> int:
    """How many chunks of an organisation lack their vector in a space, those with nothing to embed included; without a space all chunks."""
    keys = {"org_id": org_id, "space_id": space_id}
    row = connection.execute(in_schema(_COUNT, schema).encode(), keys).fetchone()
    return 0 if row is None else int(row[0])


class Filler:
    """Fills a space with the vectors that an organisation's chunks lack in it. The connection must be in autocommit mode."""

    def __init__(
        self,
        connection: Connection,
        org_id: int,
        space: Space,
        embedder: Embedder,
        splitter: Splitter,
        machine: Machine | None = None,
        progress: Progress = quiet,
        schema: str = DEFAULT,
    ) -> None:
        """Get ready; nothing is looked at yet."""
        self._started = time.monotonic()
        self._connection, self._org_id, self._space, self._embedder = connection, org_id, space, embedder
        self._progress, self._schema = progress, schema
        self._truncated = int(getattr(embedder, "truncated", 0))
        self._passages = Passages.of(embedder, splitter, machine, cached=(connection, org_id, space, schema))
        self.missing = self.taken = self.embedded = 0
        self.rejected: dict[int, Rejected] = {}

    def run(self, *, noted: bool) -> int:
        """Embed what lacks a vector now; the number of chunks that got one.

        noted: note with the articles that ingest wrote that their vectors are of this space now.
        """
        before = self.embedded
        size = self.taken + count_lacking(self._connection, self._org_id, self._space.id, self._schema)
        last = (0, 0)
        while batch := self._next(last):
            last = (batch[-1].article_id, batch[-1].id)
            # A chunk of nothing, of an article without a title, has nothing to embed.
            chunks = [one for one in batch if self._passages.text(one.parts) and one.id not in self.rejected]
            size -= len(batch) - len(chunks)
            self.missing += len(chunks)
            made = self._passages.embed(one.parts for one in chunks)
            self._store(chunks, made, noted=noted)
            self._progress("embed", self.taken, max(size, self.taken))
            if made.error is not None:
                raise made.error
        return self.embedded - before

    def report(self, *, active: bool, notes: Sequence[str] = ()) -> EmbedReport:
        """What was done so far."""
        return EmbedReport(
            org_id=self._org_id,
            space=self._space.name,
            space_active=active,
            missing=self.missing,
            embedded=self.embedded,
            changed=self.taken - self.embedded - len(self.rejected),
            truncated=int(getattr(self._embedder, "truncated", 0)) - self._truncated,
            rejected=tuple(self.rejected.values()),
            notes=tuple(notes),
            seconds=time.monotonic() - self._started,
        )

    def _store(self, chunks: Sequence[StoredChunk], made: Embedded, *, noted: bool) -> None:
        whole = [chunk for position, chunk in enumerate(chunks) if made.has(position)]
        with self._connection.transaction():
            self.embedded += store_vectors(
                self._connection, self._org_id, self._space, self._passages, whole, self._schema
            )
            if noted:
                self._note({chunk.article_id for chunk in chunks})
        self.taken += len(chunks) - len(made.unfinished)
        self._reject({chunks[position]: reason for position, reason in made.refused.items()})

    def _note(self, articles: set[int]) -> None:
        """Let the notes of ingest say that these articles have their vectors, those that have all."""
        space = str(self._space.id)
        rows = self._run(_COMPLETE, {"org_id": self._org_id, "articles": list(articles), "space_id": self._space.id})
        for article_id, text in rows:
            note = Note.parse(text)
            if note is not None and note.space != space:
                statement = in_schema(_NOTE, self._schema).encode()
                self._connection.execute(statement, (str(replace(note, space=space)), self._org_id, article_id, text))

    def _reject(self, refused: Mapping[StoredChunk, str]) -> None:
        if refused:
            articles = [chunk.article_id for chunk in refused]
            names = dict(self._run(_NAMES, (self._org_id, articles)))
            for chunk, reason in refused.items():
                reference = names.get(chunk.article_id)
                name = printable(reference) if reference else f"article {chunk.article_id}"
                self.rejected[chunk.id] = Rejected(f"{name}, chunk {chunk.number}", reason, reference)

    def _next(self, last: tuple[int, int]) -> list[StoredChunk]:
        article_id, chunk_id = last
        keys = {
            "org_id": self._org_id,
            "space_id": self._space.id,
            "article_id": article_id,
            "chunk_id": chunk_id,
            "limit": CHUNKS_AT_ONCE,
        }
        return [StoredChunk.of(row) for row in self._run(_MISSING, keys)]

    def _run(self, statement: str, parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(in_schema(statement, self._schema).encode(), parameters).fetchall()
