"""kbsearch db: the embedded server and the migrations."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from kbsearch import embedded, migrate
from kbsearch.cli.common import NO, USAGE, DsnOption, JsonOption, clean, console, database, emit, messages

db = typer.Typer(no_args_is_help=True, help="The database: embedded server, migrations, check.")

Revision = Annotated[str, typer.Argument(help="Revision to go to.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(db, name="db")


@db.command()
def start(as_json: JsonOption = False) -> None:
    """Start the embedded PostgreSQL, with kbsearch installed in it."""
    with messages().status("Starting the embedded PostgreSQL …"):
        server = embedded.start()
        url = embedded.ensure_database(server)
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
def url(dsn: DsnOption = None, as_json: JsonOption = False) -> None:
    """Print the connection string that the other commands use; starts the embedded server if that is the one."""
    found = database(dsn)
    if as_json:
        emit({"url": found})
    else:
        typer.echo(found)


@db.command()
def upgrade(revision: Revision = "head", dsn: DsnOption = None, as_json: JsonOption = False) -> None:
    """Install kbsearch in a database, or bring it to a newer revision."""
    target = database(dsn, upgrade=False)
    before = migrate.current(target)
    migrate.upgrade(target, revision)
    after = migrate.current(target)
    if as_json:
        emit({"before": before, "after": after})
    else:
        typer.echo(
            f"At revision {after} already." if before == after else f"Upgraded from {before or 'nothing'} to {after}."
        )


@db.command()
def downgrade(
    revision: Revision,
    dsn: DsnOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; needed where there is no terminal.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Go back to a revision; `base` removes kbsearch with all of its data (the extension vector stays).

    Asks first; without a terminal to ask on it is refused with exit code 2 unless --yes is given.
    """
    target = database(dsn, upgrade=False)
    before = migrate.current(target)
    if before and not yes:
        loss = (
            "This removes what newer revisions made; back to base, that is the schema kbsearch with all articles in it."
        )
        if not sys.stdin.isatty():
            messages().print(f"{loss}\nThere is no terminal to ask on: give --yes if that is wanted.", markup=False)
            raise typer.Exit(USAGE)
        typer.confirm(f"{loss} Go on?", abort=True)
    migrate.downgrade(target, revision)
    after = migrate.current(target)
    if as_json:
        emit({"before": before, "after": after})
    else:
        typer.echo(f"Went from {before or 'nothing'} to {after or 'nothing'}.")


@db.command()
def check(dsn: DsnOption = None, as_json: JsonOption = False) -> None:
    """Compare what is installed with what a fresh install gives; exit code 1 if anything differs."""
    differences = migrate.check(database(dsn, upgrade=False))
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


@db.command("sql")
def print_sql() -> None:
    """Print the whole installation as one SQL script, to paste or to review."""
    sys.stdout.write(migrate.script())
