"""From documents to articles in the database: reserve ids, split, embed, write.

What is ingested decides everything, when or where from decides nothing: documents are taken in the order of their external_ref, ids are
reserved in that order before anything is embedded, and no path outside the ingest root is stored or embedded. A run that was stopped
anywhere is completed by the next one: an article is done when it is committed, and what is done is not done again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

import psycopg

from kbsearch.client import KBSearch
from kbsearch.embed.base import Embedder, Vectors
from kbsearch.errors import ArticleError, ChunkError, LanguageError, VectorError
from kbsearch.ingest.documents import Document, Rejected, printable
from kbsearch.ingest.embedding import Embedded, embed
from kbsearch.ingest.feeds import Collected, Feed, Source
from kbsearch.ingest.languages import Languages
from kbsearch.ingest.notes import Note, chunker_digest, digest
from kbsearch.ingest.plan import LanguagesOfDocuments, Planner, Work
from kbsearch.ingest.report import Connection, IngestReport, Progress, UsageError
from kbsearch.ingest.spaces import Space, activate, active_space, ensure_space
from kbsearch.ingest.splitter import Splitter
from kbsearch.ingest.vectors import CHUNKS_AT_ONCE, StoredChunk, insert_vectors, stored_chunks
from kbsearch.schema import DEFAULT, in_schema

RESERVED_AT_ONCE = 1000
READ_AT_ONCE = 100
"""Documents that are in memory at a time, where they are read as a stream."""
ARTICLES_AT_ONCE = 64

# A reservation that is a day old is of a run that was stopped, and whose document has gone since.
_DONE = """SELECT o.reference_length = 100,
    (SELECT count(*) FROM kbsearch.kb_articles AS a WHERE a.org_id = o.id AND a.content_sha256 IS NOT NULL),
    (SELECT count(*) FROM kbsearch.kb_articles AS a
        WHERE a.org_id = o.id AND a.content_sha256 IS NULL AND (a.published OR a.created_at > now() - interval '1 day'))
FROM kbsearch.organizations AS o
WHERE o.id = %s"""
_PENDING = """SELECT EXISTS (
    SELECT FROM kbsearch.kb_articles AS a
    WHERE a.org_id = %s AND a.content_sha256 IS NULL AND NOT a.published AND a.created_at > now() - interval '1 day')"""
_CALIBRATE = "SELECT kbsearch.calibrate_kb_corpus_v1(p_org_id => %s)"
# Ids that were reserved for what turned out to be no article; nothing that an application made.
_DISCARD = """DELETE FROM kbsearch.kb_articles AS a
WHERE a.org_id = %s AND (a.external_ref = ANY (%s) OR a.created_at < now() - interval '1 day') AND a.external_ref IS NOT NULL
    AND a.content_sha256 IS NULL AND NOT a.published AND a.title IS NULL AND a.body IS NULL
    AND NOT EXISTS (SELECT FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = a.org_id AND c.article_id = a.id)"""
_DROP_VECTORS = (
    """DELETE FROM kbsearch.kb_article_embeddings AS e WHERE e.org_id = %s AND e.article_id = %s AND e.space_id = %s"""
)
_NOTE = "UPDATE kbsearch.kb_articles SET content_sha256 = %s WHERE org_id = %s AND external_ref = %s"
_NOTES = """SELECT a.external_ref, a.content_sha256
FROM kbsearch.kb_articles AS a
WHERE a.org_id = %s AND a.external_ref IS NOT NULL AND a.content_sha256 IS NOT NULL
ORDER BY a.external_ref COLLATE pg_catalog."C" """

_FAULTS_OF_DOCUMENTS = (
    ArticleError,
    ChunkError,
    LanguageError,
    VectorError,
    psycopg.DataError,
    psycopg.errors.ProgramLimitExceeded,
)
"""What is refused by kbsearch, by a type or by a limit of PostgreSQL for what is in one document; all else stops the run."""

_Item = TypeVar("_Item")


@dataclass(slots=True)
class _Counts:
    read: int = 0
    written: int = 0
    reembedded: int = 0
    deleted: int = 0
    chunks: int = 0
    embedded_chunks: int = 0
    rejected: list[Rejected] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def ingest(
    connection: Connection,
    org_id: int,
    sources: Sequence[Source] | Feed,
    *,
    embedder: Embedder | None = None,
    splitter: Splitter | None = None,
    language: str | None = None,
    prune: bool = False,
    progress: Progress | None = None,
    schema: str = DEFAULT,
) -> IngestReport:
    """Bring an organisation's articles up to date with the documents of some sources, or of one that is read as a stream.

    The connection must be in autocommit mode and have no transaction open: articles are committed in batches as they are done. Without an
    embedder, articles are found by their words only. A document that cannot be stored is reported in `rejected` and keeps nobody from being
    stored.

    Args:
        connection: to the database with kbsearch.
        org_id: the organisation.
        sources: what to ingest.
        embedder: computes the chunks' vectors.
        splitter: makes the chunks; by default what suits the embedder, see Splitter.of().
        language: of documents that name none: a text search configuration or a BCP 47 tag; None: the organisation's. A document's language
            that has no configuration is told in `notes`, and the organisation's is used.
        prune: delete articles that an earlier ingest wrote for one of these sources and that the source has no more.
        progress: told how far it is.
        schema: that kbsearch is installed in.

    Raises UsageError when the request cannot be carried out (`prune` of a source that is incomplete or empty, an unknown language); what the
    embedder raises; psycopg.Error when the database fails. What was committed before stays, and the next run goes on from there.
    """
    if not connection.autocommit:
        raise UsageError("ingest needs a connection in autocommit mode: articles are committed as they are done")
    feed = Collected(sources) if isinstance(sources, Sequence) else sources
    quiet: Progress = lambda _stage, _done, _size: None  # noqa: E731
    return _Ingest(connection, org_id, feed, embedder, splitter, language, progress or quiet, schema).run(prune)


class _Ingest:
    def __init__(
        self,
        connection: Connection,
        org_id: int,
        feed: Feed,
        embedder: Embedder | None,
        splitter: Splitter | None,
        language: str | None,
        progress: Progress,
        schema: str,
    ) -> None:
        self._connection, self._org_id = connection, org_id
        self._client = KBSearch(connection, schema=schema, savepoint=False)
        self._feed, self._embedder, self._progress, self._schema = feed, embedder, progress, schema
        self._splitter = splitter or Splitter.of(embedder)
        self._template = self._splitter.template
        # Without an embedder and a size of chunks asked for, what is split is good as it is: its vectors belong to it.
        self._keeps_chunks = embedder is None and splitter is None
        self._languages = LanguagesOfDocuments(Languages.of(connection), language)
        self._counts = _Counts()
        self._space: Space | None = None

    def run(self, prune: bool) -> IngestReport:
        started = time.monotonic()
        counts, embedder, feed = self._counts, self._embedder, self._feed
        truncated_before = int(getattr(embedder, "truncated", 0))
        feed.open(self._connection, self._org_id, self._settings(), self._progress)
        if prune and (reason := feed.refuse_prune()):
            raise UsageError(reason)
        first_load = self._reserve()
        if embedder is not None and feed.size:
            self._space = ensure_space(self._connection, embedder, self._splitter, self._schema)
        planner = Planner(self._splitter, self._space, self._keeps_chunks, self._languages, self._stored)
        self._write(planner, again=False)
        counts.notes.extend(self._languages.notes())
        if prune:
            self._prune()
        active = self._activate()
        if planner.deferred and active:
            self._write(planner, again=True)
        else:
            planner.unchanged += planner.idle
        self._discard()
        calibrated = first_load and counts.written > 0 and not self._value(_PENDING, (self._org_id,))
        if calibrated:
            self._execute(_CALIBRATE, (self._org_id,))
        if note := feed.finish(counts.rejected):
            counts.notes.append(note)
        return IngestReport(
            org_id=self._org_id,
            read=counts.read,
            written=counts.written,
            unchanged=planner.unchanged,
            reembedded=counts.reembedded,
            deleted=counts.deleted,
            taken_over=planner.taken_over,
            chunks=counts.chunks,
            embedded_chunks=counts.embedded_chunks,
            truncated_chunks=int(getattr(embedder, "truncated", 0)) - truncated_before,
            rejected=tuple(counts.rejected),
            space=None if self._space is None else self._space.name,
            space_active=active,
            notes=tuple(counts.notes),
            calibrated=calibrated,
            seconds=time.monotonic() - started,
        )

    def _settings(self) -> str:
        """Digest of what decides, beside the documents, what is written."""
        embedder = self._embedder
        model = (
            None
            if embedder is None
            else [embedder.model, embedder.revision, embedder.dimensions, dict(embedder.recipe)]
        )
        return digest([chunker_digest(self._splitter), model, self._languages.default])

    # Ids

    def _reserve(self) -> bool:
        """Give ids to all, in order; whether the organisation has nothing but what an unfinished first load of these documents left."""
        done = noted = unnoted = 0
        for batch in _slices(self._feed.references(), RESERVED_AT_ONCE):
            notes = self._notes(batch)
            done += len(batch)
            noted += sum(note is not None for note in notes.values())
            unnoted += sum(note is None for note in notes.values())
            self._progress("reserve", done, self._feed.size)
        row = self._execute(_DONE, (self._org_id,)).fetchone()
        if row is None:
            return False
        default_length, written, reserved = row
        return bool(reserved == unnoted and unnoted and (written == 0 or (default_length and written == noted)))

    def _notes(self, references: Sequence[str]) -> dict[str, str | None]:
        """What the last ingest noted about each; those that are new get their ids."""
        return {
            article.external_ref: article.content_sha256
            for article in self._client.reserve_articles(self._org_id, references)
        }

    # Writing

    def _write(self, planner: Planner, *, again: bool) -> None:
        """Write what there is to write. again: what was put off until searches use this ingest's space."""
        done = 0
        for entries in _slices(self._feed.documents(), READ_AT_ONCE):
            documents = [(source, entry) for source, entry in entries if isinstance(entry, Document)]
            rejected = [entry for _, entry in entries if isinstance(entry, Rejected)]
            if not again:
                self._counts.read += len(entries)
                self._counts.rejected.extend(rejected)
            done += len(rejected)
            notes = self._notes([document.external_ref for _, document in documents])
            active = active_space(self._connection, self._org_id, self._schema)
            plan = planner.plan_deferred(documents, notes) if again else planner.plan(documents, notes, active)
            for group in _groups(plan):
                self._write_group([work for work in group if work is not None])
                done += len(group)
                self._progress("articles", done, self._feed.size)

    def _stored(self, external_ref: str) -> list[StoredChunk]:
        return stored_chunks(self._connection, self._org_id, external_ref, self._schema)

    def _write_group(self, group: Sequence[Work]) -> None:
        """Embed some documents, and commit them together."""
        made = self._embed(group)
        start = 0
        with self._connection.transaction():
            for work in group:
                span = range(start, start + len(work.chunks))
                start = span.stop
                if made is None:
                    self._write_one(work, None)
                elif refused := [position for position in span if position in made.refused]:
                    self._counts.rejected.append(
                        _rejected(work.document, f"a chunk has no vector: {made.refused[refused[0]]}")
                    )
                elif all(map(made.has, span)):
                    self._write_one(work, made.vectors[span.start : span.stop])
        if made is not None and made.error is not None:
            raise made.error

    def _embed(self, group: Sequence[Work]) -> Embedded | None:
        if self._embedder is None or not group:
            return None
        return embed(self._embedder, [self._template.render(*parts) for work in group for parts in work.parts()])

    def _write_one(self, work: Work, vectors: Vectors | None) -> None:
        counts = self._counts
        try:
            with self._connection.transaction():
                if work.stored is not None and vectors is not None:
                    self._add_vectors(work.stored, vectors, work)
                    counts.reembedded += 1
                else:
                    self._upsert(work, vectors)
                    counts.written += 1
                    counts.chunks += len(work.chunks)
        except _FAULTS_OF_DOCUMENTS as error:
            self._counts.rejected.append(_rejected(work.document, str(error)))
            return
        if vectors is not None:
            counts.embedded_chunks += len(work.chunks)

    def _upsert(self, work: Work, vectors: Vectors | None) -> None:
        document, chunks = work.document, work.chunks
        if vectors is not None:
            chunks = [
                replace(chunk, embedding=vector, input_sha256=self._template.sha256(work.title, chunk))
                for chunk, vector in zip(chunks, vectors, strict=True)
            ]
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

    def _add_vectors(self, stored: Sequence[StoredChunk], vectors: Vectors, work: Work) -> None:
        """Put vectors of this space beside what the article's chunks have; a chunk that was changed meanwhile is left to the next run."""
        assert self._space is not None  # noqa: S101  (there are vectors)
        for article_id in {one.article_id for one in stored}:
            self._execute(_DROP_VECTORS, (self._org_id, article_id, self._space.id))
        inserted = insert_vectors(
            self._connection, self._org_id, self._space, self._template, stored, vectors, self._schema
        )
        if inserted == len(stored):
            self._execute(_NOTE, (str(work.note), self._org_id, work.document.external_ref))

    # Afterwards

    def _discard(self) -> None:
        """Give back the ids that were reserved for what was rejected, or by a run of another day that nobody completed."""
        references = [entry.external_ref for entry in self._counts.rejected if entry.external_ref is not None]
        self._execute(_DISCARD, (self._org_id, list(filter(_is_storable, references))))

    def _prune(self) -> None:
        presence = self._feed.presence()
        if presence.unknown is not None:
            self._counts.notes.append(f"nothing was pruned: {presence.unknown}")
            return
        gone = [
            reference
            for reference, noted in self._execute(_NOTES, (self._org_id,))
            if (note := Note.parse(noted)) is not None
            and note.source in presence.sources
            and reference not in presence.references
        ]
        for batch in _slices(gone, ARTICLES_AT_ONCE):
            with self._connection.transaction():
                for reference in batch:
                    self._counts.deleted += self._client.delete_article(self._org_id, external_ref=reference)
            self._progress("prune", self._counts.deleted, len(gone))

    def _activate(self) -> bool | None:
        """Whether searches use this ingest's space now; None without a space."""
        if self._space is None:
            return None
        lacking = activate(self._connection, self._org_id, self._space, self._schema)
        if lacking:
            self._counts.notes.append(
                f"searches stay on the embedding space before: {lacking} chunks of other sources have no vector in {self._space.name} yet;"
                " ingest those too, or run kbsearch ingest --embed-missing"
            )
        return not lacking

    def _execute(self, statement: str, parameters: Any) -> psycopg.Cursor[Any]:
        return self._connection.execute(in_schema(statement, self._schema).encode(), parameters)

    def _value(self, statement: str, parameters: Any) -> Any:
        row = self._execute(statement, parameters).fetchone()
        return None if row is None else row[0]


def _rejected(document: Document, reason: str) -> Rejected:
    return Rejected(printable(document.external_ref), reason, document.external_ref)


def _is_storable(reference: str) -> bool:
    """Whether PostgreSQL can hold a name at all: what it cannot hold is in no table."""
    try:
        return "\0" not in reference and bool(reference.encode())
    except UnicodeEncodeError:
        return False


def _slices(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def _groups(items: Iterable[Work | None]) -> Iterator[list[Work | None]]:
    """Work in the portions in which it is embedded and committed."""
    group: list[Work | None] = []
    chunks = articles = 0
    for item in items:
        group.append(item)
        if item is not None:
            articles += 1
            chunks += len(item.chunks)
        if chunks >= CHUNKS_AT_ONCE or articles >= ARTICLES_AT_ONCE:
            yield group
            group, chunks, articles = [], 0, 0
    if group:
        yield group
