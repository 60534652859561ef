"""The command line: one module a command, each with `register(app)`."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Annotated, Any

import typer

from kbsearch.cli.common import Commands

MODULES = {
    "demo": "demo",
    "ingest": "ingest",
    "embed": "embed",
    "reembed": "reembed",
    "space": "space",
    "ann": "ann",
    "search": "search",
    "explain": "explain",
    "pages": "pages",
    "gold": "gold",
    "evaluate": "evaluate",
    "aa": "aa",
    "compare": "compare",
    "tune": "tune",
    "disagreement": "disagreement",
    "arbitration": "disagreement",
    "db": "db",
    "doctor": "doctor",
}
"""The commands, in the order of the help, each with the module that registers it."""


class _Registered(Mapping[str, Any]):
    """The commands by name. A module is imported when its command is asked for: all of them take longer than most commands do."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            part = typer.Typer()
            importlib.import_module(f"{__name__}.{MODULES[name]}").register(part)
            self._made.update(typer.main.get_group(part).commands)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


class _All(Commands):
    """The commands of all modules."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = _Registered()


app = typer.Typer(
    name="kbsearch",
    cls=_All,
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


def main() -> None:
    """Entry point of the command `kbsearch`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what cannot be written is no reason to stop
    app()
