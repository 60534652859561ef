"""Whatever becomes of a test, its containers, volumes, networks and images are gone afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docker.engine import BASE, ROOT, Engine, run, until

INNER = """
import os, time
from pathlib import Path
from tests.docker.conftest import bare_engine, engine, images, swept
from tests.docker.engine import DATABASE

def test_that_leaves_everything(engine, tmp_path):
    volume = ["--volume", f"{engine.volume()}:/var/lib/postgresql/data"]
    engine.database(options=volume)
    engine.derive(tmp_path, DATABASE, "ENV MADE_BY=a-test")
    engine.docker("network", "create", engine.name())
    Path(os.environ["READY"]).write_text(engine.mark)
    {end}
"""


def pytest_inside(directory: Path, end: str) -> subprocess.Popen[str]:
    """Start pytest on a test that makes one of everything and then ends so."""
    test = directory / "test_inner.py"
    test.write_text(INNER.replace("{end}", end), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        str(ROOT / "pyproject.toml"),
        str(test),
    ]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "READY": str(directory / "ready"), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def of(engine: Engine, mark: str) -> set[str]:
    """The kinds of things that a process has left."""
    return {kind for kind, _ in engine.left(lambda found: found == mark)}


@pytest.mark.parametrize(
    ("end", "sent", "printed"),
    [
        ("assert False, 'as it was to be'", None, "1 failed"),
        ("time.sleep(200)", signal.SIGINT, "KeyboardInterrupt"),
        ("time.sleep(200)", signal.SIGTERM, "KeyboardInterrupt"),
    ],
)
def test_nothing_is_left(engine: Engine, tmp_path: Path, end: str, sent: int | None, printed: str) -> None:
    ready = tmp_path / "ready"
    inside = pytest_inside(tmp_path, end)
    until(lambda: ready.exists() or inside.poll() is not None, 200)
    if sent:
        assert of(engine, ready.read_text(encoding="utf-8")) == {"container", "volume", "network", "image"}
        os.killpg(inside.pid, sent)
    output, _ = inside.communicate(timeout=100)
    assert printed in output
    assert of(engine, ready.read_text(encoding="utf-8")) == set()


def test_what_a_killed_session_left_is_removed_by_the_next(engine: Engine, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    inside = pytest_inside(tmp_path, "time.sleep(200)")
    until(lambda: ready.exists() or inside.poll() is not None, 200)
    inside.kill()
    inside.communicate(timeout=100)
    mark = ready.read_text(encoding="utf-8")
    assert of(engine, mark) == {"container", "volume", "network", "image"}
    Engine().sweep()
    assert of(engine, mark) == set()


def mounts() -> str:
    return Path("/proc/mounts").read_text(encoding="utf-8")


def base_image(tmp_path: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start docker/base-image.sh with its big folder in a directory of the test."""
    return subprocess.Popen(
        [str(ROOT / "docker/base-image.sh"), *arguments],
        env={**os.environ, "TMPDIR": str(tmp_path), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def name(bare_engine: Engine) -> str:
    """Name of an image that the script is to make."""
    if os.geteuid() or not shutil.which("debootstrap"):
        pytest.skip("docker/base-image.sh needs root and debootstrap to make an image")
    return bare_engine.name()


def test_a_base_image_that_is_there_is_left_alone(engine: Engine) -> None:
    before = engine.docker("image", "inspect", "--format", "{{.Id}}", BASE)
    done = run(["docker/base-image.sh", "17"])
    assert (done.code, done.out) == (0, f"{BASE} is there.\n")
    assert engine.docker("image", "inspect", "--format", "{{.Id}}", BASE) == before
    assert run(["docker/base-image.sh", "16"]).code == 2


def test_a_base_image_without_a_mirror_is_an_error_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    made = base_image(tmp_path, "--tag", name, DEBIAN_MIRROR="http://127.0.0.1:9/debian", http_proxy="")
    out, errors = made.communicate(timeout=200)
    assert made.returncode == 1
    assert out.splitlines() == ["1/5 minimal system …"]
    assert errors.splitlines()[-1].startswith("base-image.sh: 1/5 minimal system: failed with exit code ")
    assert list(tmp_path.iterdir()) == []


def test_a_base_image_that_is_interrupted_leaves_nothing(name: str, tmp_path: Path) -> None:
    made = base_image(tmp_path, "--tag", name)
    until(lambda: made.poll() is not None or any(tmp_path.glob("*/debootstrap")), 60)
    if made.poll() is not None:
        pytest.skip("no mirror of Debian's can be reached")
    os.killpg(made.pid, signal.SIGINT)
    made.communicate(timeout=100)
    assert made.returncode == 130
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in mounts()
