"""Plots of what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.lookup import CLIENTS, KINDS, NOWHERE, TITLES, Results, find, number_of, tps


def draw(results: Results, folder: Path) -> list[str]:
    """The plots that there are figures for; names of their files."""
    import matplotlib as mpl  # noqa: PLC0415  (an extra, and slow to import)

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "kbsearch"
    from matplotlib import pyplot as plt  # noqa: PLC0415

    drawn = []
    for name, plot in _PLOT.items():
        figure, axes = plt.subplots(figsize=(9 if name == "latency" else 6, 4.3))
        if plot(axes, *(results.get(scale, NOWHERE) for scale in ("100k", "1m", "curve"))):
            beside: dict[str, Any] = {"bbox_to_anchor": (1, 1), "loc": "upper left"} if name == "latency" else {}
            axes.legend(fontsize=7, **beside)
            figure.savefig(folder / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
            drawn.append(f"{name}.svg")
        plt.close(figure)
    return drawn


_COLOURS = (*(f"C{number}" for number in range(10)), "black", "silver")


def _plot_latency(axes: Any, small: Mapping[str, Any], _large: Mapping[str, Any], _curve: Mapping[str, Any]) -> bool:
    kinds = {words: name for words, name in KINDS.items() if find(small.get("latency"), words=words)}
    bars = list(dict.fromkeys((one["system"], one["filter"]) for one in small.get("latency", ())))
    for place, (system, searched) in enumerate(bars):
        values = [number_of(small["latency"], "p50", system=system, words=words, filter=searched) for words in kinds]
        places = [group + 0.8 * place / len(bars) for group in range(len(kinds))]
        label = TITLES[system].replace("`", "") + ("" if searched == "organisation" else ", unfiltered")
        axes.bar(
            places,
            values,
            0.75 / len(bars),
            label=label,
            color=_COLOURS[place % len(_COLOURS)],
        )
    axes.set_xticks([group + 0.4 for group in range(len(kinds))], list(kinds.values()))
    axes.set(yscale="log", ylabel="ms, median", title="A page of 10 of 100,000 chunks")
    return bool(bars)


def _plot_throughput(axes: Any, small: Mapping[str, Any], _large: Mapping[str, Any], _curve: Mapping[str, Any]) -> bool:
    systems = list(dict.fromkeys(one["system"] for one in small.get("throughput", ())))
    for system in systems:
        values = [tps(small, system, clients) for clients in CLIENTS]
        axes.plot(CLIENTS, values, marker="o", label=TITLES[system].replace("`", ""))
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


_PLOT = {
    "latency": _plot_latency,
    "throughput": _plot_throughput,
    "organisation": _plot_organisations,
    "database": _plot_databases,
}
