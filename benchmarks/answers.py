"""What is found: of the first ten of an exact ranking, how many an answer has; walks through all pages."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from benchmarks import peers
from benchmarks.calls import opened, page_of
from benchmarks.data import CLASSES, Question, questions
from benchmarks.lookup import ALL, DOCUMENT, UNRELATED
from benchmarks.peers import PAGE, Parameters, Peer
from benchmarks.questions import ASKED, of_one_document
from benchmarks.store import LARGE, TENANT, Scale, Store
from benchmarks.timing import Client, Effort

RECALL = "SELECT r.wanted, r.kept FROM kbsearch.measure_kb_recall_v1(%s, %s, %s, %s, %s, p_window => %s) AS r"

NO_BUDGET = {"kbsearch.search_budget_ms": "0"}
"""A session in which the exact ranking of a million chunks may take its time."""

NO_INDEX = {"enable_indexscan": "off"}
"""A session in which pgvector's indexes are out of reach: a peer's exact answer."""


WINDOW, WIDER = 200, (400, 800)
"""Articles in a leg's window; and in wider ones, which say what a miss is owed to."""

_RECALLED = {"kbsearch ann": None, "kbsearch vector leg": "vector@1", "kbsearch keyword leg": "keyword@1"}


def recall(store: Store, scale: Scale, effort: Effort) -> list[dict[str, Any]]:
    """Of the first ten of a system's exact ranking, how many its answer has; and how many of its pages are full."""
    found = []
    for org_id in (LARGE, TENANT):
        for (what, words), asked in _asked(scale, org_id, effort).items():
            about = {"org": org_id, "asked": what, "words": words}
            # the legs' own recall says of the rest whether windows or their fusion loses something
            legs = _RECALLED if words in {ALL, ASKED} else {"kbsearch ann": None}
            wider = WIDER if words == ASKED and org_id == LARGE else ()
            with opened(store, scale.name, NO_BUDGET) as client:
                full = [len(client.rows(*page_of(one, org_id, PAGE, 0, "bench_ann@1"))) for one in asked]
                for system, profile in legs.items():
                    measured = _of_windows(client, org_id, asked, profile, WINDOW)
                    found.append({"system": system, **about, "window": WINDOW, **_recalled(*measured, full)})
                for window in wider:
                    measured = _of_windows(client, org_id, asked[: effort.asked], None, window)
                    found.append({"system": "kbsearch ann", **about, "window": window, **_recalled(*measured, [])})
            for peer in peers.available() if scale.peers and words in {ALL, ASKED} else []:
                of_peer = _of_peer(store, scale, peer, org_id, asked[: effort.asked])
                found.append({"system": peer.key, **about, **of_peer})
    return found


def _asked(scale: Scale, org_id: int, effort: Effort) -> dict[tuple[str, str], list[Question]]:
    """Questions by what is asked and by the kind of their words; those of one document by their words only of the large organisation."""
    few = max(1, effort.asked // 4)
    chunks = scale.organisations[org_id]
    found = {
        (UNRELATED, ALL): [one for kind in (*CLASSES, "mixed") for one in questions(4, kind, few)],
        (DOCUMENT, ASKED): of_one_document(org_id, chunks, 4, ASKED, 3 * effort.asked),
    }
    for kind in CLASSES if org_id == LARGE else ():
        found[DOCUMENT, kind] = of_one_document(org_id, chunks, 4, kind, 2 * few)
    return found


def _of_windows(
    client: Client, org_id: int, asked: Sequence[Question], profile: str | None, window: int
) -> tuple[list[int], list[int]]:
    """How many of the wanted ones are kept, and how many are wanted, by question."""
    rows = [client.rows(RECALL, [org_id, one.text, one.embedding, PAGE, profile, window])[0] for one in asked]
    return [kept for _, kept in rows], [wanted for wanted, _ in rows]


def _of_peer(store: Store, scale: Scale, peer: Peer, org_id: int, asked: Sequence[Question]) -> dict[str, Any]:
    kept, wanted, full = [], [], []
    with opened(store, scale.name) as client, opened(store, scale.name, NO_INDEX) as exact:
        for one in asked:
            built = peer.build(one, org_id, PAGE, 0)
            if built is None:
                continue
            ids, right = ([row[0] for row in asker.rows(*built)] for asker in (client, exact))
            kept.append(len(set(ids) & set(right)))
            wanted.append(len(right))
            full.append(len(ids))
    return _recalled(kept, wanted, full)


def _recalled(kept: Sequence[int], wanted: Sequence[int], full: Sequence[int]) -> dict[str, Any]:
    return {
        "recall": sum(kept) / max(1, sum(wanted)),
        "least": min((one / many for one, many in zip(kept, wanted, strict=True) if many), default=1.0),
        **({"full": sum(count >= PAGE for count in full) / len(full)} if full else {}),
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
