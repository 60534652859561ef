"""mypy --strict, run in a user's project: right uses of the public types pass, each wrong one is found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
IGNORED = re.compile(r"  # type: ignore\[([\w-]+)\]$")


@pytest.fixture(scope="module")
def cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where mypy keeps what it knows, from one run of the tests to the next."""
    kept: pytest.Cache | None = getattr(request.config, "cache", None)
    return tmp_path_factory.mktemp("mypy") if kept is None else Path(kept.mkdir("mypy"))


def mypy(directory: Path, cache: Path, name: str, text: str) -> tuple[list[tuple[int, str]], str]:
    """Check a file in a directory of its own, with no configuration: line and code of every error, and all that was said."""
    (directory / name).write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={cache}",
        "--no-error-summary",
        name,
    ]
    done = subprocess.run(command, cwd=directory, check=False, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert done.returncode in (0, 1), said
    errors = re.findall(rf"^{re.escape(name)}:(\d+): error: .*\[([\w-]+)\]$", said, re.MULTILINE)
    return [(int(line), code) for line, code in errors], said


@pytest.mark.timeout(600)
def test_right_uses_pass(tmp_path: Path, cache: Path) -> None:
    errors, said = mypy(tmp_path, cache, "user.py", (HERE / "user.py").read_text(encoding="utf-8"))
    assert errors == [], said
    assert said == ""


@pytest.mark.timeout(600)
def test_every_wrong_use_is_found(tmp_path: Path, cache: Path) -> None:
    lines = (HERE / "wrong_uses.py").read_text(encoding="utf-8").splitlines()
    expected = [(number, found[1]) for number, line in enumerate(lines, 1) if (found := IGNORED.search(line))]
    text = "\n".join(IGNORED.sub("", line) for line in lines) + "\n"
    errors, said = mypy(tmp_path, cache, "wrong_uses.py", text)
    assert errors == expected, said
    assert len(expected) > 30
