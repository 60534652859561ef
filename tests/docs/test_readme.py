"""What README, contributing guide and pages name exists."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from kbsearch import errors
from kbsearch.embed import EmbeddingError
from kbsearch.ingest.sources import JSONL_FIELDS

ROOT = Path(__file__).resolve().parents[2]


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


@pytest.mark.parametrize("path", ["README.md", "CONTRIBUTING.md"])
def test_no_dead_links_between_files(path: str) -> None:
    """Those of the pages under docs/ are checked where the site is built."""
    text = (ROOT / path).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    assert [link for link in links if not ((ROOT / path).parent / link).exists()] == []


def test_the_first_page_of_the_documentation_leads_to_every_other() -> None:
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")} - {"index.md"}
    assert sorted(pages - set(re.findall(r"\]\(([^)#]+)", (ROOT / "docs/index.md").read_text(encoding="utf-8")))) == []


def test_the_page_about_ingest_names_the_fields_of_json_lines() -> None:
    text = (ROOT / "docs/how-to/ingest.md").read_text(encoding="utf-8")
    assert [name for name in JSONL_FIELDS if f"`{name}`" not in text] == []


def test_the_page_of_errors_lists_every_sqlstate_with_its_class_and_status() -> None:
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w{5})` \| `(\w+)` \| (\d{3}) \|", page, re.MULTILINE)
    classes = {
        (kind.default_sqlstate, kind.__name__, str(kind.http_status))
        for kind in (*vars(errors).values(), EmbeddingError)
        if isinstance(kind, type) and issubclass(kind, errors.KBSearchError) and kind is not errors.KBSearchError
    }
    assert sorted(rows) == sorted(classes)


def test_the_page_of_errors_lists_every_sqlstate_that_the_functions_raise() -> None:
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    raised = {
        state
        for file in (ROOT / "sql").rglob("*.sql")
        if file.name != "head.sql"
        for state in re.findall(r"'(KB[A-Z]{3})'", file.read_text(encoding="utf-8"))
    }
    assert set(re.findall(r"^\| `(KB[A-Z]{3})` \|", page, re.MULTILINE)) == raised
