"""Nothing is left of a run of tests, or of the fuzzer, that is ended from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.guarded import ROOT
from tests.testing.conftest import PATIENCE, wait_until

TESTS = """import time

def test_it(server_dsn):
    time.sleep(600)
"""
CONFTEST = "from tests.conftest import databases, embedded_dsn, pytest_configure, server_dsn, target_server\n"
RUN = """import sys
from pathlib import Path
from kbsearch.testing import servers
servers.MEMORY = Path("/nowhere")  # the data are to be where this test looks
sys.argv[0] = "pytest"
import pytest
sys.exit(pytest.main())"""
FUZZ = """import sys
from pathlib import Path
from tests.fuzz import campaign
campaign.STATE = Path("state/fuzz.json")
if __name__ == "__main__":
    sys.exit(campaign.main())"""
"""Its state is that of whoever fuzzes this checkout."""


@pytest.fixture
def directory() -> Iterator[Path]:
    """Where temporary files go, and a server may run: pytest's own directory is closed to other users."""
    with tempfile.TemporaryDirectory(prefix="kbsearch-ended-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        yield Path(made)


def processes(directory: Path) -> list[psutil.Process]:
    """Those that have a directory in their command lines."""
    found = psutil.process_iter(["cmdline"])
    return [one for one in found if any(str(directory) in argument for argument in one.info["cmdline"] or ())]


def is_ready(directory: Path) -> bool:
    files = directory.glob("kbsearch-*/postgres/postmaster.pid")
    return any("ready" in file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize(
    ("program", "arguments", "number"),
    [
        (RUN, ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-q"), signal.SIGTERM),
        (RUN, ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-q"), signal.SIGKILL),
        (FUZZ, (), signal.SIGTERM),
    ],
    ids=["tests, terminated", "tests, killed", "fuzzer, terminated"],
)
def test_no_server_is_left(
    program: str, arguments: tuple[str, ...], number: signal.Signals, tmp_path: Path, directory: Path
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KBSEARCH_", "PG", "PYTEST_"))}
    process = subprocess.Popen(
        [sys.executable, "program.py", *arguments],
        cwd=tmp_path,
        env={**kept, "TMPDIR": str(directory), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_until(lambda: is_ready(directory) or process.poll() is not None, "no server was started")
        assert process.poll() is None, process.communicate()[0]
        assert processes(directory), "what is to be looked for is not seen"
        process.send_signal(number)
        printed, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode != 0, printed
        wait_until(lambda: not processes(directory), f"something is left\n{printed}")
        wait_until(lambda: not list(directory.glob("kbsearch-*")), f"files are left\n{printed}")
    finally:
        process.kill()
        process.communicate()
