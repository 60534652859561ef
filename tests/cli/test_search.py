from __future__ import annotations

import itertools
import json
import re
import shlex
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from kbsearch import KBSearch
from kbsearch.cli import app, asking
from kbsearch.cli import search as module
from kbsearch.cli.results import marked


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


def test_the_local_model_is_not_loaded_where_another_models_vectors_are(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load() -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr(asking, "LocalEmbedder", load)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            """INSERT INTO kbsearch.kb_embedding_spaces (id, name, model, dimensions) OVERRIDING SYSTEM VALUE VALUES
            (7, 'letters', 'letters', 3), (8, 'other', 'sentence-transformers/all-MiniLM-L6-v2', 3);
            INSERT INTO kbsearch.organizations (name, active_space_id) VALUES ('of letters', 7)"""
        )
        KBSearch(connection).upsert_article(1, title="Reset", body="reset your password")
    assert json.loads(run(database, "password", "--json"))["legs"]["vector"]["reason"] == "no_embedding"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE kbsearch.organizations SET active_space_id = 8")
    with pytest.raises(AssertionError, match="loaded"):
        run(database, "password", "--json")


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


class Terminal:
    """What the command sees of a standard output that is a terminal."""

    stdout = SimpleNamespace(isatty=lambda: True)


def test_the_command_for_the_next_page_has_all_options_and_runs(
    connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = KBSearch(connection)
    row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('it''s') RETURNING id").fetchone()
    assert row is not None
    for number in range(6):
        client.upsert_article(
            row[0], external_ref=str(number), title="Reset", body="your password", kind="faq" if number % 2 else "page"
        )
    dsn = str(connection.info.dsn)
    monkeypatch.setenv("KBSEARCH_DSN", f"{dsn} password={connection.info.password}")
    monkeypatch.setattr(module, "sys", Terminal)
    words = [
        "search", "-x reset", "--org", "it's", "--limit", "2", "--kind", "page", "--kind", "other", "--profile", "keyword@1", "--min-score", "0.01",
        "--no-embed", "--highlight", "--language", "en",
    ]  # fmt: skip
    first = CliRunner().invoke(app, [*words[:1], *words[2:], "--offset", "0", "--", words[1]], catch_exceptions=False)
    assert first.exit_code == 0, first.output
    (line,) = [line for line in first.stderr.splitlines() if line.startswith("Next page: ")]
    command = shlex.split(line.removeprefix("Next page: "))
    assert command[:2] == ["kbsearch", "search"]
    for option in words[2:]:
        assert option in command
    assert command[-2:] == ["--", "-x reset"]
    second = CliRunner().invoke(app, [*command[1:-2], "--json", *command[-2:]], catch_exceptions=False)
    assert [item["external_ref"] for item in json.loads(second.stdout)["items"]] == ["4"]


def test_a_password_is_not_repeated(monkeypatch: pytest.MonkeyPatch, connection: psycopg.Connection[Any]) -> None:
    row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('o') RETURNING id").fetchone()
    assert row is not None
    for number in range(3):
        KBSearch(connection).upsert_article(row[0], external_ref=str(number), title="Reset")
    monkeypatch.setattr(module, "sys", Terminal)
    dsn = f"{connection.info.dsn} password={connection.info.password or 'secret'}"
    shown = CliRunner().invoke(app, ["search", "reset", "--limit", "1", "--dsn", dsn], catch_exceptions=False).output
    assert "Next page: kbsearch search --limit 1 --cursor " in shown
    assert "password=" not in shown


def test_highlight_marks_the_words_and_obeys_nothing_else() -> None:
    text = marked("a &lt;b&gt; &amp;amp; <mark>Reset</mark> your\n\n<mark>&lt;mark&gt;</mark> <i>[bold]x[/bold]\x1b[2J")
    assert text.plain == "a <b> &amp; Reset your <mark> <i>[bold]x[/bold]\N{REPLACEMENT CHARACTER}[2J"
    assert [text.plain[span.start : span.end] for span in text.spans if span.style == "bold"] == ["Reset", "<mark>"]


def test_highlighted_excerpts_are_those_around_the_words(connection: psycopg.Connection[Any]) -> None:
    row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('o') RETURNING id").fetchone()
    assert row is not None
    KBSearch(connection).upsert_article(
        row[0], external_ref="a", title="T", body="filler words " * 60 + "a <needle> & thread " + "more " * 60
    )
    dsn = str(connection.info.dsn)
    plain = CliRunner().invoke(app, ["search", "needles", "--dsn", dsn], env={"COLUMNS": "100"}).stdout
    assert "needle>" not in plain
    shown = CliRunner().invoke(app, ["search", "needles", "--dsn", dsn, "--highlight"], env={"COLUMNS": "100"}).stdout
    assert "a <needle> & thread" in " ".join(shown.split())
    assert "<mark>" not in shown
    page = json.loads(CliRunner().invoke(app, ["search", "needles", "--dsn", dsn, "--highlight", "--json"]).stdout)
    assert "&lt;<mark>needle</mark>&gt; &amp; thread" in page["items"][0]["excerpt_html"]


def test_the_language_of_the_question_may_be_a_code(connection: psycopg.Connection[Any]) -> None:
    row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('o') RETURNING id").fetchone()
    assert row is not None
    client = KBSearch(connection)
    client.upsert_article(row[0], external_ref="de", title="Rückgaben", language="german")
    client.upsert_article(row[0], external_ref="en", title="Returns")
    dsn = str(connection.info.dsn)

    def languages(*options: str) -> list[str]:
        return list(
            json.loads(CliRunner().invoke(app, ["search", "Rückgabe", "--dsn", dsn, "--json", *options]).stdout)[
                "legs"
            ]["keyword"]["languages"]
        )

    assert languages() == ["english", "german"]
    assert languages("--language", "de-CH") == languages("--language", "german") == ["german"]
    refused = CliRunner().invoke(app, ["search", "x", "--dsn", dsn, "--language", "klingon"])
    assert refused.exit_code == 3
    assert "KBLNG" in refused.output
    assert (
        "Languages of the words: english, german"
        in CliRunner().invoke(app, ["search", "Rückgabe", "--dsn", dsn]).stdout
    )


def test_an_embedder_of_the_environment_is_no_reason_to_refuse_words(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBSEARCH_EMBEDDER", "local")
    assert json.loads(run(dsn, "password", "--org", "search one", "--json"))["total"] == 3
    assert "no embeddings" in run(dsn, "password", "--org", "search one", "--embedder", "local", code=3)
