"""Run the benchmarks: `python -m benchmarks`. A complete run writes benchmarks/RESULTS.md."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import psycopg
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks import figures, measures
from benchmarks.database import QUICK, SETTINGS, Run, Sizes
from kbsearch import embedded


def main(
    *,
    quick: Annotated[
        bool, typer.Option(help="A tenth of the sizes: shows that it runs, says nothing about speed.")
    ] = False,
    only: Annotated[str, typer.Option(help="Letters of measures with commas between them.")] = "a,b,c,d,e,f,g",
) -> None:
    """Measure kbsearch beside plain PostgreSQL on a server of its own. Exit status 1: a target was missed."""
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
            run = Run(server, QUICK if quick else Sizes(), progress)
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
        figures.RESULTS.write_text(figures.markdown(found, facts), encoding="utf-8")
        console.print(f"wrote {figures.RESULTS}")
    if not quick and any(figure.met is False for figure in found):
        raise typer.Exit(1)


def _start(data: Path) -> embedded.Server:
    """A server with SETTINGS, some of which need a second start."""
    embedded.start(data, settings=SETTINGS)
    embedded.stop(data)
    return embedded.start(data)


def _facts(server: embedded.Server) -> list[str]:
    """What the figures depend on."""
    with psycopg.connect(embedded.ensure_database(server)) as connection:
        row = connection.execute(
            "SELECT current_setting('server_version'), (SELECT e.extversion FROM pg_extension AS e WHERE e.extname = 'vector')"
        ).fetchone()
    version, vector = row or ("?", "?")
    settings = ", ".join(f"{name} {value}" for name, value in SETTINGS.items())
    return [
        f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}; PostgreSQL {version}, pgvector {vector}",
        f"settings: {settings}; all others, durability too, as PostgreSQL has them by default",
        "text: Zipf, about 75 distinct words a chunk, a chunk an article; vectors: 384 dimensions, clustered",
        "questions: six words; rare: frequency ranks from 1,000 to 20,000; medium: from 30; common: the first 30; mixed: 3, 2 and 1 of these",
        "what is compared is run in turns, so a busy machine slows both sides down",
    ]


if __name__ == "__main__":
    typer.run(main)
