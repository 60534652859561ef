"""`kbsearch ann`: indexes for approximate search of an organisation."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDoneError
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import psycopg
import typer
from psycopg.rows import class_row
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from kbsearch.cli.common import (
    NO,
    Checked,
    DsnOption,
    JsonOption,
    Organization,
    OrgOption,
    SchemaOption,
    clean,
    connected,
    console,
    database,
    emit,
    find_organization,
    messages,
)
from kbsearch.ingest.spaces import named_space
from kbsearch.schema import DEFAULT, in_schema

ann = typer.Typer(no_args_is_help=True, help="Approximate search of an organisation: its index, and who uses it.")

POLL = 0.5
"""Seconds between two looks at how far a build is."""
MIB = 2**20

SpaceOption = Annotated[
    str | None,
    typer.Option(
        "--space", metavar="NAME", help="Name of the space; by default the one that searches use.", show_default=False
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(ann, name="ann")


@dataclass(frozen=True, slots=True)
class Definition:
    """What define_kb_ann_index_v1 says of an index."""

    space_id: int
    index_name: str
    state: str | None
    create_statement: str
    comment_statement: str
    drop_statement: str


@dataclass(frozen=True, slots=True)
class Index:
    """An index as list_kb_ann_indexes_v1 has it, with its space's name."""

    space_id: int
    space: str | None
    index_name: str
    state: str
    identity: str
    bytes: int


_DEFINE = """SELECT d.space_id, d.index_name, d.state, d.create_statement, d.comment_statement, d.drop_statement
FROM kbsearch.define_kb_ann_index_v1(%(org)s, %(space)s, %(m)s, %(ef)s) AS d"""
_LIST = """SELECT l.space_id, s.name AS space, l.index_name, l.state, l.identity, l.bytes
FROM kbsearch.list_kb_ann_indexes_v1(%(org)s) AS l
LEFT JOIN kbsearch.kb_embedding_spaces AS s ON s.id = l.space_id"""
_USED = "SELECT o.retrieval, o.ann_window FROM kbsearch.organizations AS o WHERE o.id = %(org)s"
_USE = """UPDATE kbsearch.organizations AS o
SET retrieval = %(retrieval)s, ann_window = coalesce(%(window)s::pg_catalog.int4, o.ann_window)
WHERE o.id = %(org)s
RETURNING o.retrieval, o.ann_window"""
_PROGRESS = """SELECT p.phase, p.tuples_done, p.tuples_total, p.blocks_done, p.blocks_total
FROM pg_catalog.pg_stat_progress_create_index AS p
WHERE p.pid = %(pid)s"""


def _space_id(connection: psycopg.Connection[Any], name: str | None, schema: str) -> int | None:
    return None if name is None else named_space(connection, name, schema).id


@ann.command(cls=Checked)
def create(
    *,
    org: OrgOption = None,
    space: SpaceOption = None,
    m: Annotated[
        int | None,
        typer.Option("--m", min=2, max=100, help="Neighbours of a vector in the graph; 16.", show_default=False),
    ] = None,
    ef_construction: Annotated[
        int | None,
        typer.Option(
            min=4,
            max=1000,
            help="Candidates for them: more find better neighbours and take longer; 128.",
            show_default=False,
        ),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(
            metavar="MIB",
            min=1,
            max=2**20,
            help="maintenance_work_mem of the build. It is much faster where the graph fits.",
            show_default=False,
        ),
    ] = None,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Build the index beside searches and writers. Stopped or broken off, it is dropped and built by the next call."""
    target = database(dsn, schema)
    with psycopg.connect(target, autocommit=True, prepare_threshold=None) as connection:
        organization = find_organization(connection, org, schema)
        given = {
            "org": organization.id,
            "space": _space_id(connection, space, schema),
            "m": m,
            "ef": ef_construction,
        }
        found = connection.cursor(row_factory=class_row(Definition)).execute(in_schema(_DEFINE, schema).encode(), given)
        (definition,) = found.fetchall()
        begin = time.monotonic()
        if definition.state == "building":
            typer.echo(f"{definition.index_name} is being built by another session.", err=True)
            raise typer.Exit(NO)
        if definition.state != "ready":
            if definition.state == "invalid":
                typer.echo(f"{definition.index_name} was not finished: building it again.", err=True)
                connection.execute(definition.drop_statement.encode())
            connection.execute("SET statement_timeout = 0")
            if memory is not None:
                connection.execute("SELECT pg_catalog.set_config('maintenance_work_mem', %s, false)", [f"{memory}MB"])
            _build(connection, target, definition)
        seconds = time.monotonic() - begin
        (index,) = (one for one in _indexes(connection, organization, schema) if one.space_id == definition.space_id)
        (used,) = connection.execute(in_schema(_USED, schema).encode(), given).fetchall()
    if as_json:
        emit({"index": index, "built": definition.state != "ready", "seconds": round(seconds, 1)})
        return
    if definition.state == "ready":
        typer.echo(f"{definition.index_name} is there already.")
    else:
        typer.echo(f"{definition.index_name} built in {seconds:.1f} s, {index.bytes / MIB:,.1f} MiB.")
    if used[0] == "exact":
        typer.echo("Searches do not use it yet: kbsearch ann use auto")


def _build(connection: psycopg.Connection[Any], target: str, definition: Definition) -> None:
    """Run the build in another thread, and say how far it is."""
    with (
        psycopg.connect(target, autocommit=True) as watching,
        Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=messages(),
            transient=True,
            disable=not messages().is_terminal,
        ) as bars,
        ThreadPoolExecutor(1) as pool,
    ):
        task = bars.add_task("starting", total=None)
        build = pool.submit(connection.execute, definition.create_statement.encode())
        try:
            _watch(build.result, watching, connection.info.backend_pid, lambda **said: bars.update(task, **said))
        except BaseException:
            connection.cancel_safe()
            raise
    connection.execute(definition.comment_statement.encode())


def _watch(
    result: Callable[[float], object], watching: psycopg.Connection[Any], pid: int, tell: Callable[..., None]
) -> None:
    while True:
        try:
            result(POLL)
        except NotDoneError:
            row = watching.execute(_PROGRESS, {"pid": pid}).fetchone()
            if row is not None:
                phase, tuples, of_tuples, blocks, of_blocks = row
                done, total = (tuples, of_tuples) if of_tuples else (blocks, of_blocks)
                tell(description=str(phase), completed=done, total=total or None)
        else:
            return


def _indexes(connection: psycopg.Connection[Any], organization: Organization, schema: str) -> list[Index]:
    cursor = connection.cursor(row_factory=class_row(Index))
    return cursor.execute(in_schema(_LIST, schema).encode(), {"org": organization.id}).fetchall()


@ann.command(cls=Checked)
def drop(
    org: OrgOption = None,
    space: SpaceOption = None,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Drop the index beside searches and writers. Exit code 1 if there is none."""
    with connected(dsn, schema) as connection:
        organization = find_organization(connection, org, schema)
        space_id = _space_id(connection, space, schema) or organization.active_space_id
        found = [one for one in _indexes(connection, organization, schema) if one.space_id == space_id]
        for one in found:
            if one.state != "foreign":
                name = psycopg.sql.Identifier(schema, one.index_name)
                connection.execute(psycopg.sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(name))
    dropped = next((one.index_name for one in found if one.state != "foreign"), None)
    if as_json:
        emit({"dropped": dropped})
    else:
        typer.echo("There is no such index." if dropped is None else f"{dropped} dropped.")
    if dropped is None:
        raise typer.Exit(NO)


@ann.command(cls=Checked)
def status(
    org: OrgOption = None, dsn: DsnOption = None, schema: SchemaOption = DEFAULT, as_json: JsonOption = False
) -> None:
    """List the indexes of an organisation, and say whether its searches use them."""
    with connected(dsn, schema) as connection:
        organization = find_organization(connection, org, schema)
        found = _indexes(connection, organization, schema)
        (used,) = connection.execute(in_schema(_USED, schema).encode(), {"org": organization.id}).fetchall()
    if as_json:
        emit({"retrieval": used[0], "window": used[1], "indexes": found})
        return
    table = Table(title=Text(clean(f"Approximate indexes of {organization.name!r}")), title_justify="left")
    for column in ("space", "index", "state", "identity"):
        table.add_column(column, no_wrap=True)
    table.add_column("MiB", justify="right")
    for one in found:
        size = f"{one.bytes / MIB:,.1f}"
        table.add_row(Text(clean(one.space or f"({one.space_id})")), one.index_name, one.state, one.identity, size)
    console().print(table)
    typer.echo(f"Searches are {used[0]}, with windows of {used[1]} articles where they are approximate.")


@ann.command(cls=Checked)
def use(
    retrieval: Annotated[
        Literal["exact", "ann", "auto"],
        typer.Argument(
            metavar="exact|ann|auto",
            help="auto: approximate where there is an index and over 20,000 chunks; ann: refused where there is none.",
            show_default=False,
        ),
    ],
    org: OrgOption = None,
    window: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Articles in a leg's window; as it is by default.", show_default=False),
    ] = None,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Say how an organisation's searches look for candidates, unless their profile says it."""
    with connected(dsn, schema) as connection:
        organization = find_organization(connection, org, schema)
        given = {"org": organization.id, "retrieval": retrieval, "window": window}
        (now,) = connection.execute(in_schema(_USE, schema).encode(), given).fetchall()
    if as_json:
        emit({"retrieval": now[0], "window": now[1]})
    else:
        typer.echo(f"Searches are {now[0]}, with windows of {now[1]} articles where they are approximate.")
