"""What the measures return, and how it is shown: a table for the terminal, RESULTS.md for the reader."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

RESULTS = Path(__file__).resolve().parent / "RESULTS.md"


@dataclass(frozen=True, slots=True)
class Figure:
    """Something measured, beside something else measured in the same run.

    Attributes:
        measure: letter of the measure.
        name: what was measured.
        value: the median, in `unit`.
        against: what it stands beside; empty where there is nothing.
        against_value: the other's median, in `unit`.
        unit: ms, MB, …
        limit: highest ratio that is good enough, None where there is no target.
        goal: the ratio that is wished for.
    """

    measure: str
    name: str
    value: float
    against: str = ""
    against_value: float = math.nan
    unit: str = "ms"
    limit: float | None = None
    goal: float | None = None

    @property
    def ratio(self) -> float:
        """The value in terms of the other's; NaN without another."""
        return self.value / self.against_value if self.against_value else math.nan

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        return None if self.limit is None else self.ratio <= self.limit

    def cells(self) -> tuple[str, str, str, str, str, str, str]:
        """Measure, name, value, against, ratio, target, verdict."""
        other = f"{self.against}: {_number(self.against_value)} {self.unit}" if self.against else ""
        target = "" if self.limit is None else f"≤ {_ratio(self.limit)}"
        if self.goal is not None:
            target += f" (goal {_ratio(self.goal)})"
        verdict = {None: "", True: "met", False: "MISSED"}[self.met]
        ratio = "" if math.isnan(self.ratio) else _ratio(self.ratio)
        return self.measure, self.name, f"{_number(self.value)} {self.unit}", other, ratio, target, verdict


HEADINGS = ("", "measured", "median", "beside", "ratio", "target", "")


def table(figures: Iterable[Figure]) -> Table:
    """For the terminal."""
    result = Table(title="kbsearch benchmarks", show_lines=False)
    for heading in HEADINGS:
        result.add_column(heading, justify="right" if heading in {"median", "ratio"} else "left")
    for figure in figures:
        style = {None: None, True: "green", False: "bold red"}[figure.met]
        result.add_row(*figure.cells(), style=style)
    return result


def markdown(figures: Sequence[Figure], facts: Sequence[str]) -> str:
    """The whole of RESULTS.md."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; do not edit. What each letter measures is in `benchmarks/measures.py`.",
        "",
        *(f"- {fact}" for fact in facts),
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|---|---|--:|---|--:|---|---|",
        *("| " + " | ".join(cell.replace("|", "\\|") for cell in figure.cells()) + " |" for figure in figures),
    ]
    return "\n".join([*lines, "", *_plot(figures)]) + "\n"


def _plot(figures: Sequence[Figure]) -> list[str]:
    """A bar chart of how much of each limit is used, in Mermaid, which code hosts draw."""
    bars = [(f"{f.measure}{n}", 100 * f.ratio / f.limit) for n, f in enumerate(figures, 1) if f.limit is not None]
    if not bars:
        return []
    height = max(110, *(math.ceil(share / 10) * 10 for _, share in bars))
    return [
        "How much of each limit is used, in percent (over 100: missed); letter and row of the table:",
        "",
        "```mermaid",
        "xychart-beta",
        f"    x-axis [{', '.join(name for name, _ in bars)}]",
        f'    y-axis "percent of the limit" 0 --> {height}',
        f"    bar [{', '.join(f'{share:.0f}' for _, share in bars)}]",
        f"    line [{', '.join('100' for _ in bars)}]",
        "```",
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004  (three digits that count)


def _ratio(value: float) -> str:
    return f"{value:.2f} x" if value >= 1 else f"1/{1 / value:.1f}"
