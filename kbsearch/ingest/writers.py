"""Connections that write at the same time, each a group of articles a transaction, while the next groups are got ready."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from queue import SimpleQueue
from threading import Lock
from types import TracebackType
from typing import Self, TypeAlias

import psycopg

from kbsearch.ingest.prepare import Counts, Group
from kbsearch.ingest.report import Connection
from kbsearch.ingest.writer import Writer

Connect: TypeAlias = Callable[[], AbstractContextManager[Connection]]
"""Opens one more connection to the database, in autocommit mode, of the same role and session settings."""

WRITERS = 2
"""Connections that write, beside the one that reads and embeds: one for each of two processors of the server."""
WRITERS_AT_MOST = 16
MERGED_AT_MOST = 256
"""Chunks up to which a write merges the postings of its words, unless another transaction is merging (kb_chunks_written_v1): one after the other."""

_CANCELLED_EVERY = 0.2
"""Seconds between two requests to end what a connection is doing: one that comes between two statements is lost."""


class Writers:
    """Up to `count` connections, opened when there is a group for them, and the groups that they have.

    Without one all is written on the connection that there is, a group at a time. What is done is told in the order of the groups. When it is left
    because of an error, groups that were handed over before are still written; when it is interrupted, what is being written is cancelled.
    """

    def __init__(
        self, writer: Callable[[Connection], Writer], here: Connection, connect: Connect | None, count: int
    ) -> None:
        """Nothing is opened yet.

        Args:
            writer: makes what writes on a connection.
            here: the connection that there is.
            connect: opens another one; None: there is no other.
            count: how many others there may be.
        """
        self._writer, self._here, self._connect = writer, writer(here), connect
        self._count = count if connect is not None else 0
        self._stack = ExitStack()
        self._open: list[Writer] = []
        self._idle: SimpleQueue[Writer] = SimpleQueue()
        self._executor: ThreadPoolExecutor | None = None
        self._handed: deque[tuple[Group, Future[tuple[Counts, float]]]] = deque()
        self._merging = Lock()
        self._failed = False
        self.notes: list[str] = []
        """What there is to say of connections that could not be opened."""

    def __enter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for what was handed over, and close the connections."""
        with self._stack:
            if self._executor is not None:
                if self._failed or not (error is None or isinstance(error, Exception)):
                    self._executor.shutdown(wait=False, cancel_futures=True)
                if error is not None and not isinstance(error, Exception):
                    self._cancel()
                self._executor.shutdown()

    def hand(self, group: Group, told: Callable[[Group, Counts, float], None]) -> None:
        """Have a group written, when a connection is free.

        told: called for each group that was written, in the order in which they were handed over, with what was done and the seconds that it took.
        Raises what ended the writing of an earlier group.
        """
        if not group.ready:
            nothing: Future[tuple[Counts, float]] = Future()
            nothing.set_result((Counts(rejected=list(group.rejected)), 0.0))
            self._handed.append((group, nothing))
        elif not self._ensure():
            self.finish(told)
            told(group, *_timed(self._here, group))
        else:
            assert self._executor is not None  # noqa: S101  (what _ensure is for)
            self._handed.append((group, self._executor.submit(self._write, group)))
        while self._handed and (len(self._handed) > len(self._open) + 1 or self._handed[0][1].done()):
            self._tell(told)

    def finish(self, told: Callable[[Group, Counts, float], None]) -> None:
        """Wait until all that was handed over is written. Raises what ended the writing of a group."""
        while self._handed:
            self._tell(told)

    def _tell(self, told: Callable[[Group, Counts, float], None]) -> None:
        group, future = self._handed.popleft()
        try:
            counts, seconds = future.result()
        except Exception:
            self._failed = True
            raise
        told(group, counts, seconds)

    def _ensure(self) -> bool:
        """Open a connection if all are busy and there may be another; whether there is one at all."""
        busy = sum(not future.done() for _, future in self._handed)
        if self._connect is not None and len(self._open) < self._count and busy >= len(self._open):
            try:
                connection = self._stack.enter_context(self._connect())
            except psycopg.OperationalError as error:
                self._count = len(self._open)
                reason = str(error).strip().splitlines()[-1]
                number = f"{self._count} connections" if self._count > 1 else "one connection"
                self.notes.append(f"articles were written by {number}, another could not be opened: {reason}")
            else:
                # A change that another transaction of this run has just committed is seen, and no reason to begin anew.
                connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
                writer = self._writer(connection)
                self._open.append(writer)
                self._idle.put(writer)
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(self._count, thread_name_prefix="kbsearch-writer")
        return bool(self._open)

    def _write(self, group: Group) -> tuple[Counts, float]:
        with self._merging if group.chunks <= MERGED_AT_MOST else nullcontext():
            writer = self._idle.get()
            try:
                return _timed(writer, group)
            finally:
                self._idle.put(writer)

    def _cancel(self) -> None:
        """End what is being written, as often as it takes."""
        running = {future for _, future in self._handed if not future.done()}
        while running := wait(running, _CANCELLED_EVERY).not_done:
            for writer in self._open:
                with suppress(psycopg.Error):
                    writer.connection.cancel_safe(timeout=5)


def _timed(writer: Writer, group: Group) -> tuple[Counts, float]:
    started = time.monotonic()
    return writer.write(group), time.monotonic() - started
