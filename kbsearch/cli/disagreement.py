"""kbsearch disagreement, kbsearch arbitration: how much the legs of logged searches disagree, what was escalated, and whether a manifest is right."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer
from psycopg.rows import class_row
from rich.table import Table
from rich.text import Text

from kbsearch.arbitration import CLASSES, verify
from kbsearch.cli.common import (
    NO,
    Checked,
    DsnOption,
    JsonOption,
    OrgOption,
    SchemaOption,
    clean,
    connected,
    console,
    counted,
    emit,
    find_organization,
)
from kbsearch.embed.errors import MissingExtraError, require
from kbsearch.schema import DEFAULT, in_schema

arbitration = typer.Typer(no_args_is_help=True, help="Records of arbitrations: check one without a database.")

_TREND = """SELECT bucket_start, query_class, searches, disagreement_mean, disagreement_max, escalated
FROM kbsearch.kb_disagreement_trend_v1(p_org_id => %s, p_bucket => %s)"""
_ESCALATED = """SELECT id, logged_at, query_class, query_text, query_hash, policy, disagreement
FROM kbsearch.list_kb_escalations_v1(p_org_id => %s, p_limit => %s)"""
_UNITS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
}
# Of the palette of Okabe and Ito, which people who see colours differently can tell apart; a colour and a mark for each class.
_LOOKS = dict(
    zip(CLASSES, zip(("#0072b2", "#d55e00", "#00795a", "#9a6a00", "#57606a"), "osD^v", strict=True), strict=True)
)


@dataclass(frozen=True, slots=True)
class Bucket:
    """The logged searches of one class of questions in one bucket of time."""

    bucket_start: datetime
    query_class: str
    searches: int
    disagreement_mean: Decimal | None
    disagreement_max: Decimal | None
    escalated: int


@dataclass(frozen=True, slots=True)
class Escalation:
    """A logged search whose verdict was escalated."""

    id: int
    logged_at: datetime
    query_class: str
    query_text: str | None
    query_hash: str
    policy: str
    disagreement: Decimal


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("disagreement", cls=Checked)(disagreement)
    app.add_typer(arbitration, name="arbitration")


def disagreement(
    *,
    org: OrgOption = None,
    bucket: Annotated[
        str,
        typer.Option(
            help="Length of a bucket of time: minute, hour, day or week, or a number of them, as in '6 hours'."
        ),
    ] = "day",
    plot: Annotated[
        Path | None, typer.Option(help="Draw it into this file, too: .png or .svg.", dir_okay=False, show_default=False)
    ] = None,
    escalated: Annotated[
        bool, typer.Option("--escalated", help="List the searches that were escalated, the latest first.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many escalated searches.")] = 100,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Show how much the legs of an organisation's logged searches disagree, by time and class of question. Exit code 1 if there are none."""
    width = _length(bucket)
    if plot is not None:
        _check_plot(plot, escalated=escalated)
    with connected(dsn, schema) as connection:
        organization = find_organization(connection, org, schema)
        if escalated:
            found = _rows(connection, Escalation, in_schema(_ESCALATED, schema), organization.id, limit)
            if as_json:
                emit(found)
            else:
                _show_escalated(found)
            raise typer.Exit(0 if found else NO)
        buckets = _rows(connection, Bucket, in_schema(_TREND, schema), organization.id, width)
    if as_json:
        emit(buckets)
    else:
        _show_trend(buckets, width)
    if plot is not None and buckets:
        _draw(plot, buckets, width, organization.name)
    if not buckets:
        raise typer.Exit(NO)


@arbitration.command("verify")
def verify_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="File with a manifest, or with a page that has one, as JSON; - is standard input.",
        ),
    ],
    *,
    question: Annotated[
        str | None, typer.Option(help="The question, to be checked against the manifest's hash.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a manifest without a database: its digest, its hashes, and that its verdict follows from its rankings and its policy.

    Exit code 1 if something is wrong.
    """
    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        given = json.loads(raw.decode(), object_pairs_hook=_object)
    except (OSError, ValueError, RecursionError) as error:
        raise typer.BadParameter(f"there is no JSON to be read: {clean(str(error))}", param_hint="FILE") from error
    if isinstance(given, dict) and "manifest" in given:
        given = given["manifest"]
    faults = verify(given, question)
    if as_json:
        emit({"valid": not faults, "faults": faults, "verdict": None if faults else given["verdict"]})
    elif faults:
        for fault in faults:
            console().print(clean(fault), markup=False, highlight=False, style="bold red", soft_wrap=True)
    else:
        _show_manifest(given)
    if faults:
        raise typer.Exit(NO)


def _check_plot(file: Path, *, escalated: bool) -> None:
    """Before anything is read: whether a plot can be drawn into the file.

    Raises:
        typer.BadParameter: it cannot.
    """
    problem = None
    if escalated:
        problem = "there is no plot of a list"
    elif file.suffix not in (".png", ".svg"):
        problem = "the file's name ends in .png or .svg"
    elif not file.resolve().parent.is_dir():
        problem = f"there is no folder {clean(str(file.parent))!r}"
    else:
        try:
            require("matplotlib", "plots", extra="plot")
        except MissingExtraError as error:
            problem = str(error)
    if problem:
        raise typer.BadParameter(problem, param_hint="--plot")


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object has a key twice")
    return made


def _length(bucket: str) -> timedelta:
    """A bucket's length.

    Raises:
        typer.BadParameter: it is none.
    """
    match = re.fullmatch(r"(?:([1-9]\d{0,4}) )?(minute|hour|day|week)s?", bucket, re.ASCII)
    if match is None:
        raise typer.BadParameter(
            f"{clean(bucket)!r} is not minute, hour, day or week, or a number of them", param_hint="--bucket"
        )
    return int(match[1] or 1) * _UNITS[match[2]]


def _rows(connection: psycopg.Connection[Any], kind: type[Any], query: str, *values: object) -> list[Any]:
    with connection.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(query.encode(), values).fetchall()


def _show_trend(buckets: Sequence[Bucket], width: timedelta) -> None:
    output = console()
    if not buckets:
        output.print(
            "No search is logged. A log is kept where organizations.arbitration_log is hash or text.", highlight=False
        )
        return
    table = Table(title="How much the legs disagree (0: not at all, 1: entirely)", title_justify="left")
    for column in ("from (UTC)", "class"):
        table.add_column(column)
    for column in ("searches", "mean", "most", "escalated"):
        table.add_column(column, justify="right")
    before = None
    for one in buckets:
        start = _time(one.bucket_start, width)
        table.add_row(
            "" if start == before else start,
            one.query_class,
            f"{one.searches:,}",
            _share(one.disagreement_mean),
            _share(one.disagreement_max),
            f"{one.escalated:,}",
        )
        before = start
    output.print(table)
    searches, gone = sum(one.searches for one in buckets), sum(one.escalated for one in buckets)
    spelled = "search" if searches == 1 else "searches"
    output.print(f"{searches:,} {spelled}, {gone:,} escalated", highlight=False)


def _show_escalated(found: Sequence[Escalation]) -> None:
    output = console()
    if not found:
        output.print("No search that was escalated is logged.", highlight=False)
        return
    table = Table(
        "id", "logged (UTC)", "class", "policy", "apart", "question", title="Escalated searches", title_justify="left"
    )
    for one in found:
        shown = (
            Text(f"sha256 {one.query_hash[:16]}…", style="dim")
            if one.query_text is None
            else Text(clean(one.query_text))
        )
        logged = one.logged_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(str(one.id), logged, one.query_class, one.policy, _share(one.disagreement), shown)
    output.print(table)
    output.print(counted(len(found), "escalation"), highlight=False)


def _show_manifest(manifest: dict[str, Any]) -> None:
    apart = manifest["disagreement_magnitude"]
    rows = {
        "verdict": manifest["verdict"],
        "rule": f"{manifest['arbitration_rule_id']} of {manifest['policy']}",
        "class of the question": manifest["query_class"],
        "disagreement": "one leg alone answered" if apart is None else f"{apart} (overlap {manifest['overlap']})",
        "digest": manifest["manifest_digest"],
    }
    output = console()
    for name, value in rows.items():
        output.print(f"{name:22} {value}", markup=False, highlight=False, soft_wrap=True)
    output.print(manifest["directive"], markup=False, highlight=False, soft_wrap=True)
    output.print("The manifest is right: digest, hashes and decision.", style="green", highlight=False, soft_wrap=True)


def _share(value: Decimal | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _time(start: datetime, width: timedelta) -> str:
    return start.astimezone(UTC).strftime("%Y-%m-%d" if width % timedelta(days=1) == timedelta(0) else "%Y-%m-%d %H:%M")


def _draw(file: Path, buckets: Sequence[Bucket], width: timedelta, organization: str) -> None:
    """Two panels over time: the mean disagreement of each class of questions, and how many searches that is the mean of."""
    import matplotlib as mpl  # noqa: PLC0415  (of an extra)
    from matplotlib.figure import Figure  # noqa: PLC0415

    style: dict[Any, Any] = {
        "svg.hashsalt": "kbsearch",
        "svg.fonttype": "none",
        "timezone": "UTC",
        "date.converter": "concise",
        "text.parse_math": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#eaeef2",
    }
    middles = {start: start + width / 2 for start in sorted({one.bucket_start for one in buckets})}
    day = timedelta(days=1)
    with mpl.rc_context(style):
        figure = Figure(figsize=(9, 6), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
        floor = dict.fromkeys(middles, 0)
        for name, (colour, mark) in _LOOKS.items():
            points = [one for one in buckets if one.query_class == name]
            known = [one for one in points if one.disagreement_mean is not None]
            above.plot(
                [middles[one.bucket_start] for one in known],
                [float(one.disagreement_mean or 0) for one in known],
                color=colour,
                marker=mark,
                label=name if points else "",
            )
            below.bar(
                [middles[one.bucket_start] for one in points],
                [one.searches for one in points],
                width=0.8 * (width / day),
                bottom=[floor[one.bucket_start] for one in points],
                color=colour,
            )
            for one in points:
                floor[one.bucket_start] += one.searches
        gone = [sum(one.escalated for one in buckets if one.bucket_start == start) for start in middles]
        if any(gone):
            below.bar(list(middles.values()), gone, width=0.25 * (width / day), color="#24292f", label="escalated")
            below.legend(frameon=False, loc="best")
        above.set_ylim(-0.02, 1.02)
        above.set_ylabel("mean disagreement (0 … 1)")
        above.set_title(f"How much the legs disagree: {clean(organization)}", loc="left", fontweight="bold")
        above.legend(title="class of question", frameon=False, loc="best")
        below.set_ylabel("searches")
        below.set_xlabel("time (UTC)")
        below.margins(y=0.15)
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else {"Software": None}, dpi=120)
