"""From documents to articles in the database: reserve ids, split, embed, write.

One connection reads, splits and embeds, others write what is ready, several transactions at a time; ids are given out before, in order.

What is ingested decides everything, when or where from decides nothing: documents are taken in the order of their external_ref, ids are
reserved in that order before anything is embedded, and no path outside the ingest root is stored or embedded. A run that was stopped
anywhere is completed by the next one: an article is done when it is committed, and what is done is not done again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import psycopg

from kbsearch.client import KBSearch
from kbsearch.embed.base import Embedder
from kbsearch.errors import SpaceError
from kbsearch.ingest.beside import Beside
from kbsearch.ingest.documents import Document, Rejected
from kbsearch.ingest.feeds import Collected, Feed, Source
from kbsearch.ingest.languages import Languages
from kbsearch.ingest.machine import Machine
from kbsearch.ingest.notes import Note, chunker_digest, digest
from kbsearch.ingest.passages import Passages
from kbsearch.ingest.plan import LanguagesOfDocuments, Planner
from kbsearch.ingest.prepare import Counts, Group, Pace, Preparer, groups
from kbsearch.ingest.report import Connection, IngestReport, Progress, UsageError, quiet
from kbsearch.ingest.spaces import Space, activate_space, active_space, ensure_space
from kbsearch.ingest.splitter import Splitter
from kbsearch.ingest.statistics import Statistics
from kbsearch.ingest.vectors import StoredChunk, stored_chunks
from kbsearch.ingest.writer import Writer
from kbsearch.ingest.writers import WRITERS, WRITERS_AT_MOST, Connect, Writers
from kbsearch.schema import DEFAULT, in_schema

RESERVED_AT_ONCE = 1000
READ_AT_ONCE = 512
"""Documents that are in memory at a time, where they are read as a stream."""
DELETED_AT_ONCE = 64
FIRST_LOAD = "first load"
"""Row of kb_ingest_sources while an organisation's first load is under way: the calibration at its end is still to come."""

# A reservation that is a day old is of a run that was stopped, and whose document has gone since.
_DONE = """SELECT
    (SELECT count(*) FROM kbsearch.kb_articles AS a WHERE a.org_id = o.id AND a.content_sha256 IS NOT NULL),
    (SELECT count(*) FROM kbsearch.kb_articles AS a
        WHERE a.org_id = o.id AND a.content_sha256 IS NULL AND (a.published OR a.created_at > now() - interval '1 day'))
FROM kbsearch.organizations AS o
WHERE o.id = %s"""
_PENDING = """SELECT EXISTS (
    SELECT FROM kbsearch.kb_articles AS a
    WHERE a.org_id = %s AND a.content_sha256 IS NULL AND NOT a.published AND a.created_at > now() - interval '1 day')"""
_MARKED = "SELECT true FROM kbsearch.kb_ingest_sources AS s WHERE s.org_id = %s AND s.name = %s"
_MARK = "INSERT INTO kbsearch.kb_ingest_sources (org_id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_UNMARK = "DELETE FROM kbsearch.kb_ingest_sources AS s WHERE s.org_id = %s AND s.name = %s"
_MAY_CALIBRATE = "SELECT pg_catalog.has_column_privilege('kbsearch.organizations', 'reference_length', 'UPDATE')"
_CALIBRATE = "SELECT kbsearch.calibrate_kb_corpus_v1(p_org_id => %s)"
# Ids that were reserved for what turned out to be no article; nothing that an application made.
_DISCARD = """DELETE FROM kbsearch.kb_articles AS a
WHERE a.org_id = %s AND (a.external_ref = ANY (%s) OR a.created_at < now() - interval '1 day') AND a.external_ref IS NOT NULL
    AND a.content_sha256 IS NULL AND NOT a.published AND a.title IS NULL AND a.body IS NULL
    AND NOT EXISTS (SELECT FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = a.org_id AND c.article_id = a.id)"""
_NOTES = """SELECT a.external_ref, a.content_sha256
FROM kbsearch.kb_articles AS a
WHERE a.org_id = %s AND a.external_ref IS NOT NULL AND a.content_sha256 IS NOT NULL
ORDER BY a.external_ref COLLATE pg_catalog."C" """

_ALONE = "articles were written by one connection: the role may not use kb_article_chunks_id_seq, as kbsearch db grant --writer lets it"

_Item = TypeVar("_Item")


def ingest(
    connection: Connection,
    org_id: int,
    sources: Sequence[Source] | Feed,
    *,
    embedder: Embedder | None = None,
    splitter: Splitter | None = None,
    language: str | None = None,
    prune: bool = False,
    machine: Machine | None = None,
    also: Sequence[Embedder] = (),
    connect: Connect | None = None,
    writers: int = WRITERS,
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
        machine: whose names are refused in what the model is given, unless the splitter allows them; by default this one.
        also: embedders of other spaces that the articles written get vectors in, in the same transaction: while the organisation moves from
            one space to another, the other one's.
        connect: opens one more connection to the same database, in autocommit mode, of the same role and session settings: a context manager.
            Without it all is done on the one connection, one after the other.
        writers: how many such connections may be open, to write articles at the same time while the next are embedded: 0 to 16.
        progress: told how far it is.
        schema: that kbsearch is installed in.

    Raises UsageError when the request cannot be carried out (`prune` of a source that is incomplete or empty, an unknown language); what the
    embedder raises; psycopg.Error when the database fails. What was committed before stays, and the next run goes on from there.
    """
    if not connection.autocommit:
        raise UsageError("ingest needs a connection in autocommit mode: articles are committed as they are done")
    if not 0 <= writers <= WRITERS_AT_MOST:
        raise UsageError(f"{writers} connections cannot write: 0 to {WRITERS_AT_MOST} can")
    feed = Collected(sources) if isinstance(sources, Sequence) else sources
    return _Ingest(
        connection,
        org_id,
        feed,
        embedder,
        splitter,
        language,
        machine,
        also,
        connect,
        writers,
        progress or quiet,
        schema,
    ).run(prune)


class _Ingest:
    def __init__(
        self,
        connection: Connection,
        org_id: int,
        feed: Feed,
        embedder: Embedder | None,
        splitter: Splitter | None,
        language: str | None,
        machine: Machine | None,
        also: Sequence[Embedder],
        connect: Connect | None,
        writers: int,
        progress: Progress,
        schema: str,
    ) -> None:
        self._connection, self._org_id = connection, org_id
        self._client = KBSearch(connection, schema=schema, savepoint=False)
        self._feed, self._embedder, self._progress, self._schema = feed, embedder, progress, schema
        self._splitter = splitter or Splitter.of(embedder)
        self._machine, self._also = machine, also
        self._connect, self._count = connect, writers
        # Without an embedder and a size of chunks asked for, what is split is good as it is: its vectors belong to it.
        self._keeps_chunks = embedder is None and splitter is None
        self._languages = LanguagesOfDocuments(Languages.of(connection), language)
        self._counts = Counts()
        self._space: Space | None = None
        self._passages: Passages | None = None
        self._beside: list[Beside] = []

    def run(self, prune: bool) -> IngestReport:
        started = time.monotonic()
        counts, embedder, feed = self._counts, self._embedder, self._feed
        truncated_before = int(getattr(embedder, "truncated", 0))
        feed.open(self._connection, self._org_id, self._settings(), self._progress)
        if prune and (reason := feed.refuse_prune()):
            raise UsageError(reason)
        # A first load that was killed between its last article and the calibration is known by its mark.
        resumed = bool(self._value(_MARKED, (self._org_id, FIRST_LOAD)))
        first_load = self._reserve() or resumed
        if first_load and not resumed:
            self._execute(_MARK, (self._org_id, FIRST_LOAD))
        if embedder is not None and feed.size:
            self._space = ensure_space(self._connection, embedder, self._splitter, self._schema)
            cached = (self._connection, self._org_id, self._space, self._schema)
            self._passages = Passages.of(embedder, self._splitter, self._machine, cached=cached)
        beside = (Beside.of(self._connection, self._org_id, one, self._machine, self._schema) for one in self._also)
        self._beside = [one for one in beside if one.space != self._space]
        planner = Planner(self._splitter, self._space, self._keeps_chunks, self._languages, self._stored)
        preparer = Preparer(self._connection, self._passages, self._beside, self._schema)
        count = self._count if preparer.reserves else 0
        with Writers(self._writer, self._connection, self._connect, count) as writers:
            self._write(planner, preparer, writers, again=False)
            counts.notes.extend(self._languages.notes())
            if prune:
                self._prune()
            active = self._activate()
            if planner.deferred and active:
                self._write(planner, preparer, writers, again=True)
            else:
                planner.unchanged += planner.idle
            counts.notes.extend(writers.notes)
            if counts.written and self._connect is not None and self._count > count:
                counts.notes.append(_ALONE)
        self._discard()
        calibrated = False
        if first_load and not self._value(_PENDING, (self._org_id,)):
            calibrated = self._complete(resumed or counts.written > 0)
        if note := feed.finish(counts.rejected):
            counts.notes.append(note)
        return IngestReport(
            org_id=self._org_id,
            read=counts.read,
            written=counts.written,
            unchanged=planner.unchanged + counts.embedded,
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
        return digest([chunker_digest(self._splitter), self._splitter.guarded, model, self._languages.default])

    # Ids

    def _reserve(self) -> bool:
        """Give ids to all, in order; whether the organisation has nothing else, so that this is its first load."""
        done = unnoted = 0
        statistics = Statistics(self._connection, self._schema)
        for batch in _slices(self._feed.references(), RESERVED_AT_ONCE):
            notes = self._notes(batch)
            statistics.wrote(len(batch))
            done += len(batch)
            unnoted += sum(note is None for note in notes.values())
            self._progress("reserve", done, self._feed.size)
        row = self._execute(_DONE, (self._org_id,)).fetchone()
        if row is None:
            return False
        written, reserved = row
        return bool(unnoted and written == 0 and reserved == unnoted)

    def _notes(self, references: Sequence[str]) -> dict[str, str | None]:
        """What the last ingest noted about each; those that are new get their ids."""
        return {
            article.external_ref: article.content_sha256
            for article in self._client.reserve_articles(self._org_id, references)
        }

    # Writing

    def _writer(self, connection: Connection) -> Writer:
        return Writer(connection, self._org_id, self._passages, self._space, self._beside, self._schema)

    def _write(self, planner: Planner, preparer: Preparer, writers: Writers, *, again: bool) -> None:
        """Write what there is to write. again: what was put off until searches use this ingest's space."""
        done = 0
        pace = Pace()
        statistics = Statistics(self._connection, self._schema)
        unread: list[Rejected] = []

        def told(group: Group, counts: Counts, seconds: float) -> None:
            nonlocal done
            self._counts.add(counts)
            pace.took(group.seconds + seconds)
            statistics.wrote(counts.chunks + counts.embedded_chunks)
            done += group.size
            self._progress("articles", done, self._feed.size)

        for entries in _slices(self._feed.documents(), READ_AT_ONCE):
            documents = [(source, entry) for source, entry in entries if isinstance(entry, Document)]
            rejected = [entry for _, entry in entries if isinstance(entry, Rejected)]
            if not again:
                self._counts.read += len(entries)
                unread.extend(rejected)
            done += len(rejected)
            notes = self._notes([document.external_ref for _, document in documents])
            active = active_space(self._connection, self._org_id, self._schema)
            plan = planner.plan_deferred(documents, notes) if again else planner.plan(documents, notes, active)
            for works in groups(plan, pace):
                group = preparer.prepare(works)
                writers.hand(group, told)
                if group.error is not None:
                    writers.finish(told)
                    raise group.error
        writers.finish(told)
        self._counts.rejected[:0] = unread

    def _stored(self, external_ref: str) -> list[StoredChunk]:
        return stored_chunks(self._connection, self._org_id, external_ref, self._schema)

    # Afterwards

    def _discard(self) -> None:
        """Give back the ids that were reserved for what was rejected, or by a run of another day that nobody completed."""
        references = [entry.external_ref for entry in self._counts.rejected if entry.external_ref is not None]
        self._execute(_DISCARD, (self._org_id, list(filter(_is_storable, references))))

    def _complete(self, loaded: bool) -> bool:
        """The first load is done; whether the organisation was calibrated by what was loaded."""
        may = loaded and bool(self._value(_MAY_CALIBRATE, ()))
        with self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            self._execute(_UNMARK, (self._org_id, FIRST_LOAD))
            if may:
                self._execute(_CALIBRATE, (self._org_id,))
        if loaded and not may:
            statement = f"SELECT {self._schema}.calibrate_kb_corpus_v1({self._org_id});"
            self._counts.notes.append(
                f"the first load is to be calibrated by who may (kbsearch db grant --admin): {statement}"
            )
        return may

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
        for batch in _slices(gone, DELETED_AT_ONCE):
            with self._connection.transaction():
                for reference in batch:
                    self._counts.deleted += self._client.delete_article(self._org_id, external_ref=reference)
            self._progress("prune", self._counts.deleted, len(gone))

    def _activate(self) -> bool | None:
        """Whether searches use this ingest's space now; None without a space."""
        if self._space is None:
            return None
        try:
            activate_space(self._connection, self._org_id, self._space, self._schema)
        except SpaceError as error:
            lacking, stale = (int(error.detail.get(name, 0)) for name in ("lacking", "stale"))
            self._counts.notes.append(
                f"searches stay on the embedding space before: {lacking + stale} chunks have no vector of what they say in {self._space.name} yet;"
                " ingest the other sources too, or run kbsearch reembed"
            )
            return False
        return True

    def _execute(self, statement: str, parameters: Any) -> psycopg.Cursor[Any]:
        return self._connection.execute(in_schema(statement, self._schema).encode(), parameters)

    def _value(self, statement: str, parameters: Any) -> Any:
        row = self._execute(statement, parameters).fetchone()
        return None if row is None else row[0]


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
