"""Where rows come from: psycopg's connections and pools. Each kind twice, for KBSearch and for AsyncKBSearch; only the lines with I/O differ."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeGuard

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from kbsearch.client.plans import Query, Rows, Settings, Transaction, guarded, run, run_async
from kbsearch.errors import ConnectionKindError, KBSearchError
from kbsearch.statements import Statement

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session


class Pool(Protocol):
    """A pool of psycopg connections, such as psycopg_pool.ConnectionPool."""

    def connection(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """Lend a connection; when it comes back, commit, or roll back after an error."""
        ...


class AsyncPool(Protocol):
    """A pool of psycopg connections for asyncio, such as psycopg_pool.AsyncConnectionPool."""

    def connection(self) -> AbstractAsyncContextManager[psycopg.AsyncConnection[Any]]:
        """Lend a connection; when it comes back, commit, or roll back after an error."""
        ...


Connectable: TypeAlias = "str | psycopg.Connection[Any] | Pool | Engine | Connection | Session | scoped_session[Any]"
AsyncConnectable: TypeAlias = (
    "str | psycopg.AsyncConnection[Any] | AsyncPool | AsyncEngine | AsyncConnection | AsyncSession | "
    "async_scoped_session[Any]"
)


class Source(Protocol):
    """What a client gets its rows from."""

    def ask(self, query: Query) -> Rows:
        """Run a query, in a transaction of its own unless an owner has one open."""
        ...


class AsyncSource(Protocol):
    """The same for asyncio."""

    async def ask(self, query: Query) -> Rows:
        """Run a query, in a transaction of its own unless an owner has one open."""
        ...


def source(connectable: Connectable, settings: Settings) -> Source:
    """The source for what KBSearch was given.

    Raises:
        ConnectionKindError: there are no rows to be got from that.
    """
    if isinstance(connectable, str):
        return Own(_conninfo(connectable), settings)
    if isinstance(connectable, psycopg.Connection):
        return _Given(connectable, settings)
    if _is_of_sqlalchemy(connectable):
        # Whoever has an object of SQLAlchemy has paid for its import, and nobody else should.
        from kbsearch.client import alchemy  # noqa: PLC0415

        return alchemy.source(connectable, settings)
    if _is_pool(connectable, other="__aenter__"):
        return _Pooled(connectable, settings)
    raise wrong_kind(connectable)


def async_source(connectable: AsyncConnectable, settings: Settings) -> AsyncSource:
    """The source for what AsyncKBSearch was given.

    Raises:
        ConnectionKindError: there are no rows to be got from that.
    """
    if isinstance(connectable, str):
        return AsyncOwn(_conninfo(connectable), settings)
    if isinstance(connectable, psycopg.AsyncConnection):
        return _AsyncGiven(connectable, settings)
    if _is_of_sqlalchemy(connectable):
        # Without greenlet nobody has an asynchronous object of SQLAlchemy's, and this can't be imported.
        if "sqlalchemy.ext.asyncio" not in sys.modules:
            raise wrong_kind(connectable)
        from kbsearch.client import alchemy_async  # noqa: PLC0415  (as above)

        return alchemy_async.async_source(connectable, settings)
    if _is_pool(connectable, other="__enter__"):
        return _AsyncPooled(connectable, settings)
    raise wrong_kind(connectable)


def wrong_kind(connectable: object) -> ConnectionKindError:
    """The error that says what the clients take instead."""
    kind = type(connectable)
    return ConnectionKindError(
        f"no client of this kind can use a {kind.__module__}.{kind.__qualname__}",
        hint="KBSearch takes a connection string, a psycopg.Connection, a psycopg_pool.ConnectionPool or SQLAlchemy's Engine, Connection or "
        "Session; AsyncKBSearch a connection string, a psycopg.AsyncConnection, a psycopg_pool.AsyncConnectionPool or SQLAlchemy's "
        "AsyncEngine, AsyncConnection or AsyncSession.",
    )


class Turns:
    """Lets one thread use a connection at a time.

    A thread that has its turn is refused another, for which it would wait for ever: an iteration that was given up may be finished by the
    garbage collector in the middle of anything, a call on the same connection included.
    """

    def __init__(self) -> None:
        """Begin with nobody's turn."""
        self._lock, self._taken = threading.RLock(), False

    def __enter__(self) -> None:
        """Wait for one's turn."""
        self._lock.acquire()
        if self._taken:
            self._lock.release()
            raise KBSearchError("this thread is in the middle of another call on the same connection")
        self._taken = True

    def __exit__(self, *_: object) -> None:
        """Let others have theirs."""
        self._taken = False
        self._lock.release()


def _conninfo(text: str) -> str:
    if re.match(r"\s*\w+\+\w+:", text):
        raise ConnectionKindError(
            "this is a URL of SQLAlchemy's, which names a driver",
            hint="Pass create_engine(url) or create_async_engine(url), or leave the driver out: postgresql://…",
        )
    return text


def _is_of_sqlalchemy(connectable: object) -> TypeGuard[Any]:
    return "sqlalchemy" in sys.modules and any(
        base.__module__.partition(".")[0] == "sqlalchemy" for base in type(connectable).__mro__
    )


def _is_pool(connectable: object, *, other: str) -> TypeGuard[Any]:
    """Whether it lends connections, and not to the other kind of client."""
    return callable(getattr(connectable, "connection", None)) and not hasattr(connectable, other)


def _transaction(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], *, pooled: bool) -> Transaction:
    if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
        return Transaction.NONE
    return Transaction.CALL if pooled else Transaction.OWNER


class _Source(ABC):
    pooled: ClassVar[bool] = False

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @abstractmethod
    def _lend(self) -> AbstractContextManager[psycopg.Connection[Any]]: ...

    def ask(self, query: Query) -> Rows:
        """Run a query."""
        with self._lend() as connection:
            if connection.pgconn.pipeline_status:
                with connection.pipeline():
                    pass  # what the owner has sent before is over then, and the transaction's status known
            plan = guarded(query, _transaction(connection, pooled=self.pooled), self._settings)
            return run(plan, partial(self._execute, connection))

    def _execute(self, connection: psycopg.Connection[Any], statement: Statement) -> Rows:
        # Not connection.cursor(): the owner may have set cursors of another class, with other placeholders.
        with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
            # A pipeline within the owner's is the way to wait for the answer in it.
            with connection.pipeline() if connection.pgconn.pipeline_status else nullcontext():
                cursor.execute(statement.sql.encode(), statement.parameters, prepare=self._settings.prepare)
            return cursor.fetchall() if cursor.description is not None else ()


class _AsyncSource(ABC):
    pooled: ClassVar[bool] = False

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @abstractmethod
    def _lend(self) -> AbstractAsyncContextManager[psycopg.AsyncConnection[Any]]: ...

    async def ask(self, query: Query) -> Rows:
        """Run a query."""
        async with self._lend() as connection:
            if connection.pgconn.pipeline_status:
                async with connection.pipeline():
                    pass
            plan = guarded(query, _transaction(connection, pooled=self.pooled), self._settings)
            return await run_async(plan, partial(self._execute, connection))

    async def _execute(self, connection: psycopg.AsyncConnection[Any], statement: Statement) -> Rows:
        async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
            async with connection.pipeline() if connection.pgconn.pipeline_status else nullcontext():
                await cursor.execute(statement.sql.encode(), statement.parameters, prepare=self._settings.prepare)
            return await cursor.fetchall() if cursor.description is not None else ()


class Own(_Source):
    """A connection that the client opens, when it is first needed, and again when it was lost."""

    def __init__(self, conninfo: str, settings: Settings) -> None:
        """Connect later."""
        super().__init__(settings)
        self._conninfo, self._turns = conninfo, Turns()
        self._connection: psycopg.Connection[Any] | None = None
        self._closed = False

    @contextmanager
    def _lend(self) -> Iterator[psycopg.Connection[Any]]:
        with self._turns:
            yield self.open()

    def open(self) -> psycopg.Connection[Any]:
        """Connect, unless there is a connection and it is in order."""
        if self._closed:
            raise _client_closed()
        if self._connection is None or not _in_order(self._connection):
            if self._connection is not None:
                self._connection.close()
            threshold = 0 if self._settings.prepare else None
            self._connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=threshold)
        return self._connection

    def close(self) -> None:
        """Disconnect, for good."""
        self._closed = True
        if self._connection is not None:
            self._connection.close()


class AsyncOwn(_AsyncSource):
    """A connection that the client opens, when it is first needed, and again when it was lost."""

    def __init__(self, conninfo: str, settings: Settings) -> None:
        """Connect later."""
        super().__init__(settings)
        self._conninfo, self._lock = conninfo, asyncio.Lock()
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._closed = False

    @asynccontextmanager
    async def _lend(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with self._lock:
            yield await self.open()

    async def open(self) -> psycopg.AsyncConnection[Any]:
        """Connect, unless there is a connection and it is in order."""
        if self._closed:
            raise _client_closed()
        if self._connection is None or not _in_order(self._connection):
            if self._connection is not None:
                await self._connection.close()
            threshold = 0 if self._settings.prepare else None
            self._connection = await psycopg.AsyncConnection.connect(
                self._conninfo, autocommit=True, prepare_threshold=threshold
            )
        return self._connection

    async def close(self) -> None:
        """Disconnect, for good."""
        self._closed = True
        if self._connection is not None:
            await self._connection.close()


def _client_closed() -> KBSearchError:
    """The error of a client whose own connection was closed."""
    return KBSearchError("the client is closed", hint="Make a new one.")


def _in_order(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether a connection of one's own is open and outside a transaction: a call that was interrupted may have left it inside."""
    return not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE


class _Given(_Source):
    """A connection of somebody else's, for one call at a time."""

    def __init__(self, connection: psycopg.Connection[Any], settings: Settings) -> None:
        super().__init__(settings)
        self._connection, self._turns = connection, Turns()

    @contextmanager
    def _lend(self) -> Iterator[psycopg.Connection[Any]]:
        with self._turns:
            yield self._connection


class _AsyncGiven(_AsyncSource):
    """A connection of somebody else's, for one call at a time."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], settings: Settings) -> None:
        super().__init__(settings)
        self._connection, self._lock = connection, asyncio.Lock()

    @asynccontextmanager
    async def _lend(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with self._lock:
            yield self._connection


class _Pooled(_Source):
    """Another connection of a pool for every query."""

    pooled = True

    def __init__(self, pool: Pool, settings: Settings) -> None:
        super().__init__(settings)
        self._pool = pool

    def _lend(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        return self._pool.connection()


class _AsyncPooled(_AsyncSource):
    """Another connection of a pool for every query."""

    pooled = True

    def __init__(self, pool: AsyncPool, settings: Settings) -> None:
        super().__init__(settings)
        self._pool = pool

    def _lend(self) -> AbstractAsyncContextManager[psycopg.AsyncConnection[Any]]:
        return self._pool.connection()
