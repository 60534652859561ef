"""Organisations that the clients are tested on, and the ways to connect to them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import psycopg_pool
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from kbsearch import Chunk, KBSearch

WORDS = ("reset", "password", "settings", "invoice", "refund")


@dataclass(frozen=True)
class World:
    """An organisation and the embedding space it uses."""

    dsn: str
    org: int
    space: int


def new_world(dsn: str, name: str, *, active: bool = False) -> World:
    """Make an organisation without articles and a space of three dimensions, which is the organisation's own if `active`."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        space = connection.execute(
            "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES (%s, 'toy', 3) RETURNING id",
            [name],
        ).fetchone()
        assert space is not None
        org = connection.execute(
            "INSERT INTO kbsearch.organizations (name, active_space_id) VALUES (%s, %s) RETURNING id",
            [name, space[0] if active else None],
        ).fetchone()
        assert org is not None
    return World(dsn, org[0], space[0])


def articles_world(dsn: str, name: str) -> World:
    """An organisation of 12 articles with two chunks each."""
    world = new_world(dsn, name)
    with KBSearch(dsn) as client:
        for number in range(12):
            client.upsert_article(
                world.org,
                external_ref=f"article {number:02}",
                title=WORDS[number % 5],
                body="unused",
                kind=("article", "policy")[number % 2],
                metadata={"number": number, "even": number % 2 == 0},
                source_uri=f"https://example.org/{number}",
                chunks=[
                    Chunk(f"how to {WORDS[number % 5]} your {WORDS[(number + 1) % 5]}", embedding=[1, number % 3, 0]),
                    Chunk("something else", embedding=[0, 0, 1]),
                ],
                space_id=world.space,
            )
    return world


def tied_world(dsn: str, name: str) -> World:
    """An organisation of 60 articles in two languages, made of so few words, directions and metadata that most of them tie."""
    world = new_world(dsn, name, active=True)
    directions = ([1, 0, 0], [0, 1, 0], [3, 0, 0], [1, 1, 0], None)
    texts = ("reset password", "refund", "password invoice", "the invoice, reset")
    with KBSearch(dsn) as client:
        for number, (direction, text, kind) in enumerate(
            itertools.product(directions, texts, ("faq", "policy", "note"))
        ):
            german = number % 7 == 0
            client.upsert_article(
                world.org,
                external_ref=f"tied {number}",
                title=None if number % 5 == 0 else "settings",
                kind=kind,
                metadata={"tags": ["new", "hot"][: number % 3], "group": number % 2},
                language="german" if german else None,
                chunks=[
                    Chunk(f"die Häuser {text}" if german else text, embedding=direction),
                    Chunk("else", embedding=[0, 0, 1]),
                ],
            )
    return world


def engine(dsn: str, driver: str = "psycopg", **options: Any) -> sa.Engine:
    """A SQLAlchemy engine that keeps no connections."""
    return sa.create_engine(
        f"postgresql+{driver}://", connect_args=conninfo_to_dict(dsn), poolclass=NullPool, **options
    )


def async_engine(dsn: str, driver: str = "psycopg", **options: Any) -> AsyncEngine:
    """The same for asyncio."""
    parts: dict[str, Any] = dict(conninfo_to_dict(dsn))
    if driver == "asyncpg":
        parts = {
            "host": parts.get("host"),
            "port": int(parts.get("port") or 5432),
            "user": parts.get("user"),
            "password": parts.get("password"),
            "database": parts["dbname"],
            "server_settings": {"application_name": parts.get("application_name") or "", "search_path": ""},
        }
    return create_async_engine(f"postgresql+{driver}://", connect_args=parts, poolclass=NullPool, **options)


@contextmanager
def _engine(dsn: str, driver: str = "psycopg", **options: Any) -> Iterator[sa.Engine]:
    made = engine(dsn, driver, **options)
    try:
        yield made
    finally:
        made.dispose()


@contextmanager
def _sa_connection(dsn: str, driver: str = "psycopg", **options: Any) -> Iterator[sa.Connection]:
    with _engine(dsn, driver, **options) as made, made.connect() as connection:
        yield connection


@contextmanager
def _session(dsn: str, driver: str = "psycopg") -> Iterator[Session]:
    with _engine(dsn, driver) as made, Session(made) as session:
        yield session


@contextmanager
def _scoped_session(dsn: str) -> Iterator[scoped_session[Session]]:
    with _engine(dsn) as made:
        session = scoped_session(sessionmaker(made))
        yield session
        session.remove()


@contextmanager
def _null_pool(dsn: str) -> Iterator[psycopg_pool.NullConnectionPool[Any]]:
    with psycopg_pool.NullConnectionPool(dsn) as pool:
        yield pool


Connect = Callable[[str], AbstractContextManager[Any]]
AsyncConnect = Callable[[str], AbstractAsyncContextManager[Any]]


@contextmanager
def _dsn(dsn: str) -> Iterator[str]:
    yield dsn


OWNED: dict[str, Connect] = {
    "psycopg connection": psycopg.connect,
    "sqlalchemy connection": _sa_connection,
    "sqlalchemy session": _session,
    "sqlalchemy scoped session": _scoped_session,
    "sqlalchemy connection, psycopg2": lambda dsn: _sa_connection(dsn, "psycopg2"),
    "sqlalchemy session, psycopg2": lambda dsn: _session(dsn, "psycopg2"),
}
"""What is passed to KBSearch with a transaction of its owner's."""
ALONE: dict[str, Connect] = {
    "dsn": _dsn,
    "psycopg connection, autocommit": lambda dsn: psycopg.connect(dsn, autocommit=True),
    "psycopg connection, other cursors": lambda dsn: psycopg.connect(
        dsn, autocommit=True, cursor_factory=psycopg.RawCursor
    ),
    "psycopg pool": lambda dsn: psycopg_pool.ConnectionPool(dsn, min_size=1, open=True),
    "psycopg pool, autocommit": lambda dsn: psycopg_pool.ConnectionPool(
        dsn, min_size=1, open=True, kwargs={"autocommit": True}
    ),
    "psycopg null pool": _null_pool,
    "sqlalchemy engine": _engine,
    "sqlalchemy engine, autocommit": lambda dsn: _engine(dsn, isolation_level="AUTOCOMMIT"),
    "sqlalchemy connection, autocommit": lambda dsn: _sa_connection(dsn, isolation_level="AUTOCOMMIT"),
    "sqlalchemy engine, psycopg2": lambda dsn: _engine(dsn, "psycopg2"),
    "sqlalchemy engine, psycopg2, autocommit": lambda dsn: _engine(dsn, "psycopg2", isolation_level="AUTOCOMMIT"),
}
"""What is passed to KBSearch and gives every call a transaction of its own."""


@asynccontextmanager
async def _async_dsn(dsn: str) -> AsyncIterator[str]:
    yield dsn


@asynccontextmanager
async def _async_connection(dsn: str, **options: Any) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(dsn, **options) as connection:
        yield connection


@asynccontextmanager
async def _async_pool(dsn: str, **options: Any) -> AsyncIterator[psycopg_pool.AsyncConnectionPool[Any]]:
    async with psycopg_pool.AsyncConnectionPool(dsn, min_size=1, open=False, **options) as pool:
        yield pool


@asynccontextmanager
async def _async_engine(dsn: str, driver: str = "psycopg", **options: Any) -> AsyncIterator[AsyncEngine]:
    made = async_engine(dsn, driver, **options)
    try:
        yield made
    finally:
        await made.dispose()


@asynccontextmanager
async def _async_sa_connection(dsn: str, driver: str = "psycopg", **options: Any) -> AsyncIterator[Any]:
    async with _async_engine(dsn, driver, **options) as made, made.connect() as connection:
        yield connection


@asynccontextmanager
async def _async_session(dsn: str, driver: str = "psycopg") -> AsyncIterator[AsyncSession]:
    async with _async_engine(dsn, driver) as made, AsyncSession(made) as session:
        yield session


@asynccontextmanager
async def _async_scoped_session(dsn: str) -> AsyncIterator[async_scoped_session[AsyncSession]]:
    async with _async_engine(dsn) as made:
        session = async_scoped_session(async_sessionmaker(made), scopefunc=lambda: None)
        yield session
        await session.remove()


ASYNC_OWNED: dict[str, AsyncConnect] = {
    "psycopg connection": _async_connection,
    "sqlalchemy connection": _async_sa_connection,
    "sqlalchemy session": _async_session,
    "sqlalchemy scoped session": _async_scoped_session,
    "sqlalchemy connection, asyncpg": lambda dsn: _async_sa_connection(dsn, "asyncpg"),
    "sqlalchemy session, asyncpg": lambda dsn: _async_session(dsn, "asyncpg"),
}
"""What is passed to AsyncKBSearch with a transaction of its owner's."""
ASYNC_ALONE: dict[str, AsyncConnect] = {
    "dsn": _async_dsn,
    "psycopg connection, autocommit": lambda dsn: _async_connection(dsn, autocommit=True),
    "psycopg pool": _async_pool,
    "psycopg pool, autocommit": lambda dsn: _async_pool(dsn, kwargs={"autocommit": True}),
    "sqlalchemy engine": _async_engine,
    "sqlalchemy engine, autocommit": lambda dsn: _async_engine(dsn, isolation_level="AUTOCOMMIT"),
    "sqlalchemy connection, autocommit": lambda dsn: _async_sa_connection(dsn, isolation_level="AUTOCOMMIT"),
    "sqlalchemy engine, asyncpg": lambda dsn: _async_engine(dsn, "asyncpg"),
    "sqlalchemy engine, asyncpg, autocommit": lambda dsn: _async_engine(dsn, "asyncpg", isolation_level="AUTOCOMMIT"),
}
"""What is passed to AsyncKBSearch and gives every call a transaction of its own."""
KINDS: dict[str, Connect] = {**ALONE, **OWNED}
ASYNC_KINDS: dict[str, AsyncConnect] = {**ASYNC_ALONE, **ASYNC_OWNED}
