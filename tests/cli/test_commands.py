"""The commands are all there, and one that runs does not pay for the others."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from kbsearch.cli import MODULES, app


def test_every_module_registers_the_commands_that_are_known_to_be_its() -> None:
    group: Any = typer.main.get_command(app)
    assert {name: command.name for name, command in group.commands.items()} == {name: name for name in MODULES}


@pytest.mark.parametrize("command", ["db", "search", "ingest", "--version"])
def test_a_command_imports_no_command_that_it_does_not_need(command: str) -> None:
    code = f"""
import sys
from kbsearch.cli import app
sys.argv = ["kbsearch", *{["--version"] if command == "--version" else [command, "--help"]}]
try:
    app()
except SystemExit:
    print(sorted(name for name in sys.modules if name.startswith(("kbsearch.cli.", "kbsearch.evaluate", "kbsearch.doctor", "kbsearch.ingest"))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (*_, imported) = done.stdout.splitlines()
    assert not {"kbsearch.evaluate", "kbsearch.doctor", "kbsearch.cli.tune", "kbsearch.cli.gold"} & set(eval(imported))  # noqa: S307
    assert (f"kbsearch.cli.{command}" in imported) is (command in MODULES)
    assert ("kbsearch.ingest" in imported) is (command == "ingest")


def test_the_help_lists_every_command() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert [name for name in MODULES if f" {name} " not in shown] == []


def test_what_is_no_command_is_a_usage_error_that_says_what_was_meant() -> None:
    refused = CliRunner().invoke(app, ["serch"])
    assert refused.exit_code == 2
    assert "search" in refused.output


def test_what_names_an_embedder_is_the_same_in_every_command() -> None:
    group: Any = typer.main.get_command(app)
    names = ("embedder", "model", "base_url", "dimensions", "query_prefix", "passage_prefix")
    found = {
        command: [
            (one.name, one.opts, one.help, one.envvar) for one in group.commands[command].params if one.name in names
        ]
        for command in ("ingest", "embed", "reembed", "search", "explain", "pages", "evaluate", "aa", "tune")
    }
    assert [name for name, *_ in found["search"]] == [*names]
    assert [command for command, options in found.items() if options != found["search"]] == []
