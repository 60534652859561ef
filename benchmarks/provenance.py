"""When and under what each part was measured, and where parts were measured under something else than the others."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from benchmarks import data
from benchmarks.figures import grid, number
from benchmarks.lookup import NOWHERE, Results
from benchmarks.store import SETTINGS, Store, scalar
from benchmarks.timing import Effort
from kbsearch.evaluate.fingerprint import sha256_of
from kbsearch.inventory import inventory

PARTS = (
    "latency",
    "keyword",
    "recall",
    "pages",
    "memory",
    "throughput",
    "locks",
    "beside",
    "by_organisation",
    "by_database",
    "quality",
    "disk",
)
"""What a file of results may have, each with a record of its own under "measured"."""

FILES = ("100k", "1m", "curve", "quality")
"""What the report is made of."""

Record = Mapping[str, Any]


def record(store: Store, databases: Sequence[str], effort: Effort | None = None) -> dict[str, Any]:
    """What figures depend on, now: time, load, machine, versions, the settings that the server runs with, how much is measured, the SQL.

    The SQL is what is installed in the databases, which need not be what the files say: a digest of all definitions, the indexes of approximate
    searches left out, which are data's.
    """
    sql = set()
    for name in databases:
        with store.connect(name) as connection:
            installed = inventory(connection, "kbsearch")
            ours = {title: text for title, text in installed.items() if "kb_ann_" not in title}
            sql.add(sha256_of(ours)[:12])
            row = connection.execute(
                "SELECT current_setting('server_version'), (SELECT e.extversion FROM pg_extension AS e WHERE e.extname = 'vector')"
            ).fetchone()
            settings = {one: scalar(connection, "SELECT current_setting(%s)", [one]) for one in SETTINGS}
    server, vector = row or (None, None)
    return {
        **moment(),
        "sql": " + ".join(sorted(sql)),
        "settings": settings,
        "effort": {name: str(value) for name, value in asdict(effort).items()} if effort else {},
        "cores": os.cpu_count(),
        "machine": f"{platform.machine()}, {platform.system()}",
        "postgresql": server,
        "pgvector": vector,
        "generator": data.VERSION,
    }


def moment() -> dict[str, Any]:
    """Time and load."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def table(results: Results) -> list[str]:
    """A row for parts of a file that were measured under the same."""
    grouped: dict[tuple[str, str, str, str], list[tuple[str, Record]]] = {}
    for (file, part), found in _records(results).items():
        key = (file, found.get("sql") or "-", said(results, file, part), found.get("when", "-")[:10])
        grouped.setdefault(key, []).append((part, found))
    return grid(
        ("file", "parts", "measured (UTC)", "load", "SQL", "other than most"),
        [
            (
                file,
                ", ".join(part for part, _ in parts),
                _range(sorted(one["when"][:16].replace("T", " ") for _, one in parts if "when" in one)),
                _range(list(map(number, sorted(one["load"] for _, one in parts if one.get("load") is not None)))),
                sql,
                difference,
            )
            for (file, sql, difference, _day), parts in grouped.items()
        ],
        "lllrll",
    )


def warning(results: Results) -> list[str]:
    """One line, where not all parts were measured under the same."""
    apart: dict[str, list[str]] = {}
    for file, part in _records(results):
        if difference := said(results, file, part):
            apart.setdefault(difference, []).append(f"{file}: {part}")
    if not apart:
        return []
    parts = "; ".join(f"{', '.join(names)} ({difference})" for difference, names in apart.items())
    return [f"**Not all parts were measured under the same: {parts}.** Compare these with the others with care."]


def note(results: Results, file: str, *parts: str) -> list[str]:
    """What to say under the heading of parts of a file, which may be missing: nothing where they were measured as the others."""
    found = dict.fromkeys(said(results, file, part) for part in parts if part in results.get(file, NOWHERE))
    return [f"**Measured under something else than most parts: {one}.**" for one in found if one]


def said(results: Results, file: str, part: str) -> str:
    """How what a part was measured under differs from most parts'; nothing where it doesn't."""
    found = results[file].get("measured", NOWHERE).get(part)
    if found is None:
        return "settings and SQL not recorded"
    most = usual(results)
    return ", ".join(
        f"{name} {value} instead of {most[name]}" for name, value in _flat(found).items() if value != most[name]
    )


def usual(results: Results) -> dict[str, str]:
    """What most parts were measured under, by the names of settings and of what else there is."""
    counts: dict[str, Counter[str]] = {}
    newest_first = sorted(_records(results).values(), key=lambda one: one.get("when", ""), reverse=True)
    for found in newest_first:
        for name, value in _flat(found).items():
            counts.setdefault(name, Counter())[value] += 1
    return {name: count.most_common(1)[0][0] for name, count in counts.items()}


def _records(results: Results) -> dict[tuple[str, str], Record]:
    return {
        (file, part): result.get("measured", NOWHERE).get(part, NOWHERE)
        for file in FILES
        for part in PARTS
        if part in (result := results.get(file, NOWHERE))
    }


def _flat(found: Record) -> dict[str, str]:
    return dict(_pairs(found))


def _pairs(found: Record) -> Iterator[tuple[str, str]]:
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from ((one, str(given)) for one, given in value.items())
        elif name not in {"when", "load"}:
            yield _NAMES.get(name, name), str(value)


_NAMES = {"sql": "SQL", "postgresql": "PostgreSQL", "generator": "data of generator"}


def _range(values: Sequence[str]) -> str:
    """First and last; one where they are the same."""
    if not values:
        return "-"
    return values[0] if values[0] == values[-1] else f"{values[0]} to {values[-1]}"
