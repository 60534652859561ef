"""Rows through SQLAlchemy's engines, connections and sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial
from typing import Any

import psycopg
from sqlalchemy import Connection, Dialect, Engine, TextClause, text
from sqlalchemy.orm import Session, scoped_session

from kbsearch.client.plans import Query, Rows, Settings, Transaction, guarded, run
from kbsearch.client.sources import Source, Turns, wrong_kind
from kbsearch.errors import ConnectionKindError
from kbsearch.statements import Statement

_AT_ONCE: Any = {"stream_results": False, "yield_per": None}
"""No server-side cursor, whatever the connection's own options say: it would need a transaction."""
DRIVERS = ("psycopg", "psycopg2", "asyncpg")


def source(connectable: Any, settings: Settings) -> Source:
    """The source for an Engine, a Connection or a Session.

    Raises:
        ConnectionKindError: it is none of them, or its driver won't do.
    """
    if not isinstance(connectable, (Engine, Connection, Session, scoped_session)):
        raise wrong_kind(connectable)
    return _Source(connectable, settings)


class _Source:
    def __init__(self, owner: Engine | Connection | Session | scoped_session[Any], settings: Settings) -> None:
        if isinstance(owner, (Engine, Connection)):
            check_driver(owner.dialect, settings)
        self._owner, self._settings = owner, settings
        # A connection does one thing at a time; an engine has many, and a scoped session is another in every scope.
        many = isinstance(owner, (Engine, scoped_session))
        self._turn: AbstractContextManager[Any] = nullcontext() if many else Turns()

    def ask(self, query: Query) -> Rows:
        with self._turn:
            if isinstance(self._owner, Engine):
                with self._owner.begin() as connection:
                    return ask_connection(connection, query, self._settings, Transaction.CALL)
            if isinstance(self._owner, Connection):
                return ask_connection(self._owner, query, self._settings)
            session = self._owner() if isinstance(self._owner, scoped_session) else self._owner
            return ask_session(session, query, self._settings)


def ask_session(session: Session, query: Query, settings: Settings) -> Rows:
    """Run a query in a session's transaction."""
    # As a query of the ORM does: what the session was told is what a search finds.
    if session.autoflush:
        session.flush()
    return ask_connection(session.connection(), query, settings)


def ask_connection(
    connection: Connection, query: Query, settings: Settings, transaction: Transaction = Transaction.OWNER
) -> Rows:
    """Run a query on a connection, in the transaction that it would be in."""
    check_driver(connection.dialect, settings)
    pooled = connection.connection
    driver: Any = pooled.driver_connection
    if getattr(pooled.dbapi_connection, "autocommit", False) and _is_idle(driver):
        transaction = Transaction.NONE
    with _preparing(driver, settings.prepare):
        return run(guarded(query, transaction, settings), partial(_execute, connection))


def _execute(connection: Connection, statement: Statement) -> Rows:
    result = connection.execute(_text(statement.sql), dict(statement.parameters), execution_options=_AT_ONCE)
    return [tuple(row) for row in result] if result.returns_rows else ()


@lru_cache(maxsize=64)
def _text(sql: str) -> TextClause:
    return text(re.sub(r"%\((\w+)\)s", r":\1", sql))


def check_driver(dialect: Dialect, settings: Settings) -> None:
    """Raise ConnectionKindError for another database, a driver that nobody has tried, or one that can't do what the settings say."""
    if dialect.name != "postgresql" or dialect.driver not in DRIVERS:
        raise ConnectionKindError(
            f"kbsearch works through SQLAlchemy with the drivers {', '.join(DRIVERS)}, not with {dialect.name}+{dialect.driver}",
            hint="Use a URL that begins with postgresql+psycopg://.",
        )
    if dialect.driver == "asyncpg" and settings.prepare is False:
        raise ConnectionKindError(
            "asyncpg prepares every statement, so that prepare=False is not to be had with it",
            hint="Use a URL that begins with postgresql+psycopg://, or set the engine up for the pooler (prepared_statement_name_func) "
            "and leave prepare out.",
        )


def _is_idle(driver: Any) -> bool:
    """Whether a connection of psycopg, psycopg2 or asyncpg is outside a transaction."""
    if hasattr(driver, "is_in_transaction"):
        return not driver.is_in_transaction()
    return bool(driver.info.transaction_status == psycopg.pq.TransactionStatus.IDLE)


@contextmanager
def _preparing(driver: Any, prepare: bool | None) -> Iterator[None]:
    """Have psycopg prepare all that is run meanwhile, or nothing; SQLAlchemy can't be told for a single statement."""
    threshold = getattr(driver, "prepare_threshold", None)
    if prepare is None or threshold is None:
        yield
        return
    driver.prepare_threshold = 0 if prepare else None
    try:
        yield
    finally:
        driver.prepare_threshold = threshold
