from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from kbsearch.cli import app
from kbsearch.evaluate import SavedRun


def kbsearch(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def ingested(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KBSEARCH_DSN", database)
    (tmp_path / "docs").mkdir()
    for name, text in (("cats", "Cats purr and sleep."), ("dogs", "Dogs bark at cats."), ("birds", "Birds sing.")):
        (tmp_path / "docs" / f"{name}.txt").write_text(text, encoding="utf-8")
    result = kbsearch(
        "ingest", tmp_path / "docs", "--org", "acme", "--embedder", "tests.ingest.test_pipeline:HashEmbedder"
    )
    assert result.exit_code == 0, result.output
    return tmp_path


def shown(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kbsearch("gold", *arguments, "--json").stdout)
    return found


def test_from_looking_at_results_to_a_measurement(ingested: Path) -> None:
    """Judge, show, export, import elsewhere, evaluate in place, save; everything by the command line."""
    assert kbsearch("gold", "add", "who purrs", "--ref", "cats.txt", "--grade", "2").exit_code == 0
    with psycopg.connect(os.environ["KBSEARCH_DSN"]) as connection:
        (dogs,) = (
            connection.execute("SELECT id FROM kbsearch.kb_articles WHERE external_ref = 'dogs.txt'").fetchone() or ()
        )
    assert kbsearch("gold", "add", "who barks", "--article", str(dogs)).exit_code == 0
    assert [(one["name"], one["questions"], one["judgements"]) for one in shown("list")] == [("gold", 2, 2)]
    assert [one["question"] for one in shown("show")] == ["who purrs", "who barks"]
    text = kbsearch("gold", "show").output
    assert "2  cats.txt" in text
    words = ("--embedder", "none", "--system", "keyword", "--json")
    answer = json.loads(kbsearch("evaluate", "--gold", "gold", *words, "--save", ingested / "runs").stdout)
    assert answer["systems"]["keyword"]["nDCG@10"] == 1
    assert (answer["documents"], answer["queries"], answer["unjudged"]) == (3, 2, 0)
    run = SavedRun.load(ingested / "runs" / "keyword.run")
    assert sorted(ranking[0] for ranking in run.rankings.values()) == ["cats.txt", "dogs.txt"]
    assert run.record["collection"]["name"] == "gold"
    assert kbsearch("gold", "export", ingested / "exported").exit_code == 0
    answer = json.loads(kbsearch("gold", "import", ingested / "exported", "--set", "again", "--json").stdout)
    assert answer == {"set": "again", "questions": 2, "judgements": 2, "skipped": 0}
    hashes = ("--embedder", "tests.ingest.test_pipeline:HashEmbedder")
    both = json.loads(kbsearch("evaluate", "--gold", "again", *hashes, "--profile", "rrf", "--json").stdout)
    assert list(both["systems"]) == ["rrf@1"]
    assert kbsearch("gold", "remove", "who barks", "--set", "again").exit_code == 0
    assert kbsearch("gold", "remove", "--all", "--set", "again").exit_code == 0
    assert [one["name"] for one in shown("list")] == ["gold"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gold", "add", "q"], "--article ID or --ref REF"),
        (["gold", "add", "q", "--ref", "mice.txt"], "no article 'mice.txt'"),
        (["gold", "add", "q", "--article", "99999"], "no article 99999"),
        (["gold", "add", "q", "--article", "1", "--grade", "-1"], "grade"),
        (["gold", "show", "--set", "silver"], "no gold set 'silver'"),
        (["gold", "remove"], "--all"),
        (["gold", "import", "nowhere"], "no folder"),
        (["evaluate"], "--gold SET"),
        (["evaluate", "x", "--gold", "gold"], "--gold SET"),
        (["evaluate", "--gold", "silver"], "no gold set 'silver'"),
    ],
)
def test_a_wrong_request_is_a_usage_error(ingested: Path, arguments: list[str], message: str) -> None:
    result = kbsearch(*arguments)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())


def test_another_embedder_than_the_organisations_is_refused(ingested: Path) -> None:
    kbsearch("gold", "add", "who purrs", "--ref", "cats.txt")
    result = kbsearch("evaluate", "--gold", "gold", "--embedder", "local")
    assert result.exit_code == 2
    assert "name its --embedder" in " ".join(result.output.split())
    result = kbsearch("evaluate", "--gold", "gold", "--embedder", "none", "--profile", "nothing@1")
    assert result.exit_code == 3
    assert "KBPRF" in result.output
