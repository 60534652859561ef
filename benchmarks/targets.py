"""The targets, and whether what was measured meets them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from benchmarks.data import CLASSES
from benchmarks.figures import Figure
from benchmarks.lookup import ALL, KINDS, NOWHERE, Results, number_of, tps
from benchmarks.questions import ASKED
from benchmarks.store import LARGE, TENANT


def targets(results: Results) -> list[Figure]:
    """The targets, met or not."""
    small, large = results.get("100k", NOWHERE), results.get("1m", NOWHERE)
    found = []

    def page(words: str, system: str, searched: str) -> float:
        return number_of(small.get("latency"), "p50", system=system, words=words, filter=searched)

    for words, name in CLASSES.items():
        ours = page(words, "kbsearch ann", "organisation")
        for system, searched, limit, what in (
            ("pghybrid", "organisation", 1 / 15, "pghybrid, filtered"),
            ("pghybrid", "all", 1.0 if words == "rare" else 1 / 4, "pghybrid, unfiltered"),
            ("guide_or", "organisation", 1 / 10, "RRF function, OR-ed, filtered"),
        ):
            found.append(
                Figure(
                    "1",
                    f"top 10 of 100,000 chunks, {name} words",
                    ours,
                    what,
                    page(words, system, searched),
                    limit=limit,
                )
            )
    for words, name in CLASSES.items():
        leg, other = (
            number_of(small.get("keyword"), "p50", system=system, words=words)
            for system in ("kbsearch leg", "pg_textsearch")
        )
        found.append(
            Figure("2", f"keyword leg, top 400 of 100,000 chunks, {name} words", leg, "pg_textsearch", other, limit=1)
        )
    for words, name in KINDS.items():
        slow = number_of(large.get("latency"), "p95", system="kbsearch ann", words=words)
        what, ceiling = (name, None) if words == ASKED else (f"{name} words", 40)
        found.append(Figure("3", f"top 10 of 1,000,000 chunks, {what}, p95", slow, ceiling=ceiling))
    beside, alone = (number_of(large.get("beside"), "p50", where=where) for where in ("beside", "alone"))
    found.append(Figure("3", "1,000 chunks beside 1,000,000", beside, ceiling=3))
    found.append(Figure("3", "1,000 chunks beside 1,000,000", beside, "alone in its database", alone, limit=1.3))
    for result, size in ((small, "100,000"), (large, "1,000,000")):
        found += _recall(result, LARGE, f"{size} chunks")
        found += _recall(result, TENANT, f"a tenant of 1,000 beside {size}")
    one, eight = (tps(small, "kbsearch ann", clients) for clients in (1, 8))
    found.append(Figure("5", "answers a second, 8 clients", eight, "1 client", one, unit="/s", least=1.7))
    locks = small.get("locks")
    # compact may wait for the writer of the same organisation, one merge of postings long; and everybody for PostgreSQL, which grows a table's file
    waits = (
        sum(
            count
            for who, count in locks["waits"].items()
            if not who.startswith("compact for writer") and not who.endswith("while a file grows")
        )
        + len(locks["failures"])
        if locks
        else math.nan
    )
    found.append(
        Figure(
            "5",
            "lock waits of readers and writers beside each other and compact, and errors",
            waits,
            unit="",
            ceiling=0,
        )
    )
    return found


def _recall(result: Mapping[str, Any], org_id: int, name: str) -> list[Figure]:
    """The target is for questions of one document; those without any stand beside it."""
    measured = result.get("recall")

    def of(system: str, words: str, what: str = "recall") -> float:
        return number_of(measured, what, system=f"kbsearch {system}", org=org_id, words=words, window=200)

    return [
        Figure(
            "4", f"recall@10 at window 200, {name}, questions of one document", of("ann", ASKED), unit="", floor=0.99
        ),
        *(
            Figure("4", f"the same of the {part} alone, {name}", of(part, ASKED), unit="")
            for part in ("vector leg", "keyword leg")
        ),
        Figure("4", f"the same, {name}, worst case: words and vector unrelated", of("ann", ALL), unit=""),
        Figure(
            "4",
            f"share of full pages, {name}, questions of both kinds",
            min(of("ann", words, "full") for words in (ASKED, ALL)),
            unit="",
            floor=1,
        ),
    ]
