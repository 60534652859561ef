"""Times of calls in turns, and throughput by pgbench."""

from __future__ import annotations

import re
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import psycopg
from pgvector.psycopg import register_vector

from benchmarks.peers import Parameters
from benchmarks.store import Store
from kbsearch import embedded

Call = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured.

    Attributes:
        rounds: how often each call is timed, if there is time.
        least: rounds that are timed in any case.
        seconds: after so long a call is not made again.
        warm_up: rounds before those that are timed.
        asked: questions for recall, pages and memory.
        throughput: seconds of each run of pgbench; 0: a few answers.
        clients: how many at a time.
        turns: how often.
        writing: seconds of writers and compact beside readers.
    """

    rounds: int = 100
    least: int = 5
    seconds: float = 4
    warm_up: int = 2
    asked: int = 16
    throughput: float = 4
    clients: tuple[int, ...] = (1, 2, 4, 8)
    turns: int = 2
    writing: float = 10


LITTLE = Effort(rounds=2, least=1, seconds=1, warm_up=1, asked=1, throughput=0, clients=(1, 8), turns=1, writing=0.5)
"""Shows that it runs."""


def times(calls: Mapping[str, Call], effort: Effort) -> dict[str, list[float]]:
    """Milliseconds of each call. They are called in turns, so that what else the machine does hits all of them, with the number of a question.

    A slow one has had enough after some seconds; the others go on.
    """
    found: dict[str, list[float]] = {name: [] for name in calls}
    spent = dict.fromkeys(calls, 0.0)
    for number in range(-effort.warm_up, effort.rounds):
        for name, call in calls.items():
            slow = spent[name] > effort.seconds
            if slow and (number < 0 or number >= effort.least):
                continue
            before = time.perf_counter()
            call(number % effort.rounds)
            took = time.perf_counter() - before
            spent[name] += took
            if number >= 0:
                found[name].append(1000 * took)
    return found


def summary(values: Sequence[float]) -> dict[str, float]:
    """Percentiles, in milliseconds."""
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {"p50": float(p50), "p95": float(p95), "p99": float(p99), "count": len(values)}


class Client:
    """A connection that runs prepared statements, and fetches all rows."""

    def __init__(self, dsn: str, settings: Mapping[str, str] | None = None) -> None:
        """Connect, with settings of the session."""
        self.connection = psycopg.connect(dsn, autocommit=True)
        register_vector(self.connection)
        for name, value in (settings or {}).items():
            self.connection.execute("SELECT set_config(%s, %s, false)", [name, value])

    def rows(self, statement: str, parameters: Parameters = ()) -> list[Any]:
        """All rows."""
        return self.connection.execute(statement.encode(), parameters, prepare=True).fetchall()

    def close(self) -> None:
        """Disconnect."""
        self.connection.close()


def throughput(
    store: Store, database: str, queries: Sequence[tuple[str, Parameters]], clients: int, seconds: float
) -> float:
    """Transactions a second of so many clients, each of which asks one of the queries after the other, at random, prepared."""
    server = store.server()
    with psycopg.connect(server.dsn(database), cursor_factory=psycopg.ClientCursor) as connection:
        register_vector(connection)
        texts = [psycopg.ClientCursor(connection).mogrify(query.encode(), parameters) for query, parameters in queries]
    with tempfile.TemporaryDirectory(prefix="kbsearch-bench-") as folder:
        files = []
        for number, text in enumerate(texts):
            path = Path(folder) / f"{number}.sql"
            path.write_text(f"{' '.join(text.split())};\n", encoding="utf-8")
            files += ["-f", str(path)]
        command = [
            str(embedded.binary("pgbench")),
            "-n",
            "-M",
            "prepared",
            "-c",
            str(clients),
            "-j",
            str(min(clients, 2)),
        ]
        where = ["-h", server.host, "-p", str(server.port), "-U", "postgres", database]
        said = subprocess.run(
            [*command, *(["-T", str(round(seconds))] if seconds else ["-t", "2"]), *files, *where],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    found = re.search(r"tps = ([\d.]+)", said)
    return float(found.group(1)) if found else 0.0


class Watch:
    """The highest private memory (bytes) of a server process, looked at every millisecond."""

    def __init__(self, pid: int) -> None:
        """Of this process, on this machine."""
        self._status = Path(f"/proc/{pid}/status")
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.before = self.now()
        self.peak = self.before

    def now(self) -> float:
        """Resident memory without what it shares; NaN where the system doesn't say."""
        try:
            lines = self._status.read_text(encoding="ascii").splitlines()
        except OSError:
            return float("nan")
        return float(sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) * 1024)

    def _look(self) -> None:
        while not self._done.wait(0.001):
            self.peak = max(self.peak, self.now())

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._done.set()
        self._thread.join()


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)
