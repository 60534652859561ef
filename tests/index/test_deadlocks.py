"""Changing all chunks of an organisation gives way to plain statements that have its rows already: no deadlock, and the index is right afterwards."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from tests.index.derived import faults
from tests.index.sessions import sessions

Connection = psycopg.Connection[Any]

LANGUAGE = "UPDATE kbsearch.organizations SET language = 'german' WHERE id = {org}"
AGAIN = "SELECT kbsearch.reanalyze_kb_chunks_v1({org})"
PLAIN = {
    "titles": ["UPDATE kbsearch.kb_articles SET title = 'running houses' WHERE org_id = {org}"],
    "a title, then another": [
        "UPDATE kbsearch.kb_articles SET title = 'one' WHERE org_id = {org} AND external_ref = 'r1'",
        "UPDATE kbsearch.kb_articles SET title = 'two' WHERE org_id = {org} AND external_ref = 'r2'",
    ],
    "a row that is read before it is changed": [
        "SELECT FROM kbsearch.kb_articles WHERE org_id = {org} AND external_ref = 'r1' FOR UPDATE",
        "UPDATE kbsearch.kb_articles SET title = 'one' WHERE org_id = {org} AND external_ref = 'r1'",
    ],
    "a passage that is read before it is changed": [
        "SELECT FROM kbsearch.kb_article_chunks WHERE org_id = {org} FOR UPDATE",
        "UPDATE kbsearch.kb_article_chunks SET content = 'one' WHERE org_id = {org}",
    ],
    "texts": ["UPDATE kbsearch.kb_article_chunks SET content = content || ' more' WHERE org_id = {org}"],
    "articles away": ["DELETE FROM kbsearch.kb_articles WHERE org_id = {org} AND external_ref IN ('r1', 'r2')"],
}


@pytest.fixture
def org_id(connection: Connection) -> int:
    row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('locked') RETURNING id").fetchone()
    assert row is not None
    for number in range(4):
        connection.execute(
            "SELECT kbsearch.upsert_kb_article_v1(%s, %s, 'a title', 'running houses')", [row[0], f"r{number}"]
        )
    return int(row[0])


@pytest.mark.parametrize("plain", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("turns", ["plain first", "language first", "between"])
@pytest.mark.parametrize("change", [LANGUAGE, AGAIN], ids=["another language", "analysed again"])
def test_stepped(
    connection: Connection, database: str, org_id: int, plain: Sequence[str], turns: str, change: str
) -> None:
    """A statement of one transaction waits for the other, and none of both fails."""
    own = ["BEGIN", *plain, "COMMIT"]
    other = ["BEGIN", change, "COMMIT"]
    order = {
        "plain first": [(0, one) for one in own[:-1]] + [(1, one) for one in other] + [(0, own[-1])],
        "language first": [(1, one) for one in other[:-1]] + [(0, one) for one in own] + [(1, other[-1])],
        "between": [(0, own[0]), (0, own[1]), (1, other[0]), (1, other[1])]
        + [(0, one) for one in own[2:]]
        + [(1, other[2])],
    }[turns]
    with sessions(database, connection, 2) as both:
        for number, statement in order:
            both[number].do(statement.format(org=org_id))
        for session in both:
            session.wait()
        assert [session.failure for session in both] == [None, None]
    assert faults(connection) == []
    assert connection.execute(
        "SELECT DISTINCT c.language::text FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %s", [org_id]
    ).fetchall() == [("german" if change == LANGUAGE else "english",)]


def test_calibrating_beside_an_organisations_first_vectors(connection: Connection, database: str, org_id: int) -> None:
    """Both change the organisation's row, and the writer of vectors while it is among those that calibrating waits for."""
    connection.execute("INSERT INTO kbsearch.kb_embedding_spaces (id, name, model, dimensions) VALUES (7, 's', 'm', 2)")
    write = "SELECT kbsearch.upsert_kb_article_v1({org}, 'r9', 'a title', NULL, 'article', '[{chunk}]'::jsonb, p_space_id => 7)"
    texts, vectors = (
        write.replace("{chunk}", chunk)
        for chunk in ('{{"content": "one"}}', '{{"content": "one", "embedding": [1, 0]}}')
    )
    with sessions(database, connection, 2) as both:
        for number, statement in [
            (0, "BEGIN"),
            (0, texts),
            (1, "SELECT kbsearch.calibrate_kb_corpus_v1({org})"),
            (0, vectors),
            (0, "COMMIT"),
        ]:
            both[number].do(statement.format(org=org_id))
        for session in both:
            session.wait()
        assert [session.failure for session in both] == [None, None]
    assert faults(connection) == []
    assert connection.execute(
        "SELECT o.active_space_id, o.reference_length <> 100 FROM kbsearch.organizations AS o WHERE o.id = %s", [org_id]
    ).fetchall() == [(7, True)]


def test_at_once(connection: Connection, database: str, org_id: int) -> None:
    """Titles and texts rewritten beside a language that goes to and fro: the triggers of both meet wherever they do."""
    for number in range(4, 40):
        connection.execute(
            "SELECT kbsearch.upsert_kb_article_v1(%s, %s, 'a title', 'running houses')", [org_id, f"r{number}"]
        )
    statements = {
        "titles": "UPDATE kbsearch.kb_articles SET title = title || 's' WHERE org_id = {org}",
        "texts": "UPDATE kbsearch.kb_article_chunks SET content = content || ' s' WHERE org_id = {org} AND article_id % 2 = 1",
        "language": (
            "UPDATE kbsearch.organizations SET language = CASE WHEN language = 'german'::regconfig THEN 'english' ELSE 'german' END::regconfig "
            "WHERE id = {org}"
        ),
    }
    failed: list[str] = []

    def work(names: Sequence[str]) -> None:
        with psycopg.connect(database, autocommit=True) as own:
            for turn in range(20):
                try:
                    own.execute(statements[names[turn % len(names)]].format(org=org_id).encode())
                except psycopg.Error as error:
                    failed.append(f"{names[turn % len(names)]} {error}")

    threads = [threading.Thread(target=work, args=(names,)) for names in (["titles"], ["language"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work(["texts", "language"])
    assert failed == []
    assert faults(connection) == []
