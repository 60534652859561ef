"""A/A on the collections: `python -m benchmarks.aa`. Builds each several times in other ways, compares whole rankings, writes benchmarks/AA.md."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.arbitration.collect import COLLECTIONS, SHARED, missing
from kbsearch import embedded
from kbsearch.cli.progress import progress_bars
from kbsearch.evaluate import Collection
from kbsearch.evaluate.aa import Difference
from kbsearch.evaluate.fingerprint import server_record
from kbsearch.evaluate.variations import PROFILES, SERVER, VARIATIONS, is_zero, some, vary
from kbsearch.testing.servers import ANSWER_SECONDS, ServerUnavailableError, engine

PAGE = Path(__file__).with_name("AA.md")
DIFFERENT, USAGE = 1, 2
IMAGE = "kbsearch-cli:latest"
"""Has the embedded server. Another major version stems other words otherwise, and another build of pgvector rounds otherwise: docs/languages.md."""
START_SECONDS = 60
SETTINGS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
IN_CONTAINER = f"""
import os
from pathlib import Path
from kbsearch import embedded
data = Path("/tmp/aa")
embedded.start(data, settings={SETTINGS!r})
with open(data / "pg_hba.conf", "a") as rules:
    rules.write("host all all all trust\\n")
embedded.stop(data)
postgres = str(embedded.binary("postgres"))
os.execv(postgres, [postgres, "-D", str(data), "-h", "*", "-k", str(data)])
"""

Found = Mapping[str, Mapping[str, Difference | str]]


def main(
    *,
    collections: Annotated[Path, typer.Option(help="Folder of the collections.")] = SHARED,
    questions: Annotated[int | None, typer.Option(min=1, help="At most so many of a collection's questions.")] = None,
    page: Annotated[Path, typer.Option(help="The page to write.")] = PAGE,
    image: Annotated[str, typer.Option(help="Image of the server in a container.")] = IMAGE,
) -> None:
    """Build the collections in bulk and in other ways, and compare the rankings of all questions: zero differences are required.

    Exit status 1: something differs; 2: the collections are missing.
    """
    errors = Console(stderr=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if absent := missing(collections):
        errors.print(f"The collections are not in {collections}: {absent[0]} is missing.", style="red", markup=False)
        raise typer.Exit(USAGE)
    found: dict[str, dict[str, Difference | str]] = {}
    with tempfile.TemporaryDirectory(prefix="kbsearch-aa-") as directory, container(image) as other:
        data = Path(directory) / "postgres"
        try:
            dsn = embedded.start(data, settings=SETTINGS).dsn("postgres")
            versions = _versions(embedded.ensure_database(embedded.start(data), "kbsearch"))
            for name in reversed(COLLECTIONS):  # the smallest first
                collection = some(Collection.load(collections / name), questions)
                found[name] = {}
                with progress_bars(errors) as progress:
                    for variation, one in vary(
                        dsn,
                        collection,
                        other_dsn=other[0],
                        progress=lambda what, done, size, name=name: progress(f"{name}: {what}", done, size),  # type: ignore[misc]
                    ):
                        found[name][variation] = other[1] if variation == SERVER and isinstance(one, str) else one
                        errors.print(f"{name}, {variation}: {_cell(found[name][variation])}", markup=False)
                page.write_text(report(found, versions), encoding="utf-8")
        finally:
            embedded.stop(data)
    if not all(map(is_zero, found.values())):
        raise typer.Exit(DIFFERENT)


@contextmanager
def container(image: str) -> Iterator[tuple[str | None, str]]:
    """The same build of PostgreSQL in a container, where an engine answers that has the image; else why there is none."""
    import psycopg  # noqa: PLC0415
    from testcontainers.core.config import testcontainers_config  # noqa: PLC0415
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415

    try:
        with engine(ANSWER_SECONDS) as client:
            there = any(image in one.tags for one in client.images.list())
    except ServerUnavailableError as error:
        yield None, f"not run: {error}"
        return
    if not there:
        yield None, f"not run: the Docker engine has no image {image}: make image"
        return
    testcontainers_config.ryuk_disabled = True
    made = DockerContainer(image).with_exposed_ports(5432).with_kwargs(entrypoint=["python", "-c", IN_CONTAINER])
    with made as running:
        dsn = f"host={running.get_container_host_ip()} port={running.get_exposed_port(5432)} user=postgres dbname=postgres"
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(dsn, connect_timeout=2).close()
                break
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        yield dsn, ""


def _versions(dsn: str) -> str:
    import psycopg  # noqa: PLC0415

    with psycopg.connect(dsn) as connection:
        record = server_record(connection)
    return f"PostgreSQL {record['postgresql']}, pgvector {record['pgvector']}"


def report(found: Found, versions: str) -> str:
    """The page."""
    asked = sum(next((one.questions for one in by.values() if isinstance(one, Difference)), 0) for by in found.values())
    zero = all(map(is_zero, found.values()))
    unrun = sorted({name for by in found.values() for name, one in by.items() if isinstance(one, str)})
    verdict = "Zero: no ranking differs" if zero else "NOT ZERO"
    lines = [
        "# A/A: the same, built otherwise",
        "",
        f"Written by `python -m benchmarks.aa`; do not edit. {versions}; the vectors that the collections bring, one chunk a document.",
        "",
        f"**{verdict}**, in {asked:,} questions of {len(found)} collections, by {', '.join(f'`{one}`' for one in PROFILES)}"
        + (f"; not run: {', '.join(unrun)}." if unrun else "."),
        "",
        "Each collection is built in bulk, as `kbsearch ingest` does it, and again in each of the other ways. Compared are the data, stage by stage,",
        "and whole rankings: an article's name, score in billionths, both legs' values, chunk, place and ties. Places: compared in all rankings of",
        "a build; ties: rankings in which an id settled some place.",
        "",
        "| collection | built otherwise | questions | rankings | places | ties | differing questions | parts at |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, by in found.items():
        for variation, one in by.items():
            what = f"{variation}: {VARIATIONS[variation]}"
            if isinstance(one, str):
                lines.append(f"| {name} | {what} | - | - | - | - | - | {one} |")
            else:
                numbers = (one.questions, one.rankings, one.places, one.ties, one.differing)
                lines.append(
                    f"| {name} | {what} | {' | '.join(f'{number:,}' for number in numbers)} | {one.stage or '-'} |"
                )
    return "\n".join(lines) + "\n"


def _cell(one: Difference | str) -> str:
    if isinstance(one, str):
        return one
    return f"{one.differing} of {one.questions} questions differ" + (
        f", from the stage {one.stage}" if one.stage else ""
    )


if __name__ == "__main__":
    typer.run(main)
