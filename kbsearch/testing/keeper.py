"""The process that keeps a test run's server: it starts the server, and removes all of it when the run is over, however that ends.

A fixture cannot promise that. Python runs no finalizer in a process that was killed, a second Ctrl-C ends pytest in the middle of its own, and the
workers of pytest-xdist are killed by their controller. So a process in a session of its own, which no signal of the terminal reaches, waits until
the run's main process asks for the end or is gone. What the processes of a run say to each other is in files of the run's directory.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from kbsearch.testing.servers import Backend, Request, ServerUnavailableError, choose

CHOICE = "choice.json"
"""Which server it is and why; or why there is none, and what to do."""
SERVER = "server.json"
"""How to reach it; or why not, and what to do."""
STOP = "stop"
"""There as soon as the run is over."""
POLL_SECONDS = 0.05


def main() -> None:
    """Keep the server of the run that the arguments describe: a Request as JSON, and the process id of the run's main process."""
    request, owner = Request(**json.loads(sys.argv[1])), psutil.Process(int(sys.argv[2]))
    directory = Path(request.directory)
    ended = False

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def is_over() -> bool:
        return ended or (directory / STOP).exists() or not is_alive(owner)

    backend: Backend | None = None
    try:
        try:
            backend, reason = choose(request)
            write(directory / CHOICE, {"kind": backend.kind, "reason": reason})
            write(directory / SERVER, {"dsn": backend.start(is_over)})
        except Exception as error:  # noqa: BLE001  (it is told to those who wait)
            known = isinstance(error, ServerUnavailableError)
            told = {"error": str(error) if known else traceback.format_exc(), "hint": getattr(error, "hint", "")}
            write(directory / (CHOICE if backend is None else SERVER), told)
        while not is_over():
            time.sleep(POLL_SECONDS)
    finally:
        if backend is not None:
            backend.stop()
        shutil.rmtree(directory, ignore_errors=True)


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs; one that is dead and only not yet waited for does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def write(file: Path, content: Mapping[str, Any]) -> None:
    """Write a file that only its owner may read, such that nobody finds half of it."""
    draft = file.with_suffix(".draft")
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(content), encoding="utf-8")
    draft.replace(file)


if __name__ == "__main__":
    main()
