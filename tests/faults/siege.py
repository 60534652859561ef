"""A server killed at random moments under load: after its recovery every committed article is there and whole, and nothing else.

Writers keep a ledger of what was acknowledged. Of a reference the database must have the last acknowledged version, or the one that was being
committed when the server died. A transaction that is never committed writes beside them, and must leave nothing.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg

from kbsearch import embedded
from kbsearch.errors import EmbeddedServerError
from tests.index.derived import faults

DURABLE = {"fsync": "off", "full_page_writes": "on", "synchronous_commit": "on", "wal_level": "replica"}
"""Processes die, the machine does not: what was written to the operating system is there."""
WRITERS = 4
REFERENCES = 12
"""Of each writer."""
WAYS = ("immediate shutdown", "SIGKILL of every process")


class LossError(AssertionError):
    """What a crash must not do."""


@dataclass(slots=True)
class Ledger:
    """What one writer knows: versions by reference, 0 for a deleted article.

    Attributes:
        acknowledged: of which the server has said that it is committed.
        attempted: the versions of the transaction whose end is not known.
    """

    acknowledged: dict[str, int] = field(default_factory=dict)
    attempted: dict[str, int] = field(default_factory=dict)


class Writer:
    """A thread that writes articles of its own until the connection ends."""

    def __init__(self, dsn: str, name: str, org_id: int, seed: int) -> None:
        self.ledger = Ledger()
        self.counted: Counter[str] = Counter()
        self._name = name
        self._org_id = org_id
        self._random = random.Random(seed)
        self._dsn = dsn
        self._versions = 0
        self._thread: threading.Thread | None = None
        self.unexpected: BaseException | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def join(self) -> None:
        assert self._thread is not None
        self._thread.join(30)
        if self._thread.is_alive():
            raise LossError(f"{self._name} goes on after the server has died")
        if self.unexpected is not None:
            raise self.unexpected

    def _work(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                while True:
                    self._step(connection)
        except psycopg.OperationalError as error:
            if error.sqlstate not in (None, "57P01", "57P02", "57P03", "08006"):
                self.unexpected = error
        except BaseException as error:  # noqa: BLE001  (told by join())
            self.unexpected = error

    def _step(self, connection: psycopg.Connection[Any]) -> None:
        choice = self._random.random()
        references = self._random.sample(range(REFERENCES), self._random.randint(1, 3))
        names = [f"{self._name}-{number}" for number in references]
        self._versions += 1
        if choice < 0.08:
            function = self._random.choice(["compact_kb_postings_v1", "rebuild_kb_index_v1", "sweep_kb_searches_v1"])
            connection.execute(f"SELECT kbsearch.{function}(%s)", [self._org_id])
            self.counted["maintenance"] += 1
        elif choice < 0.2:
            connection.execute("SELECT * FROM kbsearch.open_kb_search_v1(%s, 'word part')", [self._org_id])
            self.counted["snapshots"] += 1
        else:
            is_deleted = choice < 0.3
            self.ledger.attempted = dict.fromkeys(names, 0 if is_deleted else self._versions)
            with connection.transaction():
                if choice < 0.6 and not is_deleted:
                    self._write_many(connection, names)
                else:
                    for name in names:
                        self._write_one(connection, name, is_deleted)
            self.ledger.acknowledged |= self.ledger.attempted
            self.ledger.attempted = {}
            self.counted["commits"] += 1

    def _chunks(self, name: str) -> list[dict[str, Any]]:
        return [
            {"content": f"word {name} part {part} version{self._versions}", "heading": None}
            for part in range(self._versions % 3 + 1)
        ]

    def _write_one(self, connection: psycopg.Connection[Any], name: str, is_deleted: bool) -> None:
        if is_deleted:
            connection.execute("SELECT kbsearch.delete_kb_article_v1(%s, p_external_ref => %s)", [self._org_id, name])
            return
        connection.execute(
            "SELECT kbsearch.upsert_kb_article_v1(%s, %s, %s, p_chunks => %s::jsonb)",
            [self._org_id, name, f"version{self._versions}", json.dumps(self._chunks(name))],
        )

    def _write_many(self, connection: psycopg.Connection[Any], names: list[str]) -> None:
        connection.execute("SELECT * FROM kbsearch.reserve_kb_articles_v1(%s, %s)", [self._org_id, names])
        articles = [
            {
                "external_ref": name,
                "kind": "article",
                "title": f"version{self._versions}",
                "published": True,
                "metadata": {},
                "chunks": self._chunks(name),
            }
            for name in names
        ]
        connection.execute("SELECT kbsearch.write_kb_articles_v1(%s, %s::jsonb)", [self._org_id, json.dumps(articles)])


@dataclass(slots=True)
class Siege:
    """A server of its own that is killed again and again.

    Attributes:
        counted: kills by way, commits and what else was done, outcomes of interrupted transactions.
    """

    data: Path
    dsn: str
    organizations: list[int]
    chance: random.Random
    ledger: Ledger = field(default_factory=Ledger)
    counted: Counter[str] = field(default_factory=Counter)

    def strike(self, way: str) -> None:
        """Load, the end of the server at some moment, its recovery, and a look at what is there; raises a LossError."""
        round_number = self.counted.total()
        writers = [
            Writer(
                self.dsn,
                f"w{number}",
                self.organizations[number % len(self.organizations)],
                self.chance.randrange(2**32),
            )
            for number in range(WRITERS)
        ]
        for writer in writers:
            writer._versions = round_number * 1000
        ghost = psycopg.connect(self.dsn)
        try:
            ghost.execute(
                "SELECT kbsearch.upsert_kb_article_v1(%s, 'ghost', 'ghost', 'ghostly words')", [self.organizations[0]]
            )
            for writer in writers:
                writer.start()
            deadline = time.monotonic() + 30
            while not any(writer.counted["commits"] or writer.unexpected for writer in writers):
                if time.monotonic() > deadline:
                    raise LossError("nothing is committed")
                time.sleep(0.01)
            time.sleep(self.chance.uniform(0, 1.0))
            self._kill(way)
            for writer in writers:
                writer.join()
        finally:
            with suppress(psycopg.Error):
                ghost.close()
        self._recover()
        self.counted[way] += 1
        for writer in writers:
            self.ledger.acknowledged |= writer.ledger.acknowledged
            self.counted += writer.counted
        self._check(writers)

    def _kill(self, way: str) -> None:
        server = embedded.running(self.data)
        assert server is not None
        postmaster = psutil.Process(server.pid)
        family = [postmaster, *postmaster.children(recursive=True)]
        if way == WAYS[0]:
            os.kill(server.pid, signal.SIGQUIT)
        else:
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        _, alive = psutil.wait_procs(family, timeout=30)
        assert not alive

    def _recover(self) -> None:
        for _ in range(50):
            with suppress(EmbeddedServerError):
                embedded.start(self.data)
                return
            time.sleep(0.1)
        raise LossError("the server does not start again")

    def _check(self, writers: list[Writer]) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            found = faults(connection)
            if found:
                raise LossError(f"the derived tables do not equal a rebuild: {found[:3]}")
            stored: dict[str, tuple[str, list[str]]] = {
                reference: (title, contents)
                for reference, title, contents in connection.execute(
                    """SELECT a.external_ref, a.title, array_agg(c.content ORDER BY c.chunk_no)
                    FROM kbsearch.kb_articles AS a
                    JOIN kbsearch.kb_article_chunks AS c ON c.org_id = a.org_id AND c.article_id = a.id
                    GROUP BY a.org_id, a.id"""
                ).fetchall()
            }
            (ghosts,) = connection.execute(
                "SELECT count(*) FROM kbsearch.search_kb_hybrid_v1(%s, 'ghostly')", [self.organizations[0]]
            ).fetchone() or (0,)
        if ghosts or "ghost" in stored:
            raise LossError("an article that was never committed is visible")
        attempted = {name: version for writer in writers for name, version in writer.ledger.attempted.items()}
        versions = {name: int(title.removeprefix("version")) for name, (title, _) in stored.items()}
        for name in {*stored, *self.ledger.acknowledged, *attempted}:
            now = versions.get(name, 0)
            allowed = {
                self.ledger.acknowledged.get(name, 0),
                attempted.get(name, self.ledger.acknowledged.get(name, 0)),
            }
            if now not in allowed:
                raise LossError(f"{name} has version {now}, one of {allowed} is right")
            self.ledger.acknowledged[name] = now
            if now and stored[name][1] != [f"word {name} part {part} version{now}" for part in range(now % 3 + 1)]:
                raise LossError(f"{name} is not whole: {stored[name]}")
        for writer in writers:
            fates = {versions.get(name, 0) == version for name, version in writer.ledger.attempted.items()}
            if fates:
                self.counted["interrupted transactions"] += 1
        self.counted["articles looked at"] += len(stored)


@contextmanager
def besieged(seed: int, *, dsn_of: Callable[[embedded.Server], str] | None = None) -> Iterator[Siege]:
    """A server with kbsearch in it and two organisations."""
    directory = Path(tempfile.mkdtemp(prefix="kbsearch-siege-"))
    data = directory / "postgres"
    try:
        server = embedded.start(data, settings=DURABLE)
        dsn = (dsn_of or (lambda one: embedded.ensure_database(one, "siege")))(server)
        with psycopg.connect(dsn, autocommit=True) as connection:
            organizations = [
                int(one)
                for (one,) in connection.execute(
                    "INSERT INTO kbsearch.organizations (name) VALUES ('first'), ('second') RETURNING id"
                ).fetchall()
            ]
        yield Siege(data, dsn, organizations, random.Random(seed))
    finally:
        embedded.stop(data)
        shutil.rmtree(directory, ignore_errors=True)
