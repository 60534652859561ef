"""`kbsearch compare`: is one saved run really better than another?"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbsearch.cli.common import NO, REFUSED, Checked, JsonOption, clean, console, counted, emit
from kbsearch.cli.complaints import complaining
from kbsearch.embed.errors import MissingExtraError, require
from kbsearch.evaluate.collection import Collection, CollectionError
from kbsearch.evaluate.compare import (
    TREATMENT,
    Comparison,
    ComparisonError,
    FieldDifference,
    SameTwice,
    compare,
    heading,
)
from kbsearch.evaluate.metrics import METRICS
from kbsearch.evaluate.report import chance, html_report, limits, number, outcome
from kbsearch.evaluate.runs import RunError, SavedRun

_STYLES = {"better": "green", "worse": "red", "mixed": "yellow", "no difference": "", "none": "bold red"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare", cls=Checked)(compare_command)


def compare_command(
    first: Annotated[Path, typer.Argument(metavar="A", help="The run that is compared with: DIR/NAME.run.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="The run that is judged: DIR/NAME.run.")],
    *,
    treatment: Annotated[
        list[str] | None,
        typer.Option(
            help="What is tried out: recorded fields that may differ, by the beginning of their dotted names. May be repeated.",
            show_default=", ".join(TREATMENT),
        ),
    ] = None,
    allow_confounded: Annotated[
        bool,
        typer.Option(
            "--allow-confounded", help="Give a verdict although more than the treatment differs; it is marked."
        ),
    ] = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Only this metric; may be repeated, and the first decides which questions are shown. {', '.join(map(heading, METRICS))}.",
            show_default=False,
        ),
    ] = None,
    aa: Annotated[
        Path | None,
        typer.Option(
            "--aa",
            help="What kbsearch aa wrote as JSON: a difference no larger than building one configuration twice makes is none.",
            show_default=False,
        ),
    ] = None,
    collection: Annotated[
        Path | None,
        typer.Option(help="The collection, to show texts of questions and titles of articles.", show_default=False),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a report with plots into this file.", dir_okay=False, show_default=False)
    ] = None,
    fail_if_worse: Annotated[
        bool,
        typer.Option(
            "--fail-if-worse", help="Exit code 1 if B is really worse by a metric: for tests of every change."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say whether run B answers the questions better or worse than run A, or whether chance would do the same.

    Exit code 0: there is a verdict (with --fail-if-worse: and B is not worse). 1: B is worse, with --fail-if-worse. 2: the runs cannot be
    compared: a file cannot be read, or questions and judgements are others. 3: no verdict, because more than the treatment differs.
    """
    with complaining(RunError, ComparisonError, CollectionError, MissingExtraError, work="comparing"):
        if html is not None:
            _check_folder(html)
            require("matplotlib", "plots", extra="evaluate")
        texts = Collection.load(collection) if collection else None
        found = compare(
            SavedRun.load(first),
            SavedRun.load(second),
            names=_names(first, second),
            treatment=tuple(treatment or TREATMENT),
            allow_confounded=allow_confounded,
            metrics=tuple(metric or METRICS),
            same=SameTwice.load(aa) if aa else None,
        )
        questions = {query.id: query.text for query in texts.queries} if texts else {}
        titles = {document.id: document.title for document in texts.documents} if texts else {}
        if html is not None:
            write_text(html, html_report(found, questions, titles))
    if as_json:
        emit(found.as_json())
    else:
        _show(console(), found, questions, titles)
        if html is not None:
            console().print(f"wrote {clean(str(html))}", markup=False, highlight=False, soft_wrap=True)
    if found.verdict == "none":
        raise typer.Exit(REFUSED)
    if fail_if_worse and found.is_worse:
        raise typer.Exit(NO)


def write_text(file: Path, text: str) -> None:
    """Write a file; whoever reads the path sees all of it, or what was there before."""
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as written:
            written.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _check_folder(file: Path) -> None:
    if not file.resolve().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {clean(str(file.parent))!r}", param_hint="--html")


def _names(first: Path, second: Path) -> tuple[str, str]:
    """By system, and by folder too where that is not enough."""
    if first.stem != second.stem:
        return first.stem, second.stem
    ours, theirs = (f"{path.resolve().parent.name}/{path.stem}" for path in (first, second))
    return (ours, theirs) if ours != theirs else (str(first.with_suffix("")), str(second.with_suffix("")))


def _show(output: Console, found: Comparison, questions: dict[str, str], titles: dict[str, str]) -> None:
    output.print(
        _fields(found.fields, found.first, found.second) if found.fields else "No recorded field differs.",
        highlight=False,
    )
    if found.metrics:
        output.print(_metrics(found))
        for line in limits(found):
            output.print(line, markup=False, highlight=False, soft_wrap=True)
        if found.changed:
            output.print(_changed(found, questions, titles))
    title = "No verdict. " if found.verdict == "none" else "Confounded verdict: " if found.confounded else ""
    output.print(
        clean(f"{title}{found.reason}"), style=_STYLES[found.verdict], markup=False, highlight=False, soft_wrap=True
    )


def _fields(fields: Sequence[FieldDifference], first: str, second: str) -> Table:
    table = Table("field", title="Recorded fields that differ", title_justify="left")
    table.add_column(Text(clean(first)))
    table.add_column(Text(clean(second)))
    table.add_column()
    for field in fields:
        mark = Text("treatment") if field.declared else Text("not declared", style="bold red")
        table.add_row(Text(clean(field.name)), Text(_short(field.first)), Text(_short(field.second)), mark)
    return table


def _short(value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return clean(text if len(text) <= 40 else f"{text[:16]}…")  # noqa: PLR2004  (a hash is known by its beginning)


def _metrics(found: Comparison) -> Table:
    table = Table(
        title=Text(clean(f"{found.second} against {found.first}: {counted(found.questions, 'question')}")),
        title_justify="left",
        caption="95 % intervals by bootstrap; p of a paired randomisation test, adjusted for the number of metrics (Holm)",
    )
    table.add_column("metric")
    for name in ("first", "second", "change", "95 %", "p", "won\nlost"):
        table.add_column(name, justify="right")
    table.add_column("second")
    for metric in found.metrics:
        table.add_row(
            heading(metric.metric),
            number(metric.first),
            number(metric.second),
            number(metric.difference, signed=True),
            f"{number(metric.low, signed=True)}\n{number(metric.high, signed=True)}",
            chance(metric.p_adjusted),
            f"{metric.wins:,}\n{metric.losses:,}",
            Text(outcome(metric), style="green" if metric.is_better else "red" if metric.is_worse else "dim"),
        )
    return table


def _changed(found: Comparison, questions: dict[str, str], titles: dict[str, str]) -> Table:
    table = Table("question", title="Questions that changed most", title_justify="left", show_lines=True)
    table.add_column(heading(found.metrics[0].metric), justify="right")
    table.add_column("overlap", justify="right")
    table.add_column("moved (grade): place")
    for question in found.changed:
        moved = Text("\n").join(
            Text(
                clean(titles.get(one.document) or one.document)[:60]
                + f" ({'-' if one.grade is None else one.grade}): {one.first or '-'} → {one.second or '-'}"
            )
            for one in question.moved[:2]
        )
        name = questions.get(question.query)
        table.add_row(
            Text(clean(f"{question.query}: {name}" if name else question.query)),
            f"{number(question.first)} →\n{number(question.second)}",
            f"{question.overlap:.3f}",
            moved,
        )
    return table
