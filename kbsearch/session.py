"""What migrations need of a database connection, whichever library it is of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from psycopg.rows import tuple_row

from kbsearch.errors import KBSearchError, MigrationError, sqlstate, translate

if TYPE_CHECKING:
    import sqlalchemy

Target: TypeAlias = "str | psycopg.Connection[Any] | sqlalchemy.Engine | sqlalchemy.Connection"
"""A connection string of libpq's, or a connection (or engine) of psycopg 3 or SQLAlchemy."""


class Session:
    """Runs SQL without parameters, one statement at a time, on a connection of psycopg or SQLAlchemy.

    Percent signs and colons mean nothing in it, and exceptions are MigrationError (what the migrations refuse, SQLSTATE KB002) or the driver's own.
    """

    def __init__(self, connection: psycopg.Connection[Any] | sqlalchemy.Connection) -> None:
        """Use a connection, in the transaction that it is in."""
        self._connection = connection

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, if it has any."""
        try:
            if not isinstance(self._connection, psycopg.Connection):
                result = self._connection.exec_driver_sql(sql, execution_options={"no_parameters": True})
                return [tuple(row) for row in result] if result.returns_rows else []
            cursor = psycopg.Cursor(self._connection, row_factory=tuple_row)
            cursor.execute(sql, prepare=False)
            return cursor.fetchall() if cursor.description else []
        except Exception as error:
            _refuse(error)
            if isinstance(original := getattr(error, "orig", None), psycopg.Error):
                raise original from None
            raise

    def value(self, sql: str) -> Any:
        """Run a query and return the first column of its first row; None if there is none."""
        rows = self.run(sql)
        return rows[0][0] if rows else None


def _refuse(error: Exception) -> None:
    """Raise MigrationError if that is what an exception of a driver (psycopg, psycopg2, asyncpg …) says."""
    if sqlstate(error) == MigrationError.default_sqlstate:
        refusal = translate(error)
        raise MigrationError(str(refusal), hint=refusal.hint if isinstance(refusal, KBSearchError) else None) from error


@contextmanager
def opened(target: Target, *, rollback: bool = False) -> Iterator[Session]:
    """A session in a transaction of its own: a savepoint, where the connection is in one already.

    Args:
        target: where.
        rollback: whether the transaction is rolled back at the end; by default it is committed.

    Raises:
        MigrationError: the target is none.
        psycopg.Error: the database can't be reached.
    """
    if isinstance(target, str):
        with psycopg.connect(target, client_encoding="UTF8") as connection:
            # Who waits for another migration must see what it did.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            with connection.transaction(force_rollback=rollback):
                yield Session(connection)
    elif isinstance(target, psycopg.Connection):
        with target.transaction(force_rollback=rollback):
            yield Session(target)
    else:
        with _of_sqlalchemy(target, rollback=rollback) as connected:
            yield Session(connected)


@contextmanager
def _of_sqlalchemy(target: object, *, rollback: bool) -> Iterator[sqlalchemy.Connection]:
    import sqlalchemy  # noqa: PLC0415  (its import takes longer than most commands)

    if isinstance(target, sqlalchemy.Engine):
        with target.connect() as connected, _transaction(connected, rollback=rollback):
            yield connected
    elif isinstance(target, sqlalchemy.Connection):
        with _transaction(target, rollback=rollback):
            yield target
    else:
        raise MigrationError(
            f"{type(target).__name__} is no database to migrate",
            hint="Pass a connection string, a psycopg.Connection, or an Engine or Connection of SQLAlchemy; "
            "from an AsyncConnection: await connection.run_sync(migrate.upgrade)",
        )


@contextmanager
def _transaction(connection: sqlalchemy.Connection, *, rollback: bool) -> Iterator[None]:
    with connection.begin_nested() if connection.in_transaction() else connection.begin() as transaction:
        yield
        if rollback:
            transaction.rollback()


def literal(value: str) -> str:
    """A string as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def literals(values: Sequence[str]) -> str:
    """Strings as a list of literals."""
    return ", ".join(map(literal, values))
