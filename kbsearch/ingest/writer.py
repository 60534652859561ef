"""Writes documents whose vectors are in the cache: commits articles that are whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psycopg

from kbsearch.client import KBSearch
from kbsearch.errors import ArticleError, ChunkError, LanguageError, VectorError, translate
from kbsearch.ingest.beside import Beside
from kbsearch.ingest.passages import Passages
from kbsearch.ingest.plan import Work
from kbsearch.ingest.prepare import Counts, Group, Ready
from kbsearch.ingest.report import Connection
from kbsearch.ingest.spaces import Space
from kbsearch.ingest.vectors import StoredChunk, is_whole, store_vectors
from kbsearch.schema import DEFAULT, in_schema

ATTEMPTS = 5
"""Times that a transaction is begun which the server ends for the sake of others: a deadlock, or a change that its snapshot does not see."""

_WRITE = (
    """SELECT kbsearch.write_kb_articles_v1(p_org_id => %s, p_articles => %s, p_space_id => %s, p_chunk_ids => %s)"""
)
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


class IncompleteError(Exception):
    """Somebody has deleted an article, or cleared the cache, since the group was got ready."""


class Writer:
    """Writes documents, a group in a transaction; what cannot be written is rejected."""

    def __init__(
        self,
        connection: Connection,
        org_id: int,
        passages: Passages | None,
        space: Space | None,
        beside: Sequence[Beside],
        schema: str = DEFAULT,
    ) -> None:
        """Nothing is written yet; without passages and space no vectors are."""
        self.connection, self._org_id, self._schema = connection, org_id, schema
        self._client = KBSearch(connection, schema=schema, savepoint=False)
        self._passages, self._space = passages, space
        self._beside = [replace(other, connection=connection) for other in beside]

    def write(self, group: Group) -> Counts:
        """Commit together the documents of a group that are ready. Raises psycopg.Error when the database fails; nothing is written then."""
        for attempt in range(ATTEMPTS):
            counts = Counts(rejected=list(group.rejected))
            try:
                with self.connection.transaction():
                    self._write(group.ready, counts)
            except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                if attempt + 1 == ATTEMPTS:
                    raise
            else:
                break
        return counts

    def _write(self, ready: Sequence[Ready], counts: Counts) -> None:
        new = [one for one in ready if one.work.stored is None]
        written = [one.work.document.external_ref for one in new]
        if self._write_together(new) is None:
            self._count(new, counts)
        else:
            written = [one.work.document.external_ref for one in new if self._write_one(one, counts)]
        for one in ready:
            if one.work.stored is not None:
                self._add_vectors(one.work, counts)
                written.append(one.work.document.external_ref)
        for other in self._beside:
            other.store(written)

    def _write_together(self, group: Sequence[Ready]) -> Exception | None:
        """Write articles by one statement; why it was refused for one of them, and nothing was written."""
        if not group:
            return None
        text = json.dumps([self._values(one.work) for one in group])
        chunks = sum(len(one.work.chunks) for one in group)
        space_id = None if self._space is None else self._space.id
        written: int | None = None
        ids = [chunk_id for one in group for chunk_id in one.chunk_ids or ()]
        keys = (self._org_id, text, space_id, ids if group[0].chunk_ids is not None else None)
        try:
            with self.connection.transaction() as savepoint:
                row = self.connection.execute(in_schema(_WRITE, self._schema).encode(), keys).fetchone()
                written = None if row is None else int(row[0])
                if written != chunks:
                    raise psycopg.Rollback(savepoint)
        except psycopg.DatabaseError as error:
            if not _is_of_documents(error):
                raise
            return translate(error, self._schema)
        return None if written == chunks else IncompleteError()

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

    def _write_one(self, one: Ready, counts: Counts) -> bool:
        """Write an article by itself; False where it was rejected."""
        refused = self._write_together([one])
        if isinstance(refused, _FAULTS_OF_DOCUMENTS):
            counts.reject(one.work.document, str(refused))
            return False
        if refused is not None and not self._upsert(one, counts):
            return False
        self._count([one], counts)
        return True

    def _upsert(self, one: Ready, counts: Counts) -> bool:
        """Write an article and its vectors whatever has become of them in the database; False where it was rejected."""
        work, vectors = one.work, one.vectors
        document, chunks = work.document, work.chunks
        if vectors is not None and self._passages is not None:
            digests = map(self._passages.sha256, work.parts())
            chunks = [
                replace(chunk, embedding=vector, input_sha256=digest)
                for chunk, vector, digest in zip(chunks, vectors, digests, strict=True)
            ]
        try:
            with self.connection.transaction():
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
            counts.reject(document, str(error))
            return False
        return True

    def _add_vectors(self, work: Work, counts: Counts) -> None:
        """Give the chunks that an article has their vectors of this space, which are in the cache.

        A chunk that was changed meanwhile is left to the next run.
        """
        assert self._space is not None and self._passages is not None and work.stored is not None  # noqa: S101, PT018  (it has vectors)
        stored: Sequence[StoredChunk] = work.stored
        added = store_vectors(self.connection, self._org_id, self._space, self._passages, stored, self._schema)
        reference = work.document.external_ref
        if is_whole(self.connection, self._org_id, self._space, reference, self._schema):
            keys = (str(work.note), self._org_id, reference)
            self.connection.execute(in_schema(_NOTE, self._schema).encode(), keys)
        counts.reembedded += added > 0
        counts.embedded += added == 0
        counts.embedded_chunks += added

    def _count(self, group: Sequence[Ready], counts: Counts) -> None:
        chunks = sum(len(one.work.chunks) for one in group)
        counts.written += len(group)
        counts.chunks += chunks
        counts.embedded_chunks += chunks if self._passages is not None else 0


def _is_of_documents(error: psycopg.DatabaseError) -> bool:
    """Whether an error may be about what is in one document, so that the others can be written without it."""
    if isinstance(error, (psycopg.DataError, psycopg.errors.ProgramLimitExceeded, psycopg.errors.IntegrityError)):
        return True
    return (error.sqlstate or "").startswith("KB")
