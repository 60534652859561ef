"""kbsearch db: the embedded server, the migrations, maintenance, row-level security and rights."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Annotated, Any

import psycopg
import typer
from rich.table import Table
from rich.text import Text

from kbsearch import embedded, migrate
from kbsearch.cli.common import (
    NO,
    UNAVAILABLE,
    USAGE,
    DsnOption,
    JsonOption,
    SchemaOption,
    clean,
    connected,
    console,
    counted,
    database,
    emit,
    messages,
    url_of,
)
from kbsearch.cli.progress import progress_bars
from kbsearch.errors import NotInstalledError
from kbsearch.maintenance import LOOSE_POSTINGS, LOOSE_ROWS, Maintained, State, maintain
from kbsearch.schema import DEFAULT, in_schema

db = typer.Typer(no_args_is_help=True, help="The database: embedded server, migrations, check, maintenance, rights.")

Revision = Annotated[str, typer.Argument(help="Revision to go to.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(db, name="db")


@db.command()
def start(schema: SchemaOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Start the embedded PostgreSQL, with kbsearch installed in it."""
    with messages().status("Starting the embedded PostgreSQL …"):
        server = embedded.start()
        url = url_of(embedded.ensure_database(server, schema=schema))
    if as_json:
        emit({"url": url, "data_directory": str(server.data_directory), "pid": server.pid})
    else:
        typer.echo(f"Running in {server.data_directory}\n{url}")


@db.command()
def stop(as_json: JsonOption = False) -> None:
    """Stop the embedded PostgreSQL; its data stay."""
    stopped = embedded.stop()
    if as_json:
        emit({"stopped": stopped})
    else:
        typer.echo("Stopped." if stopped else "It was not running.")


@db.command()
def url(dsn: DsnOption = None, schema: SchemaOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Print the URL of the database that the other commands use; starts the embedded server if that is the one."""
    found = url_of(database(dsn, schema))
    if as_json:
        emit({"url": found})
    else:
        typer.echo(found)


@db.command()
def upgrade(
    revision: Revision = "head", dsn: DsnOption = None, schema: SchemaOption = DEFAULT, as_json: JsonOption = False
) -> None:
    """Install kbsearch in a database, or bring it to a newer revision."""
    target = database(dsn, upgrade=False)
    before = migrate.current(target, schema=schema)
    migrate.upgrade(target, revision, schema=schema)
    after = migrate.current(target, schema=schema)
    if as_json:
        emit({"before": before, "after": after})
    elif before == after:
        typer.echo(f"At revision {after} already." if after else "Not installed, and there is nothing before that.")
    else:
        typer.echo(f"Upgraded from {before} to {after}." if before else f"Installed revision {after}.")


@db.command()
def downgrade(
    revision: Revision,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; needed where there is no terminal.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Go back to a revision; `base` removes kbsearch with all of its data (the extension vector stays).

    Asks first; without a terminal to ask on it is refused with exit code 2 unless --yes is given.
    """
    target = database(dsn, upgrade=False)
    before = migrate.current(target, schema=schema)
    goal = migrate.resolve(revision, before)
    if before and goal != before and not yes:
        loss = (
            f"This removes kbsearch from the schema {schema}, with all articles in it."
            if goal is None
            else f"This removes what revisions after {goal} made."
        )
        if not sys.stdin.isatty():
            messages().print(f"{loss}\nThere is no terminal to ask on: give --yes if that is wanted.", markup=False)
            raise typer.Exit(USAGE)
        typer.confirm(f"{loss} Go on?", abort=True)
    migrate.downgrade(target, revision, schema=schema)
    after = migrate.current(target, schema=schema)
    if as_json:
        emit({"before": before, "after": after})
    elif before is None:
        typer.echo("Not installed; nothing to do.")
    elif before == after:
        typer.echo(f"At revision {after} already.")
    else:
        typer.echo(f"Went back from {before} to {after}." if after else "Removed.")


@db.command()
def check(dsn: DsnOption = None, schema: SchemaOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Compare what is installed with what a fresh install gives; exit code 1 if anything differs."""
    differences = migrate.check(database(dsn, upgrade=False), schema=schema)
    if as_json:
        emit({"revision": migrate.head(), "differences": differences})
    elif differences:
        table = Table("object", "problem", title="Not as a fresh install has it")
        for difference in differences:
            table.add_row(Text(clean(difference.name)), difference.problem)
        console().print(table)
    else:
        typer.echo(f"No differences: as a fresh install of revision {migrate.head()}.")
    if differences:
        raise typer.Exit(NO)


STOPPED = 130
"""Ended by Ctrl-C, as shells have it."""


@db.command("maintain")
def maintain_command(
    *,
    org: Annotated[
        str | None, typer.Option("--org", help="Name of the only organisation to maintain.", show_default=False)
    ] = None,
    loose: Annotated[
        float,
        typer.Option(min=1.0, help="Compact what has more than so many times the rows that it needs …"),
    ] = LOOSE_POSTINGS,
    rows: Annotated[int, typer.Option(min=0, help="… and so many rows more.")] = LOOSE_ROWS,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Begin no other organisation after so long; the next run goes on.", show_default=False
        ),
    ] = None,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Compact the postings of every organisation that needs it, and remove expired stored rankings: for cron, once a day.

    Changes no answer, and runs beside readers and writers. Each organisation is a transaction of its own, so a run may be stopped at any time, and
    the next finds what is left; one that another session is maintaining is passed over. For the owner of the tables or an admin (kbsearch db
    grant). Exit code 1: organisations are left, as the time was up. 4: the database refused one; the others are done. 130: stopped by Ctrl-C.
    """
    done: list[Maintained] = []
    began = time.monotonic()
    stopped = True
    with connected(dsn, schema) as connection:
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        connection.execute("SET statement_timeout = 0")
        with progress_bars(messages()) as progress, suppress(KeyboardInterrupt):
            done.extend(
                maintain(
                    connection,
                    organization=org,
                    loose=loose,
                    rows=rows,
                    seconds=seconds,
                    schema=schema,
                    progress=progress,
                )
            )
            stopped = False
    took = time.monotonic() - began
    if as_json:
        emit({"organizations": done, "stopped": stopped, "seconds": round(took, 1)})
    else:
        _show_maintained(done, took)
        if stopped:
            messages().print("Stopped. What is listed is done; the next run goes on.", markup=False)
    states = {one.state for one in done}
    if stopped or states & {State.FAILED, State.LEFT}:
        raise typer.Exit(STOPPED if stopped else UNAVAILABLE if State.FAILED in states else NO)


def _show_maintained(done: Sequence[Maintained], seconds: float) -> None:
    """A table of the organisations for which something was done or is to be done, and a line about all."""
    told = [one for one in done if one.snapshots or one.state not in (State.SOUND, State.LEFT)]
    if told:
        table = Table("organisation", "postings", title="Maintained", title_justify="left")
        for column in ("rows\nbefore", "after", "kB\nbefore", "after", "expired\nrankings"):
            table.add_column(column, justify="right")
        for one in told:
            sizes = (one.bytes_before, one.bytes_after)
            table.add_row(
                Text(clean(one.name)),
                one.state,
                *("" if count is None else f"{count:,}" for count in (one.rows_before, one.rows_after)),
                *("" if size is None else f"{size / 1024:,.0f}" for size in sizes),
                f"{one.snapshots:,}",
            )
        console().print(table)
    states = Counter(one.state for one in done)
    counts = ", ".join(f"{states[state]:,} {state}" for state in State if states[state])
    typer.echo(f"{counted(len(done), 'organisation')}{': ' if counts else ''}{counts}; {seconds:.1f} s")
    for one in done:
        if one.error is not None:
            messages().print(clean(f"{one.name}: {one.error}", keep="\n"), style="red", markup=False, soft_wrap=True)


@db.command("sql")
def print_sql(schema: SchemaOption = DEFAULT) -> None:
    """Print the installation as an SQL script, to paste or to review; where it has been run before, it does nothing."""
    sys.stdout.write(migrate.script(schema=schema))


class Source(StrEnum):
    """What binds a caller to an organisation."""

    SETTING = "setting"
    CLAIM = "claim"


RoleOption = Annotated[list[str] | None, typer.Option(metavar="ROLE")]


@db.command()
def secure(
    source: Annotated[
        Source | None,
        typer.Option("--from", help="What binds a caller: the setting kbsearch.org_id, or a claim of PostgREST's JWT."),
    ] = None,
    claim: Annotated[str, typer.Option(help="The claim that has the organisation's id, or its path.")] = "org_id",
    off: Annotated[bool, typer.Option("--off", help="Switch it off again.")] = False,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Row-level security, forced: whoever is bound to an organisation sees and writes its rows only, its owner included."""
    if (source is None) == (not off):
        messages().print("Say --from setting, --from claim or --off.", markup=False)
        raise typer.Exit(USAGE)
    name = "disable_kb_row_security_v1()" if source is None else "enable_kb_row_security_v1(%s, %s)"
    given = () if source is None else (source.value, claim)
    with _connected(dsn, schema) as connection:
        tables = connection.execute(in_schema(f"SELECT kbsearch.{name}", schema).encode(), given).fetchall()[0][0]
    if as_json:
        emit({"tables": tables, "from": source})
    elif source is None:
        typer.echo(f"Row-level security is off for {tables} tables.")
    else:
        bound = f"{schema}.org_id" if source is Source.SETTING else f"request.jwt.claims, {claim}"
        typer.echo(f"Row-level security is on for {tables} tables; callers are bound by {bound}.")


@db.command()
def grant(
    reader: RoleOption = None,
    writer: RoleOption = None,
    admin: RoleOption = None,
    create: Annotated[bool, typer.Option("--create", help="Create roles that do not exist (NOLOGIN).")] = False,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Grant roles what searching, writing or maintaining takes, and nothing more; each option may be repeated."""
    wanted = [
        (right, role)
        for right, roles in (("reader", reader), ("writer", writer), ("admin", admin))
        for role in roles or ()
    ]
    if not wanted:
        messages().print("Name a role: --reader, --writer or --admin.", markup=False)
        raise typer.Exit(USAGE)
    with _connected(dsn, schema) as connection:
        for right, role in wanted:
            connection.execute(
                in_schema("SELECT kbsearch.grant_kb_rights_v1(%s, %s, %s)", schema).encode(), (right, role, create)
            )
    if as_json:
        emit({"granted": [{"right": right, "role": role} for right, role in wanted]})
    else:
        for right, role in wanted:
            typer.echo(f"{clean(role)} is a {right}." if right != "admin" else f"{clean(role)} is an admin.")


@contextmanager
def _connected(dsn: str | None, schema: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection in one transaction to a database with kbsearch."""
    target = database(dsn, upgrade=False)
    if migrate.current(target, schema=schema) is None:
        raise NotInstalledError(
            f"kbsearch is not installed in the schema {schema} of this database", hint="Run: kbsearch db upgrade"
        )
    with psycopg.connect(target) as connection:
        yield connection
