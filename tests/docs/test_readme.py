"""The README's and the docs' code runs as it stands, and what they name exists."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import subprocess
import tomllib
import uuid
from pathlib import Path

import psycopg
import pytest

from kbsearch import embedded, errors
from kbsearch.ingest.sources import JSONL_FIELDS

ROOT = Path(__file__).resolve().parents[2]


def blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_sql_then_python_of_the_readme_run(
    database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setenv("SHOP_DSN", database)
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("1 Returns ")
    assert printed[-1].endswith("('refund',)")


def test_the_readme_makes_the_database_of_its_examples(server_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs, against the server of the tests instead of the user's."""
    (shell,) = blocks("sh")
    (command,) = re.findall(r"-c '([^']+)'", shell)
    given = psycopg.conninfo.conninfo_to_dict(server_dsn)

    class Server:
        def dsn(self, database: str) -> str:
            return psycopg.conninfo.make_conninfo(server_dsn, dbname=database)

    monkeypatch.setattr(embedded, "start", Server)
    name = f"shop_{uuid.uuid4().hex[:8]}"
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(command.replace("shop", name), "README.md", "exec"), {})  # noqa: S102
        with psycopg.connect(printed.getvalue().strip()) as connection:
            assert connection.info.dbname == name != given["dbname"]
            assert connection.execute("SELECT count(*) FROM kbsearch.organizations").fetchone() == (0,)
    finally:
        with psycopg.connect(server_dsn, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())


def test_the_readme_names_source_tables_and_fields_of_json_lines() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tables = ("organizations", "kb_articles", "kb_article_chunks", "kb_article_embeddings", "kb_embedding_spaces")
    assert [name for name in (*tables, *JSONL_FIELDS) if f"`{name}`" not in text] == []


def test_errors_page_names_the_classes_of_the_tools() -> None:
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    for kind in (errors.NotInstalledError, errors.MigrationError, errors.EmbeddedServerError):
        assert f"`{kind.default_sqlstate}` `{kind.__name__}`" in page


def test_make_clean_stops_the_server_before_it_removes_its_programs(tmp_path: Path) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make")
    shutil.copy(ROOT / "Makefile", tmp_path)
    program = tmp_path / ".venv/bin/kbsearch"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\ntest -d .venv && echo "$@" >>calls\nexit 3\n', encoding="utf-8")
    program.chmod(0o755)
    for _ in range(2):  # the second time there is nothing to stop
        subprocess.run([make, "clean", "PYTHON=python3"], cwd=tmp_path, check=True, capture_output=True)
        assert (tmp_path / "calls").read_text(encoding="utf-8") == "db stop\n"
        assert not (tmp_path / ".venv").exists()


def test_the_source_distribution_has_what_the_readme_links_to() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"/docs", "/benchmarks", "/CONTRIBUTING.md", "/README.md"} <= set(included)


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
