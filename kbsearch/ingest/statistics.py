"""What the planner knows of tables that a run is filling.

A session keeps the plans that it made when the tables were small until somebody analyses them. Autovacuum does, a minute later at best: until then
every batch could read all that the ones before have written.
"""

from __future__ import annotations

import psycopg

from kbsearch.ingest.report import Connection
from kbsearch.schema import DEFAULT, in_schema

GROWN = 10
"""A table is analysed when it is this many times as large as when it was last."""
PAGES = 32
"""From so many pages on: a plan made with the statistics of a smaller table would read all of it, as that is cheap then, and go on doing so."""

LOOKED_AT = 125
"""They are looked at when so many percent of the rows are written that were the last time: it takes a query."""
TABLES = (
    "kb_articles",
    "kb_article_chunks",
    "kb_article_embeddings",
    "kb_postings",
    "kb_embedding_inputs",
    "kb_embedding_cache",
)
"""What a first load fills."""

# An owner of the database may analyse, too; from PostgreSQL 17 on also who has been granted MAINTAIN.
_GROWN = """SELECT c.relname::pg_catalog.text
FROM pg_catalog.pg_class AS c
INNER JOIN pg_catalog.pg_database AS d ON d.datname = pg_catalog.current_database()
WHERE c.relnamespace = (SELECT o.relnamespace FROM pg_catalog.pg_class AS o WHERE o.oid = 'kbsearch.organizations'::pg_catalog.regclass)
    AND c.relname = ANY (%s)
    AND pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::pg_catalog.int8 >= greatest(%s, %s * c.relpages)
    AND (pg_catalog.pg_has_role(c.relowner, 'USAGE') OR pg_catalog.pg_has_role(d.datdba, 'USAGE')"""
_MAINTAIN = " OR pg_catalog.has_table_privilege(c.oid, 'MAINTAIN')"
_MAINTAIN_SINCE = 170000


class Statistics:
    """Analyses tables as they grow, where the role may: another goes without."""

    def __init__(self, connection: Connection, schema: str = DEFAULT) -> None:
        """Nothing has been written yet."""
        self._connection, self._schema = connection, schema
        granted = _MAINTAIN if connection.info.server_version >= _MAINTAIN_SINCE else ""
        self._statement = in_schema(f"{_GROWN}{granted})", schema).encode()
        self._rows = 0
        self._due = 1

    def wrote(self, rows: int) -> None:
        """Take note that so many more rows were committed; the tables are looked at now and then.

        Raises psycopg.Error where the connection is lost; that the tables cannot be analysed now ends nothing.
        """
        self._rows += rows
        if self._rows < self._due:
            return
        self._due = self._rows * LOOKED_AT // 100 + 1
        try:
            grown = [name for (name,) in self._connection.execute(self._statement, (list(TABLES), PAGES, GROWN))]
            if grown:
                # Somebody who vacuums a table, or makes an index on it, is not waited for.
                tables = ", ".join(in_schema(f"kbsearch.{name}", self._schema) for name in sorted(grown))
                self._connection.execute(f"ANALYZE (SKIP_LOCKED) {tables}".encode())
        except psycopg.DatabaseError:
            if self._connection.closed:
                raise
