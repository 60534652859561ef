"""Databases of a benchmark run: made, loaded and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import psycopg
from pgvector.psycopg import register_vector
from psycopg import sql
from rich.progress import Progress

from benchmarks.data import DIMENSIONS, Generator
from kbsearch import embedded

T = TypeVar("T")

SETTINGS = {
    "shared_buffers": "1GB",
    "maintenance_work_mem": "256MB",
    "max_wal_size": "4GB",
    "autovacuum": "off",
    "jit": "off",
}
"""Durability is left as it is by default. autovacuum off: the measures vacuum where they say so. jit off: it only slows the plain queries down."""

WARM_UP = 5
"""Rounds that are run before those that are timed."""

BATCH = 5_000
"""Rows in a COPY."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is loaded and measured.

    Attributes:
        corpus: chunks of the large database.
        organisation: chunks of the organisation that is searched in it.
        small: chunks of the small organisation beside it.
        edited: chunks of the organisation that is edited.
        edits: how many chunks are edited, one at a time.
        ingested: rows of one bulk ingest.
        singles: rows ingested one at a time.
        rounds: how often each question is timed.
    """

    corpus: int = 100_000
    organisation: int = 10_000
    small: int = 100
    edited: int = 20_000
    edits: int = 10_000
    ingested: int = 5_000
    singles: int = 1_000
    rounds: int = 60


QUICK = Sizes(10_000, 1_000, 10, 2_000, 1_000, 500, 100, 10)


@dataclass(frozen=True, slots=True)
class Run:
    """What every measure gets."""

    server: embedded.Server
    sizes: Sizes
    progress: Progress

    @contextmanager
    def database(self, name: str) -> Iterator[psycopg.Connection[Any]]:
        """A connection in autocommit mode to a database with kbsearch, made on the first call."""
        with psycopg.connect(embedded.ensure_database(self.server, name), autocommit=True) as connection:
            register_vector(connection)
            yield connection

    def clone(self, source: str, target: str) -> None:
        """Copy a database that nobody is connected to."""
        with psycopg.connect(self.server.dsn("postgres"), autocommit=True) as connection:
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            connection.execute(statement.format(sql.Identifier(target), sql.Identifier(source)))

    def track(self, items: Sequence[T], description: str) -> Iterator[T]:
        """The items, with a bar that moves."""
        task = self.progress.add_task(description, total=len(items))
        for item in items:
            yield item
            self.progress.advance(task)

    def times(
        self, calls: Mapping[str, Callable[[int], object]], description: str, rounds: int = 0
    ) -> dict[str, list[float]]:
        """Time the calls in turns, so that what else the machine does hits all of them; milliseconds of each call.

        Each is called with the number of the round, 0 …, to choose its question by; WARM_UP rounds with the first questions are not counted.
        """
        times: dict[str, list[float]] = {name: [] for name in calls}
        rounds = rounds or self.sizes.rounds
        for number in self.track(range(-WARM_UP, rounds), description):
            for name, call in calls.items():
                begin = time.perf_counter()
                call(max(0, number))
                if number >= 0:
                    times[name].append(1000 * (time.perf_counter() - begin))
        return times


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk to load; it is the only one of its article, and both have the same id."""

    org_id: int
    id: int
    title: str
    content: str


def spread(counts: Mapping[int, int], generator: Generator, full: Iterable[int]) -> list[Chunk]:
    """Chunks of several organisations, in random order, so that their rows are interleaved.

    Args:
        counts: number of chunks of each organisation.
        generator: where texts come from.
        full: organisations whose text is searched; the others get a few words.
    """
    owners = np.repeat(np.array(list(counts)), list(counts.values()))
    generator.random.shuffle(owners)
    searched = set(full)
    return [
        Chunk(
            int(owner),
            number,
            generator.title() if owner in searched else "filler",
            generator.chunk() if owner in searched else f"filler {number}",
        )
        for number, owner in enumerate(owners, 1)
    ]


def load_articles(connection: psycopg.Connection[Any], chunks: Sequence[Chunk]) -> None:
    """Make organisations and articles for the chunks."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO kbsearch.organizations (id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            [(org_id, f"organisation {org_id}") for org_id in sorted({chunk.org_id for chunk in chunks})],
        )
        with cursor.copy("COPY kbsearch.kb_articles (org_id, id, title) FROM STDIN") as copy:
            for chunk in chunks:
                copy.write_row((chunk.org_id, chunk.id, chunk.title))


def load_chunks(run: Run, connection: psycopg.Connection[Any], chunks: Sequence[Chunk], description: str) -> None:
    """Load the chunks through the triggers, BATCH rows a statement."""
    load_articles(connection, chunks)
    for begin in run.track(range(0, len(chunks), BATCH), description):
        with (
            connection.cursor() as cursor,
            cursor.copy("COPY kbsearch.kb_article_chunks (org_id, id, article_id, content) FROM STDIN") as copy,
        ):
            for chunk in chunks[begin : begin + BATCH]:
                copy.write_row((chunk.org_id, chunk.id, chunk.id, chunk.content))


def load_embeddings(
    run: Run, connection: psycopg.Connection[Any], chunks: Sequence[Chunk], generator: Generator, description: str
) -> None:
    """Give each chunk a vector, in the order of the chunks, through the triggers."""
    connection.execute(
        "INSERT INTO kbsearch.kb_embedding_spaces (id, name, model, dimensions) VALUES (1, 'made up', 'none', %s)",
        [DIMENSIONS],
    )
    columns = "(org_id, space_id, chunk_id, article_id, embedding)"
    for begin in run.track(range(0, len(chunks), BATCH), description):
        part = chunks[begin : begin + BATCH]
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY kbsearch.kb_article_embeddings {columns} FROM STDIN WITH (FORMAT binary)") as copy,
        ):
            copy.set_types(["int8", "int8", "int8", "int8", "vector"])
            for chunk, vector in zip(part, generator.vectors(len(part)), strict=True):
                copy.write_row((chunk.org_id, 1, chunk.id, chunk.id, vector))


def scalar(connection: psycopg.Connection[Any], statement: str, parameters: Sequence[Any] = ()) -> Any:
    """The first column of the first row."""
    row = connection.execute(statement.encode(), parameters).fetchone()
    return None if row is None else row[0]
