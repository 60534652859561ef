"""kbsearch reembed and kbsearch space: from one embedding space to another, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.cli.test_ingest_cli import folder, kbsearch, report
from tests.ingest.test_pipeline import Connection, HashEmbedder, Picky

__all__ = ["folder"]

OLD, NEW = "tests.ingest.test_pipeline:HashEmbedder", "tests.cli.test_reembed:newer"


def newer() -> HashEmbedder:
    return HashEmbedder("2")


def refusing() -> Picky:
    return Picky("3")


class Questioning(HashEmbedder):
    """Another prefix of questions than its space's."""

    @property
    def recipe(self) -> Mapping[str, Any]:
        return {"digest": "sha256", "query_prefix": "q: "}


@pytest.fixture
def store(folder: Path, database: str) -> str:
    for number in range(15):
        (folder / f"n{number:02}.md").write_text(f"# Note {number}\n\nalpha {number}", encoding="utf-8")
    assert kbsearch("ingest", folder, "--dsn", database, "--embedder", OLD).exit_code == 0
    return database


def spaces(database: str) -> dict[str, dict[str, Any]]:
    listed = json.loads(kbsearch("space", "status", "--dsn", database, "--json").stdout)
    return {one["name"]: one for one in listed}


def search(database: str, embedder: str) -> Result:
    return kbsearch("search", "alpha 3", "--dsn", database, "--embedder", embedder, "--json")


def test_from_one_space_to_another_and_back(store: str) -> None:
    (old,) = spaces(store)
    before = search(store, OLD).stdout
    filled = kbsearch("reembed", "--space", "second", "--embedder", NEW, "--dsn", store)
    assert filled.exit_code == 0, filled.output
    assert "kbsearch space activate second" in filled.output
    assert search(store, OLD).stdout == before
    assert search(store, NEW).exit_code == 3  # vectors of another model
    found = spaces(store)
    assert {
        name: (one["is_active"], one["embedded"], one["lacking"], one["cached"]) for name, one in found.items()
    } == {
        old: (True, 17, 0, 17),
        "second": (False, 17, 0, 17),
    }
    switched = kbsearch("space", "activate", "second", "--dsn", store)
    assert switched.exit_code == 0
    assert f"kbsearch space activate {old}" in switched.output
    assert "already" in kbsearch("space", "activate", "second", "--dsn", store).output
    assert search(store, NEW).exit_code == 0
    assert json.loads(kbsearch("space", "activate", old, "--dsn", store, "--json").stdout) == {
        "active": old,
        "before": "second",
    }
    assert search(store, OLD).stdout == before
    assert kbsearch("space", "drop", old, "--yes", "--dsn", store).exit_code == 3
    assert kbsearch("space", "drop", "second", "--dsn", store).exit_code == 1  # nobody says yes
    assert json.loads(kbsearch("space", "drop", "second", "--yes", "--dsn", store, "--json").stdout) == {
        "dropped": "second",
        "vectors": 17,
    }
    assert list(spaces(store)) == [old]
    assert old in kbsearch("space", "status", "--dsn", store).output


def test_an_incomplete_space_is_refused_with_what_to_do(store: str, folder: Path) -> None:
    kbsearch("reembed", "--space", "second", "--embedder", NEW, "--dsn", store)
    (folder / "late.md").write_text("# Late\n\nlate", encoding="utf-8")
    assert kbsearch("ingest", folder, "--dsn", store, "--embedder", OLD).exit_code == 0
    refused = kbsearch("space", "activate", "second", "--dsn", store)
    assert refused.exit_code == 3
    assert "1 have no vector" in refused.output
    assert "kbsearch reembed" in refused.output
    (folder / "later.md").write_text("# Later\n\nlater", encoding="utf-8")
    assert kbsearch("ingest", folder, "--dsn", store, "--embedder", OLD, "--also", NEW).exit_code == 0
    assert spaces(store)["second"]["lacking"] == 1
    done = report(kbsearch("reembed", "--space", "second", "--embedder", NEW, "--activate", "--dsn", store, "--json"))
    assert (done["missing"], done["embedded"], done["space_active"], done["organization"]) == (1, 1, True, "default")
    assert spaces(store)["second"]["is_active"]


def test_a_comparison_comes_before_the_switch(store: str, tmp_path: Path) -> None:
    questions = tmp_path / "questions.txt"
    questions.write_text("alpha 3\n\nNote 7\n", encoding="utf-8")
    arguments: list[str | Path] = [
        "reembed",
        "--space",
        "second",
        "--embedder",
        NEW,
        "--dsn",
        store,
        "--compare",
        questions,
    ]
    unknown = kbsearch(*arguments)
    assert unknown.exit_code == 2
    assert "--active-embedder" in unknown.output
    for other in (NEW, "tests.cli.test_reembed:Questioning", "none", "local,colour=red", "openai,dimensions=few"):
        assert kbsearch(*arguments, "--active-embedder", other).exit_code == 2, other
    result = report(kbsearch(*arguments, "--active-embedder", OLD, "--json"))
    assert not result["space_active"]
    comparison = result["comparison"]
    assert [change["question"] for change in comparison["changes"]] == ["alpha 3", "Note 7"]
    assert 0 <= comparison["overlap"] <= 1
    assert comparison["tau"] > 0
    lines = tmp_path / "questions.jsonl"
    lines.write_text('{"text": "alpha 3"}\n', encoding="utf-8")
    switched = kbsearch(*arguments[:-1], lines, "--active-embedder", OLD, "--activate")
    assert switched.exit_code == 0, switched.output
    assert "alpha 3" in switched.output
    assert spaces(store)["second"]["is_active"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--embedder", "none"], 2),
        (["--embedder", NEW, "--compare", "missing.txt"], 2),
        (["--embedder", NEW, "--template", "{title}"], 2),
        (["--embedder", NEW, "--org", "nobody"], 3),
    ],
)
def test_what_cannot_be_done_is_said(store: str, options: list[str], code: int) -> None:
    assert kbsearch("reembed", *options, "--dsn", store).exit_code == code
    assert len(spaces(store)) == 1


def test_skipped_chunks_are_listed(store: str, connection: Connection) -> None:
    connection.execute(
        "UPDATE kbsearch.kb_article_chunks SET content = 'refuse' WHERE id = (SELECT min(c.id) FROM kbsearch.kb_article_chunks AS c)"
    )
    result = kbsearch("reembed", "--embedder", "tests.cli.test_reembed:refusing", "--dsn", store)
    assert result.exit_code == 1
    assert "too odd" in result.output
    assert kbsearch("space", "activate", "nothing", "--dsn", store).exit_code == 3


def test_lines_of_progress_say_how_long_it_takes(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbsearch.cli.reembed.EVERY", 0.0)
    result = kbsearch("reembed", "--embedder", NEW, "--dsn", store)
    assert "embedded 17 of 17" in result.stderr
    assert "s left" in result.stderr
