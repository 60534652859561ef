"""A question's vector is kept by who asks for that, and by nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_ingest_cli import folder, kbsearch
from tests.ingest.test_pipeline import Connection

__all__ = ["folder"]

EMBEDDER = ("--embedder", "tests.ingest.test_recipe:Prefixed")
KEPT = """SELECT i.input
FROM kbsearch.kb_embedding_cache AS k
INNER JOIN kbsearch.kb_embedding_inputs AS i ON i.org_id = k.org_id AND i.input_sha256 = k.input_sha256
WHERE k.role = 'query'
ORDER BY i.input"""
ASKED = "SELECT n.hits, n.misses FROM kbsearch.kb_embedding_counts AS n WHERE n.role = 'query'"


@pytest.fixture(autouse=True)
def dsn(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBSEARCH_DSN", database)


def answered(command: str, question: str, *options: str, code: int = 0) -> Any:
    result = kbsearch(command, question, *options)
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.mark.parametrize("command", ["search", "explain", "pages"])
def test_a_question_is_kept_where_that_is_asked_for(folder: Path, connection: Connection, command: str) -> None:
    ingested = kbsearch("ingest", folder, *EMBEDDER)
    assert ingested.exit_code == 0, ingested.output
    plain = answered(command, "password", *EMBEDDER, "--json")
    assert answered(command, "password", *EMBEDDER, "--no-cache", "--json") == plain
    assert connection.execute(KEPT).fetchall() == []
    assert answered(command, "password", *EMBEDDER, "--cache", "--json") == plain
    assert connection.execute(KEPT).fetchall() == [("query: password",)]
    assert connection.execute(ASKED).fetchall() == [(0, 1)]
    assert answered(command, "password", *EMBEDDER, "--cache", "--json") == plain
    assert connection.execute(ASKED).fetchall() == [(1, 1)]
    assert len(connection.execute(KEPT).fetchall()) == 1


def test_there_is_nothing_to_keep_of_a_question_of_words(folder: Path, connection: Connection) -> None:
    ingested = kbsearch("ingest", folder, *EMBEDDER)
    assert ingested.exit_code == 0, ingested.output
    result = kbsearch("search", "password", "--no-embed", "--cache")
    assert result.exit_code == 2
    assert "--cache" in result.output
    assert connection.execute(KEPT).fetchall() == []
