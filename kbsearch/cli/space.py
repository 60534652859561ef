"""`kbsearch space`: the embedding spaces of an organisation."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from kbsearch.cli.common import (
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
)
from kbsearch.ingest.spaces import activate_space, active_space, drop_space, list_spaces, named_space
from kbsearch.schema import DEFAULT

space = typer.Typer(no_args_is_help=True, help="Embedding spaces: how whole they are, the switch, clearing up.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the space.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(space, name="space")


@space.command(cls=Checked)
def status(
    org: OrgOption = None, dsn: DsnOption = None, schema: SchemaOption = DEFAULT, as_json: JsonOption = False
) -> None:
    """List the spaces that an organisation uses or has vectors in."""
    with connected(dsn, schema) as connection:
        organization = find_organization(connection, org, schema)
        found = list_spaces(connection, organization.id, schema)
    if as_json:
        emit(found)
        return
    table = Table(title=Text(clean(f"Embedding spaces of {organization.name!r}")))
    table.add_column("space", no_wrap=True)
    table.add_column("used")
    columns = {"embedded": "embedded", "lacking": "lacking", "stale": "stale", "cached": "cached"}
    if any(one.without_direction for one in found):
        columns["without_direction"] = "no direction"
    for title in columns.values():
        table.add_column(title, justify="right")
    for one in found:
        counts = (f"{getattr(one, name):,}" for name in columns)
        table.add_row(Text(clean(one.name)), "yes" if one.is_active else "", *counts)
    console().print(table)


@space.command(cls=Checked)
def activate(
    name: NameArgument,
    org: OrgOption = None,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Let searches use a space, from one moment to the next. Refused while it is not whole. The space before stays: activate it to go back."""
    with connected(dsn, schema) as connection:
        organization = find_organization(connection, org, schema)
        before = active_space(connection, organization.id, schema)
        activate_space(connection, organization.id, named_space(connection, name, schema), schema)
    previous = None if before is None else before.name
    if as_json:
        emit({"active": name, "before": previous})
    elif previous == name:
        typer.echo(clean(f"Searches use {name} already."))
    else:
        back = "" if previous is None else f" Back: kbsearch space activate {previous}"
        typer.echo(clean(f"Searches use {name} now.{back}"))


@space.command(cls=Checked)
def drop(
    name: NameArgument,
    org: OrgOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Delete an organisation's vectors of a space that searches do not use, and what its cache has of it."""
    with connected(dsn, schema) as connection:
        organization = find_organization(connection, org, schema)
        found = named_space(connection, name, schema)
        if not yes:
            typer.confirm(clean(f"Delete the vectors of {organization.name!r} in {name}?"), abort=True, err=True)
        dropped = drop_space(connection, organization.id, found, schema)
    if as_json:
        emit({"dropped": name, "vectors": dropped})
    else:
        typer.echo(clean(f"{counted(dropped, 'vector')} of {name} deleted."))
