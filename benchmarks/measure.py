"""Measure what is prepared, and write what was found into a JSON file a scale, which benchmarks.report makes tables and plots of.

Systems are asked the same questions in turns, each on a connection of its own with prepared statements; a time is a whole answer as the client
has it.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import answers, locks, peers, speed
from benchmarks.calls import PROFILES, opened, search_of
from benchmarks.data import questions
from benchmarks.prepare import TABLES, state
from benchmarks.provenance import moment, record
from benchmarks.store import HUNDREDFOLD, LARGE, MEDIUM, SCALES, SMALL, TENANT, Scale, Store, scalar
from benchmarks.timing import Effort, summary, times


def measure(store: Store, scale: Scale, effort: Effort, results: Path, *, only: Collection[str] = ()) -> None:
    """Measure all of a scale, or some parts anew. Every part is written down as soon as it is measured."""
    path = results / f"{scale.name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if only and path.exists() else {}
    found |= {"scale": scale.name, "chunks": scale.chunks, "organisations": dict(scale.organisations)}
    found["versions"] = versions(store)
    found["state"] = state(store, scale)
    found["disk"] = disk(store, scale)
    under = record(store, [scale.name, *scale.beside], effort)
    measured = found.setdefault("measured", {})
    measured["disk"] = under
    for one in (scale, *(SCALES[name] for name in scale.beside)):
        make_profiles(store, one)
        fill_buffers(store, one)
    parts: dict[str, Callable[[], Any]] = {}
    if scale.peers:
        parts |= {
            "latency": lambda: speed.latency(store, scale, effort),
            "keyword": lambda: speed.keyword(store, scale, effort),
            "recall": lambda: answers.recall(store, scale, effort),
            "pages": lambda: answers.pages(store, scale, effort),
            "memory": lambda: speed.memory(store, scale, effort),
            "throughput": lambda: speed.all_throughput(store, scale, effort),
            "locks": lambda: locks.locks(store, scale, effort),
        }
    else:
        parts |= {
            "latency": lambda: speed.large_latency(store, scale, effort),
            "beside": lambda: speed.beside(store, scale, effort),
            "recall": lambda: answers.recall(store, scale, effort),
        }
    parts["by_organisation"] = lambda: speed.by_organisation(store, scale, effort)
    for name, part in parts.items():
        if only and name not in only:
            continue
        store.say(f"{scale.name}: {name}", 0, 0)
        begin, measured[name] = time.monotonic(), {**under, **moment()}
        found[name] = part()
        found.setdefault("seconds", {})[name] = time.monotonic() - begin
        write_down(path, found)


def measure_curve(
    store: Store, effort: Effort, results: Path, names: Sequence[str] = ("alone", "100k", "300k", "1m")
) -> None:
    """Searches of the same organisations in databases of several sizes, in turns; of those that are prepared."""
    there = [SCALES[name] for name in names if store.exists(name)]
    if not there:
        return
    for scale in there:
        make_profiles(store, scale)
    under = record(store, [scale.name for scale in there], effort)
    asked = questions(6, "mixed", effort.rounds)
    found = []
    for org_id in (TENANT, MEDIUM):
        with ExitStack() as stack:
            calls: dict[str, Any] = {}
            for scale in there:
                if org_id in scale.organisations:
                    client = stack.enter_context(opened(store, scale.name))
                    calls[scale.name] = search_of(client, org_id, asked)
            for name, values in times(calls, effort).items():
                found.append(
                    {"org": SCALES[name].organisations[org_id], "chunks": SCALES[name].chunks, **summary(values)}
                )
    write_down(results / "curve.json", {"by_database": found, "measured": {"by_database": under}})


def versions(store: Store) -> dict[str, str | None]:
    """Of the peers' packages; None where one is not installed."""
    langchain = peers.LANGCHAIN if peers.langchain_python(store) is not None else None
    return {**{key: peers.version(key) for key in ("pghybrid", "pg_textsearch")}, "langchain": langchain}


def disk(store: Store, scale: Scale) -> dict[str, int]:
    """Bytes of the tables of kbsearch and of each peer, with their indexes."""
    with store.connect(scale.name) as connection:
        found = {
            table: scalar(connection, "SELECT pg_total_relation_size(to_regclass(%s))", [table])
            for table in (*(f"kbsearch.{name}" for name in TABLES), *(peers.STEPS if scale.peers else ()))
        }
    return {name: int(size) for name, size in found.items() if size is not None}


def fill_buffers(store: Store, scale: Scale) -> None:
    """Read all tables and indexes into the server's buffers, as far as these go: what is asked first is no colder than what is asked last."""
    with store.connect(scale.name) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        connection.execute(
            "SELECT sum(pg_prewarm(c.oid)) FROM pg_class AS c INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace "
            "WHERE c.relkind IN ('r', 'i') AND n.nspname IN ('kbsearch', 'public') AND c.relpersistence = 'p'"
        )


def make_profiles(store: Store, scale: Scale) -> None:
    """Make the profiles that are asked, where they are missing."""
    with store.connect(scale.name) as connection:
        for org_id, (name, (fusion, retrieval, window)) in itertools.product(
            sorted(set(scale.organisations) & {LARGE, TENANT, MEDIUM, SMALL, HUNDREDFOLD}), PROFILES.items()
        ):
            there = scalar(
                connection,
                "SELECT 1 FROM kbsearch.kb_ranking_profiles AS p WHERE p.org_id = %s AND p.name = %s AND p.version = 1",
                [org_id, name],
            )
            if there is None:
                connection.execute(
                    "SELECT kbsearch.create_kb_ranking_profile_v1(p_org_id => %s, p_name => %s, p_fusion => %s, p_retrieval => %s, "
                    "p_ann_window => %s)",
                    [org_id, name, fusion, retrieval, window],
                )


def write_down(path: Path, found: Mapping[str, Any]) -> None:
    """Write results; whoever reads the path sees all of them or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    part.replace(path)
