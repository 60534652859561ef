"""An event loop in a thread of its own: callers of every kind, with and without a loop, share its connections and its limits."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeVar

from kbsearch.embed.errors import EmbeddingError

T = TypeVar("T")
_PATIENCE = 2.0
"""Seconds that closing waits for connections to be closed and the thread to end."""
_ABANDONED: list[Background] = []
"""Loops of a parent process, kept from being collected: closing a loop in a child would take the parent's descriptors out of its selector."""


class Background:
    """A loop that runs until it is closed, at the latest when the process ends.

    Args:
        close: awaited in the loop before it ends.
    """

    def __init__(self, close: Callable[[], Awaitable[None]]) -> None:
        """Start the thread."""
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=_run, args=(self._loop,), name="kbsearch-embed", daemon=True)
        thread.start()
        self._finalizer = weakref.finalize(self, _stop, self._loop, thread, close)

    @property
    def usable(self) -> bool:
        """Whether the loop runs in this process; after a fork it is the parent's only."""
        if self._pid != os.getpid() and self._finalizer.detach():
            _ABANDONED.append(self)
        return self._finalizer.alive

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run in the loop and wait; an interrupt of the waiting thread cancels the work."""
        future = self._submit(work)
        try:
            return future.result()
        except CancelledError as error:
            raise _closed() from error
        except BaseException:
            future.cancel()
            raise

    async def arun(self, work: Coroutine[Any, Any, T]) -> T:
        """Run in the loop and await it in the caller's; cancelled with the caller."""
        try:
            return await asyncio.wrap_future(self._submit(work))
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise _closed() from error

    def close(self) -> None:
        """Cancel what runs, close and end the thread."""
        self._finalizer()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:
            work.close()  # never started, it would warn
            raise _closed() from error


def _closed() -> EmbeddingError:
    return EmbeddingError("the embedder was closed while it was used")


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, close: Callable[[], Awaitable[None]]) -> None:
    async def end() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await close()
        loop.call_soon(loop.stop)

    ending = end()
    try:
        future = asyncio.run_coroutine_threadsafe(ending, loop)
    except RuntimeError:
        ending.close()
        return
    if threading.current_thread() is thread:
        return  # the last reference fell in the loop itself
    with suppress(TimeoutError):
        future.result(_PATIENCE)
    thread.join(_PATIENCE)
