from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from typer.testing import CliRunner, Result

from kbsearch.cli import app
from kbsearch.evaluate.gold import add_judgements

COUNT = 40
NAMES = [f"word{number:02}" for number in range(COUNT)]


def kbsearch(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def words(result: Result) -> str:
    return " ".join(result.output.split())


def collection(folder: Path, *, vectors_are_right: bool = True) -> Path:
    """A question for each document: one leg is right and the other misleads."""
    folder.mkdir()
    said = NAMES[1:] + NAMES[:1] if vectors_are_right else NAMES
    for name, entries in (
        ("corpus.jsonl", [{"id": f"d{n:02}", "title": "", "text": text} for n, text in enumerate(NAMES)]),
        ("queries.jsonl", [{"id": f"q{n:02}", "text": text} for n, text in enumerate(said)]),
    ):
        (folder / name).write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    (folder / "qrels.tsv").write_text("".join(f"q{n:02}\td{n:02}\t1\n" for n in range(COUNT)), encoding="utf-8")
    right, wrong = np.eye(COUNT, dtype=np.float32), np.roll(np.eye(COUNT, dtype=np.float32), 1, axis=1)
    np.save(folder / "minilm.docs.npy", right)
    np.save(
        folder / "minilm.queries.npy", 0.8 * right + 0.6 * wrong if vectors_are_right else 0.6 * right + 0.8 * wrong
    )
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return collection(tmp_path / "small")


@pytest.fixture
def org(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('acme') RETURNING id").fetchone()
    assert row is not None
    return int(row[0])


def test_a_folder_shows_the_profile_and_the_sql_that_makes_it(folder: Path, database: str, tmp_path: Path) -> None:
    plot = tmp_path / "surface.svg"
    result = kbsearch("tune", folder, "--hold-out", "0.25", "--plot", plot, "--dsn", database)
    assert result.exit_code == 0, result.output
    for part in (
        "nDCG@10 against weighted@1: 30 questions in 30 groups",
        "is better than weighted@1 on held-out questions",
        "On the questions held out altogether, ",
        "No profile was written. The SQL that makes it",
        "create_kb_ranking_profile_v1( p_org_id => :org_id, p_name => 'tuned'",
    ):
        assert part in words(result)
    drawn = plot.read_text(encoding="utf-8")
    assert drawn.startswith("<?xml")
    assert "Reciprocal rank fusion" in drawn


def test_a_better_profile_is_written_into_the_organisation(
    folder: Path, database: str, connection: psycopg.Connection[Any], org: int
) -> None:
    dry = kbsearch("tune", folder, "--org", "acme", "--dry-run", "--json", "--dsn", database)
    assert dry.exit_code == 0, dry.output
    assert json.loads(dry.stdout)["profile"] is None
    result = kbsearch("tune", folder, "--org", "acme", "--name", "mine", "--json", "--dsn", database)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["profile"] == "mine@1"
    assert (answer["base"], answer["questions"], answer["refused"]) == ("weighted@1", 40, 0)
    assert answer["chosen"]["vector_weight"] > 0.5
    assert [family["setting"]["family"] for family in answer["families"]] == ["weighted", "rrf", "weighted by class"]
    stored = connection.execute("SELECT org_id, name, version FROM kbsearch.kb_ranking_profiles").fetchall()
    assert stored == [(org, "mine", 1)]
    shown = kbsearch("tune", folder, "--org", "acme", "--name", "mine", "--dsn", database)
    assert "SET ranking_profile = 'mine@1'" in words(shown)


def test_where_nothing_is_better_the_exit_code_is_1(folder: Path, database: str, org: int, tmp_path: Path) -> None:
    result = kbsearch("tune", folder, "--base", "vector@1", "--org", "acme", "--dsn", database)
    assert result.exit_code == 1, result.output
    assert "vector@1 stays" in words(result)
    other = collection(tmp_path / "other", vectors_are_right=False)
    guarded = kbsearch("tune", folder, "--also", other, "--dsn", database)
    assert guarded.exit_code == 1, guarded.output
    assert "is worse on other" in words(guarded)


def test_a_gold_set_is_tuned_on_in_place(database: str, connection: psycopg.Connection[Any], tmp_path: Path) -> None:
    """By an embedder whose vectors are hashes the words are right, and the vectors say nothing."""
    (tmp_path / "docs").mkdir()
    for text in NAMES:
        (tmp_path / "docs" / f"{text}.md").write_text(f"# {text}\n\nAll about {text}.\n", encoding="utf-8")
    hashes = ("--embedder", "tests.ingest.test_pipeline:HashEmbedder")
    ingested = kbsearch("ingest", tmp_path / "docs", "--org", "acme", *hashes, "--dsn", database)
    assert ingested.exit_code == 0, ingested.output
    for org_id, article, title in connection.execute("SELECT org_id, id, title FROM kbsearch.kb_articles").fetchall():
        add_judgements(connection, org_id, "gold", f"what is {title}", {article: 1})
    result = kbsearch("tune", "--gold", "gold", *hashes, "--json", "--dsn", database)
    assert result.exit_code in (0, 1), result.output
    answer = json.loads(result.stdout)
    assert answer["questions"] == COUNT
    assert (answer["profile"] is None) == (result.exit_code == 1)
    assert answer["families"][0]["setting"]["vector_weight"] <= 0.5
    without = kbsearch("tune", "--gold", "gold", "--embedder", "none", "--dsn", database)
    assert without.exit_code == 2
    assert "nothing to weigh" in words(without)


def test_what_cannot_be_tuned_is_said_with_exit_code_2(folder: Path, database: str, tmp_path: Path) -> None:
    (folder / "qrels.tsv").write_text("q01\td01\t1\nq02\td02\t1\n", encoding="utf-8")
    for arguments, message in (
        ([], "name a folder"),
        ([folder, "--gold", "g"], "name a folder"),
        ([folder, "--plot", tmp_path / "x.pdf"], ".png or .svg"),
        ([folder, "--plot", tmp_path / "none" / "x.png"], "no folder"),
        ([folder, "--name", "Not A Name"], "is not 1 to 63 of a-z"),
        ([folder, "--hold-out", "1"], "--hold-out"),
        ([tmp_path / "none"], "none"),
        ([folder], "2 questions with 2 different sets"),
    ):
        result = kbsearch("tune", *arguments, "--dsn", database)
        assert result.exit_code == 2, result.output
        assert message in words(result)


def test_without_the_extra_it_is_told_what_to_install(
    folder: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    result = kbsearch("tune", folder, "--dsn", database)
    assert result.exit_code == 2
    assert "[evaluate]" in result.output
