"""A query of somebody else's database: run in one read-only snapshot, wrapped, never changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString, TypeAlias

import psycopg
from psycopg import Column, sql
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from kbsearch.ingest.report import UsageError

FETCHED_AT_ONCE = 100
ID = sql.SQL('kb_rows.id::text COLLATE "C"')
"""A row's id as text, in the order of its bytes."""
ALL = sql.SQL("true")
_SETTINGS: tuple[LiteralString, ...] = (
    "SET datestyle = 'ISO, YMD'",
    "SET timezone = 'UTC'",
    "SET idle_in_transaction_session_timeout = 0",  # embedding takes its time between two fetches
)

Row: TypeAlias = tuple[Any, ...]


class Undecodable:
    """A value whose bytes are no text."""

    def __init__(self, position: int) -> None:
        """position: of the first byte that is none."""
        self.position = position


class _TextLoader(Loader):
    """Loads text; what is none becomes Undecodable, so that a bad value is a fault of its row and not of the query."""

    def load(self, data: Buffer) -> str | Undecodable:
        try:
            return bytes(data).decode()
        except UnicodeDecodeError as error:
            return Undecodable(error.start)


@contextmanager
def source_connection(dsn: str) -> Iterator[psycopg.Connection[Row]]:
    """A connection whose one transaction is read-only and sees one snapshot: names, rows and what prune compares are of the same moment."""
    with psycopg.connect(dsn, client_encoding="UTF8", prepare_threshold=None) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.adapters.register_loader("text", _TextLoader)
        if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
            # Such a server knows no characters, and refuses whole queries for a byte that is none in the client's encoding.
            connection.execute("SET client_encoding = 'SQL_ASCII'")
        yield connection
        connection.rollback()


class Query:
    """One SELECT of a user's, as the rows of other queries, in which `{rows}` is it."""

    def __init__(self, connection: psycopg.Connection[Row], text: str) -> None:
        """connection: of source_connection()."""
        self.connection, self.text = connection, text
        # A query that ends in a comment must not hide what follows it.
        query = sql.SQL(text.strip().removesuffix(";"))
        self._rows = sql.SQL("({}\n) AS kb_rows").format(query)

    def columns(self) -> Sequence[Column]:
        """Describe the rows; raises UsageError for a query that cannot be run."""
        with _told():
            for setting in _SETTINGS:
                self.connection.execute(setting)
            # Binary, as then the server takes one statement alone: a second one could end the transaction.
            cursor = self.connection.execute(self._text("SELECT kb_rows.* FROM {rows} LIMIT 0"), binary=True)
        return cursor.description or ()

    def value(self, template: LiteralString, **parts: sql.Composable) -> Any:
        """The first value of the first row."""
        with _told():
            row = self.connection.execute(self._text(template, **parts)).fetchone()
        return None if row is None else row[0]

    def stream(self, template: LiteralString, **parts: sql.Composable) -> Iterator[Row]:
        """Rows, some at a time."""
        with _told(), self.connection.cursor(name="kb_rows", scrollable=False) as cursor:
            cursor.itersize = FETCHED_AT_ONCE
            cursor.execute(self._text(template, **parts))
            yield from cursor

    def _text(self, template: LiteralString, **parts: sql.Composable) -> bytes:
        return sql.SQL(template).format(rows=self._rows, **parts).as_bytes()


@contextmanager
def _told() -> Iterator[None]:
    """What the database says of the query is about the command line, and not about kbsearch; unless the database itself fails."""
    try:
        yield
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise UsageError(f"the query of --from-sql failed: {error.diag.message_primary or error}") from error
