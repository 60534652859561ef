"""The database that tests run on: an embedded server of their own, or the one that KBSEARCH_TEST_DSN names (a role that may create databases)."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from kbsearch import embedded, migrate

FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "2GB",
}
"""For a server whose data live as long as the tests; those that need a restart do nothing, which is fine."""


def pytest_report_header() -> str:
    given = os.environ.get("KBSEARCH_TEST_DSN")
    return f"kbsearch: database server: {'KBSEARCH_TEST_DSN' if given else 'embedded PostgreSQL, temporary'}"


@pytest.fixture(scope="session")
def server_dsn() -> Iterator[str]:
    """Connection string of the maintenance database of the server that tests may create databases on."""
    given = os.environ.get("KBSEARCH_TEST_DSN")
    if given:
        yield given
        return
    directory = Path(tempfile.mkdtemp(prefix="kbsearch-test-"))
    data = directory / "postgres"
    try:
        yield embedded.start(data, settings=FAST).dsn("postgres")
    finally:
        embedded.stop(data)
        shutil.rmtree(directory, ignore_errors=True)


class Databases:
    """Makes and drops databases on the test server."""

    def __init__(self, server_dsn: str) -> None:
        self.server_dsn = server_dsn

    def create(self, template: str = "template0") -> str:
        """Create a database and return its connection string."""
        name = f"kbsearch_test_{uuid.uuid4().hex[:12]}"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} ENCODING 'UTF8'")
        self._run(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return make_conninfo(self.server_dsn, dbname=name)

    def drop(self, dsn: str) -> None:
        """Drop a database, whoever is connected to it."""
        name = str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])
        self._run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _run(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.server_dsn, autocommit=True) as connection:
            connection.execute(statement)


@pytest.fixture(scope="session")
def databases(server_dsn: str) -> Databases:
    return Databases(server_dsn)


@pytest.fixture(scope="session")
def template(databases: Databases) -> Iterator[str]:
    """Name of a database with kbsearch installed, to be cloned; nobody may stay connected to it."""
    dsn = databases.create()
    # A directory to install from instead of sql/: how tools.mutants shows that tests can fail.
    overlay = os.environ.get("KBSEARCH_TEST_SQL_OVERLAY")
    try:
        with pytest.MonkeyPatch.context() as patch:
            if overlay:
                patch.setattr(migrate, "sql_root", lambda: Path(overlay))
            migrate.upgrade(dsn)
        yield str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])
    finally:
        databases.drop(dsn)


@pytest.fixture
def empty_database(databases: Databases) -> Iterator[str]:
    """Connection string of a fresh database without kbsearch."""
    dsn = databases.create()
    try:
        yield dsn
    finally:
        databases.drop(dsn)


@pytest.fixture
def database(databases: Databases, template: str) -> Iterator[str]:
    """Connection string of a fresh database with kbsearch installed."""
    dsn = databases.create(template)
    try:
        yield dsn
    finally:
        databases.drop(dsn)


@pytest.fixture(scope="session")
def shared_database(databases: Databases, template: str) -> Iterator[str]:
    """Connection string of one database with kbsearch installed, for tests that keep to an organisation of their own or only read."""
    dsn = databases.create(template)
    try:
        yield dsn
    finally:
        databases.drop(dsn)


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection in autocommit mode to a fresh database."""
    with psycopg.connect(database, autocommit=True) as opened:
        yield opened
