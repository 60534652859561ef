"""The README's and the docs' code runs as it stands, and what they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from kbsearch import errors

ROOT = Path(__file__).resolve().parents[2]


def blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_sql_then_python_of_the_readme_run(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    (script,) = blocks("sql")
    *_, rows, page = [statement for statement in script.split(";\n") if statement.strip()]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(script[: script.index(rows)].encode())
        ranking = connection.execute(rows.encode()).fetchall()
        answer = connection.execute(page.encode()).fetchone()
    assert [row[:2] for row in ranking] == [(1, "Returns"), (2, "Shipping")]
    assert answer is not None
    assert answer[0]["total"] == len(answer[0]["items"]) == 1
    (example,) = blocks("python")
    exec(compile(example, "README.md", "exec"), {"dsn": database})  # noqa: S102
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("1 Returns ")
    assert printed[-1].endswith("('refund',)")


def test_exactly_two_set_up_commands() -> None:
    (commands, *_) = re.findall(
        r"^```\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert [line.split("#")[0].strip() for line in commands.splitlines()] == ["make demo", "make test"]


@pytest.mark.parametrize(
    "path", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))]
)
def test_no_dead_links_between_files(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    assert [link for link in links if not ((ROOT / path).parent / link).exists()] == []


def test_errors_page_lists_every_sqlstate_with_its_class() -> None:
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(KB\w{3})` \| `(\w+)` \|", page, re.MULTILINE))
    classes = {
        kind.default_sqlstate: kind.__name__
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.KBSearchError)
    }
    raised = {
        state
        for file in (ROOT / "sql").rglob("*.sql")
        if file.name != "head.sql"
        for state in re.findall(r"'(KB[A-Z]{3})'", file.read_text(encoding="utf-8"))
    }
    assert set(listed) == raised
    assert listed.items() <= classes.items()
