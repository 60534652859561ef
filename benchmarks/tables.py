"""Tables of what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.data import CLASSES
from benchmarks.figures import grid, number
from benchmarks.lookup import ALL, CLIENTS, KINDS, NOWHERE, TITLES, find, number_of, tps
from benchmarks.peers import PEERS
from benchmarks.questions import ASKED
from benchmarks.store import LARGE, TENANT

MEGABYTE = 1_000_000

_TABLES = {
    "guide_and": "guide_documents",
    "guide_or": "guide_documents",
    "example": "example_documents",
    "pghybrid": "pghybrid_documents",
}


def latency(result: Mapping[str, Any]) -> list[str]:
    """Times of a page of 10, by kind of question."""
    lines = []
    for words, name in KINDS.items():
        ours = number_of(result.get("latency"), "p50", system="kbsearch ann", words=words)
        lines += [
            (
                name,
                TITLES[one["system"]],
                "filtered" if one["filter"] == "organisation" else "unfiltered",
                *percentiles(one),
                _ratio(one["p50"], ours),
            )
            for one in result.get("latency", ())
            if one["words"] == words
        ]
    return grid(("words", "system", "", "p50", "p95", "p99", "ratio"), lines, "lllrrrr")


def keyword(result: Mapping[str, Any]) -> list[str]:
    """Times of the keyword leg alone."""
    return grid(
        ("words", "system", "p50", "p95", "p99"),
        [(KINDS[one["words"]], TITLES[one["system"]], *percentiles(one)) for one in result.get("keyword", ())],
        "llrrr",
    )


def columns(result: Mapping[str, Any]) -> list[str]:
    """What is found and what it takes, a row a system."""
    lines = []
    for system in ("kbsearch ann", "kbsearch exact", *(one.key for one in PEERS)):
        walked = find(result.get("pages"), system=system)
        used = find(result.get("memory"), system=system)
        recalled = [
            "1 (exact)"
            if system == "kbsearch exact"
            else _share(find(result.get("recall"), system=system, org=org_id, words=words), "recall")
            for org_id in (LARGE, TENANT)
            for words in (ASKED, ALL)
        ]
        build, disk = _made(result, system)
        lines.append(
            (
                TITLES[system],
                *recalled,
                _share(find(result.get("recall"), system=system, org=LARGE, words=ASKED), "full"),
                _share(walked, "right"),
                number(walked.get("duplicates", math.nan)),
                f"{number(walked['shown'])} of {walked['articles']:,}" if walked else "-",
                number(used.get("peak", math.nan) / MEGABYTE),
                number(disk),
                number(build),
            )
        )
    headings = (
        "system",
        "recall@10",
        "worst case",
        "of a 1 % tenant",
        "worst case",
        "full pages",
        "pages right",
        "repeated in a walk",
        "articles shown",
        "memory, MB",
        "disk, MB",
        "build, s",
    )
    return grid(headings, lines, "l" + "r" * (len(headings) - 1))


def _made(result: Mapping[str, Any], system: str) -> tuple[float, float]:
    """Seconds and megabytes."""
    built, sizes = result.get("state", NOWHERE), result.get("disk", NOWHERE)
    if system.startswith("kbsearch"):
        stages = ["load", "compact", *(["ann 1"] if system == "kbsearch ann" else [])]
        tables = [name for name in sizes if name.startswith("kbsearch.")]
    else:
        stages = [name for name in built if name.startswith(f"{_TABLES[system]} ")]
        tables = [_TABLES[system]]
    known = [built[name]["seconds"] for name in stages if name in built]
    size = sum(sizes.get(name, math.nan) for name in tables) / MEGABYTE if tables else math.nan
    return (sum(known) if known else math.nan), size


def quality(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """nDCG@10 by collection, with what it is of."""
    names = list(dict.fromkeys(one["collection"] for one in found))
    systems = list(dict.fromkeys(one["system"] for one in found))
    lines = [
        (TITLES[system], *(f"{number_of(found, 'ndcg', system=system, collection=name):.3f}" for name in names))
        for system in systems
    ]
    return [
        "nDCG@10 on collections with relevance judgements, vectors of all-MiniLM-L6-v2; unfiltered, a collection a database.",
        "",
        *grid(("system", *names), lines, "l" + "r" * len(names)),
    ]


def recall(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """What windows keep of the exact ranking's first ten, by kind of question."""
    lines = []
    for result in results:
        for one in result.get("recall", ()):
            if one["system"] != "kbsearch ann" or "asked" not in one:
                continue
            about = {key: one[key] for key in ("org", "asked", "words", "window")}
            legs = [find(result["recall"], system=f"kbsearch {leg} leg", **about) for leg in ("vector", "keyword")]
            lines.append(
                (
                    f"{result['organisations'][str(one['org'])]:,}",
                    f"{result['chunks']:,}",
                    _ASKED[one["words"]],
                    str(one["window"]),
                    *(_share(found, "recall") for found in (one, *legs)),
                    f"{one['least']:.1f}",
                    _share(one, "full"),
                    str(one["questions"]),
                )
            )
    headings = (
        "chunks of the organisation",
        "of the database",
        "questions",
        "window",
        "recall@10",
        "vector leg alone",
        "keyword leg alone",
        "lowest of a question",
        "full pages",
        "questions asked",
    )
    return grid(headings, lines, "rrlrrrrrrr") if lines else []


_ASKED = {
    ASKED: "of one document",
    **{kind: f"of one document, {name} words only" for kind, name in CLASSES.items()},
    ALL: "worst case: words and vector unrelated, of every kind of words",
}


def throughput(result: Mapping[str, Any]) -> list[str]:
    """Answers a second."""
    systems = list(dict.fromkeys(one["system"] for one in result.get("throughput", ())))
    lines = []
    for system in systems:
        values = [tps(result, system, clients) for clients in CLIENTS]
        lines.append((TITLES[system], *(number(value) for value in values), _ratio(values[3], values[0])))
    return grid(("system", "1 client", "2", "4", "8", "8 beside 1"), lines, "lrrrrr")


def locks(found: Mapping[str, Any]) -> str:
    """Who waited for whom, as a sentence."""
    done = ", ".join(f"{count:,} of {name}" for name, count in sorted(found["done"].items()))
    waits = "; ".join(f"{name}: {count}" for name, count in sorted(found["waits"].items()))
    said = (
        f"In {number(found['seconds'])} s, 4 readers of the large organisation and of one of 10,000 chunks, a writer in each of two others, "
        f"and compact of the one of 10,000 and of a written one in turns: {done}. "
        f"{found['looks']:,} looks at pg_locks found {'waits of ' + waits if waits else 'nobody waiting'}."
    )
    return said + (f" Errors: {'; '.join(found['failures'])}." if found["failures"] else "")


def percentiles(one: Mapping[str, Any]) -> tuple[str, str, str]:
    """Median, 95 and 99 %."""
    return number(one["p50"]), number(one["p95"]), number(one["p99"])


def _ratio(value: float, base: float) -> str:
    return f"{value / base:.2f} x" if base and not math.isnan(value / base) else "-"


def _share(one: Mapping[str, Any], name: str) -> str:
    return f"{one[name]:.3f}" if name in one else "-"
