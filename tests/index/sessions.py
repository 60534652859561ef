"""Sessions that are stepped by hand, so that an interleaving is the same every time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

RETRIED = {"40001": "serialization failures", "40P01": "deadlocks"}
"""SQLSTATEs with which a database says: roll back and try again."""
PATIENCE = 20.0
"""Seconds after which a statement that neither ends nor waits for a lock is a fault."""


class Session:
    """A connection with a thread of its own, for one transaction at a time; statements run in the order given."""

    def __init__(self, dsn: str, watcher: Connection) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._pid = self._connection.info.backend_pid
        self._watcher = watcher
        self._thread = ThreadPoolExecutor(1)
        self._running: list[Future[None]] = []
        self._given: list[str] = []
        self.failure: str | None = None
        """SQLSTATE of the first failure; the statements after it were not run."""

    def do(self, statement: str) -> None:
        """Run a statement to its end, or until it, or one before it, waits for a lock."""
        self._given.append(statement)
        self._running.append(self._thread.submit(self._execute, statement))
        deadline = time.monotonic() + PATIENCE
        while not self._running[-1].done():
            blocked = self._watcher.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", (self._pid,)).fetchone()
            if blocked == (True,):
                return
            assert time.monotonic() < deadline, f"neither ended nor blocked: {statement}"
            time.sleep(0.0005)

    def wait(self) -> None:
        """Wait for the end of all statements given."""
        for running in self._running:
            running.result(PATIENCE)
        self._running.clear()

    def repeat(self) -> None:
        """After a failure of the retried kinds: the whole transaction once more, now that nobody else is there."""
        self.wait()
        if self.failure in RETRIED:
            self.failure = None
            for statement in self._given:
                self._execute(statement)
            assert self.failure not in RETRIED, f"{self.failure} with nobody else there: {self._given}"

    def forget(self) -> None:
        """Be ready for another transaction."""
        self._given.clear()
        self.failure = None

    def close(self) -> None:
        self._thread.shutdown()
        self._connection.close()

    def _execute(self, statement: str) -> None:
        if self.failure is not None:
            return
        try:
            self._connection.execute(statement.encode())
        except psycopg.Error as error:
            self.failure = error.sqlstate or "none"
            self._connection.execute("ROLLBACK")


@contextmanager
def sessions(dsn: str, watcher: Connection, count: int) -> Iterator[list[Session]]:
    """Some sessions, closed afterwards."""
    opened = [Session(dsn, watcher) for _ in range(count)]
    try:
        yield opened
    finally:
        for session in opened:
            session.close()


def orders(lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every interleaving of sequences of these lengths, as the numbers of the sequences whose turn it is."""
    if not any(lengths):
        yield ()
    for turn, left in enumerate(lengths):
        if left:
            for rest in orders([*lengths[:turn], left - 1, *lengths[turn + 1 :]]):
                yield (turn, *rest)
