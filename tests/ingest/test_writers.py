"""Several connections write what one would have written, to the byte; whatever ends one of them, the rest is whole and the next run completes it."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
import pytest

from kbsearch import KBSearch
from kbsearch.embed import Vectors
from kbsearch.ingest import Document, IngestReport, UsageError, prepare, writer, writers
from kbsearch.ingest.organizations import organization_id
from kbsearch.ingest.prepare import Counts, Group
from tests.index.derived import faults
from tests.ingest import killed
from tests.ingest.test_kills import Victim
from tests.ingest.test_pipeline import Connection, HashEmbedder, documents, rows, run

TABLES = ("kb_articles", "kb_article_chunks", "kb_article_embeddings", "kb_embedding_inputs", "kb_embedding_cache")
WRITER = writer.Writer


class Doors:
    """Opens connections to a database, and counts them."""

    def __init__(self, dsn: str, **options: Any) -> None:
        self.dsn, self.options = dsn, options
        self.lock = threading.Lock()
        self.opened = self.open = self.most = 0
        self.pids: list[int] = []

    @contextmanager
    def __call__(self) -> Iterator[Connection]:
        with psycopg.connect(self.dsn, autocommit=True, **self.options) as connection:
            with self.lock:
                self.opened += 1
                self.open += 1
                self.most = max(self.most, self.open)
                self.pids.append(connection.info.backend_pid)
            try:
                yield connection
            finally:
                with self.lock:
                    self.open -= 1


@pytest.fixture
def doors(database: str) -> Doors:
    return Doors(database)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "ARTICLES_AT_ONCE", 3)


def disturbed(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Let writers take their time, so that groups are committed in another order than they were got ready, small as they are."""
    monkeypatch.setattr(writers, "MERGED_AT_MOST", 0)
    chance, write = random.Random(seed), WRITER.write

    def slow(self: writer.Writer, group: Group) -> Counts:
        time.sleep(chance.choice((0, 0, 0.01, 0.05)))
        return write(self, group)

    monkeypatch.setattr(WRITER, "write", slow)


def bytes_of(connection: Connection) -> dict[str, list[tuple[Any, ...]]]:
    """All rows that searches and the next ingest read, ids included, but times; and how they are ranked."""
    found = {
        name: rows(
            connection,
            f"SELECT to_jsonb(t) - '{{created_at,updated_at}}'::text[] FROM kbsearch.{name} AS t ORDER BY to_jsonb(t)::text COLLATE \"C\"",
        )
        for name in TABLES
    }
    found["entries"] = rows(
        connection,
        """SELECT p.lexeme, e.entry, sum(p.sign) FROM kbsearch.kb_postings AS p CROSS JOIN unnest(p.entries) AS e (entry)
        GROUP BY p.lexeme, e.entry HAVING sum(p.sign) <> 0 ORDER BY 1, 2""",
    )
    found["stats"] = rows(connection, "SELECT sum(chunk_count), sum(occurrence_count) FROM kbsearch.kb_corpus_stats")
    found["organizations"] = rows(
        connection, "SELECT id, active_space_id, reference_length FROM kbsearch.organizations"
    )
    org_id = organization_id(connection, "o", create=False)
    with KBSearch(connection, embedder=HashEmbedder()) as client:
        found["ranking"] = [
            (result.place, result.score, result.article_id, result.chunk_id, result.excerpt, result.tied_with)
            for text in ("alpha number3", "gamma again", "special 7")
            for result in client.results(org_id, text)
        ]
    return found


def some(version: int) -> list[Document]:
    return [
        Document(
            f"d{number:03}",
            f"Title {number}",
            "\n\n".join(f"alpha special {number} part {part} version {version}" for part in range(number % 4 + 1)),
            language="german" if number % 7 == 3 else None,
        )
        for number in range(40)
        if (number + version) % 9
    ]


@pytest.fixture
def fresh(databases: Any, template: str) -> Iterator[Callable[[], str]]:
    made = []

    def make() -> str:
        made.append(databases.create(template))
        return str(made[-1])

    yield make
    for dsn in made:
        databases.drop(dsn)


def test_any_number_of_writers_gives_the_same_bytes(fresh: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    huge = Document("d011a", "Huge " * 60_000, "x")  # refused by the database
    found, reports = [], []
    for number, (count, seed) in enumerate(((0, 0), (1, 1), (2, 2), (2, 3), (5, 4))):
        dsn = fresh()
        with monkeypatch.context() as patch, psycopg.connect(dsn, autocommit=True) as connection:
            disturbed(patch, seed)
            doors = Doors(dsn)
            options: dict[str, Any] = {"embedder": HashEmbedder(), "connect": doors, "writers": count, "prune": True}
            first = run(connection, [*documents(10), *some(1), huge][10:], **options)
            second = run(connection, some(2), **options)
            reports.append([_said(one) for one in (first, second)])
            found.append(bytes_of(connection))
            assert faults(connection) == []
            assert (doors.opened > 0, doors.open) == (count > 0, 0), number
    assert all(one == reports[0] for one in reports)
    assert reports[0][0][-1] == (("d011a", reports[0][0][-1][0][1]),)
    assert len(found[0]["ranking"]) > 20
    for name in found[0]:
        assert all(one[name] == found[0][name] for one in found), name


def _said(report: IngestReport) -> tuple[Any, ...]:
    return (
        report.read,
        report.written,
        report.unchanged,
        report.deleted,
        report.chunks,
        report.embedded_chunks,
        report.notes,
        report.calibrated,
        tuple((one.where, one.reason) for one in report.rejected),
    )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_there_are_never_more_connections_than_were_allowed(
    connection: Connection, doors: Doors, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    disturbed(monkeypatch, count)
    others = "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    seen = []

    def progress(_stage: str, _done: int, _size: int) -> None:
        seen.append(rows(connection, others)[0][0])

    report = run(connection, documents(40), connect=doors, writers=count, progress=progress)
    assert report.written == 40
    assert (doors.most, doors.opened, doors.open) == (count, count, 0)
    assert max(seen) == count + 1
    assert run(connection, documents(40), connect=doors, writers=count).unchanged == 40
    assert doors.opened == count


def test_progress_counts_what_is_committed(
    connection: Connection, doors: Doors, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturbed(monkeypatch, 0)
    told = []
    with psycopg.connect(database, autocommit=True) as other:

        def progress(stage: str, done: int, size: int) -> None:
            if stage == "articles":
                committed = rows(other, "SELECT count(*) FROM kbsearch.kb_articles WHERE content_sha256 IS NOT NULL")
                assert done <= committed[0][0]
                told.append((done, size))

        run(connection, documents(20), embedder=HashEmbedder(), connect=doors, progress=progress)
    assert told == sorted(told)
    assert told[-1] == (20, 20)


def test_a_writer_that_loses_its_connection_ends_the_run_and_the_next_one_completes_it(
    connection: Connection, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, write = documents(30), WRITER._write_together

    def lose(self: writer.Writer, group: Sequence[prepare.Ready]) -> Exception | None:
        if group[0].work.document.external_ref == "d009":
            connection.execute("SELECT pg_terminate_backend(%s)", [self.connection.info.backend_pid])
        return write(self, group)

    with monkeypatch.context() as patch:
        patch.setattr(WRITER, "_write_together", lose)
        with pytest.raises(psycopg.OperationalError, match=r"terminat|closed|lost"):
            run(connection, entries, embedder=HashEmbedder(), connect=doors)
    done = {name for (name,) in rows(connection, "SELECT external_ref FROM kbsearch.kb_articles WHERE published")}
    groups = [{f"d{number:03}" for number in range(first, first + 3)} for first in (0, 3, 6)]
    assert all(group <= done or not group & done for group in groups)
    # the other writer may have been at one of them, and was stopped
    assert sum(not group <= done for group in groups) <= 1
    assert not {"d009", "d010", "d011", "d029"} & done
    assert doors.open == 0
    report = run(connection, entries, embedder=HashEmbedder(), connect=doors)
    assert (report.written + report.unchanged, report.unchanged, report.calibrated) == (30, len(done), True)
    assert faults(connection) == []


def test_what_was_embedded_before_an_embedder_failed_is_committed_by_all_writers(
    connection: Connection, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturbed(monkeypatch, 1)
    with pytest.raises(RuntimeError, match="embedder failed"):
        run(connection, documents(30), embedder=HashEmbedder(fail_after=40), connect=doors)
    assert doors.open == 0
    assert rows(connection, "SELECT count(*) FROM kbsearch.kb_articles WHERE published") == [(18,)]
    assert run(connection, documents(30), embedder=HashEmbedder(), connect=doors).written == 12


def test_an_interruption_cancels_what_is_being_written(connection: Connection, doors: Doors, database: str) -> None:
    class Interrupted(HashEmbedder):
        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            if any("number9" in text for text in texts):
                while not rows(connection, "SELECT FROM pg_catalog.pg_locks WHERE NOT granted"):
                    time.sleep(0.01)
                raise KeyboardInterrupt
            return super().embed_passages(texts)

    run(connection, documents(12))
    changed = documents(12, words="delta epsilon")
    with psycopg.connect(database) as other:
        other.execute("SELECT FROM kbsearch.kb_articles WHERE external_ref = 'd001' FOR UPDATE")
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            run(connection, changed, embedder=Interrupted(), connect=doors)
        assert time.monotonic() - started < 60
        assert doors.open == 0
    assert not any(one.name.startswith("kbsearch-writer") for one in threading.enumerate())
    contents = rows(connection, "SELECT a.external_ref, a.body FROM kbsearch.kb_articles AS a ORDER BY a.id")
    assert contents[1] == ("d001", documents(12)[1].text)
    run(connection, changed, embedder=HashEmbedder(), connect=doors)
    contents = rows(connection, "SELECT a.body FROM kbsearch.kb_articles AS a ORDER BY a.id")
    assert contents == [(one.text,) for one in changed]
    assert faults(connection) == []


def test_where_no_other_connection_can_be_opened_one_does_all(
    connection: Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturbed(monkeypatch, 0)
    for limit, org in ((0, "none"), (1, "one")):
        doors = Doors(database)

        def connect(doors: Doors = doors, limit: int = limit) -> AbstractContextManager[Connection]:
            if doors.open >= limit:
                raise psycopg.OperationalError("connection failed\nFATAL:  too many connections")
            return doors()

        report = run(connection, documents(30), org=org, connect=connect, writers=3)
        assert report.written == 30
        assert report.notes == (
            "articles were written by one connection, another could not be opened: FATAL:  too many connections",
        )


def test_transactions_that_see_no_later_commit_by_default_are_no_obstacle(
    fresh: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    disturbed(monkeypatch, 5)
    dsn = fresh()
    options: dict[str, Any] = {"options": "-c default_transaction_isolation=repeatable\\ read"}
    with psycopg.connect(dsn, autocommit=True, **options) as connection:
        report = run(connection, documents(30), embedder=HashEmbedder(), connect=Doors(dsn, **options), writers=3)
        assert (report.written, report.calibrated) == (30, True)
        assert faults(connection) == []


def test_a_transaction_that_was_ended_for_the_sake_of_others_is_repeated(
    connection: Connection, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Exception] = [psycopg.errors.DeadlockDetected("deadlock"), psycopg.errors.SerializationFailure("x")]
    write, lock = WRITER._write, threading.Lock()

    def fail(self: writer.Writer, ready: Sequence[prepare.Ready], counts: Counts) -> None:
        write(self, ready, counts)
        with lock:
            if failures:
                raise failures.pop()

    monkeypatch.setattr(WRITER, "_write", fail)
    report = run(connection, documents(12), embedder=HashEmbedder(), connect=doors)
    assert (report.written, report.chunks, failures) == (12, 24, [])
    monkeypatch.setattr(writer, "ATTEMPTS", 2)
    failures += [psycopg.errors.DeadlockDetected("deadlock")] * 40
    with pytest.raises(psycopg.errors.DeadlockDetected):
        run(connection, documents(12, words="other"), connect=doors)
    assert faults(connection) == []


def test_postings_are_merged_as_far_as_by_one_writer(fresh: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {}
    for number in (0, 2):
        dsn = fresh()
        with monkeypatch.context() as patch, psycopg.connect(dsn, autocommit=True) as connection:
            disturbed(patch, number)
            patch.setattr(writers, "MERGED_AT_MOST", 256)
            for version in range(4):
                run(connection, documents(60, words=f"alpha beta {version}"), connect=Doors(dsn), writers=number)
            assert faults(connection) == []
            counts[number] = rows(connection, "SELECT count(*) FROM kbsearch.kb_postings")[0][0]
    assert counts[2] <= 1.5 * counts[0]


def test_a_role_that_may_take_no_ids_before_writes_on_one_connection(
    connection: Connection, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "_MAY_RESERVE", "SELECT false")
    report = run(connection, documents(12), embedder=HashEmbedder(), connect=doors)
    assert (report.written, doors.opened) == (12, 0)
    assert ["may not use kb_article_chunks_id_seq" in note for note in report.notes] == [True]
    assert run(connection, documents(12), embedder=HashEmbedder(), connect=doors, writers=0).notes == ()


def test_an_impossible_number_of_writers_is_refused(connection: Connection, doors: Doors) -> None:
    for number in (-1, writers.WRITERS_AT_MOST + 1):
        with pytest.raises(UsageError, match="0 to 16"):
            run(connection, documents(1), connect=doors, writers=number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_writers_and_the_next_run_completes(database: str, number: signal.Signals) -> None:
    victim = Victim(database, random.Random(0))
    done = "SELECT count(*) FROM kbsearch.kb_articles AS a WHERE a.content_sha256 IS NOT NULL"
    process = victim.start("1")
    with victim.connect() as connection:
        while rows(connection, done)[0][0] < 6:
            assert process.poll() is None
            time.sleep(0.005)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode in (-number, 130, 1)
    victim.settle()
    victim.is_well()
    with victim.connect() as connection:
        assert 0 < rows(connection, done)[0][0] < len(killed.documents(1))
        killed.work("1", connection)
        assert rows(connection, done)[0][0] == len(killed.documents(1))
    victim.is_well()
