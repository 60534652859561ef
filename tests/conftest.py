"""The databases that tests run on.

Where nothing is asked for, that is an embedded server of this process's own, and for the property tests one in a container, too. All tests run on
the server that is asked for by --kbsearch-server, KBSEARCH_TEST_SERVER or KBSEARCH_TEST_DSN (a role that may create databases).

Tests run as an application does whose DBA is careful: as a role that may create nothing but objects in the schema kbsearch, with an empty search
path, and with the extension vector in the schema ext. The administrator (the role of KBSEARCH_TEST_DSN, or the server's superuser) makes databases
and prepares them. If the role of KBSEARCH_TEST_DSN may not create roles it is the application's, too; the end of the run says so.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from kbsearch import migrate, testing
from kbsearch.testing import servers
from tests import guarded
from tests.docker.engine import lacking

FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "min_wal_size": "32MB",
    "max_wal_size": "1GB",
}
"""For a server whose data live as long as the tests; those that need a restart do nothing, which is fine."""
ROOM = 4 * 2**30
"""Bytes that must be free in memory for a server's data to be there."""


CONTAINER = "container"
"""Parameter of target_server: the one in a container. None is the usual one."""


def asked_for(config: pytest.Config) -> str | None:
    """The kind of server that all tests are to run on, if somebody has asked for one."""
    kind = config.getoption("kbsearch_server") or os.environ.get("KBSEARCH_TEST_SERVER")
    return str(kind) if kind else "dsn" if os.environ.get("KBSEARCH_TEST_DSN") else None


FIRST = (
    "docker",
    "testing",
    "examples",
    "docs",
    "ingest",
    "migrations",
    "properties",
    "index",
    "client",
    "evaluate",
    "faults",
    "sql",
    "tenancy",
    "arbitration",
    "embed",
    "fuzz",
)
"""Folders with files that take long or wait more than they compute, the longest first; the others' files are short, so that at the end of a run no
process is left alone with one."""


ENGINE = {"swept", "docker"}
"""Fixtures of tests that need a Docker engine."""


def needs_docker(item: pytest.Item) -> bool:
    """Whether a test is one of `make test-docker`, and not of `make test`."""
    parameters: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    if parameters.get("target_server") == CONTAINER or parameters.get("kind") == "docker":
        return True
    return not ENGINE.isdisjoint(getattr(item, "fixturenames", ()))


def pytest_configure() -> None:
    """What terminates a run (timeout, a service manager) interrupts it as Ctrl-C does: fixtures put away what they made."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what make test leaves to other targets, before pytest selects by marks, and order the folders.

    With pytest-xdist the order needs --no-loadscope-reorder.
    """
    root = Path(__file__).parent
    for item in items:
        if needs_docker(item):
            item.add_marker(pytest.mark.docker)
        elif _folder(item.path, root) == "quality":
            item.add_marker(pytest.mark.quality)
    places = {folder: place for place, folder in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(_folder(item.path, root), len(FIRST)))


@cache
def _folder(file: Path, root: Path) -> str:
    return file.relative_to(root).parts[0] if file.is_relative_to(root) else ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests passed on which server, and what some of them found."""
    reports: list[pytest.TestReport] = terminalreporter.getreports("passed")
    passed = Counter(str(value) for report in reports for name, value in report.user_properties if name == "server")
    for name, tests in sorted(passed.items()):
        terminalreporter.write_line(f"{tests} passed on {name}")
    for report in reports:
        for name, value in report.user_properties:
            if name == "finding":
                terminalreporter.write_line(str(value))


def _may_create_roles(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute(
        "SELECT rolsuper OR rolcreaterole FROM pg_catalog.pg_roles WHERE rolname = current_user"
    ).fetchone()
    return row is not None and bool(row[0])


@pytest.fixture(scope="session")
def embedded_dsn() -> Iterator[str]:
    """Connection string of the superuser of an embedded server of this process's own, with its data in memory where there is room."""
    memory = servers.MEMORY
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= ROOM
    with guarded.server("kbsearch-test-", FAST, within=memory if roomy else None) as server:
        yield server.dsn("postgres")


@dataclass(frozen=True, slots=True)
class Server:
    """The server that tests run on.

    Attributes:
        name: what it is, for people.
        dsn: connection string of the administrator for the maintenance database.
    """

    name: str
    dsn: str


@pytest.fixture(scope="session")
def target_server(request: pytest.FixtureRequest) -> Server:
    """The server that was asked for, or one of the usual."""
    asked = asked_for(request.config)
    if asked in (None, "embedded") and getattr(request, "param", None) != CONTAINER:
        return Server("embedded PostgreSQL", request.getfixturevalue("embedded_dsn"))
    found: testing.Server = request.getfixturevalue("kbsearch_server")
    if asked is None and found.kind != "docker":
        lacking(f"the property tests run on the embedded server only: {found.reason}")
    name, _, _ = found.reason.partition(", as ")
    return Server(name, found.dsn)


@pytest.fixture(scope="session")
def server_dsn(target_server: Server) -> str:
    """Connection string of the administrator for the maintenance database of the server."""
    return target_server.dsn


@pytest.fixture(scope="session")
def described(target_server: Server, databases: Databases) -> str:
    """What the end of the run says of the server."""
    offered = "SELECT default_version FROM pg_catalog.pg_available_extensions WHERE name = 'vector'"
    with psycopg.connect(target_server.dsn) as connection:
        version = connection.info.parameter_status("server_version")
        (pgvector,) = connection.execute(offered).fetchone() or ("missing",)
    rights = "" if databases.has_role else "; ITS ROLE MAY NOT CREATE ROLES: with that role's own rights"
    return f"PostgreSQL {version}, pgvector {pgvector} ({target_server.name}){rights}"


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> None:
    """Counts the test for its server."""
    if "target_server" in request.fixturenames:
        request.node.user_properties.append(("server", request.getfixturevalue("described")))


PREPARATION = """CREATE SCHEMA ext;
CREATE EXTENSION vector SCHEMA ext;
GRANT USAGE ON SCHEMA ext TO {role};
CREATE SCHEMA {schema} AUTHORIZATION {role};
REVOKE CREATE ON SCHEMA public FROM PUBLIC"""
"""What a DBA runs before the application installs kbsearch."""


class Databases:
    """Makes and drops databases on the test server.

    Attributes:
        server_dsn: connection string of the administrator for the maintenance database.
        role: the application's role.
        has_role: whether that is another than the administrator's.
        is_superuser: whether the administrator is one.

    Args:
        server_dsn: as above.
        strategy: option of CREATE DATABASE: how a template is copied.
    """

    def __init__(self, server_dsn: str, strategy: LiteralString = "") -> None:
        self.server_dsn, self._strategy = server_dsn, strategy
        self.role = f"kbsearch_test_{uuid.uuid4().hex[:12]}"
        self._password = uuid.uuid4().hex
        with psycopg.connect(server_dsn, autocommit=True) as connection:
            self.has_role = _may_create_roles(connection)
            self.is_superuser = connection.info.parameter_status("is_superuser") == "on"
            if self.has_role:
                role = sql.Identifier(self.role)
                statement = "CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD {}"
                connection.execute(sql.SQL(statement).format(role, sql.Literal(self._password)))
                connection.execute(sql.SQL("ALTER ROLE {} SET search_path = ''").format(role))
                # Tests that provoke deadlocks need not wait a second for each; a superuser's to set.
                with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
                    connection.execute(sql.SQL("ALTER ROLE {} SET deadlock_timeout = '10ms'").format(role))
                # Only a member may make a schema for a role, or end its sessions.
                connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(role))
            else:
                self.role = connection.info.user

    def create(self, template: str | None = None, *, locale: LiteralString = "") -> str:
        """Create a database and return the application's connection string.

        Args:
            template: name of a database to clone; by default an empty one that a DBA has prepared.
            locale: options of CREATE DATABASE about it; the server's own by default.
        """
        admin = self.bare(template or "template0", locale=locale)
        dsn = self.application(admin)
        if template is None:
            prepare = sql.SQL(PREPARATION).format(role=sql.Identifier(self.role), schema=sql.Identifier("kbsearch"))
            with psycopg.connect(admin) as connection:
                connection.execute(prepare)
        return dsn

    def bare(self, template: str = "template0", *, locale: LiteralString = "") -> str:
        """Create a database, and return the administrator's connection string: nothing is prepared, the search path is PostgreSQL's own."""
        name = f"kbsearch_test_{uuid.uuid4().hex[:12]}"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} ENCODING 'UTF8' " + self._strategy + locale)
        self._run(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return make_conninfo(self.server_dsn, dbname=name)

    def application(self, dsn: str) -> str:
        """The application's connection string for the database of this one."""
        if self.has_role:
            return make_conninfo(dsn, user=self.role, password=self._password)
        return make_conninfo(dsn, options=f"{conninfo_to_dict(dsn).get('options') or ''} -c search_path=")

    def admin(self, dsn: str) -> str:
        """The administrator's connection string for the database of this one."""
        return make_conninfo(self.server_dsn, dbname=str(conninfo_to_dict(dsn)["dbname"]))

    def drop(self, dsn: str) -> None:
        """Drop a database, whoever is connected to it."""
        name = str(conninfo_to_dict(dsn)["dbname"])
        for attempt in range(10):
            try:
                self._run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
            except psycopg.errors.InsufficientPrivilege:
                # An autovacuum worker is in it, which only a superuser may end.
                if attempt == 9:
                    raise
                time.sleep(0.5)
            else:
                return

    def close(self) -> None:
        """Drop the role."""
        if self.has_role:
            with contextlib.suppress(psycopg.errors.DependentObjectsStillExist):  # of a run that was killed
                self._run(sql.SQL("DROP ROLE {}").format(sql.Identifier(self.role)))

    def _run(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.server_dsn, autocommit=True) as connection:
            connection.execute(statement)


@pytest.fixture(scope="session")
def databases(server_dsn: str, pytestconfig: pytest.Config) -> Iterator[Databases]:
    # On a server that keeps nothing, copying files is faster than logging their pages; one of somebody's own decides itself.
    made = Databases(server_dsn, "" if asked_for(pytestconfig) == "dsn" else "STRATEGY file_copy ")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="session")
def admin(databases: Databases) -> Callable[[str], str]:
    """Gives the administrator's connection string for the database of another."""
    return databases.admin


@pytest.fixture
def superuser(databases: Databases) -> Callable[[str], str]:
    """Gives a superuser's connection string for the database of another."""
    if not databases.is_superuser:
        pytest.skip("needs a superuser")
    return databases.admin


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
        yield str(conninfo_to_dict(dsn)["dbname"])
    finally:
        databases.drop(dsn)


@pytest.fixture
def empty_database(databases: Databases) -> Iterator[str]:
    """Connection string of a fresh database without kbsearch, prepared by a DBA."""
    dsn = databases.create()
    try:
        yield dsn
    finally:
        databases.drop(dsn)


@pytest.fixture
def bare_database(databases: Databases) -> Iterator[str]:
    """Connection string of the administrator for a fresh database that nobody has prepared: extension and schema are still to be made."""
    dsn = databases.bare()
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


FORGET = """RESET ALL;
RESET SESSION AUTHORIZATION;
CLOSE ALL;
UNLISTEN *;
DISCARD TEMP;
DISCARD SEQUENCES;
SELECT pg_catalog.pg_advisory_unlock_all()"""
"""DISCARD ALL, but for the plans."""


class Session:
    """A session that tests have one after the other: planning the first search of one takes longer than most tests do.

    What a test has set, opened or locked in it is undone. Plans stay, as in an application's pool.

    Args:
        dsn: the application's connection string.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._opened: psycopg.Connection[Any] | None = None

    @contextlib.contextmanager
    def lent(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection to it, in autocommit mode."""
        if self._opened is None or self._opened.closed:
            self._opened = psycopg.connect(self._dsn, autocommit=True)
        lent = self._opened
        before = lent.row_factory, lent.cursor_factory, lent.prepare_threshold
        try:
            yield lent
        finally:
            if not lent.closed:
                lent.rollback()
                lent.autocommit = True
                lent.row_factory, lent.cursor_factory, lent.prepare_threshold = before
                lent.execute(FORGET)

    def close(self) -> None:
        """End it."""
        if self._opened is not None:
            self._opened.close()


@pytest.fixture(scope="session")
def shared_session(shared_database: str) -> Iterator[Session]:
    """A session in the shared database, for tests that need none of their own."""
    session = Session(shared_database)
    try:
        yield session
    finally:
        session.close()


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection in autocommit mode to a fresh database."""
    with psycopg.connect(database, autocommit=True) as opened:
        yield opened
