"""`kbsearch demo`: real text, real questions, every page checked."""

from __future__ import annotations

import typer

from kbsearch import demo
from kbsearch.cli.common import NO, Checked, DsnOption, SchemaOption, connected, console
from kbsearch.cli.complaints import complaining
from kbsearch.embed import LocalEmbedder, MissingExtraError, ModelFileError
from kbsearch.schema import DEFAULT


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", cls=Checked)(demo_command)


def demo_command(dsn: DsnOption = None, schema: SchemaOption = DEFAULT) -> None:
    """Ingest Python's language reference, answer three questions, check that their pages are a partition of the ranking.

    Exit code 1 if a check fails.
    """
    with complaining(MissingExtraError, ModelFileError):
        embedder = LocalEmbedder()
    with connected(dsn, schema) as connection:
        if not demo.run(console(), connection, embedder, schema):
            raise typer.Exit(NO)
