"""Where prepared data lie: a folder with servers, in each database a note of what is done, so that a preparation that was killed goes on."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import platformdirs
import psycopg
from pgvector.psycopg import register_vector
from psycopg import sql

from kbsearch import embedded

SETTINGS = {
    "shared_buffers": "8GB",
    "effective_cache_size": "12GB",
    "work_mem": "64MB",
    "maintenance_work_mem": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "random_page_cost": "1.1",
    "autovacuum": "off",
    "jit": "off",
}
"""Of every server, the peers' too. Durability is left as it is by default. autovacuum off: a preparation vacuums where it says so, and nothing
runs beside
a measurement. jit off: it only slows these queries down."""

BUILD_MEMORY = "5GB"
"""maintenance_work_mem of an index's build: the graph should fit."""

LARGE, TENANT, MEDIUM, SMALL, EDITED, HUNDREDFOLD = 1, 2, 3, 4, 5, 7
"""Organisations: the large one; a tenant of 1,000 chunks, 1 % of the large one of 100k; of 10,000; of 100; two (5 and 6) that are written to
while others
search; and of 100,000 beside a million."""


def _many(first: int, count: int, largest: int) -> dict[int, int]:
    """Organisations of mixed sizes, by Zipf's law."""
    return {first + number: max(1, largest // (number + 1)) for number in range(count)}


@dataclass(frozen=True, slots=True)
class Scale:
    """What a preparation makes.

    Attributes:
        name: of the scale and of its database.
        organisations: number of chunks by organisation.
        indexed: organisations with an index for approximate search, which use it.
        peers: whether the peers get the same data.
        beside: scales that are measured together with it, in databases of their own.
    """

    name: str
    organisations: Mapping[int, int]
    indexed: tuple[int, ...] = (LARGE,)
    peers: bool = False
    beside: tuple[str, ...] = ()

    @property
    def chunks(self) -> int:
        """Of all organisations."""
        return sum(self.organisations.values())


_FEW = {TENANT: 1_000, MEDIUM: 10_000, SMALL: 100, EDITED: 500, EDITED + 1: 500}

SCALES = {
    one.name: one
    for one in (
        Scale("100k", {LARGE: 100_000, **_FEW, **_many(101, 40, 2_000)}, peers=True),
        Scale("300k", {LARGE: 286_000, **_FEW, **_many(101, 40, 500)}, indexed=()),
        Scale(
            "1m",
            {LARGE: 1_000_000, **_FEW, HUNDREDFOLD: 100_000, **_many(101, 40, 2_000)},
            indexed=(LARGE, HUNDREDFOLD),
            beside=("alone",),
        ),
        Scale("alone", {TENANT: 1_000}, indexed=()),
        Scale("tiny", {LARGE: 600, TENANT: 40, EDITED: 20, EDITED + 1: 20}, peers=True, beside=("tiny_alone",)),
        Scale("tiny_alone", {TENANT: 40}, indexed=()),
    )
}
"""alone, tiny and their like are no choices of a user's; the tests use them."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of a preparation that is done.

    Attributes:
        seconds: how long it took.
        size: bytes of what it made.
        load: processes that wanted a core, when it ended: whether other work slowed it down.
    """

    seconds: float
    size: int
    load: float


_NOTES = """
CREATE SCHEMA IF NOT EXISTS bench;
CREATE TABLE IF NOT EXISTS bench.stages (
    name text PRIMARY KEY, done bigint NOT NULL DEFAULT 0, finished boolean NOT NULL DEFAULT false,
    seconds float8 NOT NULL DEFAULT 0, size bigint NOT NULL DEFAULT 0, load float8 NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS bench.facts (name text PRIMARY KEY, value text NOT NULL)
"""


Say: TypeAlias = Callable[[str, int, int], None]
"""Told what is being done, how far it is and of how much (0: that is not known)."""


@dataclass(slots=True)
class Store:
    """The folder.

    Attributes:
        folder: where it is.
        say: told what is being done, how far it is and of how much.
        settings: of its servers.
    """

    folder: Path
    say: Say = lambda _what, _done, _size: None
    settings: Mapping[str, str] = field(default_factory=lambda: SETTINGS)

    @property
    def data(self) -> Path:
        """Data directory of the server that kbsearch and most peers share."""
        return self.folder / "postgres"

    def server(self) -> embedded.Server:
        """The server, started with the settings if it is not running."""
        self.folder.mkdir(parents=True, exist_ok=True)
        server = embedded.running(self.data)
        if server is None:
            # some settings need a second start
            new = not (self.data / "PG_VERSION").exists()
            server = embedded.start(self.data, settings=self.settings)
            if new:
                embedded.stop(self.data)
                server = embedded.start(self.data)
        return server

    def stop(self) -> None:
        """Stop the server."""
        embedded.stop(self.data)

    def exists(self, database: str) -> bool:
        """Whether there is such a database."""
        with psycopg.connect(self.server().dsn("postgres"), autocommit=True) as connection:
            return scalar(connection, "SELECT 1 FROM pg_database WHERE datname = %s", [database]) is not None

    def drop(self, database: str) -> None:
        """Drop a database, if it is there."""
        with psycopg.connect(self.server().dsn("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))

    @contextmanager
    def connect(self, database: str) -> Iterator[psycopg.Connection[Any]]:
        """A connection in autocommit mode that reads and writes vectors."""
        with psycopg.connect(self.server().dsn(database), autocommit=True) as connection:
            with contextlib.suppress(psycopg.ProgrammingError):  # a preparation was stopped before there were vectors
                register_vector(connection)
            yield connection


def default_folder() -> Path:
    """In the user's cache directory."""
    return Path(platformdirs.user_cache_dir("kbsearch")) / "benchmarks"


def make_notes(connection: psycopg.Connection[Any]) -> None:
    """Make the tables of what is done."""
    for statement in _NOTES.split(";\n"):
        connection.execute(statement.encode())


def stages(connection: psycopg.Connection[Any]) -> dict[str, Stage]:
    """The finished ones."""
    if scalar(connection, "SELECT to_regclass('bench.stages')") is None:
        return {}
    rows = connection.execute("SELECT name, seconds, size, load FROM bench.stages WHERE finished").fetchall()
    return {name: Stage(seconds, size, load) for name, seconds, size, load in rows}


def remember(connection: psycopg.Connection[Any], name: str, value: str) -> None:
    """Write a fact down."""
    connection.execute(
        "INSERT INTO bench.facts VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value", [name, value]
    )


def recall(connection: psycopg.Connection[Any], name: str) -> str | None:
    """A fact that was written down."""
    if scalar(connection, "SELECT to_regclass('bench.facts')") is None:
        return None
    found = scalar(connection, "SELECT value FROM bench.facts WHERE name = %s", [name])
    return None if found is None else str(found)


@contextmanager
def stage(connection: psycopg.Connection[Any], name: str) -> Iterator[int | None]:
    """A step that is done once: how many of its parts are done already, or None where nothing is left to do.

    The time of all runs is added up. Within, `advance` says how many parts are done, in the transaction that does them.
    """
    row = connection.execute("SELECT done, finished FROM bench.stages WHERE name = %s", [name]).fetchone()
    if row and row[1]:
        yield None
        return
    connection.execute("INSERT INTO bench.stages (name) VALUES (%s) ON CONFLICT DO NOTHING", [name])
    begin = time.perf_counter()
    try:
        yield row[0] if row else 0
    except BaseException:
        if not connection.closed and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            _add_time(connection, name, begin)
        raise
    _add_time(connection, name, begin)
    connection.execute("UPDATE bench.stages SET finished = true WHERE name = %s", [name])


def _add_time(connection: psycopg.Connection[Any], name: str, begin: float) -> None:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    connection.execute(
        "UPDATE bench.stages SET seconds = seconds + %s, load = %s WHERE name = %s",
        [time.perf_counter() - begin, load, name],
    )


def advance(connection: psycopg.Connection[Any], name: str, done: int) -> None:
    """So many parts of a stage are done."""
    connection.execute("UPDATE bench.stages SET done = %s WHERE name = %s", [done, name])


def note_size(connection: psycopg.Connection[Any], name: str, *relations: str) -> None:
    """How large what a stage made is."""
    connection.execute(
        "UPDATE bench.stages SET size = (SELECT coalesce(sum(pg_total_relation_size(to_regclass(r))), 0) FROM unnest(%s::text[]) AS "
        "r) WHERE name = %s",
        [list(relations), name],
    )


def scalar(connection: psycopg.Connection[Any], statement: str, parameters: Any = ()) -> Any:
    """The first column of the first row."""
    row = connection.execute(statement.encode(), parameters).fetchone()
    return None if row is None else row[0]
