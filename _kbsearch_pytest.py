"""pytest's way in to kbsearch.testing: options, hooks and fixtures.

A module outside of the package, so that a run that uses none of it does not import kbsearch, and a run that measures coverage imports it late enough.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import psycopg

    from kbsearch import KBSearch
    from kbsearch.testing import Database, Organization, Server
    from kbsearch.testing.run import Run
    from kbsearch.testing.servers import ServerUnavailableError

_ID = pytest.StashKey[tuple[str, str, int]]()
"""Of the run: its id, its directory (not there until a server is needed), and the process id of its main process."""
_RUN = pytest.StashKey["Run"]()
_TOLD = pytest.StashKey[bool]()
"""Whether the report has said which server it is."""
_SERVER = "server of the test databases; auto, the default: that of KBSEARCH_TEST_DSN, else a Docker container, else the embedded one"
_IMAGE = "image of the container, pgvector/pgvector:pg17 by default"
_SCHEMA = "schema that kbsearch is installed in, kbsearch by default"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options, which may stand in the environment and in pytest's settings, too."""
    group = parser.getgroup("kbsearch", "databases with kbsearch installed")
    group.addoption(
        "--kbsearch-server", choices=("auto", "docker", "embedded", "dsn"), help=f"{_SERVER} (KBSEARCH_TEST_SERVER)"
    )
    group.addoption("--kbsearch-image", metavar="IMAGE", help=f"{_IMAGE} (KBSEARCH_TEST_IMAGE)")
    group.addoption("--kbsearch-schema", metavar="NAME", help=f"{_SCHEMA} (KBSEARCH_TEST_SCHEMA)")
    parser.addini("kbsearch_server", _SERVER)
    parser.addini("kbsearch_image", _IMAGE)
    parser.addini("kbsearch_schema", _SCHEMA)


def pytest_configure(config: pytest.Config) -> None:
    """Name the run; all its processes must call it the same."""
    run = os.urandom(6).hex()
    ours = (run, str(Path(tempfile.gettempdir()) / f"kbsearch-test-{run}"), os.getpid())
    config.stash[_ID] = getattr(config, "workerinput", {}).get("kbsearch", ours)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist what the run is called."""
    node.workerinput["kbsearch"] = node.config.stash[_ID]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Have the server chosen, and its start begun, as soon as it is known that a test needs it."""
    config = session.config
    if config.option.collectonly or _is_worker(config):
        return
    if any("kbsearch_server" in getattr(item, "fixturenames", ()) for item in session.items):
        from kbsearch.testing.servers import ServerUnavailableError

        try:
            _run(config).choice()
        except ServerUnavailableError as error:
            raise pytest.UsageError(_told(error)) from None


def pytest_report_collectionfinish(config: pytest.Config) -> str | None:
    """Say which server it is and why."""
    if _RUN not in config.stash:
        return None
    config.stash[_TOLD] = True
    return f"kbsearch: {_run(config).choice()}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which server it was where nobody knew before the tests ran that they need it: where workers run them, and where they ask as they go."""
    if _TOLD not in config.stash and _has_server(config):
        from kbsearch.testing.servers import ServerUnavailableError

        try:
            terminalreporter.write_line(f"kbsearch: {_run(config).choice()}")
        except ServerUnavailableError:
            return  # the tests say it


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the server, if the run had one."""
    if _has_server(config) and (fault := _run(config).finish()):
        print(f"kbsearch: {fault}", file=sys.stderr)  # noqa: T201  (pytest's own ways of telling are closed by now)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _has_server(config: pytest.Config) -> bool:
    """Whether this is the main process of a run that had a server started."""
    return _ID in config.stash and not _is_worker(config) and Path(config.stash[_ID][1]).exists()


def _run(config: pytest.Config) -> Run:
    if _RUN not in config.stash:
        from kbsearch.testing.run import Run
        from kbsearch.testing.servers import IMAGE, Request

        run, directory, owner = config.stash[_ID]
        kind, asked_by = _setting(config, "server")
        if asked_by.startswith("kbsearch_server") and os.environ.get("KBSEARCH_TEST_DSN"):
            kind = "auto"  # the environment goes before pytest's settings
        image, _ = _setting(config, "image")
        config.stash[_RUN] = Run(Request(run, directory, kind or "auto", asked_by, image or IMAGE), owner)
    return config.stash[_RUN]


def _setting(config: pytest.Config, name: str) -> tuple[str, str]:
    """A setting, and what says so: an option, else the environment, else pytest's settings; both empty where none does."""
    variable = f"KBSEARCH_TEST_{name.upper()}"
    for value, said_by in (
        (config.getoption(f"kbsearch_{name}"), f"--kbsearch-{name}"),
        (os.environ.get(variable), variable),
        (config.getini(f"kbsearch_{name}"), f"kbsearch_{name} in pytest's settings"),
    ):
        if value:
            return str(value), said_by
    return "", ""


def _told(error: ServerUnavailableError) -> str:
    return f"kbsearch: {error}\n{error.hint}"


@pytest.fixture(scope="session")
def kbsearch_schema(pytestconfig: pytest.Config) -> str:
    """Name of the schema that kbsearch is installed in."""
    from kbsearch.schema import DEFAULT, check_schema

    return check_schema(_setting(pytestconfig, "schema")[0] or DEFAULT)


@pytest.fixture(scope="session")
def kbsearch_server(pytestconfig: pytest.Config, kbsearch_schema: str) -> Server:
    """PostgreSQL server of the run, shared by its workers: kbsearch.testing.Server."""
    from kbsearch.testing import Server
    from kbsearch.testing.servers import ServerUnavailableError

    run = _run(pytestconfig)
    try:
        kind, dsn = run.server()
        return Server(kind, run.choice(), dsn, run.request.run, kbsearch_schema)
    except ServerUnavailableError as error:
        pytest.fail(_told(error), pytrace=False)


@pytest.fixture(scope="session")
def kbsearch_install(kbsearch_schema: str) -> Callable[[str], object]:
    """What installs kbsearch in the empty database of a connection string: override it to run your own migrations instead."""
    from kbsearch import migrate

    return lambda dsn: migrate.upgrade(dsn, schema=kbsearch_schema)


@pytest.fixture(scope="session")
def kbsearch_template(kbsearch_server: Server, kbsearch_install: Callable[[str], object]) -> Iterator[str]:
    """Name of the database that every test gets a clone of; nobody may stay connected to it."""
    with kbsearch_server.template(kbsearch_install) as name:
        yield name


@pytest.fixture
def kbsearch_database(kbsearch_server: Server, kbsearch_template: str) -> Iterator[Database]:
    """Fresh database with kbsearch installed: kbsearch.testing.Database, with name, dsn, schema, connect() and client()."""
    with kbsearch_server.database(kbsearch_template) as database:
        yield database


@pytest.fixture
def kbsearch_dsn(kbsearch_database: Database) -> str:
    """Connection string of the fresh database, for the application under test."""
    return kbsearch_database.dsn


@pytest.fixture
def kbsearch_connection(kbsearch_database: Database) -> Iterator[psycopg.Connection[Any]]:
    """Connection of psycopg to the fresh database, in autocommit mode."""
    with kbsearch_database.connect() as connection:
        yield connection


@pytest.fixture
def kbsearch_client(kbsearch_connection: psycopg.Connection[Any], kbsearch_schema: str) -> KBSearch:
    """Client of the fresh database."""
    from kbsearch import KBSearch

    return KBSearch(kbsearch_connection, schema=kbsearch_schema)


@pytest.fixture
def kbsearch_org(kbsearch_connection: psycopg.Connection[Any], kbsearch_schema: str) -> Organization:
    """Organisation without articles in the fresh database: kbsearch.testing.Organization, with id, load(), search() and results()."""
    from kbsearch.testing import load_organization

    return load_organization(kbsearch_connection, schema=kbsearch_schema)
