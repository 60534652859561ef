"""A figure beside its target, and how both are shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

PLAIN = Path(__file__).resolve().parent / "PLAIN.md"


@dataclass(frozen=True, slots=True)
class Figure:
    """Something measured, beside something else measured in the same run.

    Attributes:
        measure: letter of the measure, or number of the target.
        name: what was measured.
        value: the median, in `unit`.
        against: what it stands beside; empty where there is nothing.
        against_value: the other's median, in `unit`.
        unit: ms, MB, …
        limit: highest ratio that is good enough, None where there is no such target.
        goal: the ratio that is wished for.
        least: lowest ratio that is good enough.
        ceiling: highest value that is good enough.
        floor: lowest value that is good enough.
    """

    measure: str
    name: str
    value: float
    against: str = ""
    against_value: float = math.nan
    unit: str = "ms"
    limit: float | None = None
    goal: float | None = None
    least: float | None = None
    ceiling: float | None = None
    floor: float | None = None

    @property
    def ratio(self) -> float:
        """The value in terms of the other's; NaN without another."""
        return self.value / self.against_value if self.against_value else math.nan

    @property
    def met(self) -> bool | None:
        """Whether the targets are met; None where there is none. What was not measured meets nothing."""
        bounds = (
            (self.ratio, self.limit, 1),
            (self.ratio, self.least, -1),
            (self.value, self.ceiling, 1),
            (self.value, self.floor, -1),
        )
        found = [sign * value <= sign * bound for value, bound, sign in bounds if bound is not None]
        return all(found) if found else None

    @property
    def is_unknown(self) -> bool:
        """Whether there is a target, and one of its two figures was not measured."""
        compared = self.limit is not None or self.least is not None
        return self.met is not None and math.isnan(self.ratio if compared else self.value)

    def cells(self) -> tuple[str, str, str, str, str, str, str]:
        """Measure, name, value, against, ratio, target, verdict."""
        other = f"{self.against}: {_quantity(self.against_value, self.unit)}" if self.against else ""
        target = "" if self.limit is None else f"≤ {_ratio(self.limit)}"
        if self.goal is not None:
            target += f" (goal {_ratio(self.goal)})"
        if self.least is not None:
            target = f"≥ {_ratio(self.least)}"
        if self.ceiling is not None:
            target = f"≤ {_quantity(self.ceiling, self.unit)}"
        if self.floor is not None:
            target = f"≥ {_quantity(self.floor, self.unit)}"
        verdict = "not measured" if self.is_unknown else {None: "", True: "met", False: "MISSED"}[self.met]
        ratio = "" if math.isnan(self.ratio) else _ratio(self.ratio)
        return self.measure, self.name, _quantity(self.value, self.unit), other, ratio, target, verdict


HEADINGS = ("", "measured", "median", "beside", "ratio", "target", "")


def table(figures: Iterable[Figure], title: str = "kbsearch benchmarks") -> Table:
    """For the terminal."""
    result = Table(title=title, show_lines=False)
    for heading in HEADINGS:
        result.add_column(heading, justify="right" if heading in {"median", "ratio"} else "left")
    for figure in figures:
        style = {None: None, True: "green", False: "bold red"}[figure.met]
        result.add_row(*figure.cells(), style=style)
    return result


def rows(figures: Sequence[Figure]) -> list[str]:
    """A table in Markdown."""
    return grid(HEADINGS, [figure.cells() for figure in figures], "llrlrll")


def grid(headings: Sequence[str], lines: Iterable[Sequence[str]], align: str) -> list[str]:
    """A table in Markdown; a letter a column says whether it is aligned left or right."""
    return [
        "| " + " | ".join(headings) + " |",
        "|" + "|".join("--:" if one == "r" else "---" for one in align) + "|",
        *("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines),
    ]


def markdown(figures: Sequence[Figure], facts: Sequence[str]) -> str:
    """The whole of PLAIN.md."""
    lines = [
        "# Beside plain PostgreSQL",
        "",
        "Written by `python -m benchmarks plain`; do not edit. What each letter measures is in `benchmarks/measures.py`.",
        "",
        *(f"- {fact}" for fact in facts),
        "",
        *rows(figures),
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


def _quantity(value: float, unit: str) -> str:
    return "-" if math.isnan(value) else f"{number(value)} {unit}".rstrip()


def number(value: float) -> str:
    """With three digits that count."""
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004


def _ratio(value: float) -> str:
    return f"{value:.2f} x" if value >= 1 or value <= 0 else f"1/{1 / value:.1f}"
