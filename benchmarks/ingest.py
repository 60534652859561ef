"""Speed of kbsearch ingest: `python -m benchmarks.ingest`. Exit status 1: a target was missed.

Vectors are computed beforehand, so that what is measured is all but the model.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import psycopg
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.data import DIMENSIONS, Generator, Vectors
from benchmarks.database import SETTINGS
from kbsearch import embedded
from kbsearch.ingest import Document, IngestReport, Source, Splitter, ingest, read_paths
from kbsearch.ingest.organizations import organization_id
from kbsearch.ingest.writers import WRITERS

CHUNKS_PER_DOCUMENT = 10
SPLITTER = Splitter(1200)
UNCHANGED_SECONDS = 10.0
"""Target for an unchanged tree of 5,000 files."""
CHUNKS_PER_SECOND = 1500.0
"""Target for chunks whose vectors cost nothing."""


@dataclass
class Precomputed:
    """An embedder that looks vectors up; it counts the texts that it is asked for."""

    vectors: Vectors
    name: str = "precomputed"
    model: str = "precomputed"
    revision: str = "1"
    dimensions: int = DIMENSIONS
    recipe: Mapping[str, Any] = field(default_factory=dict)
    texts: int = 0

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The next vectors, whatever the texts are."""
        places = (self.texts + np.arange(len(texts))) % len(self.vectors)
        self.texts += len(texts)
        found: Vectors = self.vectors[places]
        return found

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The same."""
        return self.embed_passages(texts)


def documents(generator: Generator, chunks: int) -> list[Document]:
    """Documents of some chunks each, a paragraph a chunk."""
    return [
        Document(
            f"d{number:06}",
            generator.title(),
            "\n\n".join(generator.chunk() for _ in range(CHUNKS_PER_DOCUMENT)),
        )
        for number in range(chunks // CHUNKS_PER_DOCUMENT)
    ]


def plant(root: Path, generator: Generator, files: int) -> None:
    """A tree of Markdown files, two hundred a folder."""
    for number in range(files):
        folder = root / f"folder{number // 200:02}"
        folder.mkdir(parents=True, exist_ok=True)
        text = f"# {generator.title()}\n\n{generator.chunk()}\n"
        (folder / f"file{number:05}.md").write_text(text, encoding="utf-8")


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used and its children, those that have ended too; 0 where the system does not say."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(path.parent.name) == pid:
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == pid:
            ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def server(directory: Path) -> Iterator[embedded.Server]:
    """A server of this run's own, with the settings of the other benchmarks."""
    data = directory / "postgres"
    try:
        embedded.start(data, settings=SETTINGS)
        embedded.stop(data)
        yield embedded.start(data)
    finally:
        embedded.stop(data)


def main(
    *,
    chunks: Annotated[int, typer.Option(help="Chunks of the organisation that is loaded.")] = 20_000,
    files: Annotated[int, typer.Option(help="Files of the tree that is ingested twice.")] = 5_000,
    writers: Annotated[
        int, typer.Option(help="Connections that write, beside the one that reads and embeds; 0: none beside.")
    ] = WRITERS,
) -> None:
    """Measure an ingest of precomputed vectors, of an unchanged tree, and of what is in the cache."""
    console = Console()
    directory = Path(tempfile.mkdtemp(prefix="kbsearch-bench-"))
    generator = Generator(1)
    embedder = Precomputed(generator.vectors(chunks))
    table = Table("what", "measured", "target", "")
    missed = False

    def tell(what: str, measured: str, target: str, *, met: bool) -> None:
        nonlocal missed
        missed = missed or not met
        table.add_row(what, measured, target, "met" if met else "[red]MISSED[/red]")

    try:
        with (
            server(directory) as running,
            psycopg.connect(embedded.ensure_database(running, "ingest"), autocommit=True) as connection,
        ):
            connect = partial(psycopg.connect, running.dsn("ingest"), autocommit=True)

            def run(org: str, entries: Sequence[Any]) -> tuple[IngestReport, float]:
                org_id = organization_id(connection, org, create=True)
                started = time.perf_counter()
                report = ingest(
                    connection,
                    org_id,
                    [Source("s", entries)],
                    embedder=embedder,
                    splitter=SPLITTER,
                    connect=connect,
                    writers=writers,
                )
                return report, time.perf_counter() - started

            entries = documents(generator, chunks)
            processes = (running.pid, os.getpid())
            before = [cpu_seconds(pid) for pid in processes]
            report, seconds = run("large", entries)
            served, client = (cpu_seconds(pid) - used for pid, used in zip(processes, before, strict=True))
            rate = report.chunks / seconds
            tell(
                f"{report.chunks:,} chunks of {len(entries):,} articles with precomputed vectors, calibration included",
                f"{rate:,.0f} chunks/s",
                f"≥ {CHUNKS_PER_SECOND:,.0f} chunks/s",
                met=rate >= CHUNKS_PER_SECOND,
            )
            console.print(
                f"processor time for 1,000 chunks: {1000 * served / report.chunks:.2f} s in the server,"
                f" {1000 * client / report.chunks:.2f} s in the client, of {1000 * seconds / report.chunks:.2f} s"
            )
            connection.execute("DELETE FROM kbsearch.kb_articles WHERE org_id = %s", [report.org_id])
            asked = embedder.texts
            report, seconds = run("large", entries)
            calls = embedder.texts - asked
            tell(
                "the same again after all articles were deleted",
                f"{calls} texts given to the model, {report.chunks / seconds:,.0f} chunks/s",
                "0 texts",
                met=calls == 0,
            )
            tree = directory / "tree"
            plant(tree, generator, files)
            _, first = run("tree", list(read_paths(tree, kind="article")))
            started = time.perf_counter()
            report, _ = run("tree", list(read_paths(tree, kind="article")))
            seconds = time.perf_counter() - started
            tell(
                f"an unchanged tree of {report.unchanged:,} files, reading included (first ingest: {first:.1f} s)",
                f"{seconds:.2f} s",
                f"< {UNCHANGED_SECONDS:.0f} s",
                met=seconds < UNCHANGED_SECONDS and report.unchanged == files,
            )
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    console.print(table)
    if missed:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
