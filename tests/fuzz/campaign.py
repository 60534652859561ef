"""`python -m tests.fuzz`: fuzz every public function until so many calls are made; a fault ends it with status 1.

Batches are numbered and the same each time, so that a run that was stopped (Ctrl-C) is gone on with, and a fault found again by the batch's number.
What was counted lies in .hypothesis/fuzz.json, and is forgotten when the SQL changes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from kbsearch import migrate
from tests import guarded
from tests.conftest import FAST, Databases
from tests.fuzz import run
from tests.fuzz.judge import Fuzzer, Tally
from tests.fuzz.world import World, build
from tools.docs_sql import Function, read_functions

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".hypothesis" / "fuzz.json"
BATCH = 400
_fuzzer: Fuzzer


def prepare(dsn: str, world: World) -> None:
    """Of a process that makes calls."""
    global _fuzzer  # noqa: PLW0603  (one for each process)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _fuzzer = Fuzzer(dsn, world, functions_of(dsn), Tally())


def functions_of(dsn: str) -> list[Function]:
    with psycopg.connect(dsn) as connection:
        return [one for one in read_functions(connection) if one.public and one.arguments]


def batch(number: int) -> tuple[int, Tally, str | None]:
    """A batch's counts, and the fault that ended it."""
    _fuzzer.tally = Tally()
    functions = list(_fuzzer.functions.values())
    try:
        if number % 5 == 4:
            run.over_http(_fuzzer, run.readers(functions), number, BATCH)
        else:
            run.over_sql(_fuzzer, functions, number, BATCH)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is told, with the batch's number)
        _fuzzer.reconnect()
        told = "; ".join(str(one) for one in error.exceptions) if isinstance(error, ExceptionGroup) else ""
        return number, Tally(), f"{type(error).__name__}: {error} {told}"
    return number, _fuzzer.tally, None


def fingerprint() -> str:
    """Of what is fuzzed, and how."""
    digest = hashlib.sha256((migrate.sql_root() / "head.sql").read_bytes())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def recall(wanted: str) -> dict[str, Any]:
    try:
        state = json.loads(STATE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        state = {}
    fresh: dict[str, Any] = {"fingerprint": wanted, "done": [], "seconds": 0.0, "tally": None}
    return state if state.get("fingerprint") == wanted else fresh


class Campaign:
    """Calls made until there are so many, by some processes at once.

    Attributes:
        faults: batches that ended with a fault, and which.
    """

    def __init__(self, wanted: int, batches: Sequence[int], console: Console) -> None:
        self._state = recall(fingerprint())
        self._batches = batches
        self._wanted = wanted
        self._console = console
        self._done: set[int] = set() if batches else set(self._state["done"])
        self._started = time.monotonic() - (0 if batches else self._state["seconds"])
        self._running: set[Future[tuple[int, Tally, str | None]]] = set()
        self.tally = Tally() if batches else Tally.of(self._state["tally"])
        self.faults: list[tuple[int, str]] = []
        if self._done:
            console.print(f"going on after {self.tally.calls} calls; --again begins anew")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def run(self, pool: ProcessPoolExecutor, workers: int, show: Callable[[int], None]) -> bool:
        """Until there are enough calls, or too many faults; False where it was interrupted."""
        upcoming = iter(self._batches) if self._batches else (n for n in range(10**9) if n not in self._state["done"])
        whole = True
        try:
            while self.tally.calls < self._wanted and len(self.faults) < 20:
                while len(self._running) < workers and (number := next(upcoming, None)) is not None:
                    self._running.add(pool.submit(batch, number))
                if not self._running:
                    break
                finished, self._running = wait(self._running, return_when=FIRST_COMPLETED)
                self._take(finished)
                show(self.tally.calls)
        except KeyboardInterrupt:
            self._console.print("stopping after the batches at work; run it again to go on")
            whole = False
        self._take(wait(self._running).done)
        return whole

    def _take(self, finished: set[Future[tuple[int, Tally, str | None]]]) -> None:
        for future in finished:
            number, counted, fault = future.result()
            self.tally.merge(counted)
            if fault is None:
                self._done.add(number)
            else:
                self.faults.append((number, fault))
                self._console.print(f"batch {number}: {fault}", style="red", markup=False, highlight=False)
        if not self._batches:
            STATE.parent.mkdir(exist_ok=True)
            kept = {"done": sorted(self._done), "seconds": self.seconds, "tally": self.tally.as_dict()}
            STATE.write_text(json.dumps({**self._state, **kept}), encoding="utf-8")


def fuzz(dsn: str, world: World, wanted: int, workers: int, console: Console, *, batches: Sequence[int] = ()) -> int:
    """Make calls until there are so many; returns the exit status."""
    campaign = Campaign(wanted, batches, console)
    columns = (TextColumn("calls"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with (
        Progress(*columns, console=console) as progress,
        ProcessPoolExecutor(
            workers, mp_context=get_context("spawn"), initializer=prepare, initargs=(dsn, world)
        ) as pool,
    ):
        bar = progress.add_task("", total=wanted, completed=campaign.tally.calls)
        whole = campaign.run(pool, workers, lambda calls: progress.update(bar, completed=calls))
    tally = campaign.tally
    console.print(f"{tally}; {campaign.seconds:.0f} s in all", markup=False, highlight=False)
    if campaign.faults:
        numbers = " ".join(f"--batch {number}" for number, _ in campaign.faults)
        console.print(f"{len(campaign.faults)} faults; the same again: python -m tests.fuzz {numbers}", markup=False)
        return 1
    if tally.calls and tally.outcomes["answered"] < 0.3 * tally.calls:
        console.print("less than 30 % of the calls were answered: the samples are bad")
        return 1
    return 0 if whole else 130


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000, help="calls in all, those of earlier runs included")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--again", action="store_true", help="forget what earlier runs did")
    parser.add_argument("--batch", type=int, action="append", default=[], help="only the batch of this number")
    given = parser.parse_args()
    if given.calls < 1 or given.workers < 1:
        parser.error("--calls and --workers are at least 1")
    if given.again:
        STATE.unlink(missing_ok=True)
    console = Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with guarded.server("kbsearch-fuzz-", FAST) as server:
        databases = Databases(server.dsn("postgres"))
        dsn = databases.create()
        migrate.upgrade(dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            world = build(connection)
        return fuzz(dsn, world, given.calls, given.workers, console, batches=given.batch)
