"""How far a query has been read, as far as a column of times or numbers tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import sql
from psycopg.types.json import Jsonb

from kbsearch.ingest.documents import Rejected
from kbsearch.ingest.report import Connection, UsageError
from kbsearch.ingest.sql_query import ALL, Query
from kbsearch.schema import DEFAULT, in_schema

OVERLAP = 300.0
"""Default of the overlap: what a transaction may take, in seconds, from when it takes its time to when its rows can be seen."""
MOST_RETRIED = 1000
"""Rows that are remembered because they were rejected; with more of them the next run reads from the same mark again."""

_TIMES = {1082: "date", 1114: "timestamp without time zone", 1184: "timestamp with time zone"}
_NUMBERS = {21: "smallint", 23: "integer", 20: "bigint"}
# A time that is yet to come says nothing of what will be written before it.
_PAST = "isfinite({column}) AND {column}::timestamp with time zone <= clock_timestamp()"

_READ = "SELECT s.state FROM kbsearch.kb_ingest_sources AS s WHERE s.org_id = %s AND s.name = %s"
_WRITE = """INSERT INTO kbsearch.kb_ingest_sources AS s (org_id, name, state) VALUES (%s, %s, %s)
ON CONFLICT (org_id, name) DO UPDATE SET state = excluded.state, updated_at = now()"""


class Mark:
    """Remembers, in kb_ingest_sources, the highest value of a column that a complete run has seen, and the rows that it could not take.

    Rows are read from the mark on, and from the overlap before it: a row can be seen only when its transaction commits, later than it says.
    What is read again and has not changed is skipped by its digest. Rows without a value are read every time.
    """

    def __init__(self, connection: Connection, org_id: int, name: str, schema: str = DEFAULT) -> None:
        """connection: to the database with kbsearch; name: of the source."""
        self._connection, self._key, self._schema = connection, (org_id, name), schema
        self._settings = ""
        self._before: Mapping[str, Any] = {}
        self._mark: str | None = None

    def begin(self, query: Query, column: str, type_code: int, overlap: float, settings: str) -> sql.Composable:
        """The condition of the rows that are to be read now.

        Args:
            query: the rows.
            column: the column's name.
            type_code: OID of its type.
            overlap: in seconds; for an integer in its units.
            settings: digest of all that decides what is written of a row: with others than last time, all rows are read.

        Raises UsageError when the type of the column tells no order of changes.
        """
        kind = {**_TIMES, **_NUMBERS}.get(type_code)
        if kind is None:
            raise UsageError(f"the column of --updated-at, {column}, is neither a timestamp nor a date nor an integer")
        self._settings = settings
        row = self._connection.execute(in_schema(_READ, self._schema).encode(), self._key).fetchone()
        if row is not None and row[0].get("settings") == settings:
            self._before = row[0]
        name = sql.Identifier("kb_rows", column)
        is_time = type_code in _TIMES
        highest = query.value(
            "SELECT (max({column}) FILTER (WHERE {usable}))::text FROM {rows}",
            column=name,
            usable=sql.SQL(_PAST).format(column=name) if is_time else ALL,
        )
        since = self._before.get("mark")
        self._mark = highest if highest is not None else since
        if since is None:
            return ALL
        back = f"{overlap} seconds" if is_time else int(overlap)
        return sql.SQL(
            "({column} >= {since}::{kind} - {back} OR {column} IS NULL OR kb_rows.id::text = ANY ({retry}))"
        ).format(
            column=name,
            since=sql.Literal(since),
            kind=sql.SQL(kind),
            back=sql.SQL("interval {}").format(sql.Literal(back)) if is_time else sql.Literal(back),
            retry=sql.Literal(self._retried),
        )

    def finish(self, rejected: Sequence[Rejected]) -> str | None:
        """Remember where the run ended; what there is to say about the next one."""
        state: dict[str, Any] = {"settings": self._settings}
        retried = sorted({entry.external_ref for entry in rejected if entry.external_ref is not None})
        note = None
        if len(retried) > MOST_RETRIED or any(entry.external_ref is None for entry in rejected):
            state |= {"mark": self._before.get("mark"), "retry": self._retried}
            note = "rows were skipped that cannot be remembered one by one: the next run begins where this one began"
        else:
            state |= {"mark": self._mark, "retry": retried}
        self._connection.execute(in_schema(_WRITE, self._schema).encode(), (*self._key, Jsonb(state)))
        return note

    @property
    def _retried(self) -> list[str]:
        return list(self._before.get("retry", []))
