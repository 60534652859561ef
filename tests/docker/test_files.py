"""The files for Docker and for CI, read without an engine."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docker.engine import ROOT, Done, run

SCRIPTS = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "docker").glob("*.sh"))
WORKFLOW = ".github/workflows/ci.yml"
PROGRAMS = Path(sys.executable).parent
DOCKERFILES = ["docker/Dockerfile", "docker/cli.Dockerfile"]


@pytest.fixture
def workflow() -> dict[str, Any]:
    if not (ROOT / WORKFLOW).exists():
        pytest.skip("a source distribution has no workflows")
    loaded = yaml.safe_load((ROOT / WORKFLOW).read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_scripts_have_no_known_traps(script: str) -> None:
    done = run([str(PROGRAMS / "shellcheck"), script])
    assert done.code == 0, done.out


def test_scripts_that_are_called_can_be_executed() -> None:
    """complete.sh is read by the entry point, and not run."""
    run_by_name = [script for script in SCRIPTS if (ROOT / script).read_text(encoding="utf-8").startswith("#!")]
    assert set(SCRIPTS) - set(run_by_name) == {"docker/complete.sh"}
    assert [script for script in run_by_name if not (ROOT / script).stat().st_mode & 0o111] == []


@pytest.mark.parametrize("file", DOCKERFILES)
def test_what_a_dockerfile_copies_is_sent_to_the_engine(file: str) -> None:
    """.dockerignore lets pass what is named there, and nothing else that a Dockerfile wants."""
    text = (ROOT / file).read_text(encoding="utf-8")
    copied = [
        source for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for source in line.split()
    ]
    assert copied
    for source in copied:
        assert source.startswith("build/docker/") or Path(source).match("docker/*.sh")
        if source.startswith("docker/"):
            assert (ROOT / source).exists()
    assert (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")[1:4] == [
        "*",
        "!build/docker",
        "!docker/*.sh",
    ]


def test_the_workflow_is_one_that_github_reads(workflow: dict[str, Any]) -> None:
    done = run([str(PROGRAMS / "check-jsonschema"), "--builtin-schema", "vendor.github-workflows", WORKFLOW])
    assert done.code == 0, done.out
    assert list(workflow["jobs"]) == ["lint", "test", "docker", "wheel"]


def test_the_workflow_runs_targets_that_there_are(workflow: dict[str, Any]) -> None:
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    called = re.findall(r"make (\S+)", "\n".join(step.get("run", "") for step in steps))
    assert set(called) == {"lint", "test", "test-quality", "image", "test-docker", "test-servers"}
    assert set(called) <= set(targets)
    assert all(re.fullmatch(r"[\w/-]+@v\d+\.\d+\.\d+", step["uses"]) for step in steps if "uses" in step)


def test_the_workflow_tests_the_oldest_python_that_is_supported(workflow: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert project["requires-python"] == f">={versions[0]}"


def test_the_workflow_does_what_is_run_here(workflow: dict[str, Any]) -> None:
    here = re.findall(r"^make (\S+)$", (ROOT / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE)
    there = "\n".join(step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"])
    assert here
    assert [target for target in here if f"make {target}" not in there] == []


def without_an_engine(**variables: str) -> Done:
    """Tests of images, run where no Docker engine answers."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/docker/test_servers.py"]
    return run(command, variables={"DOCKER_HOST": "unix:///nonexistent", **variables})


def test_without_an_engine_the_tests_are_skipped_in_one_line_unless_they_are_required() -> None:
    skipped = without_an_engine()
    assert skipped.code == 0, skipped.out
    (line,) = [line for line in skipped.out.splitlines() if line.startswith("SKIPPED")]
    assert re.fullmatch(
        r"SKIPPED \[\d+\] tests/docker/conftest.py:1: (no Docker engine answers: |there is no command docker).*", line
    )
    failed = without_an_engine(KBSEARCH_DOCKER="required")
    assert failed.code == 1, failed.out
    assert "passed" not in failed.out


@pytest.mark.parametrize("script", ["docker/base-image.sh", "docker/build.sh"])
def test_without_an_engine_a_script_says_so(script: str) -> None:
    done = run(script.split(), variables={"DOCKER_HOST": "unix:///nonexistent"})
    assert done.code == 1
    name = Path(script.split(maxsplit=1)[0]).name
    assert done.errors == f"{name}: no Docker engine answers; start one (docker version says what is wrong)\n"
