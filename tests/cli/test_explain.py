from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from rich.console import Console
from typer.testing import CliRunner

from kbsearch import Chunk, KBSearch, migrate
from kbsearch.cli import app
from kbsearch.cli import explain as module
from kbsearch.cli.explanations import Bars

ORG = "explained store"


@pytest.fixture(scope="module")
def dsn(shared_database: str) -> str:
    """Articles of two kinds, three of which tie; one is a draft, one has many passages."""
    with psycopg.connect(shared_database, autocommit=True) as connection:
        row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES (%s) RETURNING id", [ORG]).fetchone()
        assert row is not None
        client = KBSearch(connection)
        for number in range(3):
            client.upsert_article(
                row[0], external_ref=f"tied/{number}", title=f"Twin {number}", body="reset your password", kind="faq"
            )
        client.upsert_article(
            row[0],
            external_ref="best",
            title="Reset [bold] a password",
            kind="policy",
            chunks=[Chunk("reset the password, reset it"), Chunk("else"), Chunk("more")],
        )
        client.upsert_article(
            row[0], external_ref="invoice", title="Invoices", body="the password of an invoice", kind="policy"
        )
        client.upsert_article(row[0], external_ref="draft", title="Reset", body="reset", published=False)
    return shared_database


def run(dsn: str, *arguments: str, code: int = 0, columns: int = 80) -> str:
    result = CliRunner().invoke(
        app,
        ["explain", "--dsn", dsn, "--org", ORG, *arguments],
        catch_exceptions=False,
        env={"COLUMNS": str(columns)},
    )
    assert result.exit_code == code, result.output
    return result.stdout if code in (0, 1) else result.output


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("columns", [80, 120])
def test_a_page_shows_what_made_its_scores(dsn: str, columns: int) -> None:
    text = run(dsn, "reset password zebra", "--limit", "4", columns=columns)
    lines = text.splitlines()
    assert all(len(line) <= columns for line in lines if not line.startswith("Next page"))
    assert "5 articles, weighted@1" in text
    rows = [line for line in lines if re.match(r" {4,}[1-4]  ", line)]
    assert [re.findall(r"\d\.\d{6}  ░+", row) != [] for row in rows] == [True] * 4
    bars = [row.count("░") for row in rows]
    assert bars == sorted(bars, reverse=True)
    assert bars[0] == max(bars) > bars[1] == bars[2] == bars[3]
    assert "Reset [bold] a password" in flat(text)
    assert "best (policy)" in text
    assert "the best of 3 passages" in text
    assert text.count("tied with 2 others, by id") == 3
    assert text.count("has reset (6), password (7)") == 4
    assert re.search(r"░ words   0\.\d{6}  place 2, match 0\.\d{3}", text)
    assert "meaning" not in text
    assert "No vector leg: the question has no embedding" in text
    assert "Word stems in no article: zebra" in text
    assert "--cursor " in text
    shown = text.partition("Next page")[0]
    for article in range(1, 10**4):
        assert f"id {article}" not in shown


def test_json_has_the_explanations(dsn: str) -> None:
    whole = json.loads(run(dsn, "reset password", "--json"))
    assert (whole["total"], whole["profile"]) == (5, "weighted@1")
    assert whole["legs"]["vector"]["reason"] == "no_embedding"
    assert [item["external_ref"] for item in whole["items"]] == ["best", "tied/0", "tied/1", "tied/2", "invoice"]
    for item in whole["items"]:
        assert item["score_billionths"] == item["vector_contribution"] + item["keyword_contribution"]
        assert {match["lexeme"] for match in item["matches"]} <= {"reset", "password"}
    rest = json.loads(run(dsn, "reset password", "--json", "--cursor", whole["items"][2]["cursor"]))
    assert [item["place"] for item in rest["items"]] == [4, 5]


def test_nothing_found_is_1_with_the_reason(dsn: str) -> None:
    assert "no article has a word of the question" in run(dsn, "zebra", code=1)
    assert json.loads(run(dsn, "zebra", "--json", code=1))["items"] == []
    assert run(dsn, "zebra", "--candidates", code=1) == "Nothing found.\n"


@pytest.mark.parametrize(
    ("why", "options", "says"),
    [
        ("best", (), "It stands at place 1, on this page."),
        ("invoice", ("--limit", "1"), "It stands at place 5, after this page; the last article there has"),
        ("best", ("--offset", "1"), "It stands at place 1, before this page."),
        ("draft", (), "It is not published."),
        ("invoice", ("--kind", "faq"), "Its kind, policy, is not one of those asked for."),
        ("invoice", ("--min-score", "0.5"), "is below the floor, 0.5."),
        (
            "invoice",
            ("--quota", "policy=1"),
            "The quota takes 1 of its kind, policy, and it stands at place 2 of them.",
        ),
        ("tied/2", ("--quota", "faq=1", "--quota", "*=0"), "which of them is by id and says nothing about relevance."),
    ],
)
def test_why_says_the_reason_in_words(dsn: str, why: str, options: tuple[str, ...], says: str) -> None:
    text = flat(run(dsn, "reset password", "--why", why, *options))
    assert says in text
    assert "weighted" not in text


def test_why_says_of_a_tie_that_it_is_none_of_relevance(dsn: str) -> None:
    sentence = "is by id and says nothing about relevance"
    for options in ((), ("--limit", "2")):
        text = flat(run(dsn, "reset password", "--why", "tied/1", *options))
        assert text.count(sentence) == 1
        assert "tied with" not in text
    assert "It shares its score with 2 others; their order is by id" in flat(
        run(dsn, "reset password", "--why", "tied/1")
    )
    assert sentence not in run(dsn, "reset password", "--why", "best")


def test_why_shows_what_made_the_score_beside_the_best(dsn: str) -> None:
    def bar(why: str) -> int:
        return run(dsn, "reset password", "--why", why).count("░")

    assert bar("best") > bar("tied/1") > bar("invoice") > 1


def test_why_takes_a_reference_or_an_id(dsn: str) -> None:
    by_reference = json.loads(run(dsn, "reset password", "--why", "invoice", "--json"))
    assert by_reference["status"] == "ranked"
    assert by_reference["place"] == 5
    assert by_reference == json.loads(run(dsn, "reset password", "--why", str(by_reference["article_id"]), "--json"))
    for name in ("nobody", "999999999", "9" * 30):
        assert f"No article of {ORG} has that reference or id." in flat(run(dsn, "reset", "--why", name, code=1))
    unknown = json.loads(run(dsn, "reset", "--why", "nobody", "--json", code=1))
    assert (unknown["status"], unknown["article_id"]) == ("not_in_organization", None)


@pytest.mark.parametrize("columns", [80, 120])
def test_candidates_are_shown_kind_by_kind_with_the_cut(dsn: str, columns: int) -> None:
    text = run(dsn, "reset password", "--candidates", "--quota", "faq=1", "--quota", "*=5", columns=columns)
    assert all(len(line) <= columns for line in text.splitlines())
    assert "1 of 3 kept" in text
    assert "2 of 2 kept" in text
    assert "5 candidates, 3 kept" in text
    rows = [flat(line) for line in text.splitlines()]
    (cut,) = [number for number, row in enumerate(rows) if "── quota 1 ──" in row]
    assert re.search(r"1 Twin 0 0\.\d{6} place 2 \(tie cut, by id\)", rows[cut - 1])
    assert re.search(r"2 Twin 1 0\.\d{6} cut \(tie cut, by id\)", rows[cut + 1])
    assert "says nothing about relevance" in flat(text)
    whole = run(dsn, "reset password", "--candidates")
    assert "cut" not in whole
    assert "3 of 3 kept" in whole


def test_candidates_far_down_are_counted_and_those_at_the_cut_shown(connection: psycopg.Connection[Any]) -> None:
    row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('o') RETURNING id").fetchone()
    assert row is not None
    for number in range(30):
        KBSearch(connection).upsert_article(row[0], external_ref=str(number), title=f"Reset {'x ' * number}")
    command = ["explain", "reset", "--dsn", str(connection.info.dsn), "--candidates", "--quota", "*=20", "--limit", "2"]
    shown = CliRunner().invoke(app, command, env={"COLUMNS": "100"}, catch_exceptions=False).stdout
    places = [int(found[1]) for found in re.finditer(r"^ *(?:article|20 of 30 kept)? +(\d+)  ", shown, re.MULTILINE)]
    assert places == [1, 2, 19, 20, 21, 22]
    assert "… 16 more" in shown
    assert "… 8 more" in shown
    assert shown.index("── quota 20 ──") > shown.index(" 20 ")
    found = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert [one["place_in_kind"] for one in found] == list(range(1, 31))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("reset", "--candidates", "--why", "best"), 2, "goes with neither --why"),
        (("reset", "--candidates", "--offset", "1"), 2, "goes with neither --why nor --offset"),
        (("reset", "--quota", "faq"), 2, "no KIND=NUMBER"),
        (("reset", "--quota", "faq=-1"), 2, "no KIND=NUMBER"),
        (("reset", "--limit", "1001"), 3, "KBLIM"),
        (("reset", "--profile", "x"), 3, "KBPRF"),
        (("reset", "--cursor", "x"), 3, "KBCUR"),
        (("the",), 3, "stop words only"),
        (("-x reset",), 2, "kbsearch explain --org NAME -- '-word …'"),
    ],
)
def test_refusals(dsn: str, arguments: tuple[str, ...], code: int, says: str) -> None:
    assert says in flat(run(dsn, *arguments, code=code).replace("│", " "))


def test_both_legs_are_told_apart_without_colour(connection: psycopg.Connection[Any]) -> None:
    space = connection.execute(
        "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES ('s', 'letters', 3) RETURNING id"
    ).fetchone()
    assert space is not None
    row = connection.execute(
        "INSERT INTO kbsearch.organizations (name, active_space_id) VALUES ('o', %s) RETURNING id", [space[0]]
    ).fetchone()
    assert row is not None
    client = KBSearch(connection)
    client.upsert_article(row[0], external_ref="both", title="Reset", chunks=[Chunk("reset", embedding=[1, 1, 1])])
    client.upsert_article(row[0], external_ref="meaning", title="Other", chunks=[Chunk("other", embedding=[1, 1, 0])])
    client.upsert_article(row[0], external_ref="words", title="Reset", chunks=[Chunk("reset")])
    command = [
        "explain", "reset", "--dsn", str(connection.info.dsn),
        "--embedder", "tests.cli.letters:embed", "--model", "letters", "--dimensions", "3",
    ]  # fmt: skip
    shown = CliRunner().invoke(app, command, env={"COLUMNS": "80", "NO_COLOR": "1"}, catch_exceptions=False).stdout
    rows = {place: line for line in shown.splitlines() if (place := line[:6].strip()) in ("1", "2", "3")}
    assert re.search(r"█+░+", rows["1"])
    assert re.search(r"█ meaning 0\.500000  place 1, cosine 1\.000", shown)
    assert "░ words   nothing" in shown
    assert "█ meaning nothing" in shown
    assert "\x1b" not in shown


def test_bars() -> None:
    bars = Bars(Console(), 10, 1000)
    assert [bars.bar(*parts).plain for parts in ((500, 500), (1000, 0), (0, 1000), (1, 1), (0, 0), (250, 0))] == [
        "█████░░░░░", "██████████", "░░░░░░░░░░", "█░", "", "██",
    ]  # fmt: skip
    assert Bars(Console(), 10, 0).bar(0, 0).plain == ""


def test_control_characters_are_not_printed(connection: psycopg.Connection[Any]) -> None:
    evil = "\x1b[2J\x07\x9b31m"
    row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('o') RETURNING id").fetchone()
    assert row is not None
    KBSearch(connection).upsert_article(
        row[0], external_ref=f"ref{evil}", title=f"Title{evil}", body=f"password {evil}", kind=f"kind{evil}"
    )
    for options in ([], ["--candidates"], ["--why", f"ref{evil}"], ["--why", f"nobody{evil}"], ["--json"]):
        shown = CliRunner().invoke(app, ["explain", "password", "--dsn", str(connection.info.dsn), *options])
        assert shown.exit_code == (1 if "nobody" in str(options) else 0)
        assert not set("\x1b\x07\x9b") & set(shown.output)


def test_the_next_page_is_a_command_with_all_options_that_runs(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setenv("KBSEARCH_DSN", dsn)
    first = CliRunner().invoke(
        app, ["explain", "reset", "--org", ORG, "--quota", "faq=2", "--limit", "2"], catch_exceptions=False
    )
    assert "--cursor" not in first.stdout
    (line,) = [line for line in first.stderr.splitlines() if line.startswith("Next page: ")]
    command = shlex.split(line.removeprefix("Next page: "))
    assert command[:2] == ["kbsearch", "explain"]
    assert command[command.index("--quota") + 1] == "faq=2"
    second = CliRunner().invoke(app, [*command[1:], "--json"], catch_exceptions=False)
    assert [item["place"] for item in json.loads(second.stdout)["items"]] == [3]


def test_in_another_schema(empty_database: str, admin: Callable[[str], str]) -> None:
    role = sql.Identifier(str(conninfo_to_dict(empty_database)["user"]))
    with psycopg.connect(admin(empty_database), autocommit=True) as connection:
        connection.execute("DROP SCHEMA kbsearch")
        connection.execute(sql.SQL("CREATE SCHEMA help_search AUTHORIZATION {}").format(role))
    migrate.upgrade(empty_database, schema="help_search")
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("INSERT INTO help_search.organizations (name) VALUES ('o')")
    with KBSearch(empty_database, schema="help_search") as client:
        client.upsert_article(1, external_ref="a", title="Reset")
        assert [item.title for item in client.results(1, "reset", consistency="snapshot")] == ["Reset"]
        assert client.source(1, 1)[0].title == "Reset"
    for command in (["explain"], ["explain", "--why", "a"], ["explain", "--candidates"], ["pages"]):
        words = [*command, "reset", "--dsn", empty_database, "--schema", "help_search", "--json"]
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert "Reset" in result.stdout
