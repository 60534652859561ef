"""Databases on the test server: a template with kbsearch installed, and a clone of it for each test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from kbsearch.client import KBSearch
from kbsearch.testing.servers import PREFIX


@dataclass(frozen=True, slots=True)
class Database:
    """A database of a test.

    Attributes:
        name: its name.
        dsn: connection string of its owner.
        schema: the schema that kbsearch is installed in.
    """

    name: str
    dsn: str = field(repr=False)
    schema: str

    def connect(self) -> psycopg.Connection[Any]:
        """A new connection in autocommit mode; the caller closes it."""
        return psycopg.connect(self.dsn, autocommit=True)

    def client(self) -> KBSearch:
        """A client with a connection of its own, opened when it is first needed; the caller closes it, or uses it in `with`."""
        return KBSearch(self.dsn, schema=self.schema)


@dataclass(frozen=True, slots=True)
class Server:
    """The server of a test run.

    Attributes:
        kind: docker, embedded or dsn.
        reason: which one it is and why, in a line.
        dsn: connection string of a role that may create databases, for the maintenance database.
        run: id of the run, part of the names of its databases.
        schema: the schema that kbsearch is installed in.
    """

    kind: str
    reason: str
    dsn: str = field(repr=False)
    run: str
    schema: str

    def create(self, template: str = "template0") -> Database:
        """Create a database of encoding UTF8: an empty one, or a clone of one that nobody is connected to."""
        name = f"{PREFIX}{self.run}_{uuid.uuid4().hex[:12]}"
        # On a server that keeps nothing, copying files is faster than logging their pages; one of somebody's own decides itself.
        strategy = "" if self.kind == "dsn" else " STRATEGY file_copy"
        statement = sql.SQL(f"CREATE DATABASE {{}} TEMPLATE {{}} ENCODING 'UTF8'{strategy}")
        self._run(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return Database(name, make_conninfo(self.dsn, dbname=name), self.schema)

    def drop(self, database: Database) -> None:
        """Drop a database, whoever is connected to it."""
        self._run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database.name)))

    @contextmanager
    def database(self, template: str = "template0") -> Iterator[Database]:
        """A database for the length of a `with`."""
        made = self.create(template)
        try:
            yield made
        finally:
            self.drop(made)

    @contextmanager
    def template(self, install: Callable[[str], object]) -> Iterator[str]:
        """Name of a database to be cloned, for the length of a `with`; `install` is given its connection string."""
        with self.database() as made:
            install(made.dsn)
            yield made.name

    def _run(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(statement)
