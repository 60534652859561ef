from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from kbsearch import KBSearch, walks
from kbsearch.cli import app
from kbsearch.cli import pages as module
from kbsearch.models import Page
from kbsearch.walks import Question, by_cursor

ORG = "paged store"
COUNT = 23


@pytest.fixture(scope="module")
def dsn(shared_database: str) -> str:
    """Twenty-three articles of three scores."""
    with psycopg.connect(shared_database, autocommit=True) as connection:
        row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES (%s) RETURNING id", [ORG]).fetchone()
        assert row is not None
        client = KBSearch(connection)
        for number in range(COUNT):
            client.upsert_article(
                row[0],
                external_ref=f"{number}",
                title=f"Note [{number}]",
                body=f"reset {'your password ' * (number % 3)}",
                kind=("faq", "policy")[number % 2],
            )
    return shared_database


def run(dsn: str, *arguments: str, code: int = 0, columns: int = 80) -> str:
    result = CliRunner().invoke(
        app, ["pages", "--dsn", dsn, "--org", ORG, *arguments], catch_exceptions=False, env={"COLUMNS": str(columns)}
    )
    assert result.exit_code == code, result.output
    return result.stdout if code in (0, 1) else result.output


def flat(text: str) -> str:
    return " ".join(text.split())


def stored(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT count(*) FROM kbsearch.kb_search_snapshots AS s INNER JOIN kbsearch.organizations AS o ON o.id = s.org_id "
            "WHERE o.name = %s",
            [ORG],
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("columns", [80, 120])
def test_the_three_ways_are_shown_side_by_side(dsn: str, columns: int) -> None:
    text = run(dsn, "reset password", "--size", "4", columns=columns)
    lines = text.splitlines()
    assert all(len(line) <= columns for line in lines)
    assert re.search(r"page +by offset +by cursor +by snapshot", text)
    (first,) = [line for line in lines if re.match(r" +1 ", line)]
    assert len(re.findall(r" 1= Note \[\d+\]", first)) == 3
    assert lines[-1] == f"{COUNT} articles in 6 pages, three ways, nothing twice, nothing missing"
    assert "= equal score; the article's id decides the place" in text
    assert "WRONG" not in text
    assert stored(dsn) == 0


def test_long_walks_and_long_pages_are_shortened(dsn: str) -> None:
    text = run(dsn, "reset password", "--size", "1")
    assert "16 more, all right" in text
    assert [int(number) for number in re.findall(r"^ {1,4}(\d+)   ", text, re.MULTILINE)] == [1, 2, 3, 4, 5, 22, 23]
    text = run(dsn, "reset password", "--size", "20")
    assert text.count("15 more") == 3
    assert re.search(r" 20= Note", text)


@pytest.mark.parametrize("size", [1, 3, 5, 23, 100])
def test_json_has_all_pages(dsn: str, size: int) -> None:
    answer = json.loads(run(dsn, "reset password", "--size", str(size), "--json"))
    assert (answer["size"], answer["total"], answer["checked"], answer["holds"]) == (size, COUNT, COUNT, True)
    assert list(answer["ways"]) == ["offset", "cursor", "snapshot"]
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT id FROM kbsearch.organizations WHERE name = %s", [ORG]).fetchone()
        assert row is not None
        ranking = [item.article_id for item in KBSearch(connection).results(row[0], "reset password")]
    for way in answer["ways"].values():
        assert way["faults"] == []
        assert [item["article_id"] for page in way["pages"] for item in page] == ranking
        assert [len(page) for page in way["pages"][:-1]] == [size] * (len(way["pages"]) - 1)


def test_as_many_are_checked_as_are_asked_for(dsn: str) -> None:
    text = run(dsn, "reset password", "--size", "4", "--first", "10")
    assert text.splitlines()[-1] == (
        f"the first 10 of {COUNT} articles in 3 pages, three ways, nothing twice, nothing missing"
    )
    answer = json.loads(run(dsn, "reset password", "--size", "4", "--first", "8", "--json"))
    assert (answer["total"], answer["checked"], answer["holds"]) == (COUNT, 8, True)
    assert {tuple(len(page) for page in way["pages"]) for way in answer["ways"].values()} == {(4, 4)}


def test_filters_and_quotas_are_those_of_a_search(dsn: str) -> None:
    answer = json.loads(run(dsn, "reset password", "--size", "2", "--quota", "faq=3", "--quota", "*=2", "--json"))
    assert answer["total"] == 5
    assert json.loads(run(dsn, "reset password", "--kind", "policy", "--json"))["total"] == 11


def test_nothing_found_is_1_with_the_reason(dsn: str) -> None:
    text = run(dsn, "zebra", code=1)
    assert "Nothing found." in text
    assert "no article has a word of the question" in text
    assert json.loads(run(dsn, "zebra", "--json", code=1))["holds"]


def test_a_server_that_may_not_write_is_walked_in_two_ways(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=on")
    text = flat(run(dsn, "reset password", "--size", "4"))
    assert "No pages by snapshot: a snapshot cannot be stored in a read-only transaction (KBSNP)" in text
    assert text.endswith(f"{COUNT} articles in 6 pages, two ways, nothing twice, nothing missing")
    answer = json.loads(run(dsn, "reset password", "--json"))
    assert answer["ways"]["snapshot"]["pages"] == []
    assert "KBSNP" in answer["ways"]["snapshot"]["refused"]


def test_what_others_write_meanwhile_is_no_fault(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def disturbed(asks: Question, size: int) -> Iterator[Page]:
        for page in by_cursor(asks, size):
            yield page
            with KBSearch(dsn) as other:
                written = other.upsert_article(
                    asks.org_id, external_ref="new", title="reset password", body="reset password"
                )
                assert other.search(asks.org_id, "reset password").items[0].article_id == written
                other.delete_article(asks.org_id, external_ref="new")

    monkeypatch.setattr(module, "WAYS", {"cursor": disturbed, "offset": walks.by_offset})
    assert "two ways, nothing twice" in run(dsn, "reset password", "--size", "9")


def repeating(asks: Question, size: int) -> Iterator[Page]:
    """The second page begins with the last article of the first."""
    before: Page | None = None
    for page in by_cursor(asks, size):
        yield page if before is None else replace(page, items=(before.items[-1], *page.items[1:]))
        before = page


def losing(asks: Question, size: int) -> Iterator[Page]:
    """The last page is not there."""
    pages = list(by_cursor(asks, size))
    yield from pages[:-1]


def short(asks: Question, size: int) -> Iterator[Page]:
    """A page has an article less, and the last one more."""
    pages = list(by_cursor(asks, size))
    items = list(itertools.chain.from_iterable(page.items for page in pages))
    for number, page in enumerate(pages):
        begin = number * size - (number > 1)
        end = None if number == len(pages) - 1 else (number + 1) * size - (number > 0)
        yield replace(page, items=tuple(items[begin:end]))


def endless(asks: Question, size: int) -> Iterator[Page]:
    """It begins again at the end."""
    while True:
        yield from by_cursor(asks, size)


@pytest.mark.parametrize(
    ("way", "says"),
    [
        (repeating, "is there twice"),
        (losing, "is missing"),
        (short, "page 2 has 4 articles instead of 5"),
        (endless, "is there twice"),
    ],
)
def test_pages_that_are_not_the_ranking_are_1_and_shown(
    dsn: str, monkeypatch: pytest.MonkeyPatch, way: Any, says: str
) -> None:
    monkeypatch.setattr(module, "WAYS", {"offset": walks.by_offset, "cursor": way})
    text = run(dsn, "reset password", "--size", "5", code=1)
    assert says in text
    assert text.splitlines()[-1] == "WRONG: the pages by cursor are not the ranking."
    assert text.count("WRONG") >= 2
    assert "nothing missing" not in text
    assert "by offset: " not in text
    answer = json.loads(run(dsn, "reset password", "--size", "5", "--json", code=1))
    assert not answer["holds"]
    assert any(says in fault for fault in answer["ways"]["cursor"]["faults"])
    assert answer["ways"]["offset"]["faults"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("reset", "--size", "0"), 2, "--size"),
        (("reset", "--first", "1001"), 2, "--first"),
        (("reset", "--profile", "x"), 3, "KBPRF"),
        (("the",), 3, "stop words only"),
        (("-x reset",), 2, "kbsearch pages --org NAME -- '-word …'"),
    ],
)
def test_refusals(dsn: str, arguments: tuple[str, ...], code: int, says: str) -> None:
    assert says in flat(run(dsn, *arguments, code=code).replace("│", " "))


def test_an_embedder_embeds_the_question_once(
    connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.append(list(texts))
        return [[1.0, 1.0, 1.0] for _ in texts]

    monkeypatch.setattr("tests.cli.letters.embed", embed)
    space = connection.execute(
        "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES ('s', 'letters', 3) RETURNING id"
    ).fetchone()
    assert space is not None
    row = connection.execute(
        "INSERT INTO kbsearch.organizations (name, active_space_id) VALUES ('o', %s) RETURNING id", [space[0]]
    ).fetchone()
    assert row is not None
    for number in range(6):
        KBSearch(connection).upsert_article(row[0], external_ref=str(number), title="Reset")
    command = [
        "pages", "reset", "--size", "1", "--dsn", str(connection.info.dsn),
        "--embedder", "tests.cli.letters:embed", "--model", "letters", "--dimensions", "3",
    ]  # fmt: skip
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert asked == [["reset"]]
