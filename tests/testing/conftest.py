"""Projects of users, with tests of their own, which are run in a process of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from kbsearch.testing import servers
from tests.conftest import needs_docker
from tests.docker.engine import required

PYTEST = """import signal, sys, pytest
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(pytest.main(sys.argv[1:]))"""
"""What a shell runs in the background ignores Ctrl-C, and all that it starts inherits that: this does not."""
LEFT_OUT = ("-p", "no:anyio", "-p", "no:hypothesispytest", "-p", "no:platformdirs")
"""Plugins of other packages, found as ours is: importing them takes longer than most of the runs."""
PATIENCE = 90.0
"""Seconds that a run may take until its test runs, on a machine that is busy."""


@dataclass
class Project:
    """A directory with tests.

    Attributes:
        directory: where the tests are.
        temporary: where its runs have their temporary files; empty when all is removed.
        variables: environment variables of its runs.
    """

    directory: Path
    temporary: Path
    variables: dict[str, str] = field(default_factory=dict)
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def write(self, **files: str) -> None:
        """Write modules, by their names."""
        for name, text in files.items():
            (self.directory / f"{name}.py").write_text(text, encoding="utf-8")

    def begin(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start pytest in a session of its own, as a terminal does."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("KBSEARCH_", "PG", "PYTEST_"))
        }
        process = subprocess.Popen(
            [sys.executable, "-c", PYTEST, "-p", "no:cacheprovider", *LEFT_OUT, *arguments],
            cwd=self.directory,
            env={**kept, "TMPDIR": str(self.temporary), "COLUMNS": "200", **self.variables, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.running.append(process)
        return process

    def run(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """Run pytest to the end, and return its exit code and what it printed."""
        process = self.begin(*arguments, **variables)
        printed, _ = process.communicate(timeout=2 * PATIENCE)
        return process.returncode, printed

    def seen(self, name: str = "seen") -> dict[str, Any]:
        """What a test has written to `seen.json`, as soon as it is there."""
        file = self.directory / f"{name}.json"
        wait_until(file.exists, f"no {file.name}: the run got nowhere")
        said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return said

    def wait_until_clean(self, run: str, dsn: str | None = None) -> None:
        """Wait until nothing is left of a run that could not remove it itself."""
        deadline = time.monotonic() + PATIENCE
        while left := self.left(run, dsn):
            assert time.monotonic() < deadline, left
            time.sleep(0.1)

    def left(self, run: str, dsn: str | None = None) -> list[str]:
        """What is left of a run: its files, processes, containers and databases."""
        files = (*self.temporary.iterdir(), *servers.MEMORY.glob(f"*{run}*"))
        left = [str(path) for path in files if not path.name.startswith("pytest-of-")]  # pytest's own, which it keeps
        left += [f"process {one.pid}: {one.info['cmdline']}" for one in processes(run)]
        if dsn:
            with suppress(psycopg.OperationalError), psycopg.connect(dsn) as connection:
                names = connection.execute(
                    "SELECT datname FROM pg_catalog.pg_database WHERE datname LIKE %s", (f"{servers.PREFIX}{run}%",)
                )
                left += [f"database {name}" for (name,) in names]
        return left + [f"container {name}" for name in containers() if run in name]


def wait_until(holds: Callable[[], Any], told: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, told
        time.sleep(0.05)


def processes(run: str) -> list[psutil.Process]:
    """Those that are a run's own, with their command lines."""
    found = psutil.process_iter(["cmdline"])
    return [one for one in found if any(run in argument for argument in one.info["cmdline"] or ())]


def containers() -> list[str]:
    """Names of all containers, running or not; none where there is no engine."""
    try:
        with servers.engine(servers.ANSWER_SECONDS) as client:
            return [container.name for container in client.containers.list(all=True, ignore_removed=True)]
    except servers.ServerUnavailableError:
        return []


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path / "project", tmp_path / "temporary")
    made.directory.mkdir()
    made.temporary.mkdir()
    yield made
    for process in made.running:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


_SKIPPED = pytest.StashKey[str]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs Docker where no engine answers, or has the image; where Docker is required it fails by itself."""
    needing = [item for item in items if needs_docker(item) and item.path.parent == Path(__file__).parent]
    if needing and not required():
        try:
            servers.Container(servers.Request("none", "/nowhere", "docker")).check()
        except servers.ServerUnavailableError as error:
            config.stash[_SKIPPED] = f"{len(needing)} tests that need Docker are skipped: {error}"
            for item in needing:
                item.add_marker(pytest.mark.skip(reason=f"needs Docker: {error}"))


def pytest_report_collectionfinish(config: pytest.Config) -> str | None:
    return config.stash.get(_SKIPPED, None)


@pytest.fixture
def docker() -> None:
    """For tests that need an engine and the image."""


@pytest.fixture(params=["dsn", "embedded", "docker"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of server."""
    return str(request.param)
