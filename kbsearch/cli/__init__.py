"""The command line: one module a command, each with `register(app)`."""

from __future__ import annotations

import importlib
import importlib.util
import io
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from kbsearch.cli.common import Commands

app = typer.Typer(
    name="kbsearch",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Hybrid search for knowledge bases on PostgreSQL and pgvector.",
    epilog="Exit codes: 0 done; 1 the answer is no (nothing found, differences, documents skipped); 2 wrong command line; "
    "3 refused by kbsearch; 4 the database can't be reached or failed.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("kbsearch"))
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


for _name in (
    "demo",
    "ingest",
    "embed",
    "reembed",
    "space",
    "ann",
    "search",
    "explain",
    "pages",
    "gold",
    "evaluate",
    "aa",
    "compare",
    "tune",
    "disagreement",
    "db",
    "doctor",
):
    if importlib.util.find_spec(f"kbsearch.cli.{_name}") is not None:
        importlib.import_module(f"kbsearch.cli.{_name}").register(app)


def main() -> None:
    """Entry point of the command `kbsearch`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what cannot be written is no reason to stop
    app()
