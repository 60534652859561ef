"""Every limit of docs/limits.md: what is at it is taken, what is one over it is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.conftest import Session

Connection = psycopg.Connection[Any]


@pytest.fixture
def org_id(shared_session: Session) -> Iterator[tuple[Connection, int]]:
    with shared_session.lent() as connection:
        (made,) = connection.execute(
            "INSERT INTO kbsearch.organizations (name) VALUES ('limits') RETURNING id"
        ).fetchone() or (0,)
        connection.execute("SELECT kbsearch.upsert_kb_article_v1(%s, 'a', 'word', 'word')", [made])
        yield connection, made
        connection.execute("DELETE FROM kbsearch.organizations WHERE id = %s", [made])


def nested(depth: int) -> str:
    """An object of so many levels."""
    return '{"a": ' * depth + "1" + "}" * depth


def sized(size: int) -> str:
    """An object of so many bytes."""
    return json.dumps({"a": "x" * (size - len('{"a": ""}'))})


def quota(kinds: int) -> str:
    return json.dumps({f"k{number}": number for number in range(kinds)})


SEARCH = {
    "question": ("p_query_text => %s", lambda over: "word " + "x" * (32768 - 5 + over), "KBQRY"),
    "phrases": ("p_query_text => %s", lambda over: "word " + " ".join(f'"a w{n}"' for n in range(32 + over)), "KBQRY"),
    "page": ("p_query_text => 'word', p_limit => %s::bigint", lambda over: str(1000 + over), "KBLIM"),
    "kinds": (
        "p_query_text => 'word', p_kinds => %s::text[]",
        lambda over: [f"k{n}" for n in range(1000 + over)],
        "KBFLT",
    ),
    "quota": ("p_query_text => 'word', p_kind_quota => %s::jsonb", lambda over: quota(1000 + over), "KBFLT"),
    "quota of a kind": (
        "p_query_text => 'word', p_kind_quota => %s::jsonb",
        lambda over: json.dumps({"a": 999_999_999 + over}),
        "KBFLT",
    ),
    "filter's size": ("p_query_text => 'word', p_metadata => %s::jsonb", lambda over: sized(32768 + over), "KBFLT"),
    "filter's depth": ("p_query_text => 'word', p_metadata => %s::jsonb", lambda over: nested(64 + over), "KBFLT"),
}


@pytest.mark.parametrize("function", ["search_kb_hybrid_v1", "search_kb_hybrid_page_v1", "explain_kb_search_v1"])
@pytest.mark.parametrize(("arguments", "value", "sqlstate"), SEARCH.values(), ids=SEARCH)
def test_limits_of_a_search(
    org_id: tuple[Connection, int], function: str, arguments: str, value: Any, sqlstate: str
) -> None:
    connection, organization = org_id
    call = f"SELECT * FROM kbsearch.{function}({organization}, {arguments})".encode()
    connection.execute(call, [value(0)])
    with pytest.raises(psycopg.Error) as refused:
        connection.execute(call, [value(1)])
    assert refused.value.sqlstate == sqlstate
    assert any(name.startswith(("maximum", "given")) for name in json.loads(refused.value.diag.message_detail or "{}"))


def test_limits_of_a_page_by_its_cursors(connection: Connection) -> None:
    """Each cursor has the statistics of all words: as many rows as have 64 MiB of them, and pages of these sizes are the ranking."""
    (made,) = connection.execute(
        "INSERT INTO kbsearch.organizations (name) VALUES ('many') RETURNING id"
    ).fetchone() or (0,)
    connection.execute("SET kbsearch.search_budget_ms = 0")
    question = " ".join(f"{number:x}q" for number in range(4096, 4096 + 5461))
    for language in (None, "simple", "danish", "dutch", "finnish"):
        connection.execute(
            "SELECT kbsearch.upsert_kb_article_v1(%s, %s, 'word', %s, p_language => %s)",
            [made, str(language), question, language],
        )
    calls = {
        function: f"SELECT s.article_id, s.cursor FROM kbsearch.{function}({made}, %s, p_limit => %s, p_cursor => %s) AS s".encode()
        for function in ("search_kb_hybrid_v1", "explain_kb_search_v1")
    }
    for call in calls.values():
        with pytest.raises(psycopg.Error) as refused:
            connection.execute(call, [question, 1000, None])
        assert refused.value.sqlstate == "KBLIM"
        detail = json.loads(refused.value.diag.message_detail or "{}")
        with pytest.raises(psycopg.Error) as refused:
            connection.execute(call, [question, detail["maximum"] + 1, None])
        assert json.loads(refused.value.diag.message_detail or "{}") == {**detail, "given": detail["maximum"] + 1}
        ranking = connection.execute(call, [question, detail["maximum"], None]).fetchall()
        assert len(ranking) == 5
        assert 0.9 * 2**26 < detail["maximum"] * len(ranking[0][1]) <= 1.01 * 2**26
        assert connection.execute(call, [question, detail["maximum"], ranking[1][1]]).fetchall() == ranking[2:]
    connection.execute(b"SELECT kbsearch.open_kb_search_v1(%d, %%s)" % made, [question])


ARTICLE = {
    "metadata's size": ("p_metadata => %s::jsonb", lambda over: sized(262144 + over), "KBART"),
    "metadata's depth": ("p_metadata => %s::jsonb", lambda over: nested(64 + over), "KBART"),
    "reference": ("p_external_ref => %s", lambda over: "x" * (2000 + over), "KBART"),
    "title": ("p_title => %s", lambda over: "é" * 4095 + "x" * (2 + over), "KBART"),
    "chunk": ("p_body => %s", lambda over: "x" * (262144 + over), "KBCHK"),
    "words of a chunk": ("p_body => %s", lambda over: "w " * (16000 + over), "KBCHK"),
}


@pytest.mark.parametrize(("arguments", "value", "sqlstate"), ARTICLE.values(), ids=ARTICLE)
def test_limits_of_an_article(org_id: tuple[Connection, int], arguments: str, value: Any, sqlstate: str) -> None:
    connection, organization = org_id
    call = f"SELECT kbsearch.upsert_kb_article_v1({organization}, {arguments})".encode()
    connection.execute(call, [value(0)])
    with pytest.raises(psycopg.Error) as refused:
        connection.execute(call, [value(1)])
    assert refused.value.sqlstate == sqlstate


@pytest.mark.parametrize("value", [sized, nested], ids=["size", "depth"])
def test_limits_of_metadata_in_plain_sql_and_in_many_articles(org_id: tuple[Connection, int], value: Any) -> None:
    connection, organization = org_id
    most = 262144 if value is sized else 64
    update = "UPDATE kbsearch.kb_articles SET metadata = %s::jsonb WHERE org_id = %s"
    connection.execute(update, [value(most), organization])
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(update, [value(most + 1), organization])
    article = '[{{"external_ref": "a", "kind": "article", "published": true, "chunks": [], "metadata": {}}}]'
    write = "SELECT kbsearch.write_kb_articles_v1(%s, %s::jsonb)"
    connection.execute(write, [organization, article.format(value(most))])
    with pytest.raises(psycopg.Error, match="article 1: the metadata") as refused:
        connection.execute(write, [organization, article.format(value(most + 1))])
    assert refused.value.sqlstate == "KBART"


def test_limits_of_a_stored_ranking(org_id: tuple[Connection, int]) -> None:
    connection, organization = org_id
    call = "SELECT s.snapshot FROM kbsearch.open_kb_search_v1(%s, 'word', p_expires_in => %s::interval) AS s"
    connection.execute(call, [organization, "1 day"])
    for refused in ("1 day 1 microsecond", "0", "-1 second", "178000000 years", "infinity", None):
        with pytest.raises(psycopg.Error) as error:
            connection.execute(call, [organization, refused])
        assert error.value.sqlstate == "KBLIM", refused
    connection.execute("UPDATE kbsearch.organizations SET snapshot_limit = 3 WHERE id = %s", [organization])
    opened = [(connection.execute(call, [organization, "1 hour"]).fetchone() or (None,))[0] for _ in range(4)]
    kept = connection.execute(
        "SELECT s.id FROM kbsearch.kb_search_snapshots AS s WHERE s.org_id = %s", [organization]
    ).fetchall()
    assert {one for (one,) in kept} == set(opened[1:])


def test_limits_of_dimensions(connection: Connection) -> None:
    insert = "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES (%s, 'm', %s)"
    for dimensions in (1, 2000):
        connection.execute(insert, [str(dimensions), dimensions])
    for dimensions in (0, 2001):
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(insert, [str(dimensions), dimensions])


BROKEN = {
    "is no object": "1",
    "title has 8193 bytes": '{"external_ref": "a", "kind": "a", "title": "'
    + "x" * 8193
    + '", "published": true, "chunks": [], "metadata": {}}',
    "has no external_ref": '{"kind": "a", "published": true, "chunks": [], "metadata": {}}',
    "kind is empty": '{"external_ref": "a", "kind": "*", "published": true, "chunks": [], "metadata": {}}',
    "published is not": '{"external_ref": "a", "kind": "a", "published": "yes", "chunks": [], "metadata": {}}',
    "chunks are no array": '{"external_ref": "a", "kind": "a", "published": true, "chunks": {}, "metadata": {}}',
    "metadata are no object": '{"external_ref": "a", "kind": "a", "published": true, "chunks": [], "metadata": []}',
    "chunk 1: has no content": '{"external_ref": "a", "kind": "a", "published": true, "chunks": [{}], "metadata": {}}',
    "chunk 1: is no object": '{"external_ref": "a", "kind": "a", "published": true, "chunks": [[]], "metadata": {}}',
    "not 64 hexadecimal": '{"external_ref": "a", "kind": "a", "published": true, "metadata": {},'
    ' "chunks": [{"content": "x", "input_sha256": "zz"}]}',
}


@pytest.mark.parametrize(("said", "article"), BROKEN.items(), ids=BROKEN)
def test_one_article_of_many_is_named_by_what_is_wrong_with_it(
    org_id: tuple[Connection, int], said: str, article: str
) -> None:
    connection, organization = org_id
    sound = '{"external_ref": "b", "kind": "a", "published": true, "chunks": [], "metadata": {}}'
    with pytest.raises(psycopg.Error, match=f"article 2.*{said}") as refused:
        connection.execute("SELECT kbsearch.write_kb_articles_v1(%s, %s)", [organization, f"[{sound}, {article}]"])
    assert refused.value.sqlstate == "KBART"
    with pytest.raises(psycopg.Error, match="'b' is given twice"):
        connection.execute("SELECT kbsearch.write_kb_articles_v1(%s, %s)", [organization, f"[{sound}, {sound}]"])


def test_an_error_does_not_repeat_all_of_a_quota(org_id: tuple[Connection, int]) -> None:
    """What it repeats is small enough for whoever reads it: a JSON reader of Python fails at a thousand levels."""
    connection, made = org_id
    for given in ("[" * 3000 + "]" * 3000, json.dumps("x" * 100_000)):
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(
                "SELECT * FROM kbsearch.search_kb_hybrid_v1(%s, 'word', p_kind_quota => %s::jsonb)", [made, given]
            )
        assert caught.value.sqlstate == "KBFLT"
        assert json.loads(caught.value.diag.message_detail or "")["given"] == given[:200]
