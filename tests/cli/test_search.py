from __future__ import annotations

import itertools
import json
import re
from typing import Any

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
        app, ["search", "--dsn", dsn, *arguments], catch_exceptions=False, env={"COLUMNS": "160"}
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
    assert "Word stems in no article: zebra" in text
    assert "Word stems known: password" in text
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


def test_a_result_has_three_lines_of_80_columns_at_most(connection: psycopg.Connection[Any]) -> None:
    row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('long') RETURNING id").fetchone()
    assert row is not None
    for number in range(4):
        KBSearch(connection).upsert_article(
            row[0],
            external_ref=f"folder/{'deep/' * 30 * (number % 2)}{number}.md",
            title=f"Reset {'the long way ' * 30 * (number // 2)}",
            body=f"{'=' * (60 * (number % 2))} reset\n\n  your\tpassword " * 200,
        )
    result = CliRunner().invoke(
        app, ["search", "password", "--dsn", str(connection.info.dsn)], env={"COLUMNS": "80"}, catch_exceptions=False
    )
    lines = result.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    places = [number for number, line in enumerate(lines) if re.match(r" {4}[1-4][ =]", line)]
    assert len(places) == 4
    assert max(after - before for before, after in itertools.pairwise(places)) <= 3
    assert "folder/0.md (article)" in result.stdout
    assert "cosine   words" in lines[1]


def test_control_characters_are_not_printed(connection: psycopg.Connection[Any]) -> None:
    evil = "\x1b[2J\x07\x9b31m"
    row = connection.execute(
        "INSERT INTO kbsearch.organizations (name) VALUES (%s) RETURNING id", [f"evil{evil}"]
    ).fetchone()
    assert row is not None
    KBSearch(connection).upsert_article(
        row[0], external_ref=f"ref{evil}", title=f"Title{evil}", body=f"password {evil}", kind=f"kind{evil}"
    )
    dsn = str(connection.info.dsn)
    found = CliRunner().invoke(app, ["search", f"password zebra{evil}", "--dsn", dsn])
    assert found.exit_code == 0
    assert "1 article, " in found.stdout
    as_json = CliRunner().invoke(app, ["search", "password", "--dsn", dsn, "--json"])
    assert json.loads(as_json.stdout)["items"][0]["title"] == f"Title{evil}"
    refused = CliRunner().invoke(app, ["search", "password", "--dsn", dsn, "--org", f"nobody{evil}"])
    assert refused.exit_code == 3
    usage = [CliRunner().invoke(app, words) for words in (["search", f"--{evil}"], [f"x{evil}"], ["db", evil])]
    assert [result.exit_code for result in usage] == [2, 2, 2]
    for shown in (found.output, as_json.output, refused.output, *(result.output for result in usage)):
        assert not set("\x1b\x07\x9b") & set(shown)


@pytest.mark.parametrize("question", ["", "  ", "the", "-reset"])
def test_a_question_without_a_word_is_told_plainly(dsn: str, question: str) -> None:
    said = " ".join(run(dsn, "--org", "search one", "--", question, code=3).split())
    assert "the question has no word to search for" in said
    assert "leg" not in said


def test_a_question_that_looks_like_an_option_gets_a_hint(dsn: str) -> None:
    result = CliRunner().invoke(app, ["search", "-exchange refund", "--dsn", dsn])
    assert result.exit_code == 2
    assert "put -- before it" in " ".join(result.output.replace("│", " ").split())
