"""Random writes on several connections at once, compact, rebuild and calibrate racing them: afterwards the derived tables equal a rebuild."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import psycopg
import pytest

from tests.index.derived import faults
from tests.index.operations import ALL, TRUNCATIONS, reset
from tests.index.sessions import RETRIED

HUNT_SECONDS = float(os.environ.get("KBSEARCH_TEST_HUNT", "0"))
"""Seconds of new random schedules after the suite's own."""
TRANSACTIONS = 25
"""Of a thread in a round."""
GONE = {"23503", "23505", "KBORG", "KBART"}
"""What may be said of something that another transaction removed or made between drawing an operation and running it."""


def _work(dsn: str, seed: int, isolation: tuple[str, ...], stop: threading.Event) -> Counter[str]:
    random = Random(seed)
    counted: Counter[str] = Counter()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET statement_timeout = '30s'")
        for _ in range(TRANSACTIONS):
            if stop.is_set():
                break
            level = random.choice(isolation)
            names = random.choices(
                tuple(ALL), weights=[1 if name in TRUNCATIONS else 4 for name in ALL], k=random.randint(1, 3)
            )
            for _attempt in range(3):
                try:
                    with connection.transaction(force_rollback=random.random() < 0.1):
                        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
                        for name in names:
                            statement = ALL[name](connection, random)
                            if statement is not None:
                                connection.execute(statement.sql.encode(), statement.parameters)
                                counted["statements"] += 1
                    counted["transactions"] += 1
                    break
                except psycopg.Error as error:
                    code = error.sqlstate or ""
                    allowed = GONE | {"KBIDX"} if level == "REPEATABLE READ" else GONE
                    if code not in RETRIED and code not in allowed:
                        stop.set()
                        raise
                    counted[code] += 1
                    if code not in RETRIED:
                        break
    return counted


def _round(
    dsn: str, watcher: psycopg.Connection[Any], seed: int, threads: int, isolation: tuple[str, ...]
) -> Counter[str]:
    reset(watcher)
    random = Random(seed)
    for name in ("add_article", "add_article", "add_article", "load_chunks", "embed_all"):
        statement = ALL[name](watcher, random)
        assert statement is not None
        watcher.execute(statement.sql.encode(), statement.parameters)
    stop = threading.Event()
    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(_work, dsn, seed * 100 + n, isolation, stop) for n in range(threads)]
    counted: Counter[str] = Counter()
    for future in running:
        counted += future.result()
    found = faults(watcher)
    assert found == [], f"seed {seed}, {threads} connections, {isolation}"
    for (org_id,) in watcher.execute("SELECT id FROM kbsearch.organizations ORDER BY id").fetchall():
        for function in ("compact_kb_postings_v1", "rebuild_kb_index_v1"):
            watcher.execute(f"SELECT kbsearch.{function}(%s)", (org_id,))
            assert faults(watcher) == [], f"after {function}: seed {seed}, {threads} connections, {isolation}"
    return counted


ISOLATIONS = (("READ COMMITTED",), ("REPEATABLE READ",), ("READ COMMITTED", "REPEATABLE READ"))


@pytest.mark.parametrize("isolation", ISOLATIONS, ids=" and ".join)
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_random_schedules(database: str, threads: int, isolation: tuple[str, ...]) -> None:
    counted: Counter[str] = Counter()
    with psycopg.connect(database, autocommit=True) as watcher:
        for seed in (1, 2):
            counted += _round(database, watcher, seed, threads, isolation)
    assert counted["transactions"] > threads * TRANSACTIONS / 2, counted


@pytest.mark.skipif(not HUNT_SECONDS, reason="KBSEARCH_TEST_HUNT gives the seconds")
@pytest.mark.timeout(0)
def test_hunt(database: str) -> None:
    deadline, seed = time.monotonic() + HUNT_SECONDS, time.time_ns() % 10**9
    with psycopg.connect(database, autocommit=True) as watcher:
        while time.monotonic() < deadline:
            seed += 1
            _round(database, watcher, seed, 2 + seed % 3, ISOLATIONS[seed % 7 % 3])


def test_small_writes_are_merged_beside_other_writers(database: str) -> None:
    """More than 48 single-chunk statements on each of three connections: merges happen in writers, and one connection compacts."""
    with psycopg.connect(database, autocommit=True) as watcher:
        reset(watcher)
        watcher.execute(
            "INSERT INTO kbsearch.kb_articles (org_id, title, published) SELECT 1, 'ant', true FROM generate_series(1, 3)"
        )

        def write(article_id: int) -> None:
            with psycopg.connect(database, autocommit=True) as connection:
                for n in range(70):
                    connection.execute(
                        "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, chunk_no, content) VALUES (1, %s, %s, %s)",
                        (article_id, n, f"bee {n % 7}"),
                    )
                    if n % 3 == 0:
                        connection.execute(
                            "UPDATE kbsearch.kb_article_chunks SET content = 'cat' WHERE org_id = 1 AND article_id = %s AND chunk_no = %s",
                            (article_id, n - 3),
                        )

        def compact() -> None:
            with psycopg.connect(database, autocommit=True) as connection:
                for _ in range(10):
                    connection.execute("SELECT kbsearch.compact_kb_postings_v1(1)")
                    time.sleep(0.02)

        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(write, article_id) for article_id in (1, 2, 3)] + [pool.submit(compact)]
        for future in running:
            future.result()
        assert faults(watcher) == []
        row = watcher.execute("SELECT count(*) FROM kbsearch.kb_postings").fetchone()
        assert row is not None
        assert row[0] < 400, "210 chunks of 3 words in single statements, 72 of them edited, and nothing was merged"


@pytest.mark.parametrize(
    "change", ["language = 'simple'", "reference_length = 3", "language = 'simple', reference_length = 3"]
)
@pytest.mark.parametrize("published", [True, False], ids=["published", "stub"])
@pytest.mark.parametrize("kind", ["insert", "update"])
def test_organisation_changes_while_a_statement_has_described_half_of_its_chunks(
    database: str, change: str, published: bool, kind: str
) -> None:
    """The statement is held between its first and its second chunk by a lock of the test's own."""
    statements = {
        "insert": "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content)"
        " SELECT 1, 1, CASE WHEN n < 2 OR pg_advisory_xact_lock(7) IS NULL THEN 'the ants' ELSE 'the bees' END FROM generate_series(1, 3) AS n",
        "update": "UPDATE kbsearch.kb_article_chunks SET content = CASE"
        " WHEN id < 2 OR pg_advisory_xact_lock(7) IS NULL THEN 'the ants' ELSE 'the bees' END",
    }
    with (
        psycopg.connect(database, autocommit=True) as watcher,
        psycopg.connect(database, autocommit=True) as gate,
        psycopg.connect(database, autocommit=True) as writer,
        psycopg.connect(database, autocommit=True) as changer,
    ):
        reset(watcher)
        watcher.execute("INSERT INTO kbsearch.kb_articles (org_id, published) VALUES (1, %s)", (published,))
        watcher.execute(
            "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content) SELECT 1, 1, 'the cats' FROM generate_series(1, 3)"
        )
        gate.execute("SELECT pg_advisory_lock(7)")
        with ThreadPoolExecutor(2) as pool:
            writing = pool.submit(writer.execute, statements[kind].encode())
            _wait_until_blocked(watcher, writer)
            changing = pool.submit(changer.execute, f"UPDATE kbsearch.organizations SET {change} WHERE id = 1".encode())
            for _ in range(50):
                if changing.done() or _is_blocked(watcher, changer):
                    break
                time.sleep(0.01)
            gate.execute("SELECT pg_advisory_unlock(7)")
            writing.result()
            changing.result()
        assert faults(watcher) == []


def _is_blocked(watcher: psycopg.Connection[Any], connection: psycopg.Connection[Any]) -> bool:
    row = watcher.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", (connection.info.backend_pid,)).fetchone()
    return row == (True,)


def _wait_until_blocked(watcher: psycopg.Connection[Any], connection: psycopg.Connection[Any]) -> None:
    for _ in range(2000):
        if _is_blocked(watcher, connection):
            return
        time.sleep(0.005)
    raise AssertionError("the statement never reached the lock")
