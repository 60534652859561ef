"""Law: where a folder lies, and who ingests it, changes nothing: byte-identical rows and byte-identical inputs of the model."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.ingest.test_pipeline import Connection, HashEmbedder, rows

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = 500
WORDS = "invoice refund shipping password printer travel policy laptop salary holiday router parcel budget visitor badge".split()  # noqa: SIM905
FOLDERS = ("finance", "finance/archive", "it", "people", "people/travel", ".")
SEARCH = """SELECT s.*
FROM kbsearch.search_kb_hybrid_v1(p_org_id => 1, p_query_text => %s, p_query_embedding => %s::real[]::ext.vector, p_limit => 20) AS s
ORDER BY s.place"""
INPUTS = "SELECT i.org_id, i.input_sha256, i.input FROM kbsearch.kb_embedding_inputs AS i ORDER BY i.input_sha256"
VECTORS = """SELECT e.org_id, e.article_id, e.chunk_id, e.space_id, e.input_sha256, e.chunk_digest, e.embedding::text
FROM kbsearch.kb_article_embeddings AS e ORDER BY e.article_id, e.chunk_id"""
RECIPES = (
    "SELECT s.id, s.name, s.model, s.recipe::text, s.recipe_sha256 FROM kbsearch.kb_embedding_spaces AS s ORDER BY s.id"
)


def plant(root: Path) -> Path:
    """A tree of Markdown, text and JSON lines, with texts that occur more than once."""
    chance = random.Random(7)
    for number in range(60):
        folder = root / FOLDERS[number % len(FOLDERS)]
        folder.mkdir(parents=True, exist_ok=True)
        words = " ".join(chance.choices(WORDS, k=chance.randint(5, 120)))
        if number % 7:
            (folder / f"{number:02}-{WORDS[number % len(WORDS)]}.md").write_text(
                f"# {WORDS[number % 9].title()}\n\n{words}\n\n## More\n\n{words[:80]}", encoding="utf-8"
            )
        else:
            (folder / f"{number:02}.txt").write_text(words, encoding="utf-8")
    (root / "faq.jsonl").write_text('{"id": "q1", "title": "Refund?", "text": "Yes."}\n', encoding="utf-8")
    return root


def ingest(root: Path, dsn: str, home: Path, user: str) -> None:
    """Ingest a folder as somebody does on the command line, at home in some directory."""
    home.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "kbsearch",
        "ingest",
        str(root),
        "--embedder",
        "tests.ingest.test_pipeline:HashEmbedder",
    ]
    environment = {
        **os.environ,
        "HOME": str(home),
        "LOGNAME": user,
        "USER": user,
        "TMPDIR": str(home),
        "PYTHONPATH": str(ROOT),
        "KBSEARCH_DSN": dsn,
    }
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def questions(connection: Connection) -> list[tuple[str, list[float]]]:
    """Words of the documents, and vectors of what is stored and of what is not."""
    chance, embedder = random.Random(11), HashEmbedder()
    given = [text for _, _, text in rows(connection, INPUTS)]
    asked = [" ".join(chance.choices(WORDS, k=chance.randint(1, 5))) for _ in range(QUESTIONS)]
    return [(text, embedder.vector(chance.choice(given) if chance.random() < 0.5 else text)) for text in asked]


def answers(connection: Connection, asked: list[tuple[str, list[float]]]) -> list[list[tuple[Any, ...]]]:
    return [connection.execute(SEARCH, question).fetchall() for question in asked]


@pytest.fixture
def fresh_database(databases: Any, template: str) -> Iterator[Callable[[], str]]:
    """Makes databases with kbsearch."""
    made: list[str] = []

    def make() -> str:
        made.append(databases.create(template))
        return made[-1]

    yield make
    for dsn in made:
        databases.drop(dsn)


def test_one_tree_at_two_paths_of_two_users_in_two_databases(tmp_path: Path, fresh_database: Callable[[], str]) -> None:
    one = plant(tmp_path / "home" / "marianne77" / "handbook")
    two = tmp_path / "srv" / "exports" / "2024 (final)" / "kb"
    shutil.copytree(one, two)
    dsns = [fresh_database(), fresh_database()]
    ingest(one, dsns[0], tmp_path / "home" / "marianne77", "marianne77")
    ingest(two, dsns[1], tmp_path / "home" / "konstantin5", "konstantin5")
    found: list[dict[str, Any]] = []
    for dsn in dsns:
        with psycopg.connect(dsn, autocommit=True) as connection:
            asked = questions(connection)
            found.append(
                {
                    "inputs": rows(connection, INPUTS),
                    "vectors": rows(connection, VECTORS),
                    "recipes": rows(connection, RECIPES),
                    "questions": asked,
                    "answers": answers(connection, asked),
                }
            )
    assert len(found[0]["questions"]) == QUESTIONS
    assert sum(map(len, found[0]["answers"])) > 5 * QUESTIONS
    for name in found[0]:
        assert found[0][name] == found[1][name], name
        assert repr(found[0][name]).encode() == repr(found[1][name]).encode(), name
    for trace in ("marianne77", "konstantin5", str(tmp_path), "exports", "2024 (final)"):
        assert trace not in repr(found)


def test_other_relative_paths_are_other_inputs_and_the_recipe_says_so(
    tmp_path: Path, fresh_database: Callable[[], str]
) -> None:
    one = plant(tmp_path / "one")
    two = tmp_path / "two"
    shutil.copytree(one, two)
    (two / "finance").rename(two / "accounting")
    inputs, recipes = [], []
    for root in (one, two):
        dsn = fresh_database()
        ingest(root, dsn, tmp_path / "home", "somebody")
        with psycopg.connect(dsn, autocommit=True) as connection:
            inputs.append({text for _, _, text in rows(connection, INPUTS)})
            recipes.append(rows(connection, "SELECT s.recipe FROM kbsearch.kb_embedding_spaces AS s"))
    assert recipes[0] == recipes[1]
    ((recipe,),) = recipes[0]
    assert recipe["chunker"]["headings"] == "path and above"
    moved = inputs[0] - inputs[1]
    assert moved
    assert all("\nfinance/" in text for text in moved)
    assert {text.replace("\nfinance/", "\naccounting/", 1) for text in moved} == inputs[1] - inputs[0]
