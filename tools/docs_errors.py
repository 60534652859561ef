"""The page of errors: what of docs/errors.md stands between its marks is made from the code. `python -m tools.docs_errors` writes it anew.

The codes, their HTTP statuses and what they mean come from kbsearch/errors.py, the functions that raise them from the COMMENTs (`Errors:`), the
messages and hints from the RAISE statements under sql/.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kbsearch import errors, migrate

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "errors.md"

CASTS = {
    "22P02": "a text that is no number, vector, UUID, truth value, array or JSON",
    "22003": "a number out of its type's range",
    "22007": "a text that is no interval",
    "22008": "an interval out of range",
    "22015": "an interval out of range",
    "22P05": "a JSON string with a NUL in it",
    "22000": "a vector without dimensions",
    "22021": "bytes that are no UTF-8",
    "22023": "a text that is no bytea in hexadecimal",
    "54000": "a vector of over 16,000 dimensions",
    "54001": "JSON deeper than the server's stack",
}
"""SQLSTATEs of PostgreSQL and pgvector's own, of a caller's value that is none of the argument's type: raised before a function of ours is called."""

_RAISE = re.compile(r"RAISE EXCEPTION\s+'((?:[^']|'')*)'((?:[^';]|'(?:[^']|'')*')*);")
_CODE = re.compile(r"'(KB[A-Z]{3})'")
_HINT = re.compile(r"HINT = '((?:[^']|'')*)'")
_SAID = re.compile(r"^Errors: ([^\n]*?)'?;?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A RAISE statement.

    Attributes:
        function: where it stands.
        codes: the SQLSTATEs that it may have.
        message: with % where a value stands.
        hint: what to do; empty where it is not a constant.
    """

    function: str
    codes: tuple[str, ...]
    message: str
    hint: str


def refusals(root: Path | None = None) -> list[Refusal]:
    """All RAISE statements of the SQL that have a SQLSTATE of ours, by function."""
    return [
        Refusal(
            file.stem,
            tuple(dict.fromkeys(_CODE.findall(rest))),
            _text(message),
            _text((_HINT.findall(rest) or [""])[0]),
        )
        for file in sorted((root or migrate.sql_root()).rglob("*.sql"))
        if file.name != "head.sql"
        for message, rest in _RAISE.findall(file.read_text(encoding="utf-8"))
        if _CODE.search(rest)
    ]


def codes(root: Path | None = None) -> set[str]:
    """Every SQLSTATE of ours that stands in the SQL as a constant."""
    files = (root or migrate.sql_root()).rglob("*.sql")
    return {code for file in files for code in _CODE.findall(file.read_text(encoding="utf-8"))}


def raisers() -> dict[str, list[str]]:
    """The functions that say in their COMMENT that they raise a code, by code."""
    found: dict[str, list[str]] = {}
    for file in sorted((migrate.sql_root() / "functions").rglob("*.sql")):
        for said in _SAID.findall(file.read_text(encoding="utf-8")):
            for code in sorted(set(re.findall(r"\bKB[A-Z]{3}\b", said))):
                found.setdefault(code, []).append(file.stem)
    return found


def meaning(error: type[errors.KBSearchError]) -> str:
    """The class's docstring without the code, in one line."""
    paragraphs = inspect.cleandoc(error.__doc__ or "").split("\n\n")
    return " ".join(" ".join(paragraphs).split()).partition(": ")[2].rstrip(".")


def sections() -> Iterator[tuple[str, str]]:
    """What stands between the marks, by mark."""
    rows = ["| SQLSTATE | Python | HTTP | raised when |", "|---|---|---|---|"]
    for code, error in errors.ERRORS_BY_SQLSTATE.items():
        rows.append(f"| `{code}` | `{error.__name__}` | {error.http_status} | {meaning(error)} |")
    yield "codes", "\n".join(rows)

    folded: list[str] = []
    functions = raisers()
    found = refusals()
    for code in errors.ERRORS_BY_SQLSTATE:
        said: dict[tuple[str, str], list[str]] = {}
        for one in found:
            if code in one.codes:
                said.setdefault((one.message, one.hint), []).append(one.function)
        folded += [f'??? note "{code}"', ""]
        named = ", ".join(f"[`{name}`](reference/functions.md#{name})" for name in functions.get(code, []))
        if named:
            folded += [f"    Functions that raise it: {named}.", ""]
        for (message, hint), places in sorted(said.items()):
            where = ", ".join(f"`{place}`" for place in dict.fromkeys(places))
            folded.append(" ".join(["    -", f"“{_prose(message)}”", *([_prose(hint)] if hint else []), f"({where})"]))
        folded += [""]
    yield "messages", "\n".join(folded).rstrip()

    rows = ["| SQLSTATE | the value is |", "|---|---|"]
    rows += [f"| {code} | {text} |" for code, text in CASTS.items()]
    yield "casts", "\n".join(rows)


def page(text: str) -> str:
    """The page with what stands between its marks made anew."""
    for name, made in sections():
        begin, end = f"<!-- made: {name} -->\n", f"\n<!-- end: {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"the page has no place for {name}")
        text = f"{before}{begin}\n{made}\n{end}{after}"
    return text


def _text(literal: str) -> str:
    return " ".join(literal.replace("''", "'").split())


def _prose(text: str) -> str:
    return re.sub(r"([\\*_\[\]`<>|])", r"\\\1", text)


def main() -> int:
    """Write the page where it is not as it would be made."""
    text = PAGE.read_text(encoding="utf-8")
    made = page(text)
    if made != text:
        PAGE.write_text(made, encoding="utf-8")
        print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
