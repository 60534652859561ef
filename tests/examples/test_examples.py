"""Every example is run from its own copy, in an environment with the built wheel; what is right is said by the example's check.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.examples.conftest import PROJECTS, Environment, run, url

PACKAGES = {
    "alembic": ["notes", "migrations/env.py", "migrations/versions"],
    "fastapi": ["helpdesk"],
    "psql": [],
    "sqlalchemy": ["shop"],
}


@pytest.fixture
def check(environment: Environment, projects: Path) -> Callable[[str, str], str]:
    """Runs an example's check on a database."""

    def run_check(name: str, dsn: str) -> str:
        where = environment.run("-c", "import kbsearch; print(kbsearch.__file__)", cwd=projects / name)
        assert Path(where.stdout.strip()).is_relative_to(environment.directory), where.stdout + where.stderr
        done = environment.run("check.py", cwd=projects / name, variables={"DATABASE_URL": dsn})
        assert done.returncode == 0, f"{name}: check.py ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run_check


def test_every_example_is_known_here() -> None:
    assert {one.name for one in PROJECTS.iterdir() if one.is_dir()} == {*PACKAGES}


def test_psql(check: Callable[[str, str], str], database: str) -> None:
    assert check("psql", database).startswith("psql: ")


def test_fastapi(check: Callable[[str, str], str], database: str) -> None:
    assert check("fastapi", database).startswith("fastapi: ")


def test_sqlalchemy(check: Callable[[str, str], str], host: str) -> None:
    assert check("sqlalchemy", host).startswith("sqlalchemy: ")


def test_alembic(check: Callable[[str, str], str], bare_host: str) -> None:
    assert check("alembic", bare_host).startswith("alembic: ")


def test_fastapi_behind_a_transaction_pooler(check: Callable[[str, str], str], pooled: str) -> None:
    assert check("fastapi", pooled).startswith("fastapi: ")


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_types(name: str, environment: Environment, projects: Path, mypy_cache: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", f"--cache-dir={mypy_cache}"]
    done = run([*command, f"--python-executable={environment.python}", "check.py", *PACKAGES[name]], projects / name)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def mypy_cache(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where mypy keeps what it knows of packages, from one run of the tests to the next: it goes by what is in their files."""
    kept: pytest.Cache | None = getattr(pytestconfig, "cache", None)
    return tmp_path_factory.mktemp("mypy") if kept is None else Path(kept.mkdir("mypy-examples"))


@pytest.fixture
def pooled(database: str) -> Iterator[str]:
    """URL of a database behind PgBouncer in transaction mode."""
    program = shutil.which("pgbouncer")
    if program is None:
        pytest.skip("pgbouncer is not on the PATH")
    server = conninfo_to_dict(database)
    target = {name: str(server[name]) for name in ("host", "port", "user", "password") if name in server}
    # Not below pytest's directory, which is its owner's alone: pgbouncer will not run as root.
    directory = Path(tempfile.mkdtemp(prefix="kbsearch-pgbouncer-"))
    (directory / "pgbouncer.ini").write_text(
        f"""[databases]
* = {make_conninfo(**target)}
[pgbouncer]
unix_socket_dir = {directory}
listen_port = 6432
auth_type = any
pool_mode = transaction
default_pool_size = 4
""",
        encoding="utf-8",
    )
    user: int | str | None = None
    if os.geteuid() == 0:
        # The server's socket may be for its owner alone.
        socket = Path(str(server["host"]))
        user = socket.stat().st_uid if socket.is_absolute() else "nobody"
        for one in (directory, *directory.iterdir()):
            shutil.chown(one, user)
    command = [program, str(directory / "pgbouncer.ini")]
    process = subprocess.Popen(command, user=user, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        dsn = make_conninfo(host=str(directory), port=6432, user=str(server["user"]), dbname=str(server["dbname"]))
        for _ in range(100):
            try:
                psycopg.connect(dsn).close()
                break
            except psycopg.OperationalError:
                assert process.poll() is None, process.stderr.read() if process.stderr else ""
                time.sleep(0.1)
        yield url(dsn)
    finally:
        process.terminate()
        process.communicate(timeout=10)
        shutil.rmtree(directory)
