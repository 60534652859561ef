"""kbsearch doctor: what is wrong with the database, and what to do about it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from kbsearch.cli.common import (
    NO,
    Checked,
    DsnOption,
    JsonOption,
    SchemaOption,
    clean,
    console,
    counted,
    database,
    emit,
    messages,
)
from kbsearch.doctor import GROUPS, Diagnosis, Finding, Level, UnknownCheckError, UnknownRoleError, examine
from kbsearch.doctor.base import Progress
from kbsearch.schema import DEFAULT

STYLES = {Level.OK: "green", Level.UNCHECKED: "cyan", Level.WARNING: "yellow", Level.PROBLEM: "bold red"}
SHOWN = 10
"""Findings of one check and level that are shown to people."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("doctor", cls=Checked)(doctor)


def doctor(
    org: Annotated[
        str | None, typer.Option("--org", help="Name of the only organisation to look at.", show_default=False)
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(
            "--role", help="Role whose rights are looked at; by default the connection's.", show_default=False
        ),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Analyse every chunk again and search every organisation, not samples.")
    ] = False,
    recall: Annotated[
        bool,
        typer.Option(
            "--recall",
            help="Measure what approximate searches miss, by searches of the organisations' own texts and vectors.",
        ),
    ] = False,
    check: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Only this check or group, may be repeated; groups: {', '.join(GROUPS)}.", show_default=False
        ),
    ] = None,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Examine the database: versions, rights, triggers, settings, index, data, plans. Changes nothing. Exit code 1 if there is a problem."""
    target = database(dsn, schema, upgrade=False)
    try:
        with _progress(shown=not as_json and sys.stderr.isatty()) as progress:
            diagnosis = examine(
                target,
                schema=schema,
                organization=org,
                role=role,
                deep=deep,
                recall=recall,
                checks=check or None,
                progress=progress,
            )
    except UnknownRoleError as error:
        raise typer.BadParameter(f"{error}. {error.hint}", param_hint="--role") from error
    except UnknownCheckError as error:
        raise typer.BadParameter(f"{error}. {error.hint}", param_hint="--check") from error
    if as_json:
        emit(
            {
                "database": diagnosis.database,
                "schema": diagnosis.schema,
                "role": diagnosis.role,
                "counts": {level.value: diagnosis.count(level) for level in Level},
                "findings": diagnosis.findings,
            }
        )
    else:
        _show(diagnosis)
    if diagnosis.count(Level.PROBLEM):
        raise typer.Exit(NO)


@contextmanager
def _progress(*, shown: bool) -> Iterator[Progress | None]:
    """Bars for the checks that look at one organisation after another."""
    if not shown:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Bars(*columns, console=messages(), transient=True) as bars:
        tasks = {}

        def tell(check: str, done: int, total: int) -> None:
            if check not in tasks:
                tasks[check] = bars.add_task(check, total=total)
            bars.update(tasks[check], completed=done, total=total, visible=done < total)

        yield tell


def _show(diagnosis: Diagnosis) -> None:
    output = console()
    table = Table(
        "",
        "check",
        "found",
        title=f"Database {clean(diagnosis.database)}, schema {diagnosis.schema}, role {clean(diagnosis.role)}",
        title_justify="left",
    )
    shown, hidden = _fold(diagnosis.findings)
    for finding in shown:
        found = clean(finding.found)
        if finding.organization is not None:
            found = f"{clean(finding.organization)}: {found}"
        table.add_row(
            Text(finding.level.value, style=STYLES[finding.level]),
            Text(finding.check),
            Text(found if finding.level is Level.OK else f"{found}\nexpected: {clean(finding.expected)}"),
        )
    output.print(table)
    for (check, level), more in hidden.items():
        output.print(
            f"{check}: {counted(more, f'more {level.value}')} (--json shows all)", markup=False, highlight=False
        )
    advised = [finding for finding in shown if finding.level is not Level.OK and finding.advice]
    if advised:
        output.print("\nWhat to do", style="bold")
    for finding in advised:
        whose = "" if finding.organization is None else f", organisation {finding.organization}"
        output.print(Text(clean(f"{finding.check}{whose}"), style=STYLES[finding.level]), soft_wrap=True)
        for line in finding.advice.splitlines():
            output.print(f"    {clean(line)}", markup=False, highlight=False, soft_wrap=True)
    output.print(", ".join(f"{diagnosis.count(level)} {level.value}" for level in Level), markup=False, highlight=False)


def _fold(findings: Sequence[Finding]) -> tuple[list[Finding], dict[tuple[str, Level], int]]:
    """The findings to show, and how many more of the same check and level there are."""
    seen: Counter[tuple[str, Level]] = Counter()
    shown = []
    for finding in findings:
        seen[finding.check, finding.level] += 1
        if seen[finding.check, finding.level] <= SHOWN:
            shown.append(finding)
    return shown, {key: count - SHOWN for key, count in seen.items() if count > SHOWN}
