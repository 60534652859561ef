"""Run the benchmarks: `python -m benchmarks`, or its stages, prepare, measure and report, one at a time."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import psycopg
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks import database, figures, measures, peers, report
from benchmarks import measure as measuring
from benchmarks import prepare as preparing
from benchmarks import quality as judging
from benchmarks.store import SCALES, Say, Store, default_folder
from benchmarks.timing import LITTLE, Effort
from kbsearch import embedded
from kbsearch.cli.progress import progress_bars

SHARED = Path(os.environ.get("KBSEARCH_SHARED") or Path(__file__).resolve().parents[2] / "shared") / "data"
"""Collections with relevance judgements, which are no part of the repository: in KBSEARCH_SHARED, or beside the checkout."""

app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_show_locals=False)


class Size(StrEnum):
    """What can be prepared and measured: chunks of the large organisation, or of the database."""

    SMALL = "100k"
    MIDDLE = "300k"
    LARGE = "1m"
    TINY = "tiny"


Folder = Annotated[Path, typer.Option(help="Where prepared data lie; in the user's cache directory by default.")]
Scales = Annotated[list[Size], typer.Option("--scale", help="Which; several may be named.")]
Quick = Annotated[bool, typer.Option(help="Shows that it runs, says nothing about speed.")]
Collections = Annotated[Path, typer.Option(help="Folder of collections with relevance judgements.")]
Results = Annotated[Path, typer.Option(help="Folder of what was measured.")]


@app.callback(invoke_without_command=True)
def everything(context: typer.Context) -> None:
    """Without a command: all of it, in the user's cache directory, and the servers stopped. Exit status 1: a target was missed."""
    if context.invoked_subcommand is None:
        folder = default_folder()
        sizes = [Size.SMALL, Size.LARGE]
        try:
            prepare(scale=sizes, folder=folder)
            measure(scale=sizes, folder=folder)
            quality(folder=folder)
        finally:
            stop(folder=folder)
        write()


@app.command()
def prepare(
    *,
    scale: Scales = [Size.SMALL, Size.LARGE],  # noqa: B006  (typer reads it)
    folder: Folder = default_folder(),  # noqa: B008
    refresh_functions: Annotated[
        bool, typer.Option(help="Only replace functions that have changed; refused where more has.")
    ] = False,
    reindex: Annotated[bool, typer.Option(help="Build the postings anew, by the functions as they are now.")] = False,
) -> None:
    """Load and index the data, or bring them up to date. Stopped at any time, it goes on where it was. Servers stay up (see stop)."""
    with _told() as (console, say):
        store = Store(folder.expanduser().resolve(), say, _settings(scale))
        for one in scale:
            for name in (one.value, *SCALES[one.value].beside):
                if not refresh_functions:
                    continue
                try:
                    changed = preparing.refresh(store, SCALES[name])
                except preparing.StaleError:
                    console.print(f"{name} differs in more than functions: prepare it again.", style="red")
                    raise typer.Exit(1) from None
                console.print(f"{name}: {len(changed)} differences replaced")
            if not refresh_functions:
                preparing.prepare(store, SCALES[one.value], reindex=reindex)
                console.print(f"{one.value} is prepared in {store.folder}")


@app.command()
def measure(
    *,
    scale: Scales = [Size.SMALL, Size.LARGE],  # noqa: B006
    folder: Folder = default_folder(),  # noqa: B008
    results: Results = report.RESULTS,
    quick: Quick = False,
    only: Annotated[str, typer.Option(help="Parts with commas between them: latency,keyword,recall,pages,…")] = "",
    as_it_is: Annotated[bool, typer.Option(help="Do not compare the SQL with the files' first.")] = False,
) -> None:
    """Measure what is prepared; functions that have changed are replaced first."""
    with _told() as (console, say):
        store = Store(folder.expanduser().resolve(), say, _settings(scale))
        effort = LITTLE if quick else Effort()
        for one in scale:
            if not as_it_is:
                for name in (one.value, *SCALES[one.value].beside):
                    try:
                        preparing.refresh(store, SCALES[name])
                    except preparing.StaleError:
                        console.print(f"{name} differs in more than functions: prepare it again.", style="red")
                        raise typer.Exit(1) from None
            parts = {part.strip() for part in only.split(",") if part.strip()}
            measuring.measure(store, SCALES[one.value], effort, results, only=parts)
        if not only or "curve" in only:
            measuring.measure_curve(store, effort, results)
        console.print(f"wrote {results}")


@app.command()
def quality(
    *,
    folder: Folder = default_folder(),  # noqa: B008
    results: Results = report.RESULTS,
    collections: Collections = SHARED,
) -> None:
    """Ask all systems the questions of whole collections, if these are there. Takes no quiet machine."""
    with _told() as (console, say):
        store = Store(folder.expanduser().resolve(), say)
        found = judging.measure(store, collections, say)
        if not found:
            console.print(f"No collections with vectors in {collections}: not measured.")
            return
        measuring.write_down(results / "quality.json", found)
        console.print(f"wrote {results}")


@app.command("report")
def write(
    *,
    results: Results = report.RESULTS,
    page: Annotated[Path, typer.Option(help="The page to write.")] = report.PAGE,
    plots: Annotated[Path, typer.Option(help="Folder of the plots.")] = report.PLOTS,
) -> None:
    """Write tables and plots of what was measured. Exit status 1: a target was missed."""
    console = Console()
    found = report.write(report.read(results), page, plots)
    console.print(figures.table(found))
    console.print(f"wrote {page}")
    if any(figure.met is False for figure in found):
        raise typer.Exit(1)


@app.command()
def stop(*, folder: Folder = default_folder()) -> None:  # noqa: B008
    """Stop the servers."""
    store = Store(folder.expanduser().resolve())
    store.stop()
    peers.stop_textsearch(store)


@app.command()
def plain(
    *,
    quick: Annotated[
        bool, typer.Option(help="A tenth of the sizes: shows that it runs, says nothing about speed.")
    ] = False,
    only: Annotated[str, typer.Option(help="Letters of measures with commas between them.")] = "a,b,c,d,e,f,g,h",
) -> None:
    """Measure kbsearch beside plain PostgreSQL on a server of its own; a complete run writes PLAIN.md. Exit status 1: a target was missed."""
    console = Console()
    letters = sorted({letter.strip() for letter in only.split(",")})
    if unknown := [letter for letter in letters if letter not in measures.MEASURES]:
        raise typer.BadParameter(f"no such measure: {', '.join(unknown)}; there are {', '.join(measures.MEASURES)}")
    directory = Path(tempfile.mkdtemp(prefix="kbsearch-bench-"))
    found: list[figures.Figure] = []
    facts: list[str] = []
    stopped = False
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    try:
        server = _start(directory / "postgres")
        facts = _facts(server)
        with Progress(*columns, console=console) as progress:
            run = database.Run(server, database.QUICK if quick else database.Sizes(), progress)
            for letter in letters:
                found += measures.MEASURES[letter](run)
    except KeyboardInterrupt:
        stopped = True
        console.print("Stopped; these were measured:")
    finally:
        embedded.stop(directory / "postgres")
        shutil.rmtree(directory, ignore_errors=True)
    console.print(figures.table(found))
    for fact in facts:
        console.print(f"[dim]{fact}[/dim]")
    if stopped:
        raise typer.Exit(130)
    if not quick and letters == sorted(measures.MEASURES):
        figures.PLAIN.write_text(figures.markdown(found, facts), encoding="utf-8")
        console.print(f"wrote {figures.PLAIN}")
    if not quick and any(figure.met is False for figure in found):
        raise typer.Exit(1)


def _settings(scales: list[Size]) -> dict[str, str]:
    settings = dict(Store(Path()).settings)
    return {**settings, "shared_buffers": "32MB"} if scales == [Size.TINY] else settings


@contextmanager
def _told() -> Iterator[tuple[Console, Say]]:
    """Bars on a terminal, lines elsewhere."""
    console = Console()
    with progress_bars(console) as progress:
        told: dict[str, int] = {}

        def say(what: str, done: int, size: int) -> None:
            if console.is_terminal:
                progress(what, done, size)
                return
            share = 10 * done // size if size else 0
            if told.get(what) != share:
                told[what] = share
                console.print(f"{what}{f' {done:,} of {size:,}' if size else ''}", markup=False)

        yield console, say


def _start(data: Path) -> embedded.Server:
    """A server with SETTINGS, some of which need a second start."""
    embedded.start(data, settings=database.SETTINGS)
    embedded.stop(data)
    return embedded.start(data)


def _facts(server: embedded.Server) -> list[str]:
    """What the figures depend on."""
    with psycopg.connect(embedded.ensure_database(server)) as connection:
        row = connection.execute(
            "SELECT current_setting('server_version'), (SELECT e.extversion FROM pg_extension AS e WHERE e.extname = 'vector')"
        ).fetchone()
    version, vector = row or ("?", "?")
    settings = ", ".join(f"{name} {value}" for name, value in database.SETTINGS.items())
    return [
        f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}; PostgreSQL {version}, pgvector {vector}",
        f"settings: {settings}; all others, durability too, as PostgreSQL has them by default",
        "text: Zipf, about 75 distinct words a chunk, a chunk an article; vectors: 384 dimensions, clustered",
        "questions: six words; rare: frequency ranks from 1,000 to 20,000; medium: from 30; common: the first 30; mixed: 3, 2 and 1 of these",
        "what is compared is run in turns, so a busy machine slows both sides down",
    ]


if __name__ == "__main__":
    app()
