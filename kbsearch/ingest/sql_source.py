"""Rows of a query as documents: however many there are, some at a time, and only those that changed if a column tells."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from psycopg import sql

from kbsearch.embed.errors import MissingExtraError
from kbsearch.ingest.documents import Document, Rejected
from kbsearch.ingest.feeds import Presence, fault_of
from kbsearch.ingest.html import require_parser
from kbsearch.ingest.notes import digest
from kbsearch.ingest.report import Connection, Progress, UsageError
from kbsearch.ingest.sql_mark import OVERLAP, Mark
from kbsearch.ingest.sql_query import ALL, ID, Query, Row, Undecodable
from kbsearch.ingest.sql_rows import Format, RowReader, checked_columns
from kbsearch.schema import DEFAULT


@dataclass(frozen=True, slots=True)
class SqlOptions:
    """How rows become documents.

    Attributes:
        name: of the source: what prune compares with, and what the mark is remembered for.
        format: of the body.
        kind: of rows that name none.
        updated_at: column that says when a row was changed, a time, a date or an integer: then only rows are read that were changed since the
            last complete run, as far as the column knows, and those without a value. None: all rows are read every time.
        overlap: how far before the mark to begin, in seconds, for an integer in its units; more than any transaction takes that writes rows.
        schema: that kbsearch is installed in, in the database that is written to.
    """

    name: str
    format: Format = "text"
    kind: str = "article"
    updated_at: str | None = None
    overlap: float = OVERLAP
    schema: str = DEFAULT


class SqlSource:
    """The rows of a query: a feed for ingest(). What its columns mean is in kbsearch.ingest.sql_rows."""

    def __init__(self, query: Query, options: SqlOptions) -> None:
        """Raise UsageError for options that cannot be."""
        if fault := fault_of(options.name):
            raise UsageError(fault)
        if options.overlap < 0:
            raise UsageError("the overlap must not be negative")
        if options.format == "html":
            try:
                require_parser()
            except MissingExtraError as error:
                raise UsageError(str(error)) from error
        self._query, self._options = query, options
        self._where: sql.Composable = ALL
        self._reader = RowReader((), options.format, options.kind)
        self._mark: Mark | None = None
        self._progress: Progress = lambda _stage, _done, _size: None
        self._size = 0
        self._emptied: set[str] = set()

    @property
    def size(self) -> int:
        """Number of rows that are read, once their ids were."""
        return self._size

    def open(self, connection: Connection, org_id: int, settings: str, progress: Progress) -> None:
        """Look at the query's columns, and find out where to begin.

        Raises UsageError for a query that cannot be run or has other columns than it should.
        """
        options, query = self._options, self._query
        self._progress = progress
        description = query.columns()
        columns = checked_columns(description, options.updated_at)
        self._reader = RowReader(("id", *(name for name in columns if name != "id")), options.format, options.kind)
        if options.updated_at is not None:
            self._mark = Mark(connection, org_id, options.name, options.schema)
            types = {column.name: column.type_code for column in description}
            decisive = digest([settings, query.text, options.updated_at, options.format, options.kind])
            self._where = self._mark.begin(
                query, options.updated_at, types[options.updated_at], options.overlap, decisive
            )

    def references(self) -> Iterator[str]:
        """Ids of the rows that have one, each once."""
        size = 0
        for reference, count in self._query.stream(
            "SELECT {id}, count(*) FROM {rows} WHERE {where} GROUP BY 1 ORDER BY 1", id=ID, where=self._where
        ):
            size += count
            self._progress("read", size, 0)
            if _is_named(reference):
                yield reference
        self._size = size

    def documents(self) -> Iterator[tuple[str, Document | Rejected]]:
        """Rows by their ids. Rows that share an id are all rejected: which of them is meant, nobody can tell."""
        rows = self._query.stream(
            "SELECT {columns} FROM {rows} WHERE {where} ORDER BY 1",
            columns=sql.SQL(", ").join(map(_expression, self._reader.columns)),
            where=self._where,
        )
        for reference, group in itertools.groupby(rows, key=lambda row: row[0]):
            for entry in self._entries(reference, group):
                yield self._options.name, entry

    def _entries(self, reference: object, rows: Iterator[Row]) -> Iterator[Document | Rejected]:
        if not _is_named(reference):
            yield from map(self._reader.document, rows)
            return
        first = next(rows)
        others = sum(1 for _ in rows)
        if others:
            rejected = Rejected(self._reader.where(str(reference)), f"{others + 1} rows have this id", str(reference))
            yield from itertools.repeat(rejected, others + 1)
        else:
            entry = self._reader.document(first)
            if isinstance(entry, Rejected) and entry.is_empty:
                self._emptied.add(str(reference))
            yield entry

    def refuse_prune(self) -> str | None:
        """A query without rows."""
        if self._query.value("SELECT EXISTS (SELECT FROM {rows})"):
            return None
        return f"--prune would delete everything of {self._options.name}: the query has no row"

    def presence(self) -> Presence:
        """The ids of all rows, those that were not read this time too, without those that are empty. All of them are held in memory."""
        found = [reference for (reference,) in self._query.stream("SELECT DISTINCT {id} FROM {rows}", id=ID)]
        if any(isinstance(reference, Undecodable) for reference in found):
            return Presence(unknown="a row has an id that is not UTF-8")
        return Presence(frozenset((self._options.name,)), frozenset(filter(_is_named, found)) - self._emptied)

    def finish(self, rejected: Sequence[Rejected]) -> str | None:
        """Remember how far this run has read, and the rows that it could not take."""
        return None if self._mark is None else self._mark.finish(rejected)


def _is_named(reference: object) -> bool:
    return isinstance(reference, str) and reference != ""


def _expression(name: str) -> sql.Composable:
    if name == "id":
        return ID
    column = sql.Identifier("kb_rows", name)
    return column if name == "published" else sql.SQL("{}::text").format(column)
