"""A test run's side of its server: the first process that needs one has a keeper started, all of them ask it, and the main process ends it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from kbsearch.testing import keeper
from kbsearch.testing.servers import BACKENDS, PULL_SECONDS, START_SECONDS, Request, ServerUnavailableError

_PID, _LOG = "pid", "log"
_CHOICE_SECONDS = 60.0
"""For the keeper to begin and choose, on a machine that is busy."""
_SERVER_SECONDS = PULL_SECONDS + 3 * START_SECONDS
_SPAWN_SECONDS = 5.0
"""Between the directory of a run and its keeper's process id in it."""


@dataclass(frozen=True, slots=True)
class Run:
    """A test run, which may be several processes.

    Attributes:
        request: which server it is to have.
        owner: process id of the main process: of pytest, or of the controller of its workers.
    """

    request: Request
    owner: int

    def choice(self) -> str:
        """Which server the run has and why, in a line; asks for it if nobody has yet.

        Raises:
            ServerUnavailableError: it can have none.
        """
        # Whoever makes the directory starts the keeper.
        with contextlib.suppress(FileExistsError):
            self._directory.mkdir(mode=0o700)
            self._start_keeper()
        return str(self._read(keeper.CHOICE, _CHOICE_SECONDS)["reason"])

    def server(self) -> tuple[str, str]:
        """Kind of the server, and the connection string of a role that may create databases, for the maintenance database.

        Raises:
            ServerUnavailableError: the run can have none.
        """
        self.choice()
        kind = self._read(keeper.CHOICE, _CHOICE_SECONDS)["kind"]
        return str(kind), str(self._read(keeper.SERVER, _SERVER_SECONDS)["dsn"])

    def finish(self) -> str | None:
        """Remove all that the run had, for the main process; what is wrong if something cannot be removed. Nothing happens if it had no server."""
        if not self._directory.exists():
            return None
        with contextlib.suppress(FileNotFoundError):  # it is going this moment
            (self._directory / keeper.STOP).touch()
        deadline = time.monotonic() + START_SECONDS
        process = self._keeper(_SPAWN_SECONDS)
        while process and keeper.is_alive(process) and time.monotonic() < deadline:
            time.sleep(keeper.POLL_SECONDS / 2)
        if process:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(START_SECONDS)
        try:
            # The keeper was killed, or failed.
            if (self._directory / keeper.CHOICE).exists() and "kind" in (said := self._said(keeper.CHOICE)):
                BACKENDS[said["kind"]](self.request).stop()
        except Exception as error:  # noqa: BLE001  (the run is over: it can only be told)
            return f"the test server of this run could not be removed: {error}"
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)
        return None

    @property
    def _directory(self) -> Path:
        return Path(self.request.directory)

    def _said(self, file: str) -> dict[str, Any]:
        said: dict[str, Any] = json.loads((self._directory / file).read_text(encoding="utf-8"))
        return said

    def _start_keeper(self) -> None:
        # -P: a test suite's directory may have a docker.py or a platform.py.
        command = [sys.executable, "-P", "-m", keeper.__name__, json.dumps(asdict(self.request)), str(self.owner)]
        # What the run has made errors of other packages' warnings is no reason to have no server.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
        with (self._directory / _LOG).open("wb") as log:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        keeper.write(self._directory / _PID, {"pid": process.pid})
        # It outlives a worker, and the main process waits for it by its id: no warning that it still runs.
        process.returncode = 0

    def _keeper(self, seconds: float) -> psutil.Process | None:
        """The keeper's process; None if it ended, or was never there."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError):
                pid = self._said(_PID)["pid"]
                with contextlib.suppress(psutil.NoSuchProcess):
                    return psutil.Process(pid)
                return None
            if not self._directory.exists():
                return None
            time.sleep(keeper.POLL_SECONDS)
        return None

    def _read(self, file: str, seconds: float) -> Mapping[str, Any]:
        """What the keeper says in a file, which is waited for."""
        deadline = time.monotonic() + seconds
        process = None
        while True:
            with contextlib.suppress(FileNotFoundError):
                said = self._said(file)
                if "error" in said:
                    raise ServerUnavailableError(said["error"], said["hint"])
                return said
            process = process or self._keeper(_SPAWN_SECONDS)
            alive = process is not None and keeper.is_alive(process)
            if not alive or time.monotonic() > deadline:
                log = self._directory / _LOG
                printed = log.read_text(encoding="utf-8", errors="replace")[-2000:].strip() if log.exists() else ""
                raise ServerUnavailableError(
                    f"the process that keeps the test server {'does not answer' if alive else 'has ended'}: {printed or 'it said nothing'}",
                    "Choose another server with --kbsearch-server, or start one and name it in KBSEARCH_TEST_DSN.",
                )
            time.sleep(keeper.POLL_SECONDS / 2)
