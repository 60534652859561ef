from __future__ import annotations

import json

import psycopg
import pytest
from typer.testing import CliRunner

from kbsearch import KBSearch
from kbsearch.cli import app


@pytest.fixture(scope="module")
def dsn(shared_database: str) -> str:
    with psycopg.connect(shared_database, autocommit=True) as connection:
        for name in ("search one", "search two"):
            row = connection.execute(
                "INSERT INTO kbsearch.organizations (name) VALUES (%s) RETURNING id", [name]
            ).fetchone()
            assert row is not None
            for number in range(3):
                KBSearch(connection).upsert_article(
                    row[0], external_ref=str(number), title="Reset [bold]", body="reset your password"
                )
    return shared_database


def run(dsn: str, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(
        app, ["search", *arguments, "--dsn", dsn], catch_exceptions=False, env={"COLUMNS": "160"}
    )
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


def test_json_is_the_page(dsn: str) -> None:
    page = json.loads(run(dsn, "password", "--org", "search one", "--limit", "2", "--json"))
    assert [item["place"] for item in page["items"]] == [1, 2]
    assert page["total"] == 3
    assert page["legs"]["vector"]["reason"] == "no_embedding"
    rest = json.loads(
        run(dsn, "password", "--org", "search one", "--limit", "2", "--json", "--cursor", page["next_cursor"])
    )
    assert [item["place"] for item in rest["items"]] == [3]
    assert rest["end_reached"]
    assert rest["next_cursor"] is None


def test_people_get_a_table_with_ties_reasons_and_the_next_cursor(dsn: str) -> None:
    text = run(dsn, "password zebra", "--org", "search one", "--limit", "2")
    assert "Reset [bold]" in text
    assert "equal score" in text
    assert "No vector leg: the question has no embedding" in text
    assert "In no article: zebra" in text
    assert "--cursor " in text


def test_nothing_found_is_1_with_the_reason(dsn: str) -> None:
    text = run(dsn, "zebra", "--org", "search one", code=1)
    assert "Nothing found" in text
    assert "no article has a word of the question" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("a", "--org", "nobody"), "nobody"),
        (("a",), "several organisations"),
        (("a", "--org", "search one", "--limit", "-1"), "KBLIM"),
        (("reset", "--org", "search one", "--cursor", "x"), "KBCUR"),
        (("a", "--org", "search one", "--profile", "x"), "KBPRF"),
        (("a", "--org", "search one", "--embed"), "no embeddings"),
    ],
)
def test_a_refusal_is_3_with_a_message(dsn: str, arguments: tuple[str, ...], says: str) -> None:
    assert says in " ".join(run(dsn, *arguments, code=3).split())
