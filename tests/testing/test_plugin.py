"""The plugin in projects of users: what its fixtures give, what it says, and that it costs nothing where it is not used."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.testing.conftest import Project

ROOT = Path(__file__).resolve().parents[2]

FIXTURES = """
import psycopg
import pytest

from kbsearch import KBSearch, migrate


def test_what_fixtures_give(kbsearch_server, kbsearch_database, kbsearch_dsn, kbsearch_connection, kbsearch_client, kbsearch_org, kbsearch_schema):
    assert kbsearch_schema == kbsearch_database.schema == kbsearch_server.schema == "kbsearch"
    assert kbsearch_dsn == kbsearch_database.dsn
    assert migrate.current(kbsearch_dsn) == migrate.head()
    assert kbsearch_connection.autocommit
    assert kbsearch_connection.info.dbname == kbsearch_database.name
    assert isinstance(kbsearch_client, KBSearch)
    assert kbsearch_org.load(["We refund."]) and kbsearch_client.search(kbsearch_org.id, "refund").total == 1
    with kbsearch_database.client() as client, kbsearch_database.connect() as connection:
        assert client.search(kbsearch_org.id, "refund").total == 1
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with kbsearch_server.database() as empty, empty.connect() as connection:
        assert migrate.current(connection) is None
    assert "secret" not in repr(kbsearch_server) + repr(kbsearch_database)


names = []


@pytest.mark.parametrize("number", [1, 2])
def test_every_test_has_a_database_of_its_own(kbsearch_database, kbsearch_org, number):
    names.append(kbsearch_database.name)
    assert len(set(names)) == number
    assert kbsearch_org.id == 1
    kbsearch_org.load(["We refund."])


def test_a_database_goes_although_somebody_is_connected(kbsearch_dsn):
    global left
    left = psycopg.connect(kbsearch_dsn)


def test_it_is_gone():
    with pytest.raises(psycopg.OperationalError):
        left.execute("SELECT 1")
"""


@pytest.fixture
def project(project: Project, server_dsn: str) -> Project:
    project.variables["KBSEARCH_TEST_DSN"] = server_dsn
    return project


def test_fixtures_of_a_users_project(project: Project) -> None:
    project.write(test_it=FIXTURES)
    code, printed = project.run("-W", "error", PYTHONWARNINGS="error")
    assert code == 0, printed
    assert "5 passed" in printed
    assert "collected 5 items\nkbsearch: the server of KBSEARCH_TEST_DSN at " in printed


def test_a_clone_takes_less_than_200_milliseconds(project: Project) -> None:
    project.write(
        test_it="""
from time import perf_counter

def test_clone(kbsearch_server, kbsearch_template):
    taken = []
    for _ in range(10):
        started = perf_counter()
        made = kbsearch_server.create(kbsearch_template)
        taken.append(perf_counter() - started)
        kbsearch_server.drop(made)
    print(f"clones: {[round(1000 * seconds) for seconds in taken]} ms")
    assert sorted(taken)[len(taken) // 2] < 0.2
"""
    )
    code, printed = project.run("--kbsearch-server=embedded", "-s")
    assert code == 0, printed


def test_another_schema(project: Project) -> None:
    project.write(
        test_it="""
from kbsearch import migrate
from kbsearch.testing import assert_pages_partition

def test_schema(kbsearch_org, kbsearch_client, kbsearch_database, kbsearch_connection):
    assert migrate.current(kbsearch_database.dsn, schema="help_search") == migrate.head()
    assert kbsearch_connection.execute("SELECT to_regnamespace('kbsearch')").fetchone() == (None,)
    kbsearch_org.load(["We refund.", "We refund fees."])
    assert_pages_partition(kbsearch_client, kbsearch_org.id, "refund")
    with kbsearch_database.client() as client:
        assert client.search(kbsearch_org.id, "fees").total == 1
"""
    )
    code, printed = project.run("--kbsearch-schema=help_search")
    assert code == 0, printed
    code, printed = project.run(KBSEARCH_TEST_SCHEMA="select")
    assert code == 1
    assert "the schema name 'select' is a reserved word" in printed


def test_migrations_of_the_project_make_the_template(project: Project) -> None:
    project.write(
        conftest="""
import psycopg
import pytest
from kbsearch import migrate

@pytest.fixture(scope="session")
def kbsearch_install():
    def install(dsn):
        migrate.upgrade(dsn)
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TABLE public.orders AS SELECT 7 AS id")
    return install
""",
        test_it="""
def test_ours(kbsearch_connection, kbsearch_org):
    assert kbsearch_connection.execute("SELECT id FROM public.orders").fetchall() == [(7,)]
""",
    )
    code, printed = project.run()
    assert code == 0, printed


UNUSED = """
import sys

def test_unused(tmp_path):
    assert not [name for name in sys.modules if name.split(".")[0] in ("kbsearch", "psycopg", "docker", "testcontainers", "psutil")]
"""


def test_a_run_that_does_not_use_it_does_not_notice_it(project: Project) -> None:
    project.write(test_it=UNUSED)
    for arguments in ((), ("-n", "1")):
        code, printed = project.run(
            "-W", "error", *arguments, KBSEARCH_TEST_SERVER="docker", DOCKER_HOST="unix:///nowhere"
        )
        assert code == 0, printed
        assert "kbsearch:" not in printed
        assert not list(project.temporary.glob("kbsearch*"))


def test_collecting_alone_starts_nothing(project: Project) -> None:
    project.write(test_it=FIXTURES)
    code, printed = project.run("--collect-only", KBSEARCH_TEST_SERVER="docker", DOCKER_HOST="unix:///nowhere")
    assert code == 0, printed
    assert "kbsearch:" not in printed


USED = "def test_used(kbsearch_server):\n    print(kbsearch_server.kind, kbsearch_server.reason)\n"


def test_what_cannot_be_had_ends_the_run_with_what_to_do(project: Project) -> None:
    project.write(test_it=USED)
    code, printed = project.run("--kbsearch-server=docker", DOCKER_HOST="unix:///nowhere/docker.sock")
    assert code == pytest.ExitCode.USAGE_ERROR, printed
    assert (
        "ERROR: kbsearch: no Docker engine answers at unix:///nowhere/docker.sock: No such file or directory\n"
        in printed
    )
    assert "Start one (docker version says what is wrong)" in printed
    assert "Traceback" not in printed
    project.variables["KBSEARCH_TEST_DSN"] = ""
    code, printed = project.run("--kbsearch-server=dsn")
    assert code == pytest.ExitCode.USAGE_ERROR, printed
    assert "ERROR: kbsearch: KBSEARCH_TEST_DSN is not set\nSet KBSEARCH_TEST_DSN to " in printed
    code, printed = project.run("--kbsearch-server=postgres")
    assert code == pytest.ExitCode.USAGE_ERROR, printed
    assert "argument --kbsearch-server: invalid choice: 'postgres'" in printed
    assert list(project.temporary.glob("kbsearch*")) == []


def test_a_server_that_is_asked_for_as_tests_go_is_told_at_the_end(project: Project) -> None:
    project.write(
        test_it="""
def test_asks(request):
    assert request.getfixturevalue("kbsearch_org").id == 1
"""
    )
    code, printed = project.run()
    assert code == 0, printed
    assert printed.count("kbsearch: the server of KBSEARCH_TEST_DSN at ") == 1


def test_without_testcontainers(project: Project, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    missing.mkdir()
    (missing / "testcontainers.py").write_text("raise ModuleNotFoundError(name='testcontainers')", encoding="utf-8")
    project.write(test_it=USED)
    code, printed = project.run("--kbsearch-server=docker", PYTHONPATH=str(missing))
    assert code == pytest.ExitCode.USAGE_ERROR, printed
    assert (
        "ERROR: kbsearch: testcontainers is not installed (testcontainers)\nRun: pip install 'kbsearch[testing]'"
        in printed
    )
    code, printed = project.run("-s", PYTHONPATH=str(missing), KBSEARCH_TEST_DSN="")
    assert code == 0, printed
    told = "embedded PostgreSQL, as KBSEARCH_TEST_DSN is not set and testcontainers is not installed (testcontainers)"
    assert f"kbsearch: {told}" in printed
    assert f"embedded {told}" in printed


def test_a_server_that_breaks_down_is_told_by_the_tests(project: Project) -> None:
    """What is chosen is not replaced when it turns out that it does not work."""
    project.write(test_it=USED)
    code, printed = project.run(KBSEARCH_TEST_DSN="host=/nowhere dbname=postgres")
    assert code == 1, printed
    assert "1 error" in printed
    assert "kbsearch: the server of KBSEARCH_TEST_DSN cannot be used: " in printed
    assert "Start it, or correct or unset KBSEARCH_TEST_DSN." in printed
    assert list(project.temporary.glob("kbsearch*")) == []


def test_settings_and_which_of_them_goes_first(project: Project) -> None:
    project.write(test_it=USED)
    settings = "[pytest]\nkbsearch_server = embedded\nkbsearch_image = registry.invalid/x:1\n"
    (project.directory / "pytest.ini").write_text(settings, encoding="utf-8")
    code, printed = project.run("--strict-config", KBSEARCH_TEST_DSN="")
    assert code == 0, printed
    assert "kbsearch: embedded PostgreSQL, as kbsearch_server in pytest's settings says" in printed
    code, printed = project.run()
    assert code == 0, printed
    assert "kbsearch: the server of KBSEARCH_TEST_DSN at " in printed
    code, printed = project.run(KBSEARCH_TEST_SERVER="embedded")
    assert code == 0, printed
    assert "kbsearch: embedded PostgreSQL, as KBSEARCH_TEST_SERVER says" in printed
    code, printed = project.run("--kbsearch-server=dsn", KBSEARCH_TEST_SERVER="nonsense")
    assert code == 0, printed
    assert ", as --kbsearch-server says" in printed
    code, printed = project.run(KBSEARCH_TEST_SERVER="nonsense")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "kbsearch: 'nonsense', of KBSEARCH_TEST_SERVER, is no server" in printed


def test_the_image_can_be_chosen(project: Project, docker: None) -> None:
    project.write(test_it=USED)
    code, printed = project.run("--kbsearch-server=docker", "--kbsearch-image=registry.invalid/none:1")
    assert code == pytest.ExitCode.USAGE_ERROR, printed
    assert "ERROR: kbsearch: the image registry.invalid/none:1 is not there and no registry gives it: " in printed


WORKERS = """
import json
import os
import time
from pathlib import Path

import pytest

def note(server, database):
    worker = os.environ["PYTEST_XDIST_WORKER"]
    noted = {"dsn": server.dsn, "run": server.run, "database": database.name, "worker": worker}
    Path(f"{database.name}.noted").write_text(json.dumps(noted))
    time.sleep(0.3)

@pytest.mark.parametrize("number", range(6))
def test_before(kbsearch_server, kbsearch_database, kbsearch_org, number):
    note(kbsearch_server, kbsearch_database)
    assert kbsearch_org.id == 1

def test_crash(kbsearch_server, kbsearch_database):
    if "CRASH" in os.environ:
        os._exit(1)

@pytest.mark.parametrize("number", range(6))
def test_after(kbsearch_server, kbsearch_database, kbsearch_org, number):
    note(kbsearch_server, kbsearch_database)
    assert kbsearch_org.id == 1
"""


@pytest.mark.parametrize("crash", [False, True])
def test_workers_share_a_server(project: Project, crash: bool) -> None:
    project.write(test_it=WORKERS)
    variables = {"CRASH": "1"} if crash else {}
    code, printed = project.run("-n", "3", "--kbsearch-server=embedded", **variables)
    assert code == int(crash), printed
    assert "kbsearch: embedded PostgreSQL, as --kbsearch-server says" in printed
    noted = [json.loads(file.read_text(encoding="utf-8")) for file in project.directory.glob("*.noted")]
    assert len(noted) == len({one["database"] for one in noted}) == 12
    assert len({one["worker"] for one in noted}) >= 2
    assert len({one["dsn"] for one in noted}) == 1
    assert project.left(noted[0]["run"]) == []


def test_workers_say_what_cannot_be_had(project: Project) -> None:
    project.write(test_it=USED)
    code, printed = project.run("-n", "2", "--kbsearch-server=docker", DOCKER_HOST="unix:///nowhere/docker.sock")
    assert code == 1, printed
    assert "kbsearch: no Docker engine answers at unix:///nowhere/docker.sock: " in printed
    assert "INTERNALERROR" not in printed
    assert list(project.temporary.glob("kbsearch*")) == []


def test_the_wheel_brings_the_plugin(project: Project, tmp_path: Path) -> None:
    """As installed: found by its entry point, without warnings, and not imported by a run that does not use it."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    project.write(
        test_unused=UNUSED,
        test_used=f"""
import kbsearch.testing
import _kbsearch_pytest
from kbsearch.testing import assert_pages_partition

def test_used(kbsearch_client, kbsearch_org):
    for module in (kbsearch.testing, _kbsearch_pytest):
        assert module.__file__.startswith({str(site)!r})
    kbsearch_org.load(["We refund.", "We refund fees."])
    assert_pages_partition(kbsearch_client, kbsearch_org.id, "refund")
""",
    )
    for test in ("test_unused.py", "test_used.py"):
        code, printed = project.run("-W", "error", test, PYTHONPATH=str(site))
        assert code == 0, printed
    code, printed = project.run("-p", "no:kbsearch", "test_used.py", PYTHONPATH=str(site))
    assert "fixture 'kbsearch_client' not found" in printed
