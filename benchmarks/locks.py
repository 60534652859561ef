"""Who waits for whom: readers, writers and the compaction of postings beside each other."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

import psycopg

from benchmarks.calls import opened, page_of
from benchmarks.data import questions
from benchmarks.peers import PAGE
from benchmarks.prepare import TABLES
from benchmarks.store import EDITED, LARGE, MEDIUM, TENANT, Scale, Store
from benchmarks.timing import Client, Effort

_WAITS = """
SELECT DISTINCT a.application_name || ' for ' || b.application_name || CASE WHEN l.locktype = 'extend' THEN ', while a file grows' ELSE '' END
FROM pg_locks AS l
INNER JOIN pg_stat_activity AS a ON a.pid = l.pid
CROSS JOIN LATERAL unnest(pg_blocking_pids(l.pid)) AS w (pid)
INNER JOIN pg_stat_activity AS b ON b.pid = w.pid
WHERE NOT l.granted AND a.datname = current_database()
"""


class _Crew:
    """Clients that do the same again and again until they are stopped, each in a thread."""

    def __init__(self, store: Store, database: str) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self._store, self._database = store, database
        self._done = threading.Event()
        self._threads: list[threading.Thread] = []

    def add(self, what: str, call: Callable[[Client, int], object]) -> None:
        """One more."""
        self._threads.append(threading.Thread(target=self._repeat, args=(what, call)))

    def _repeat(self, what: str, call: Callable[[Client, int], object]) -> None:
        try:
            with opened(self._store, self._database, {"application_name": what}) as client:
                for number in itertools.count():
                    if self._done.is_set():
                        return
                    call(client, number)
                    self.counts[what] += 1
        except Exception as error:  # noqa: BLE001  (it is reported)
            self.failures.append(f"{what}: {error}")

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()


def locks(store: Store, scale: Scale, effort: Effort) -> dict[str, Any]:
    """Who waits for a lock while readers search, two organisations are written to, and postings are compacted."""
    asked = questions(10, "mixed", 50)
    medium = MEDIUM if MEDIUM in scale.organisations else TENANT
    read, compacted = (LARGE, medium), (medium, EDITED)
    waits: Counter[str] = Counter()
    looks = 0
    with store.connect(scale.name) as connection:
        crew = _Crew(store, scale.name)
        for _ in range(4):
            crew.add("reader", lambda client, n: client.rows(*page_of(asked[n % 50], read[n % 2], PAGE, 0, None)))
        for org_id in (EDITED, EDITED + 1):
            crew.add(f"writer {org_id}", _editor(connection, org_id))
        crew.add("compact", lambda client, n: client.rows(_COMPACT, [compacted[n % 2]]))
        with crew:
            end = time.monotonic() + effort.writing
            while time.monotonic() < end:
                looks += 1
                waits.update(row[0] for row in connection.execute(_WAITS.encode()))
                time.sleep(0.002)
        for table in TABLES:
            connection.execute(f"VACUUM kbsearch.{table}".encode())
    done = {"waits": dict(waits), "done": dict(crew.counts), "failures": crew.failures}
    return {"seconds": effort.writing, "looks": looks, **done}


_COMPACT = "SELECT kbsearch.compact_kb_postings_v1(%s)"


def _editor(connection: psycopg.Connection[Any], org_id: int) -> Callable[[Client, int], object]:
    """Edits chunks of an organisation, one at a time."""
    chance = random.Random(org_id)
    chunks = connection.execute(
        "SELECT c.id, c.content FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %s", [org_id]
    ).fetchall()

    def edit(client: Client, number: int) -> object:
        chunk_id, content = chance.choice(chunks)
        return client.connection.execute(
            "UPDATE kbsearch.kb_article_chunks AS c SET content = %s WHERE c.org_id = %s AND c.id = %s",
            [f"{content.removesuffix(' edited')}{' edited' if number % 2 else ''}", org_id, chunk_id],
        )

    return edit
