"""Whenever the process or the server is killed: searches see whole articles of one space, nothing is wrong, and the next run completes.

KBSEARCH_TEST_KILLS says how often a process is killed in each kind of work, by default a few times; the server a fifth as often.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kbsearch import doctor, embedded
from kbsearch.doctor import Level
from kbsearch.errors import EmbeddedServerError
from kbsearch.ingest import prepare, vectors
from kbsearch.ingest.organizations import organization_id
from kbsearch.ingest.spaces import active_space
from tests.conftest import FAST
from tests.ingest import killed
from tests.ingest.test_pipeline import Connection, HashEmbedder, answers, rows

KILLS = int(os.environ.get("KBSEARCH_TEST_KILLS", "3"))
pytestmark = pytest.mark.timeout(300 + 30 * KILLS)
WORKS = (("1",), ("1", "2"), ("1", "reembed"))
"""A first ingest, one of what has changed, a re-embedding."""
ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = ("alpha 3", "part 2", "version 2 of 7", "beta")
STORED = """SELECT a.id, a.external_ref, a.title, a.body, a.published, a.content_sha256, c.chunk_no, c.heading, c.content, s.name,
    e.embedding::text, e.input_sha256, e.chunk_digest
FROM kbsearch.kb_articles AS a
LEFT JOIN kbsearch.kb_article_chunks AS c ON c.org_id = a.org_id AND c.article_id = a.id
LEFT JOIN kbsearch.kb_article_embeddings AS e ON e.org_id = c.org_id AND e.article_id = a.id AND e.chunk_id = c.id
LEFT JOIN kbsearch.kb_embedding_spaces AS s ON s.id = e.space_id
ORDER BY a.id, c.chunk_no, s.name"""
INPUTS = """SELECT i.input_sha256, i.input, s.name, k.role, k.embedding::text
FROM kbsearch.kb_embedding_inputs AS i
LEFT JOIN kbsearch.kb_embedding_cache AS k ON k.org_id = i.org_id AND k.input_sha256 = i.input_sha256
LEFT JOIN kbsearch.kb_embedding_spaces AS s ON s.id = k.space_id
ORDER BY 1, 3, 4"""
OTHERS = """SELECT count(*) FROM pg_catalog.pg_stat_activity AS a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'"""


def state(connection: Connection) -> list[list[tuple[Any, ...]]]:
    """All that there is, but ids of chunks and spaces, which count also what was rolled back."""
    org_id = organization_id(connection, "o", create=False)
    found = [rows(connection, STORED), rows(connection, INPUTS)]
    space = active_space(connection, org_id)
    revision = "2" if space is not None and space.name == "second" else "1"
    return [*found, *(answers(connection, org_id, HashEmbedder(revision), question) for question in QUESTIONS)]


def whole(connection: Connection) -> None:
    """Every article that searches see is a version of its document, with all its chunks and their vectors in the space that they use."""
    allowed: dict[str, list[list[tuple[str, str | None]]]] = {}
    for version in (1, 2):
        for document in killed.documents(version):
            chunks = killed.SPLITTER.split(document.text, title=document.title, path=document.path)
            allowed.setdefault(document.external_ref, []).append([(chunk.content, chunk.heading) for chunk in chunks])
    found: dict[str, list[tuple[str, str | None]]] = {}
    for reference, content, heading, has_vector in rows(
        connection,
        """SELECT a.external_ref, c.content, c.heading, EXISTS (
            SELECT FROM kbsearch.kb_article_embeddings AS e
            WHERE e.org_id = c.org_id AND e.article_id = c.article_id AND e.chunk_id = c.id AND e.space_id = o.active_space_id AND e.has_direction
                AND e.chunk_digest = kbsearch.digest_kb_chunk_v1(c.title, c.heading, c.content))
        FROM kbsearch.organizations AS o
        JOIN kbsearch.kb_articles AS a ON a.org_id = o.id AND a.published
        JOIN kbsearch.kb_article_chunks AS c ON c.org_id = a.org_id AND c.article_id = a.id
        ORDER BY a.id, c.chunk_no""",
    ):
        assert has_vector, (reference, content)
        found.setdefault(reference, []).append((content, heading))
    for reference, seen in found.items():
        assert seen in allowed[reference], reference


@dataclass
class Victim:
    """A database in which work is interrupted.

    Attributes:
        dsn: connection string.
        chance: decides the moments.
        seconds: how long the work took that was not interrupted.
    """

    dsn: str
    chance: random.Random
    seconds: float = 0.0

    def connect(self) -> Connection:
        return psycopg.connect(self.dsn, autocommit=True)

    def start(self, name: str) -> subprocess.Popen[str]:
        """Begin the work in a process of its own, and wait until it does."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.ingest.killed", name, self.dsn],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        return process

    def interrupt(self, name: str, kill: Callable[[subprocess.Popen[str]], None]) -> None:
        """Begin the work, and end it at some moment."""
        process = self.start(name)
        assert process.stdout is not None
        with process.stdout:
            time.sleep(self.chance.uniform(0, self.seconds))
            kill(process)
            process.wait()

    def settle(self) -> None:
        """Wait until the server has noticed."""
        with self.connect() as connection:
            for _ in range(1000):
                if rows(connection, OTHERS) == [(0,)]:
                    return
                time.sleep(0.01)
        pytest.fail("sessions of the killed process go on")

    def is_well(self) -> None:
        """Nothing is wrong."""
        with self.connect() as connection:
            whole(connection)
        problems = [
            finding
            for finding in doctor.examine(self.dsn, checks=("derived", "data", "embeddings")).findings
            if finding.level is Level.PROBLEM
        ]
        assert problems == []


def run(dsn: str, *names: str) -> list[list[tuple[Any, ...]]]:
    """Do the work without interruption; the state after it."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name in names:
            killed.work(name, connection)
        return state(connection)


def kill_process(process: subprocess.Popen[str]) -> None:
    process.kill()


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "ARTICLES_AT_ONCE", 3)
    monkeypatch.setattr(vectors, "CHUNKS_AT_ONCE", 7)


@pytest.fixture
def fresh(databases: Any, template: str) -> Iterator[Callable[..., str]]:
    """Makes databases in which some work has been done."""
    made = []

    def make(*names: str) -> str:
        dsn = databases.create(template)
        made.append(dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            organization_id(connection, "o", create=True)
        if names:
            run(dsn, *names)
        return str(dsn)

    yield make
    for dsn in made:
        databases.drop(dsn)


def besiege(
    names: tuple[str, ...], fresh: Callable[..., str], kill: Callable[[subprocess.Popen[str]], None], times: int
) -> None:
    """Kill the last of some work again and again, and look at what is left; begin anew with a fresh database whenever it is done."""
    *earlier, last = names
    dsn = fresh(*earlier)
    started = time.monotonic()
    after = run(dsn, last)
    victim = Victim(fresh(*earlier), random.Random(last), time.monotonic() - started)
    with victim.connect() as connection:
        before = state(connection)
    for _ in range(times):
        victim.interrupt(last, kill)
        victim.settle()
        victim.is_well()
        with victim.connect() as connection:
            seen = state(connection)
        if last == "reembed":
            # answers are those of before, all of them, or those of after
            assert seen[2:] in (before[2:], after[2:])
        if seen == after:
            victim.dsn = fresh(*earlier)
    assert run(victim.dsn, last) == after
    victim.is_well()


@pytest.mark.parametrize("names", WORKS, ids=["first", "again", "reembed"])
def test_a_killed_process_leaves_whole_articles_and_the_next_run_completes(
    names: tuple[str, ...], fresh: Callable[..., str]
) -> None:
    besiege(names, fresh, kill_process, KILLS)


def test_a_killed_server_leaves_whole_articles_and_the_next_run_completes() -> None:
    directory = Path(tempfile.mkdtemp(prefix="kbsearch-kill-"))
    data = directory / "postgres"
    settings = {**FAST, "wal_level": "replica", "full_page_writes": "on", "synchronous_commit": "on"}

    def kill_server(process: subprocess.Popen[str]) -> None:
        running = embedded.running(data)
        assert running is not None
        os.kill(running.pid, signal.SIGQUIT)  # immediate shutdown
        process.wait()
        for _ in range(100):
            time.sleep(0.05)
            if embedded.running(data) is None:
                # until all processes of the old one are gone, it is refused
                with suppress(EmbeddedServerError):
                    embedded.start(data, settings=settings)
                    return
        pytest.fail("the server does not start again")

    try:
        server = embedded.start(data, settings=settings)
        numbers = itertools.count()

        def make(*earlier: str) -> str:
            dsn = embedded.ensure_database(server, f"victim{next(numbers)}")
            with psycopg.connect(dsn, autocommit=True) as connection:
                organization_id(connection, "o", create=True)
            if earlier:
                run(dsn, *earlier)
            return dsn

        for names in WORKS:
            besiege(names, make, kill_server, max(1, KILLS // 5))
    finally:
        embedded.stop(data)
        shutil.rmtree(directory, ignore_errors=True)


def test_the_work_is_interrupted_in_its_middle(database: str) -> None:
    """What the tests above rest on: the process is killed while it works, and says so by what it leaves undone."""
    victim = Victim(database, random.Random(0))
    process = victim.start("1")
    done = "SELECT count(*) FROM kbsearch.kb_articles AS a WHERE a.content_sha256 IS NOT NULL"
    with victim.connect() as connection:
        while rows(connection, done) == [(0,)]:
            assert process.poll() is None
            time.sleep(0.005)
    kill_process(process)
    process.communicate()
    victim.settle()
    with victim.connect() as connection:
        assert 0 < rows(connection, done)[0][0] < len(killed.documents(1))
    victim.is_well()
