"""Rows through SQLAlchemy's asynchronous engines, connections and sessions: alchemy.py's code, in the greenlet of their run_sync().

A file of its own, because SQLAlchemy's asyncio module can't be imported without greenlet, which is not always installed.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_scoped_session

from kbsearch.client.alchemy import ask_connection, ask_session, check_driver
from kbsearch.client.plans import Query, Rows, Settings, Transaction
from kbsearch.client.sources import AsyncSource, wrong_kind


def async_source(connectable: Any, settings: Settings) -> AsyncSource:
    """The source for an AsyncEngine, an AsyncConnection or an AsyncSession.

    Raises:
        ConnectionKindError: it is none of them, or its driver won't do.
    """
    if not isinstance(connectable, (AsyncEngine, AsyncConnection, AsyncSession, async_scoped_session)):
        raise wrong_kind(connectable)
    return _AsyncSource(connectable, settings)


class _AsyncSource:
    def __init__(
        self,
        owner: AsyncEngine | AsyncConnection | AsyncSession | async_scoped_session[Any],
        settings: Settings,
    ) -> None:
        if isinstance(owner, (AsyncEngine, AsyncConnection)):
            check_driver(owner.dialect, settings)
        self._owner, self._settings = owner, settings
        many = isinstance(owner, (AsyncEngine, async_scoped_session))
        self._turn: AbstractAsyncContextManager[Any] = nullcontext() if many else asyncio.Lock()

    async def ask(self, query: Query) -> Rows:
        async with self._turn:
            if isinstance(self._owner, AsyncEngine):
                async with self._owner.begin() as connection:
                    return await connection.run_sync(ask_connection, query, self._settings, Transaction.CALL)
            if isinstance(self._owner, AsyncConnection):
                return await self._owner.run_sync(ask_connection, query, self._settings)
            session = self._owner() if isinstance(self._owner, async_scoped_session) else self._owner
            return await session.run_sync(ask_session, query, self._settings)
