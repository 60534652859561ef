"""Embedded servers that end with the process that started them, however that ends.

A fixture cannot promise that: Python runs no finalizer in a process that is terminated or killed. So a second process, in a session of its own, waits
on a pipe for the first one's end, and removes then what the first one has not.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kbsearch import embedded

ROOT = Path(__file__).resolve().parents[1]
GUARD = """import sys
sys.stdin.read()
from pathlib import Path
directory = Path(sys.argv[1])
if directory.exists():
    from tests.guarded import remove
    remove(directory)
"""
"""It imports nothing until it is needed, and most are not."""


@contextmanager
def server(prefix: str, settings: Mapping[str, str], *, within: Path | None = None) -> Iterator[embedded.Server]:
    """A server with data of its own, which are removed with it.

    Args:
        prefix: how the name of its directory begins.
        settings: of the server.
        within: where its directory is made; by default where temporary ones are.
    """
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=within))
    # A terminal's signals do not reach it; the first process's end of the pipe is nobody else's, and is closed whatever becomes of it.
    guard = subprocess.Popen(
        [sys.executable, "-c", GUARD, str(directory)], cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield embedded.start(directory / "postgres", settings=settings)
    finally:
        remove(directory)
        guard.communicate()


def remove(directory: Path) -> None:
    """Stop the server in a directory, if it runs, and remove the directory."""
    try:
        embedded.stop(directory / "postgres")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
