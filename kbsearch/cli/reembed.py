"""`kbsearch reembed`: another embedding space, filled beside the one that searches use."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

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
    messages,
)
from kbsearch.cli.complaints import complaining
from kbsearch.cli.embedders import EmbedderChoice, takes_embedder
from kbsearch.cli.progress import progress_bars
from kbsearch.cli.recipes import (
    AllowMachineNamesOption,
    ChunkCharactersOption,
    ChunkTokensOption,
    NoPathOption,
    TemplateOption,
    chosen_splitter,
)
from kbsearch.cli.reports import show_embedded
from kbsearch.cli.specs import SPEC, embedder_of_active_space
from kbsearch.embed import Embedder, MissingExtraError, ModelFileError
from kbsearch.ingest import Comparison, EmbedReport, UsageError, compare, reembed
from kbsearch.ingest.report import Connection, Progress
from kbsearch.ingest.spaces import active_space, named_space
from kbsearch.schema import DEFAULT

EVERY = 10.0
"""Seconds between two lines of progress where the output is no terminal."""
SHOWN = 5
"""Articles named of those that appear or vanish."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("reembed", cls=Checked)(reembed_command)


@takes_embedder
def reembed_command(
    *,
    space: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the new space, made when it is missing; by default the one that kbsearch ingest writes to with this embedder.",
            show_default=False,
        ),
    ] = None,
    org: OrgOption = None,
    activate: Annotated[
        bool,
        typer.Option(
            "--activate", help="Let searches use the space when it is whole, as kbsearch space activate does."
        ),
    ] = False,
    questions: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="FILE",
            help="Questions, a line each, or objects with a text a line (.jsonl): show how their first ten articles would change. Before --activate.",
            show_default=False,
        ),
    ] = None,
    active_embedder: Annotated[
        str | None,
        typer.Option(
            metavar=SPEC,
            help="With --compare: embedder of the space that searches use, if it is neither this one nor the local model, "
            "like openai,model=text-embedding-3-small.",
            show_default=False,
        ),
    ] = None,
    embedding: EmbedderChoice,
    chunk_tokens: ChunkTokensOption = None,
    chunk_characters: ChunkCharactersOption = None,
    template: TemplateOption = None,
    no_path: NoPathOption = False,
    allow_machine_names: AllowMachineNamesOption = False,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Embed all chunks anew, into a space beside the one that searches use. They go on unchanged; what was interrupted is completed.

    Exit code 1 if chunks were skipped (they are listed).
    """
    comparison = None
    with complaining(UsageError, MissingExtraError, ModelFileError):
        asked = None if questions is None else _questions(questions)
        with (
            embedding.made() as chosen,
            connected(dsn, schema) as connection,
            _progress() as progress,
        ):
            if chosen is None:
                raise typer.BadParameter("none has no vectors", param_hint="--embedder")
            organization = find_organization(connection, org, schema)
            options: dict[str, Any] = {
                "space": space,
                "splitter": chosen_splitter(
                    chosen,
                    tokens=chunk_tokens,
                    characters=chunk_characters,
                    template=template,
                    no_path=no_path,
                    allow_machine_names=allow_machine_names,
                ),
                "progress": progress,
                "schema": schema,
            }
            report = reembed(connection, organization.id, chosen, activate=activate and asked is None, **options)
            if asked is not None:
                comparison = _compare(
                    connection,
                    organization.id,
                    asked,
                    report,
                    chosen,
                    active_embedder,
                    progress=progress,
                    schema=schema,
                )
                if activate:
                    later = reembed(connection, organization.id, chosen, activate=True, **options)
                    report = replace(
                        report,
                        space_active=later.space_active,
                        missing=report.missing + later.missing,
                        embedded=report.embedded + later.embedded,
                    )
    if as_json:
        emit({**asdict(report), "organization": organization.name, "comparison": _values(comparison)})
    else:
        if comparison is not None:
            _show(console(), comparison)
        show_embedded(console(), report, organization.name)
        if not report.space_active:
            typer.echo(clean(f"Searches go on as before. To switch: kbsearch space activate {report.space}"))
    if report.rejected:
        raise typer.Exit(NO)


def _questions(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
        if file.suffix.lower() not in (".jsonl", ".ndjson"):
            return lines
        return [str(json.loads(line)["text"]) for line in lines if line.strip()]
    except OSError as error:
        raise UsageError(f"{file.name} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file.name} is no list of questions: {error}") from error


def _compare(
    connection: Connection,
    org_id: int,
    questions: list[str],
    report: EmbedReport,
    chosen: Embedder,
    active_embedder: str | None,
    *,
    progress: Progress,
    schema: str,
) -> Comparison:
    with embedder_of_active_space(active_embedder, "--active-embedder", connection, org_id, chosen, schema) as its:
        active = active_space(connection, org_id, schema)
        assert active is not None  # noqa: S101  (it has an embedder)
        after = (named_space(connection, report.space, schema), chosen)
        return compare(connection, org_id, questions, (active, its), after, progress=progress, schema=schema)


def _values(comparison: Comparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {**asdict(comparison), "overlap": comparison.overlap, "tau": comparison.tau}


def _show(output: Console, comparison: Comparison) -> None:
    table = Table(
        "question",
        "overlap",
        "tau",
        "appear",
        "vanish",
        title=Text(clean(f"First ten articles in {comparison.after} instead of {comparison.before}")),
        caption="overlap: share that stays, 1 all; tau: distance of the orders, 0 the same, 1 reversed",
    )
    for change in comparison.changes:
        table.add_row(
            Text(clean(change.question)),
            f"{change.overlap:.1f}",
            f"{change.tau:.3f}",
            *(Text(clean(_listed(names))) for names in (change.appear, change.vanish)),
        )
    table.add_section()
    table.add_row(
        f"mean of {counted(len(comparison.changes), 'question')}", f"{comparison.overlap:.2f}", f"{comparison.tau:.3f}"
    )
    output.print(table)


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


@contextmanager
def _progress() -> Iterator[Progress]:
    """Bars on a terminal; elsewhere a line now and then, with rate and estimate."""
    errors = messages()
    if errors.is_terminal:
        with progress_bars(errors) as progress:
            yield progress
        return
    started = told = time.monotonic()

    def tell(stage: str, done: int, size: int) -> None:
        nonlocal told
        now = time.monotonic()
        if stage == "embed" and done and now - told >= EVERY:
            told, rate = now, done / (now - started)
            errors.print(
                f"embedded {done:,} of {size:,}, {rate:,.0f}/s, about {(size - done) / rate:,.0f} s left",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )

    yield tell
