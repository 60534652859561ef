"""The reference of the command line and of the environment variables: pages made from the commands and from the source."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import typer

import kbsearch
from kbsearch.cli import app

PACKAGE = Path(kbsearch.__file__).parent
_VARIABLE = re.compile(r"(?:KBSEARCH|OPENAI)_[A-Z][A-Z_]*")


def commands_page() -> str:
    """The page of all commands, with their arguments, options and exit codes."""
    root: Any = typer.main.get_command(app)
    lines = [
        "# Command line",
        "",
        "Made from the commands themselves; `--help` shows the same.",
        "",
        _prose(root.help),
        "",
        _prose(root.epilog),
        "",
    ]
    for path, command in _walk(root, "kbsearch"):
        level = "##" if path.count(" ") <= 1 else "###"
        anchor = path.replace(" ", "-")
        lines += [f"{level} {path} {{ #{anchor} }}", "", _prose(command.help), ""]
        if hasattr(command, "commands"):
            continue
        context = _context(command, path)
        lines += ["```text", f"{path} {' '.join(command.collect_usage_pieces(context))}", "```", ""]
        rows = [row for parameter in command.params if (row := _parameter(parameter, context)) is not None]
        if rows:
            lines += ["| argument or option | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def environment_page() -> str:
    """The page of the environment variables that kbsearch reads: those of options, and those that the source names."""
    said: dict[str, list[str]] = {}
    for _, command in _walk(typer.main.get_command(app), "kbsearch"):
        for parameter in command.params:
            given = [parameter.envvar] if isinstance(parameter.envvar, str) else parameter.envvar or []
            text, _, noted = (parameter.help or "").partition(" [env var: ")
            for name in {*given, *_VARIABLE.findall(noted)}:
                said.setdefault(name, []).append(f"`{parameter.opts[0]}`: {_prose(text)}")
    for name in _named_variables():
        if name not in said:
            said[name] = [_prose(text) for text in _docstrings_with(name)]
    lines = [
        "# Environment variables",
        "",
        (
            "Made from the options of the [commands](commands.md) and from the docstrings of what reads a variable. An option given on the "
            "command line wins. All of libpq's own variables (`PGPASSWORD`, `PGSERVICE`, …) work, as connection strings are libpq's."
        ),
        "",
        (
            "What an organisation has of its own (language, embedding space, ranking profile, reference length) are columns of "
            "[organizations](tables.md#organizations). Variables of the pytest plugin are in "
            "[Test your project](../how-to/test-your-project.md#server)."
        ),
        "",
        "| variable | |",
        "|---|---|",
        *(f"| `{name}` | {'<br>'.join(dict.fromkeys(texts))} |" for name, texts in sorted(said.items())),
        "",
    ]
    return "\n".join(lines)


def pages() -> Iterable[tuple[Path, str]]:
    """The pages, each with its place under docs/."""
    yield Path("reference/commands.md"), commands_page()
    yield Path("reference/environment.md"), environment_page()


def _walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield f"{path} {name}", child
            yield from _walk(child, f"{path} {name}")


def _context(command: Any, path: str) -> Any:
    return command.make_context(path, [], resilient_parsing=True)


def _parameter(parameter: Any, context: Any) -> str | None:
    record = parameter.get_help_record(context)
    return None if record is None else f"| `{_cell(record[0])}` | {_prose(record[1])} |"


def _modules() -> Iterator[ast.Module]:
    for file in sorted(PACKAGE.rglob("*.py")):
        yield ast.parse(file.read_text(encoding="utf-8"))


def _named_variables() -> set[str]:
    """Variables that the source names in a string of their own."""
    return {
        node.value
        for module in _modules()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _VARIABLE.fullmatch(node.value)
    }


def _docstrings_with(name: str) -> Iterator[str]:
    """The paragraphs, or descriptions of arguments, that speak of a variable; of an argument with what it is an argument of."""
    for module in _modules():
        for scope in ast.walk(module):
            if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for part in re.split(r"\n\n|\n(?=    \w+: )", inspect.cleandoc(ast.get_docstring(scope) or "")):
                    if name in part:
                        argument, colon, text = part.strip().partition(": ")
                        yield f"{scope.name}({argument}=…): {text}" if part.startswith("    ") and colon else part


def _prose(text: str | None) -> str:
    return _cell(
        escape("\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text or "").split("\n\n")), quote=False)
    ).replace("*", "\\*")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
