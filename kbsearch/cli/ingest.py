"""`kbsearch ingest`: files, JSON lines and Python's documentation into an organisation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from kbsearch.cli.common import NO, USAGE, Checked, DsnOption, JsonOption, clean, connected, console, emit, messages
from kbsearch.embed import Embedder, LocalEmbedder, MissingExtraError, ModelFileError
from kbsearch.ingest import IngestReport, Source, UsageError, ingest, read_jsonl, read_paths, read_pydoc
from kbsearch.ingest.documents import printable
from kbsearch.ingest.pipeline import Progress, organization_id
from kbsearch.ingest.sources import JSONL_SUFFIXES, MARKUP_BY_SUFFIX

SHOWN_REJECTED = 20
_STAGES = {"read": "reading", "reserve": "reserving ids", "articles": "articles", "prune": "deleting"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ingest", cls=Checked)(ingest_command)


def ingest_command(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH…",
            help="Folders, searched for Markdown (.md, .markdown) and text (.txt, .rst) only; files of these or of JSON lines (.jsonl, .ndjson).",
        ),
    ] = None,
    *,
    pydoc: Annotated[
        bool, typer.Option("--pydoc", help="Python's language reference, as it comes with Python.")
    ] = False,
    org: Annotated[str, typer.Option(metavar="NAME", help="Organisation; created when it is missing.")] = "default",
    kind: Annotated[str, typer.Option(help="Kind of the articles that name none.")] = "article",
    source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="What the articles belong to, for --prune; by default the folder's or file's own name."
        ),
    ] = None,
    no_embed: Annotated[
        bool, typer.Option("--no-embed", help="Write no vectors: articles are found by their words only.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete articles whose documents the same source has no more.")
    ] = False,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ingest documents; what is unchanged is skipped, what was interrupted is completed.

    JSON lines are an object a line with the fields id (the article's external_ref) and title or text or both, and optionally kind,
    metadata (an object), source_uri and published (true or false). Folders are not searched for JSON lines: name their files.

    Exit code 1 if some documents were skipped (they are listed), 2 if there was nothing to do.
    """
    try:
        sources = _sources(paths or [], pydoc=pydoc, kind=kind, name=source)
        embedder: Embedder | None = None if no_embed else LocalEmbedder()
        with connected(dsn) as connection, progress_bars(messages()) as progress:
            report = ingest(
                connection,
                organization_id(connection, org, create=True),
                sources,
                embedder=embedder,
                prune=prune,
                progress=progress,
            )
    except (UsageError, MissingExtraError, ModelFileError) as error:
        _complain(str(error))
        if isinstance(error, MissingExtraError):
            _complain("Or ingest without vectors: --no-embed")
        raise typer.Exit(USAGE) from error
    if as_json:
        emit({**asdict(report), "organization": org})
    else:
        show_report(console(), report, org)
    if report.read == 0:
        _complain("There is no document to ingest.")
        raise typer.Exit(USAGE)
    if report.rejected:
        raise typer.Exit(NO)


def show_report(console: Console, report: IngestReport, organization: str) -> None:
    """Print what an ingest did, as tables for people."""
    table = Table(title=Text(f"Ingest into {clean(organization)!r} (organisation {report.org_id})"), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    rows: list[tuple[str, object]] = [
        ("documents read", report.read),
        ("articles written", report.written),
        ("articles unchanged", report.unchanged),
        ("articles embedded anew, unchanged otherwise", report.reembedded),
        ("articles that another source had before", report.taken_over),
        ("articles deleted", report.deleted),
        ("documents skipped", len(report.rejected)),
        ("chunks written", report.chunks),
        ("chunks embedded", report.embedded_chunks),
        ("chunks longer than the model reads", report.truncated_chunks),
    ]
    for label, count in rows:
        if count or label in ("documents read", "articles written", "articles unchanged"):
            table.add_row(label, f"{count:,}")
    if report.space is not None:
        table.add_row("embedding space", Text(clean(report.space)))
    table.add_row("seconds", f"{report.seconds:.1f}")
    console.print(table)
    for note in report.notes:
        console.print(clean(note), style="yellow", markup=False)
    if report.rejected:
        skipped = Table("document", "skipped because", title="Skipped")
        for rejected in report.rejected[:SHOWN_REJECTED]:
            skipped.add_row(Text(clean(rejected.where)), Text(clean(rejected.reason)))
        if len(report.rejected) > SHOWN_REJECTED:
            skipped.caption = f"and {len(report.rejected) - SHOWN_REJECTED} more: --json lists all"
        console.print(skipped)


@contextmanager
def progress_bars(console: Console) -> Iterator[Progress]:
    """Bars for long work: a line a stage, with rate and remaining time; nothing where the output is no terminal."""
    bars = Bars(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    tasks: dict[str, TaskID] = {}

    def progress(stage: str, done: int, size: int) -> None:
        if stage not in tasks:
            tasks[stage] = bars.add_task(_STAGES.get(stage, stage), rate="")
        speed = bars.tasks[tasks[stage]].speed
        bars.update(tasks[stage], completed=done, total=size or None, rate=f"{speed:,.0f}/s" if speed else "")

    with bars:
        yield progress


def _complain(line: str) -> None:
    messages().print(clean(line), style="red", markup=False, highlight=False, soft_wrap=True)


def _sources(paths: list[Path], *, pydoc: bool, kind: str, name: str | None) -> list[Source]:
    if not paths and not pydoc:
        raise UsageError("nothing to ingest: name a folder or a file, or give --pydoc")
    sources = []
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist")
        own = printable(path.resolve().name if path.is_dir() else path.name).replace(":", "-") or "files"
        if path.is_dir():
            sources.append(Source(name or own, read_paths(path, kind=kind)))
        elif path.suffix.lower() in JSONL_SUFFIXES:
            sources.append(Source(name or own, read_jsonl(path, kind=kind)))
        elif path.suffix.lower() in MARKUP_BY_SUFFIX:
            # A file alone belongs to its folder, as if the folder were ingested.
            folder = printable(path.resolve().parent.name).replace(":", "-") or "files"
            sources.append(Source(name or folder, read_paths(path, kind=kind), complete=False))
        else:
            raise UsageError(
                f"{path.name} is of no type that can be ingested: {', '.join((*MARKUP_BY_SUFFIX, *JSONL_SUFFIXES))}"
            )
    if pydoc:
        sources.append(Source(name or "pydoc", read_pydoc(kind=kind)))
    return sources
