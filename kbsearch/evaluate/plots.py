"""Plots of comparisons and of tuning, as SVG without dates: the same figures give the same bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kbsearch.evaluate.choice import OF_CLASS, RRF, WEIGHTS, Tuning
from kbsearch.evaluate.compare import heading
from kbsearch.evaluate.statistics import Array, Interval, MetricComparison

# Of the palette of Okabe and Ito, which people who see colours differently can tell apart.
BETTER, WORSE, NEUTRAL, ACCENT = "#0072b2", "#d55e00", "#57606a", "#00795a"
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "kbsearch",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "font.size": 10,
    "grid.color": "#eaeef2",
}
SIZE = (6.2, 3.2)
"""Inches; readable at the width of a phone."""


def questions_plot(metric: str, differences: Array) -> str:
    """A bar a question, the most won first: SVG."""
    values = np.sort(differences[differences != 0])[::-1]

    def draw(axes: Any) -> None:
        axes.bar(np.arange(len(values)), values, width=1.0, color=[BETTER if value > 0 else WORSE for value in values])
        axes.axhline(0, color=NEUTRAL, linewidth=0.8)
        axes.set_xlabel(f"questions that differ ({len(values):,} of {len(differences):,}), sorted")
        axes.set_ylabel(f"change of {metric}")
        axes.set_title(f"{metric} by question", loc="left", fontweight="bold")
        axes.xaxis.set_major_locator(_whole_numbers())

    return svg(draw)


def interval_plot(comparison: MetricComparison, interval: Interval) -> str:
    """Where the mean difference falls when the questions are drawn anew: SVG."""

    def draw(axes: Any) -> None:
        if len(interval.means):
            axes.hist(interval.means, bins=60, color="#9ec9e2")
        axes.axvspan(interval.low, interval.high, color=BETTER, alpha=0.08)
        axes.axvline(0, color=WORSE, linewidth=1.6, linestyle="--", label="no difference")
        axes.axvline(comparison.difference, color=BETTER, linewidth=1.6, label="found")
        axes.set_xlabel(f"difference of {heading(comparison.metric)}; shaded: 95 % interval")
        axes.set_ylabel("resamples")
        axes.set_title("If the questions were others of the kind", loc="left", fontweight="bold")
        axes.legend(frameon=False, loc="best", fontsize=9)

    return svg(draw)


def metrics_plot(compared: Sequence[MetricComparison]) -> str:
    """Each metric's difference with its interval: SVG."""

    def draw(axes: Any) -> None:
        places = np.arange(len(compared))[::-1]
        for place, metric in zip(places, compared, strict=True):
            colour = BETTER if metric.is_better else WORSE if metric.is_worse else NEUTRAL
            axes.plot([metric.low, metric.high], [place, place], color=colour, linewidth=3, solid_capstyle="round")
            axes.plot(metric.difference, place, "o" if metric.real else "D", color=colour, markersize=7)
        axes.axvline(0, color=NEUTRAL, linewidth=0.8)
        axes.set_yticks(places, [heading(metric.metric) for metric in compared])
        axes.set_ylim(-0.6, len(compared) - 0.4)
        axes.set_xlabel("difference, 95 % interval")
        axes.set_title("By metric", loc="left", fontweight="bold")

    return svg(draw, (SIZE[0], 1.2 + 0.32 * len(compared)))


def svg(draw: Any, size: tuple[float, float] = SIZE) -> str:
    """What a function draws on axes, as an SVG element to stand in a page: it scales to the width there is, its text in the page's font."""
    import matplotlib as mpl  # noqa: PLC0415  (an extra, and slow to import)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    element = written.getvalue()[written.getvalue().index("<svg") :]
    element = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", element, count=1)
    element = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", element, count=1)
    return element.strip()


def save_surface(file: Path, tuning: Tuning) -> None:
    """The surface that was searched, into a file that ends in .png or .svg: nDCG@10 by vector weight, and by rrf's k and weight."""
    import matplotlib as mpl  # noqa: PLC0415  (an extra, and slow to import)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(11, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
        _draw_weights(left, tuning)
        _draw_rrf(figure, right, tuning)
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else {"Software": None}, dpi=120)


def _draw_weights(axes: Any, tuning: Tuning) -> None:
    asked = tuning.asked
    axes.plot(
        WEIGHTS,
        asked.weighted.mean(axis=0),
        color=BETTER,
        linewidth=2.4,
        label=f"all questions ({len(asked.queries):,})",
    )
    styles = zip(
        ("question", "keywords", "identifier", "quoted"),
        ((ACCENT, "--"), (WORSE, "-."), ("#9a6a00", ":"), (NEUTRAL, "--")),
        strict=True,
    )
    for name, (colour, line) in styles:
        rows = np.array([one == name for one in asked.classes])
        if rows.sum() >= OF_CLASS:
            axes.plot(
                WEIGHTS,
                asked.weighted[rows].mean(axis=0),
                line,
                color=colour,
                linewidth=1.3,
                label=f"{name} ({rows.sum():,})",
            )
    axes.axhline(asked.base.mean(), color=NEUTRAL, linewidth=1, label=f"{tuning.base} now")
    best = next(found.setting for found in tuning.families if found.setting.family == "weighted")
    axes.plot(
        best.vector_weight,
        asked.judge(best).mean(),
        "o",
        color=BETTER,
        markersize=9,
        label=f"best, {best.vector_weight:g}",
    )
    axes.set_xlabel("vector weight of the weighted fusion (0: words alone, 1: vectors alone)")
    axes.set_ylabel("nDCG@10")
    axes.set_title("Weighted fusion", loc="left", fontweight="bold")
    axes.legend(frameon=False, loc="best", fontsize=9)


def _draw_rrf(figure: Any, axes: Any, tuning: Tuning) -> None:
    means = tuning.asked.rrf.mean(axis=0)
    ks, weights = sorted({k for k, _ in RRF}), sorted({weight for _, weight in RRF})
    surface = np.array([[means[RRF.index((k, weight))] for weight in weights] for k in ks])
    image = axes.imshow(surface, origin="lower", aspect="auto", cmap="cividis")
    axes.set_xticks(range(len(weights)), [f"{weight:g}" for weight in weights])
    axes.set_yticks(range(len(ks)), [str(k) for k in ks])
    best = next(found.setting for found in tuning.families if found.setting.family == "rrf")
    axes.plot(
        weights.index(best.vector_weight),
        ks.index(best.rrf_k),
        "o",
        color="white",
        markeredgecolor="black",
        markersize=9,
    )
    axes.set_xlabel("vector weight")
    axes.set_ylabel("k")
    axes.grid(visible=False)
    axes.set_title("Reciprocal rank fusion", loc="left", fontweight="bold")
    figure.colorbar(image, ax=axes, label="nDCG@10")


def _whole_numbers() -> Any:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    return MaxNLocator(integer=True)
