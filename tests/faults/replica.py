"""A primary and a streaming standby of it, both embedded, on sockets in a directory of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from kbsearch import embedded, migrate
from tests.conftest import Databases
from tests.fuzz.world import World, build

STREAMING = {"fsync": "off", "full_page_writes": "off", "hot_standby_feedback": "on"}
PATIENCE = 60.0
"""Seconds in which a standby must have started or caught up."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two servers with the same database.

    Attributes:
        primary: connection string of the application's role.
        standby: the same on the other server.
        world: what lies in it.
    """

    primary: str
    standby: str
    world: World

    def catch_up(self) -> None:
        """Wait until the standby has all that the primary has written."""
        with psycopg.connect(self.primary) as there, psycopg.connect(self.standby, autocommit=True) as here:
            (written,) = there.execute("SELECT pg_catalog.pg_current_wal_flush_lsn()::text").fetchone() or ("",)
            deadline = time.monotonic() + PATIENCE
            while here.execute("SELECT pg_catalog.pg_last_wal_replay_lsn() >= %s::pg_lsn", [written]).fetchone() != (
                True,
            ):
                assert time.monotonic() < deadline, "the standby does not catch up"
                time.sleep(0.02)


def _run(program: str, *arguments: str) -> None:
    """One of PostgreSQL's programs, as the user that servers run as. A server keeps what it was given to write to, so that is nothing."""
    user = "embedded_postgres" if hasattr(os, "geteuid") and os.geteuid() == 0 else None
    subprocess.run(
        [embedded.binary(program), *arguments],
        check=True, user=user, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=PATIENCE,
    )  # fmt: skip


@contextmanager
def replicated() -> Iterator[Pair]:
    """A primary with the world that is fuzzed, and its standby."""
    directory = Path(tempfile.mkdtemp(prefix="kbsearch-replica-"))
    directory.chmod(
        0o777
    )  # the servers' user makes the standby's data in it, and its socket: the copy has the lock of the primary's
    data, copy = directory / "primary", directory / "standby"
    try:
        server = embedded.start(data, settings=STREAMING)
        dsn = Databases(server.dsn("postgres")).create()
        migrate.upgrade(dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            world = build(connection)
        source = ["--host", server.host, "--port", str(server.port), "--username", "postgres"]
        _run(
            "pg_basebackup",
            *source,
            "--pgdata",
            str(copy),
            "--checkpoint=fast",
            "--wal-method=stream",
            "--write-recovery-conf",
            "--no-sync",
        )
        _run(
            "pg_ctl",
            "start",
            "--wait",
            "--pgdata",
            str(copy),
            "--log",
            str(directory / "standby.log"),
            "--options",
            f"-k {directory} -h ''",
        )
        try:
            pair = Pair(dsn, make_conninfo(dsn, host=str(directory)), world)
            pair.catch_up()
            yield pair
        finally:
            _run("pg_ctl", "stop", "--wait", "--mode=immediate", "--pgdata", str(copy))
    finally:
        embedded.stop(data)
        shutil.rmtree(directory, ignore_errors=True)
