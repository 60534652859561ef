"""Writes what is to be done for documents: embeds them, and commits articles that are whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import psycopg

from kbsearch.client import KBSearch
from kbsearch.embed.base import Vectors
from kbsearch.errors import ArticleError, ChunkError, LanguageError, VectorError
from kbsearch.ingest.beside import Beside
from kbsearch.ingest.documents import Document, Rejected, printable
from kbsearch.ingest.embedding import Embedded
from kbsearch.ingest.passages import Passages
from kbsearch.ingest.plan import Work
from kbsearch.ingest.report import Connection
from kbsearch.ingest.spaces import Space
from kbsearch.ingest.vectors import StoredChunk, is_whole, store_vectors
from kbsearch.schema import DEFAULT, in_schema

ARTICLES_AT_ONCE = 512
EMBEDDED_AT_ONCE = 128
"""Chunks that are embedded, into the cache, at a time: what is computed again at most after an interruption."""
COMMITTED_AT_ONCE = 512
"""Chunks that are committed together at first, give or take an article."""
COMMITTED_AT_MOST = 2048
"""Chunks that are committed together while that takes little time: written together, they cost less."""
QUICK_SECONDS = 2.0
"""Below that, twice as many are committed at a time; nobody waits long for the next articles, or for a lock of this run."""

_WRITE = "SELECT kbsearch.write_kb_articles_v1(p_org_id => %s, p_articles => %s, p_space_id => %s)"
_NOTE = "UPDATE kbsearch.kb_articles SET content_sha256 = %s WHERE org_id = %s AND external_ref = %s"
_FAULTS_OF_DOCUMENTS = (
    ArticleError,
    ChunkError,
    LanguageError,
    VectorError,
    psycopg.DataError,
    psycopg.errors.ProgramLimitExceeded,
)
"""What is refused by kbsearch, by a type or by a limit of PostgreSQL for what is in one document; all else stops the run."""


@dataclass(slots=True)
class Counts:
    """What was done."""

    read: int = 0
    written: int = 0
    reembedded: int = 0
    embedded: int = 0
    """Articles that had vectors of the space, which ingest has not known of."""
    deleted: int = 0
    chunks: int = 0
    embedded_chunks: int = 0
    rejected: list[Rejected] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Writer:
    """Embeds and writes documents, a group in a transaction; what cannot be written is rejected."""

    def __init__(
        self,
        connection: Connection,
        org_id: int,
        passages: Passages | None,
        space: Space | None,
        beside: Sequence[Beside],
        counts: Counts,
        schema: str = DEFAULT,
    ) -> None:
        """Nothing is written yet; without passages and space no vectors are."""
        self._connection, self._org_id, self._schema = connection, org_id, schema
        self._client = KBSearch(connection, schema=schema, savepoint=False)
        self._passages, self._space, self._beside, self._counts = passages, space, beside, counts

    def write(self, group: Sequence[Work]) -> None:
        """Embed some documents, and commit together those that have all their vectors.

        Raises what the embedder raises, when those are committed that were embedded before.
        """
        made, error = self._embed(group)
        whole: list[tuple[Work, Vectors | None]] = []
        start = 0
        for work in group:
            span = range(start, start + len(work.chunks))
            start = span.stop
            if made is None:
                whole.append((work, None))
            elif refused := [position for position in span if position in made.refused]:
                self._reject(work.document, f"a chunk has no vector: {made.refused[refused[0]]}")
            elif all(map(made.has, span)):
                whole.append((work, made.vectors[span.start : span.stop]))
        for other in self._beside:
            other.embed(parts for work, _ in whole for parts in work.parts())
        with self._connection.transaction():
            new = [(work, vectors) for work, vectors in whole if work.stored is None]
            written = [work.document.external_ref for work, _ in new]
            if not self._write_together([work for work, _ in new]):
                written = [work.document.external_ref for work, vectors in new if self._write_one(work, vectors)]
            written += [
                work.document.external_ref for work, _ in whole if work.stored is not None and self._add_vectors(work)
            ]
            for other in self._beside:
                other.store(written)
        if error is not None:
            raise error

    def _embed(self, group: Sequence[Work]) -> tuple[Embedded | None, Exception | None]:
        """The vectors of a group, batch after batch; and what ended it before the last."""
        passages = self._passages
        if passages is None or not group:
            return None, None
        parts = [one for work in group for one in work.parts()]
        vectors = np.full((len(parts), passages.embedder.dimensions), np.nan, dtype=np.float32)
        refused: dict[int, str] = {}
        unfinished = set(range(len(parts)))
        for start in range(0, len(parts), EMBEDDED_AT_ONCE):
            batch = parts[start : start + EMBEDDED_AT_ONCE]
            try:
                made = passages.embed(batch)
            except Exception as error:
                if start == 0:
                    raise
                return Embedded(vectors, refused, frozenset(unfinished)), error
            vectors[start : start + len(batch)] = made.vectors
            refused |= {start + position: reason for position, reason in made.refused.items()}
            unfinished -= {start + position for position in range(len(batch)) if position not in made.unfinished}
            if made.error is not None:
                return Embedded(vectors, refused, frozenset(unfinished)), made.error
        return Embedded(vectors, refused, frozenset(unfinished)), None

    def _write_together(self, group: Sequence[Work]) -> bool:
        """Write articles by one statement; False where it was refused for one of them, and nothing was written."""
        if not group:
            return True
        text = json.dumps([self._values(work) for work in group])
        chunks = sum(len(work.chunks) for work in group)
        space_id = None if self._space is None else self._space.id
        try:
            with self._connection.transaction() as savepoint:
                row = self._connection.execute(
                    in_schema(_WRITE, self._schema).encode(), (self._org_id, text, space_id)
                ).fetchone()
                complete = row is not None and int(row[0]) == chunks
                if not complete:
                    raise psycopg.Rollback(savepoint)  # somebody has deleted an article, or cleared the cache
        except psycopg.DatabaseError as error:
            if not _is_of_documents(error):
                raise
            return False
        if complete:
            self._count(group)
        return complete

    def _values(self, work: Work) -> dict[str, Any]:
        document = work.document
        digests = map(self._passages.sha256, work.parts()) if self._passages is not None else iter(())
        return {
            "external_ref": document.external_ref,
            "kind": document.kind,
            "title": work.title,
            "body": document.text,
            "language": work.language,
            "published": document.published,
            "metadata": dict(document.metadata),
            "source_uri": document.source_uri,
            "content_sha256": str(work.note),
            "chunks": [
                {"content": chunk.content, "heading": chunk.heading, "input_sha256": next(digests, None)}
                for chunk in work.chunks
            ],
        }

    def _write_one(self, work: Work, vectors: Vectors | None) -> bool:
        """Write an article by itself; False where it was rejected."""
        document, chunks = work.document, work.chunks
        if vectors is not None and self._passages is not None:
            digests = map(self._passages.sha256, work.parts())
            chunks = [
                replace(chunk, embedding=vector, input_sha256=digest)
                for chunk, vector, digest in zip(chunks, vectors, digests, strict=True)
            ]
        try:
            with self._connection.transaction():
                self._client.upsert_article(
                    self._org_id,
                    external_ref=document.external_ref,
                    title=work.title,
                    body=document.text,
                    kind=document.kind,
                    chunks=chunks,
                    published=document.published,
                    metadata=document.metadata,
                    source_uri=document.source_uri,
                    language=work.language,
                    content_sha256=str(work.note),
                    space_id=None if self._space is None else self._space.id,
                )
        except _FAULTS_OF_DOCUMENTS as error:
            self._reject(document, str(error))
            return False
        self._count([work])
        return True

    def _add_vectors(self, work: Work) -> bool:
        """Give the chunks that an article has their vectors of this space, which are in the cache.

        A chunk that was changed meanwhile is left to the next run.
        """
        assert self._space is not None and self._passages is not None and work.stored is not None  # noqa: S101, PT018  (it has vectors)
        stored: Sequence[StoredChunk] = work.stored
        added = store_vectors(self._connection, self._org_id, self._space, self._passages, stored, self._schema)
        reference = work.document.external_ref
        if is_whole(self._connection, self._org_id, self._space, reference, self._schema):
            keys = (str(work.note), self._org_id, reference)
            self._connection.execute(in_schema(_NOTE, self._schema).encode(), keys)
        self._counts.reembedded += added > 0
        self._counts.embedded += added == 0
        self._counts.embedded_chunks += added
        return True

    def _count(self, group: Sequence[Work]) -> None:
        chunks = sum(len(work.chunks) for work in group)
        self._counts.written += len(group)
        self._counts.chunks += chunks
        self._counts.embedded_chunks += chunks if self._passages is not None else 0

    def _reject(self, document: Document, reason: str) -> None:
        self._counts.rejected.append(Rejected(printable(document.external_ref), reason, document.external_ref))


def _is_of_documents(error: psycopg.DatabaseError) -> bool:
    """Whether an error may be about what is in one document, so that the others can be written without it."""
    if isinstance(error, (psycopg.DataError, psycopg.errors.ProgramLimitExceeded, psycopg.errors.IntegrityError)):
        return True
    return (error.sqlstate or "").startswith("KB")


class Pace:
    """How many chunks are committed together: twice as many while that is quick, half as many where it is not."""

    def __init__(self) -> None:
        """Start with few."""
        self.chunks = COMMITTED_AT_ONCE

    def took(self, seconds: float) -> None:
        """Learn how long it took to embed and commit a group."""
        if seconds < QUICK_SECONDS:
            self.chunks = max(self.chunks, min(2 * self.chunks, COMMITTED_AT_MOST))
        else:
            self.chunks = min(self.chunks, max(self.chunks // 2, COMMITTED_AT_ONCE))


def groups(items: Iterable[Work | None], pace: Pace) -> Iterator[list[Work | None]]:
    """Work in the portions in which it is committed."""
    group: list[Work | None] = []
    chunks = articles = 0
    for item in items:
        group.append(item)
        if item is not None:
            articles += 1
            chunks += len(item.chunks)
        if chunks >= pace.chunks or articles >= ARTICLES_AT_ONCE:
            yield group
            group, chunks, articles = [], 0, 0
    if group:
        yield group
