"""Speed: times of answers, of the keyword leg alone, by organisation; memory of a server process; answers a second."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from benchmarks import peers
from benchmarks.calls import TOP, ask_of, opened, page_of, search_of
from benchmarks.data import CLASSES, Question, questions
from benchmarks.peers import PAGE, Parameters
from benchmarks.questions import ASKED, of_one_document
from benchmarks.store import HUNDREDFOLD, LARGE, MEDIUM, SMALL, TENANT, Scale, Store
from benchmarks.timing import Client, Effort, Watch, summary, throughput, times

KEYWORD = "SELECT s.article_id FROM kbsearch.search_kb_hybrid_v1(p_org_id => %s, p_query_text => %s, p_profile => 'bench_keyword_window@1') AS s"

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


def latency(store: Store, scale: Scale, effort: Effort) -> list[dict[str, Any]]:
    """A page of 10 of the large organisation, by kind of words; peers with the organisation as a filter and without it."""
    found = []
    for kind, asked in _asked(scale, effort).items():
        with ExitStack() as stack:
            calls: dict[str, Any] = {}

            def client(stack: ExitStack = stack) -> Client:
                return stack.enter_context(opened(store, scale.name))

            calls["kbsearch ann|organisation"] = search_of(client(), LARGE, asked)
            calls["kbsearch exact|organisation"] = search_of(client(), LARGE, asked, "bench_exact@1")
            for peer in peers.available():
                calls[f"{peer.key}|organisation"] = ask_of(client(), peer, asked, LARGE)
                calls[f"{peer.key}|all"] = ask_of(client(), peer, asked, None)
            if peers.langchain_python(store) is not None:
                langchain = stack.enter_context(peers.LangChain(store, scale))
                calls["langchain|organisation"] = lambda n, it=langchain, asked=asked: it.ask(asked[n], LARGE)
                calls["langchain|all"] = lambda n, it=langchain, asked=asked: it.ask(asked[n], None)
            for name, values in times(calls, effort).items():
                system, searched = name.split("|")
                found.append({"system": system, "words": kind, "filter": searched, **summary(values)})
    return found


def _asked(scale: Scale, effort: Effort) -> dict[str, list[Question]]:
    """Questions by the kind of their words; those of one document under that of theirs."""
    found = {kind: questions(1, kind, effort.rounds) for kind in (*CLASSES, "mixed")}
    return {**found, ASKED: of_one_document(LARGE, scale.organisations[LARGE], 1, ASKED, effort.rounds)}


def large_latency(store: Store, scale: Scale, effort: Effort) -> list[dict[str, Any]]:
    """The large organisation through windows, by kind of words; more than the server's buffers hold, so it is warmed up longer."""
    effort = replace(effort, warm_up=10 * effort.warm_up, seconds=8 * effort.seconds)
    found = []
    for kind, asked in _asked(scale, effort).items():
        with opened(store, scale.name) as client:
            values = times({"ann": search_of(client, LARGE, asked)}, effort)["ann"]
        found.append({"system": "kbsearch ann", "words": kind, "filter": "organisation", **summary(values)})
    return found


def beside(store: Store, scale: Scale, effort: Effort) -> list[dict[str, Any]]:
    """A small organisation beside the large one, and alone in its database, in turns."""
    asked = questions(2, "mixed", effort.rounds)
    (alone,) = scale.beside
    with opened(store, scale.name) as crowded, opened(store, alone) as lonely:
        calls = {"beside": search_of(crowded, TENANT, asked), "alone": search_of(lonely, TENANT, asked)}
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
                calls[f"{chunks}|{'ann' if org_id in scale.indexed else 'exact'}"] = search_of(client, org_id, asked)
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
