"""Nothing is left of a run, however it ends: no process, container, database, file."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from kbsearch.testing import servers
from tests.testing.conftest import Project, processes, wait_until

TESTS = """
import json
import os
import time
from pathlib import Path


def test_first(kbsearch_server, kbsearch_database, kbsearch_connection):
    kbsearch_connection.execute("CREATE TABLE public.mine AS SELECT 1 AS one")
    seen = {"run": kbsearch_server.run, "kind": kbsearch_server.kind, "dsn": kbsearch_server.dsn, "database": kbsearch_database.name}
    Path("draft.json").write_text(json.dumps(seen))
    Path("draft.json").rename("seen.json")
    time.sleep(float(os.environ.get("SLEEP", "0")))
    assert "FAIL" not in os.environ


def test_second(kbsearch_org):
    kbsearch_org.load(["We refund."])
    assert kbsearch_org.search("refund").total == 1
"""


def twice(group: int) -> None:
    os.killpg(group, signal.SIGINT)
    time.sleep(0.2)  # pytest is in the middle of its own finalizers
    os.killpg(group, signal.SIGINT)


ENDS: dict[str, Callable[[int], None]] = {
    "Ctrl-C": lambda group: os.killpg(group, signal.SIGINT),
    "Ctrl-C twice": twice,
    "terminated": lambda group: os.kill(group, signal.SIGTERM),
    "killed": lambda group: os.killpg(group, signal.SIGKILL),
}


@pytest.fixture
def project(project: Project, server_dsn: str) -> Project:
    project.write(test_it=TESTS)
    project.variables["KBSEARCH_TEST_DSN"] = server_dsn
    return project


def test_of_a_run_that_ends_by_itself(project: Project, kind: str) -> None:
    code, printed = project.run(f"--kbsearch-server={kind}")
    assert code == 0, printed
    assert "2 passed" in printed
    seen = project.seen()
    assert seen["kind"] == kind
    assert project.left(seen["run"], seen["dsn"]) == []


def test_of_a_run_that_fails_at_once(project: Project, kind: str) -> None:
    code, printed = project.run("-x", f"--kbsearch-server={kind}", FAIL="1")
    assert code == 1, printed
    assert "stopping after 1 failures" in printed
    seen = project.seen()
    assert project.left(seen["run"], seen["dsn"]) == []


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        *[(kind, end) for kind in ("dsn", "embedded", "docker") for end in ("Ctrl-C", "killed")],
        ("embedded", "Ctrl-C twice"),
        ("embedded", "terminated"),
    ],
    indirect=["kind"],
)
def test_of_a_run_that_is_ended(project: Project, kind: str, end: str) -> None:
    process = project.begin(f"--kbsearch-server={kind}", SLEEP="600")
    seen = project.seen()
    assert project.left(seen["run"], seen["dsn"]), "what is to be looked for is not seen"
    ENDS[end](process.pid)
    printed, _ = process.communicate(timeout=60)
    if end == "Ctrl-C":
        assert process.returncode == pytest.ExitCode.INTERRUPTED, printed
        assert project.left(seen["run"], seen["dsn"]) == []
    assert process.returncode != 0, printed
    project.wait_until_clean(seen["run"], seen["dsn"])


@pytest.mark.parametrize(
    ("kind", "seconds"), [("embedded", 0.0), ("embedded", 1.5), ("docker", 1.5)], indirect=["kind"]
)
def test_of_a_run_that_is_ended_while_its_server_starts(project: Project, kind: str, seconds: float) -> None:
    process = project.begin(f"--kbsearch-server={kind}", SLEEP="600")
    wait_until(lambda: list(project.temporary.glob("kbsearch-test-*")), "the run got nowhere")
    (directory,) = project.temporary.glob("kbsearch-test-*")
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, printed
    assert project.left(directory.name.rpartition("-")[2]) == []


def test_of_a_run_whose_keeper_was_killed(project: Project, kind: str) -> None:
    process = project.begin(f"--kbsearch-server={kind}", SLEEP="2")
    seen = project.seen()
    (keeper,) = (one for one in processes(seen["run"]) if "kbsearch.testing.keeper" in one.info["cmdline"])
    keeper.kill()
    printed, _ = process.communicate(timeout=60)
    assert "1 failed" not in printed
    assert project.left(seen["run"], seen["dsn"]) == []


@pytest.mark.parametrize("end", ["Ctrl-C", "killed"])
def test_of_a_run_with_workers_that_is_ended(project: Project, end: str) -> None:
    process = project.begin("-n", "2", "--kbsearch-server=embedded", SLEEP="600")
    seen = project.seen()
    ENDS[end](process.pid)
    process.communicate(timeout=60)
    project.wait_until_clean(seen["run"], seen["dsn"])


def test_volumes_go_with_their_container(project: Project, docker: None) -> None:
    process = project.begin("--kbsearch-server=docker", SLEEP="2")
    run = project.seen()["run"]
    with servers.engine(servers.ANSWER_SECONDS) as client:
        mounts = client.containers.get(f"kbsearch-test-{run}").attrs["Mounts"]
        printed, _ = process.communicate(timeout=60)
        assert process.returncode == 0, printed
        left = {volume.name for volume in client.volumes.list()}
    assert not left & {mount.get("Name") for mount in mounts}
