"""Measure what is prepared, and write what was found into a JSON file a scale, which benchmarks.report makes tables and plots of.

Systems are asked the same questions in turns, each on a connection of its own with prepared statements; a time is a whole answer as the client
has it.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias

import psycopg

from benchmarks import peers
from benchmarks.data import CLASSES, Question, questions
from benchmarks.peers import PAGE, Parameters, Peer
from benchmarks.prepare import TABLES, state
from benchmarks.store import EDITED, HUNDREDFOLD, LARGE, MEDIUM, SCALES, SMALL, TENANT, Scale, Store, scalar
from benchmarks.timing import Client, Effort, Watch, summary, throughput, times

TOP = 400
"""How many the keyword leg alone gives."""

PROFILES = {
    "bench_exact": ("weighted", "exact", None),
    "bench_ann": ("weighted", "ann", 200),
    "bench_keyword_exact": ("keyword", "exact", None),
    "bench_keyword_window": ("keyword", "ann", TOP),
}
"""Ranking profiles of the measured organisations: fusion, retrieval, window."""

SEARCH = (
    "SELECT s.article_id FROM kbsearch.search_kb_hybrid_v1(p_org_id => %s, p_query_text => %s, p_query_embedding => %s, p_limit => %s, "
    "p_offset => %s, p_profile => %s) AS s"
)
KEYWORD = "SELECT s.article_id FROM kbsearch.search_kb_hybrid_v1(p_org_id => %s, p_query_text => %s, p_profile => 'bench_keyword_window@1') AS s"
RECALL = "SELECT r.wanted, r.kept FROM kbsearch.measure_kb_recall_v1(%s, %s, %s, %s, %s, p_window => 200) AS r"
LEG_FUNCTION = """
CREATE OR REPLACE FUNCTION pg_temp.keyword_leg(p_org_id bigint, p_text text, p_top integer) RETURNS TABLE (chunk_id bigint, raw double precision)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET work_mem = '64MB' SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    v_plan kbsearch.kb_search_plan := kbsearch.prepare_kb_search_v1(
        p_org_id, p_text, NULL, 10, 0, NULL, NULL, NULL, NULL, NULL, 'bench_keyword_exact@1', NULL, false, NULL, false
    );
BEGIN
    RETURN QUERY
    SELECT k.chunk_id, k.raw
    FROM kbsearch.list_kb_keyword_top_v1(p_org_id, v_plan.known_lexemes, v_plan.term_weights, v_plan.counts_terms, p_top) AS k;
END
$$
"""
"""The leg alone, from the question's text to the best chunks."""
LEG = "SELECT l.chunk_id FROM pg_temp.keyword_leg(%s, %s, %s) AS l"

WORDS = """SELECT p.known_lexemes, p.term_weights FROM kbsearch.prepare_kb_search_v1(
    %s, %s, NULL, 10, 0, NULL, NULL, NULL, NULL, NULL, 'bench_keyword_exact@1', NULL, false, NULL, false) AS p"""
PREPARED_LEG = "SELECT k.chunk_id FROM kbsearch.list_kb_keyword_top_v1(%s, %s::text[], %s::float8[], false, %s) AS k"
"""The same without analysing the question and counting its words, which pg_textsearch does in its call."""

NO_BUDGET = {"kbsearch.search_budget_ms": "0"}
"""A session in which the exact ranking of a million chunks may take its time."""

NO_INDEX = {"enable_indexscan": "off"}
"""A session in which pgvector's indexes are out of reach: a peer's exact answer."""


def measure(store: Store, scale: Scale, effort: Effort, results: Path, *, only: Collection[str] = ()) -> None:
    """Measure all of a scale, or some parts anew. Every part is written down as soon as it is measured."""
    path = results / f"{scale.name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if only and path.exists() else {}
    found |= {"scale": scale.name, "chunks": scale.chunks, "organisations": dict(scale.organisations)}
    found["facts"] = facts(store, scale)
    found["state"] = state(store, scale)
    found["disk"] = disk(store, scale)
    for one in (scale, *(SCALES[name] for name in scale.beside)):
        make_profiles(store, one)
        fill_buffers(store, one)
    parts: dict[str, Callable[[], Any]] = {}
    if scale.peers:
        parts |= {
            "latency": lambda: latency(store, scale, effort),
            "keyword": lambda: keyword(store, scale, effort),
            "recall": lambda: recall(store, scale, effort),
            "pages": lambda: pages(store, scale, effort),
            "memory": lambda: memory(store, scale, effort),
            "throughput": lambda: all_throughput(store, scale, effort),
            "locks": lambda: locks(store, scale, effort),
        }
    else:
        parts |= {
            "latency": lambda: large_latency(store, scale, effort),
            "beside": lambda: beside(store, scale, effort),
            "recall": lambda: recall(store, scale, effort),
        }
    parts["by_organisation"] = lambda: by_organisation(store, scale, effort)
    for name, part in parts.items():
        if only and name not in only:
            continue
        store.say(f"{scale.name}: {name}", 0, 0)
        begin = time.monotonic()
        found[name] = part()
        found.setdefault("seconds", {})[name] = time.monotonic() - begin
        write_down(path, found)


def measure_curve(
    store: Store, effort: Effort, results: Path, names: Sequence[str] = ("alone", "100k", "300k", "1m")
) -> None:
    """Searches of the same organisations in databases of several sizes, in turns; of those that are prepared."""
    there = [SCALES[name] for name in names if store.exists(name)]
    for scale in there:
        make_profiles(store, scale)
    asked = questions(6, "mixed", effort.rounds)
    found = []
    for org_id in (TENANT, MEDIUM):
        with ExitStack() as stack:
            calls: dict[str, Any] = {}
            for scale in there:
                if org_id in scale.organisations:
                    client = stack.enter_context(opened(store, scale.name))
                    calls[scale.name] = _search(client, org_id, asked)
            for name, values in times(calls, effort).items():
                found.append(
                    {"org": SCALES[name].organisations[org_id], "chunks": SCALES[name].chunks, **summary(values)}
                )
    write_down(results / "curve.json", {"by_database": found, "facts": facts(store, there[0]) if there else {}})


def facts(store: Store, scale: Scale) -> dict[str, Any]:
    """What the figures depend on."""
    with store.connect(scale.name) as connection:
        server, vector = (
            scalar(connection, "SELECT current_setting('server_version')"),
            scalar(connection, "SELECT extversion FROM pg_extension WHERE extname = 'vector'"),
        )
    return {
        "cores": os.cpu_count(),
        "machine": f"{platform.machine()}, {platform.system()}",
        "postgresql": server,
        "pgvector": vector,
        "settings": dict(store.settings),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "versions": {
            **{key: peers.version(key) for key in ("pghybrid", "pg_textsearch")},
            "langchain": peers.LANGCHAIN if peers.langchain_python(store) is not None else None,
        },
    }


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


@contextmanager
def opened(store: Store, database: str, settings: Mapping[str, str] | None = None) -> Iterator[Client]:
    """A client of a database."""
    client = Client(store.server().dsn(database), settings)
    try:
        yield client
    finally:
        client.close()


def page_of(question: Question, org_id: int, limit: int, offset: int, profile: str | None) -> tuple[str, Parameters]:
    """Kbsearch's statement of a page."""
    return SEARCH, [org_id, question.text, question.embedding, limit, offset, profile]


def _search(
    client: Client, org_id: int, asked: Sequence[Question], profile: str | None = None
) -> Callable[[int], object]:
    return lambda n: client.rows(*page_of(asked[n], org_id, PAGE, 0, profile))


def _ask(client: Client, peer: Peer, asked: Sequence[Question], org_id: int | None) -> Callable[[int], object]:
    def call(number: int) -> object:
        built = peer.build(asked[number], org_id, PAGE, 0)
        return client.rows(*built) if built else None

    return call


def latency(store: Store, scale: Scale, effort: Effort) -> list[dict[str, Any]]:
    """A page of 10 of the large organisation, by kind of words; peers with the organisation as a filter and without it."""
    found = []
    for kind in (*CLASSES, "mixed"):
        asked = questions(1, kind, effort.rounds)
        with ExitStack() as stack:
            calls: dict[str, Any] = {}

            def client(stack: ExitStack = stack) -> Client:
                return stack.enter_context(opened(store, scale.name))

            calls["kbsearch ann|organisation"] = _search(client(), LARGE, asked)
            calls["kbsearch exact|organisation"] = _search(client(), LARGE, asked, "bench_exact@1")
            for peer in peers.available():
                calls[f"{peer.key}|organisation"] = _ask(client(), peer, asked, LARGE)
                calls[f"{peer.key}|all"] = _ask(client(), peer, asked, None)
            if peers.langchain_python(store) is not None:
                langchain = stack.enter_context(peers.LangChain(store, scale))
                calls["langchain|organisation"] = lambda n, it=langchain, asked=asked: it.ask(asked[n], LARGE)
                calls["langchain|all"] = lambda n, it=langchain, asked=asked: it.ask(asked[n], None)
            for name, values in times(calls, effort).items():
                system, searched = name.split("|")
                found.append({"system": system, "words": kind, "filter": searched, **summary(values)})
    return found


def large_latency(store: Store, scale: Scale, effort: Effort) -> list[dict[str, Any]]:
    """The large organisation through windows, by kind of words; more than the server's buffers hold, so it is warmed up longer."""
    effort = replace(effort, warm_up=10 * effort.warm_up, seconds=8 * effort.seconds)
    found = []
    for kind in (*CLASSES, "mixed"):
        asked = questions(1, kind, effort.rounds)
        with opened(store, scale.name) as client:
            values = times({"ann": _search(client, LARGE, asked)}, effort)["ann"]
        found.append({"system": "kbsearch ann", "words": kind, "filter": "organisation", **summary(values)})
    return found


def beside(store: Store, scale: Scale, effort: Effort) -> list[dict[str, Any]]:
    """A small organisation beside the large one, and alone in its database, in turns."""
    asked = questions(2, "mixed", effort.rounds)
    (alone,) = scale.beside
    with opened(store, scale.name) as crowded, opened(store, alone) as lonely:
        calls = {"beside": _search(crowded, TENANT, asked), "alone": _search(lonely, TENANT, asked)}
        found = times(calls, effort)
    return [{"where": name, **summary(values)} for name, values in found.items()]


def by_organisation(store: Store, scale: Scale, effort: Effort) -> list[dict[str, Any]]:
    """Organisations of several sizes in the same database, in turns."""
    asked = questions(5, "mixed", effort.rounds)
    with opened(store, scale.name) as client:
        calls = {}
        for org_id in (SMALL, TENANT, MEDIUM, HUNDREDFOLD, LARGE):
            if org_id in scale.organisations:
                chunks = scale.organisations[org_id]
                calls[f"{chunks}|{'ann' if org_id in scale.indexed else 'exact'}"] = _search(client, org_id, asked)
        found = times(calls, effort)
    return [
        {"org": int(name.split("|")[0]), "retrieval": name.split("|")[1], **summary(values)}
        for name, values in found.items()
    ]


def keyword(store: Store, scale: Scale, effort: Effort) -> list[dict[str, Any]]:
    """The keyword leg alone, its first TOP: kbsearch's function, the public search of the same width, and pg_textsearch."""
    found = []
    with ExitStack() as stack:
        client = stack.enter_context(opened(store, scale.name))
        client.connection.execute(LEG_FUNCTION.encode())
        other = None
        if peers.version("pg_textsearch") is not None:
            other = stack.enter_context(peers.textsearch(store, scale))
        for kind in (*CLASSES, "mixed"):
            asked = questions(3, kind, effort.rounds)
            given = [client.rows(WORDS, [LARGE, one.text])[0] for one in asked]
            calls: dict[str, Any] = {
                "kbsearch leg": lambda n, asked=asked: client.rows(LEG, [LARGE, asked[n].text, TOP]),
                "kbsearch leg, prepared": lambda n, given=given: client.rows(PREPARED_LEG, [LARGE, *given[n], TOP]),
                "kbsearch search": lambda n, asked=asked: client.rows(KEYWORD, [LARGE, asked[n].text]),
            }
            if other is not None:
                calls["pg_textsearch"] = lambda n, asked=asked: other.execute(
                    peers.TEXTSEARCH.encode(), [asked[n].text, TOP], prepare=True
                ).fetchall()
            for name, values in times(calls, effort).items():
                found.append({"system": name, "words": kind, "matches": len(calls[name](0)), **summary(values)})
    return found


_RECALLED = {"kbsearch ann": None, "kbsearch vector leg": "vector@1", "kbsearch keyword leg": "keyword@1"}


def recall(store: Store, scale: Scale, effort: Effort) -> list[dict[str, Any]]:
    """Of the first ten of a system's exact ranking, how many its answer has; and how many of its pages are full."""
    asked = [one for kind in (*CLASSES, "mixed") for one in questions(4, kind, max(1, effort.asked // 4))]
    found = []
    for org_id in (LARGE, TENANT):
        with opened(store, scale.name, NO_BUDGET) as client:
            full = [len(client.rows(*page_of(one, org_id, PAGE, 0, "bench_ann@1"))) for one in asked]
            for system, profile in _RECALLED.items():
                rows = [client.rows(RECALL, [org_id, one.text, one.embedding, PAGE, profile])[0] for one in asked]
                kept, wanted = [kept for _, kept in rows], [wanted for wanted, _ in rows]
                found.append(_recalled(system, org_id, kept, wanted, full))
        for peer in peers.available() if scale.peers else []:
            with opened(store, scale.name) as client, opened(store, scale.name, NO_INDEX) as exact:
                kept, wanted, full = [], [], []
                for one in asked:
                    built = peer.build(one, org_id, PAGE, 0)
                    if built is None:
                        continue
                    ids, right = ([row[0] for row in asker.rows(*built)] for asker in (client, exact))
                    kept.append(len(set(ids) & set(right)))
                    wanted.append(len(right))
                    full.append(len(ids))
            found.append(_recalled(peer.key, org_id, kept, wanted, full))
    return found


def _recalled(
    system: str, org_id: int, kept: Sequence[int], wanted: Sequence[int], full: Sequence[int]
) -> dict[str, Any]:
    return {
        "system": system,
        "org": org_id,
        "recall": sum(kept) / max(1, sum(wanted)),
        "full": sum(count >= PAGE for count in full) / max(1, len(full)),
        "questions": len(kept),
    }


_Pages: TypeAlias = Callable[[Question, int, int], tuple[str, Parameters] | None]
"""A page's statement: question, limit, offset."""


def pages(store: Store, scale: Scale, effort: Effort) -> list[dict[str, Any]]:
    """A walk through all pages of the tenant's ranking, and of the large one's windows.

    A page is right if it is that part of the answer to one request for all that the pages hold, and repeats nothing.
    """
    asked = questions(7, "mixed", max(1, effort.asked // 4))
    tenant, large = scale.organisations[TENANT], scale.organisations[LARGE]
    ways: dict[str, tuple[_Pages, int]] = {
        "kbsearch exact": (lambda q, limit, offset: page_of(q, TENANT, limit, offset, "bench_exact@1"), tenant),
        "kbsearch ann": (lambda q, limit, offset: page_of(q, LARGE, limit, offset, None), large),
    }
    for peer in peers.available():
        ways[peer.key] = (partial(_peer_page, peer), tenant)
    with opened(store, scale.name) as client:
        return [{"system": system, **_walk(client, asked, build, size)} for system, (build, size) in ways.items()]


def _peer_page(peer: Peer, question: Question, limit: int, offset: int) -> tuple[str, Parameters] | None:
    return peer.build(question, TENANT, limit, offset)


def _walk(client: Client, asked: Sequence[Question], build: _Pages, size: int) -> dict[str, Any]:
    walked = right = duplicates = shown = 0
    for question in asked:
        found: list[list[int]] = []
        for offset in itertools.count(0, PAGE):
            built = build(question, PAGE, offset)
            found.append([row[0] for row in client.rows(*built)] if built else [])
            if len(found[-1]) < PAGE:
                break
        held = sum(map(len, found))
        once = build(question, held, 0)
        answer = [row[0] for row in client.rows(*once)] if once else []
        seen: set[int] = set()
        for number, ids in enumerate(one for one in found if one):
            walked += 1
            right += ids == answer[number * PAGE : (number + 1) * PAGE] and seen.isdisjoint(ids)
            duplicates += len(seen.intersection(ids))
            seen.update(ids)
        shown += len(seen)
    count = len(asked)
    return {
        "questions": count,
        "articles": size,
        "pages": walked / count,
        "right": right / max(1, walked),
        "duplicates": duplicates / count,
        "shown": shown / count,
    }


def memory(store: Store, scale: Scale, effort: Effort) -> list[dict[str, Any]]:
    """Private memory of a server process, new and at its highest, while it answers questions of very common words."""
    asked = questions(8, "common", max(1, effort.asked // 4))
    ways: dict[str, Callable[[Question], tuple[str, Parameters] | None]] = {
        "kbsearch ann": lambda one: page_of(one, LARGE, PAGE, 0, None),
        "kbsearch exact": lambda one: page_of(one, LARGE, PAGE, 0, "bench_exact@1"),
        **{peer.key: lambda one, peer=peer: peer.build(one, LARGE, PAGE, 0) for peer in peers.available()},  # type: ignore[misc]
    }
    found = []
    for system, build in ways.items():
        with opened(store, scale.name) as client, Watch(client.connection.info.backend_pid) as watch:
            for question in asked:
                built = build(question)
                if built:
                    client.rows(*built)
        found.append({"system": system, "before": watch.before, "peak": watch.peak})
    return found


def all_throughput(store: Store, scale: Scale, effort: Effort) -> list[dict[str, Any]]:
    """Answers a second of several clients at a time, in turns."""
    asked = questions(9, "mixed", 20)
    ways = {
        "kbsearch ann": [page_of(one, LARGE, PAGE, 0, None) for one in asked],
        **{
            peer.key: [built for one in asked if (built := peer.build(one, LARGE, PAGE, 0))]
            for peer in peers.available()
        },
    }
    found = []
    for number, (system, queries), clients in itertools.product(range(effort.turns), ways.items(), effort.clients):
        tps = throughput(store, scale.name, queries, clients, effort.throughput)
        found.append({"system": system, "round": number, "clients": clients, "tps": tps})
    return found


_WAITS = """
SELECT DISTINCT a.application_name || ' for ' || b.application_name
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


def write_down(path: Path, found: Mapping[str, Any]) -> None:
    """Write results; whoever reads the path sees all of them or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    part.replace(path)
