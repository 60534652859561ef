"""A comparison as one HTML file: no scripts, nothing from elsewhere, plots inline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from kbsearch.evaluate.compare import Comparison, FieldDifference, heading
from kbsearch.evaluate.plots import interval_plot, metrics_plot, questions_plot
from kbsearch.evaluate.statistics import MetricComparison, changes

_TITLES = {
    "better": "Better",
    "worse": "Worse",
    "mixed": "Better and worse",
    "no difference": "No difference shown",
    "none": "No verdict",
}
LONG = 24
"""Characters of a value that may be broken anywhere."""
_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 66rem; padding: 1rem; color: #1f2328; background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0 0 .35rem; overflow-wrap: anywhere; }
p { margin: .4rem 0; overflow-wrap: anywhere; }
.verdict { border-left: .4rem solid #57606a; background: #f6f8fa; padding: .8rem 1rem; border-radius: .3rem; }
.verdict strong { font-size: 1.2rem; display: block; }
.verdict.better { border-color: #0072b2; background: #eef6fb; }
.verdict.worse, .verdict.none { border-color: #d55e00; background: #fdf3ec; }
.verdict.mixed { border-color: #9a6a00; background: #fdf8e8; }
.warning { border: 1px solid #d55e00; border-radius: .3rem; padding: .5rem .8rem; color: #8a3c00; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #d8dee4; vertical-align: top; }
th { white-space: nowrap; color: #424a53; }
td.n, th.n { text-align: right; white-space: nowrap; }
span.long { display: inline-block; min-width: 9rem; overflow-wrap: anywhere; }
tr.better td { color: #00527f; font-weight: 600; }
tr.worse td { color: #a04600; font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: 1rem; margin-top: 1.2rem; }
.plots svg { display: block; width: 100%; height: auto; }
svg text { font-family: inherit !important; }
.question { border: 1px solid #d8dee4; border-radius: .3rem; padding: .7rem .9rem; margin: .8rem 0; }
.muted { color: #57606a; font-size: .9rem; }
.up { color: #00527f; } .down { color: #a04600; }
footer { margin: 2rem 0 1rem; color: #57606a; font-size: .85rem; }
"""


def html_report(
    comparison: Comparison, questions: Mapping[str, str] | None = None, titles: Mapping[str, str] | None = None
) -> str:
    """A page about a comparison.

    Args:
        comparison: what was found.
        questions: text of each question by id; without it ids are shown.
        titles: title of each article by id; without it ids are shown.
    """
    parts = [
        f"<h1>{_text(comparison.second)} against {_text(comparison.first)}</h1>",
        _verdict(comparison),
    ]
    if comparison.metrics:
        parts += [_metrics(comparison.metrics), _plots(comparison), _limits(comparison)]
    parts.append(_fields(comparison.fields, comparison.treatment))
    if comparison.metrics:
        parts.append(_questions(comparison, questions or {}, titles or {}))
    title = f"{comparison.second} against {comparison.first}"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n<footer>Made by <code>kbsearch compare</code>: paired randomisation test, BCa bootstrap, Holm over the metrics.</footer>"
        + "\n</body>\n</html>\n"
    )


def number(value: float, *, signed: bool = False) -> str:
    """Four decimals, with a real minus sign; no minus before a zero."""
    text = f"{value:+.4f}" if signed else f"{value:.4f}"
    if float(text) == 0:
        text = "0.0000"
    return text.replace("-", "\N{MINUS SIGN}")


def chance(p: float) -> str:
    """A p: three decimals, or that it is smaller."""
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")  # noqa: PLR2004


def outcome(metric: MetricComparison) -> str:
    """What is said of a metric."""
    if metric.is_better:
        return "better"
    if metric.is_worse:
        return "worse"
    return "within A/A" if metric.significant else "not shown"


def _text(value: str) -> str:
    """Text as HTML; control characters, which HTML may not have, and lone surrogates become U+FFFD."""
    visible = "".join(one if one.isprintable() or one in "\n\t " else "\N{REPLACEMENT CHARACTER}" for one in value)
    return escape(visible)


def _table(heads: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], numeric: Sequence[bool]) -> str:
    """A table of cells that are HTML; a row with its class."""
    marks = [' class="n"' if one else "" for one in numeric]
    head = "".join(f"<th{mark}>{text}</th>" for text, mark in zip(heads, marks, strict=True))
    body = "".join(
        f'<tr class="{kind}">'
        + "".join(f"<td{mark}>{cell}</td>" for cell, mark in zip(cells, marks, strict=True))
        + "</tr>"
        for kind, cells in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _verdict(comparison: Comparison) -> str:
    kind = comparison.verdict.replace(" ", "-")
    head = _TITLES[comparison.verdict] + (" (confounded)" if comparison.confounded else "")
    parts = [f'<div class="verdict {kind}"><strong>{head}</strong><p>{_text(comparison.reason)}</p></div>']
    if comparison.confounded:
        names = ", ".join(field.name for field in comparison.undeclared) or "something that is not recorded"
        parts.append(
            f'<p class="warning">More than the treatment differs ({_text(names)}): this does not say which of them made the difference.</p>'
        )
    return "\n".join(parts)


def _metrics(metrics: Sequence[MetricComparison]) -> str:
    rows = [
        (
            outcome(metric) if metric.real else "",
            [
                escape(heading(metric.metric)),
                escape(outcome(metric)),
                number(metric.difference, signed=True),
                f"{number(metric.low, signed=True)} … {number(metric.high, signed=True)}",
                escape(chance(metric.p_adjusted)),
                number(metric.first),
                number(metric.second),
                f"{metric.wins:,} / {metric.losses:,} / {metric.ties:,}",
                "" if metric.detectable is None else number(metric.detectable),
            ],
        )
        for metric in metrics
    ]
    heads = (
        "metric",
        "second is",
        "difference",
        "95 % interval",
        "p",
        "first",
        "second",
        "won / lost / same",
        "detectable",
    )
    return "<h2>Metrics</h2>" + _table(heads, rows, (False, False, *([True] * 7)))


def _plots(comparison: Comparison) -> str:
    first, second = comparison.values
    primary = comparison.metrics[0]
    queries = sorted(first[primary.metric])
    differences = changes(
        np.array([first[primary.metric][query] for query in queries]),
        np.array([second[primary.metric][query] for query in queries]),
    )
    intervals = comparison.intervals or {}
    drawn = [metrics_plot(comparison.metrics)]
    if primary.wins or primary.losses:
        drawn = [
            questions_plot(heading(primary.metric), differences),
            interval_plot(primary, intervals[primary.metric]),
            *drawn,
        ]
    return '<div class="plots">' + "".join(f"<div>{one}</div>" for one in drawn) + "</div>"


def limits(comparison: Comparison) -> list[str]:
    """What these questions can show at all, in sentences."""
    primary = comparison.metrics[0]
    found = [
        f"{comparison.questions:,} questions; the rankings of {comparison.identical:,} are the same.",
        f"Mean rank-biased overlap of the rankings {comparison.overlap:.3f} (1: the same).",
    ]
    if primary.detectable is not None:
        found.append(
            f"Smallest difference of {heading(primary.metric)} that these questions would show, four times in five: {primary.detectable:.4f}."
        )
    if comparison.same is None:
        found.append("No A/A difference was given (--aa): it is taken as nothing.")
    else:
        by = (
            f", by {abs(comparison.same.ndcg_difference):.4f} nDCG@10"
            if comparison.same.ndcg_difference is not None
            else ""
        )
        found.append(
            f"Built twice, one configuration differs in {comparison.same.differing:,} of {comparison.same.questions:,} questions{by}."
        )
    return found


def _limits(comparison: Comparison) -> str:
    return "<h2>What these questions can show</h2>" + "".join(f"<p>{escape(line)}</p>" for line in limits(comparison))


def _fields(fields: Sequence[FieldDifference], treatment: Sequence[str]) -> str:
    head = (
        f"<h2>Recorded fields that differ</h2><p class='muted'>Declared treatment: {_text(', '.join(treatment))}.</p>"
    )
    if not fields:
        return head + "<p>None.</p>"
    rows = [
        (
            "" if field.declared else "worse",
            [
                _text(field.name),
                _value(field.first),
                _value(field.second),
                "treatment" if field.declared else "not declared",
            ],
        )
        for field in fields
    ]
    return head + _table(("field", "first", "second", ""), rows, (False,) * 4)


def _value(value: Any) -> str:
    if value is None:
        return '<span class="muted">none</span>'
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return f'<span class="{"long" if len(text) > LONG else ""}">{_text(text)}</span>'


def _questions(comparison: Comparison, questions: Mapping[str, str], titles: Mapping[str, str]) -> str:
    if not comparison.changed:
        return "<h2>Questions that changed most</h2><p>No ranking changed.</p>"
    metric = escape(heading(comparison.metrics[0].metric))
    parts = [
        f"<h2>Questions that changed most</h2><p class='muted'>By {metric}, then by overlap of the rankings. A dash: not found, or not judged.</p>"
    ]
    for question in comparison.changed:
        change = question.second - question.first
        kind = "up" if change > 0 else "down" if change < 0 else ""
        name = questions.get(question.query)
        head = _text(name) if name else f"question {_text(question.query)}"
        rows = [
            (
                "",
                [
                    _text(titles.get(moved.document) or moved.document),
                    _place(moved.grade),
                    f"{_place(moved.first)} → {_place(moved.second)}",
                ],
            )
            for moved in question.moved
        ]
        parts.append(
            f'<div class="question"><h3>{head}</h3><p class="muted">{_text(question.query)} · {metric} {number(question.first)} → '
            f'{number(question.second)} (<span class="{kind}">{number(change, signed=True)}</span>) · overlap {question.overlap:.3f}</p>'
            + _table(("article that moved", "grade", "place"), rows, (False, True, True))
            + "</div>"
        )
    return "\n".join(parts)


def _place(value: int | None) -> str:
    """A place or a grade; a dash where there is none."""
    return "–" if value is None else str(value)  # noqa: RUF001  (an en dash)
