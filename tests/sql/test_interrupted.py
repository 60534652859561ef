"""Calls that end in their middle leave nothing behind; isolation, a read-only transaction and the client's encoding change no answer."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import psycopg
import pytest

from tests.index.derived import faults

Connection = psycopg.Connection[Any]
ROWS = "SELECT s::text FROM kbsearch.search_kb_hybrid_v1(%s, %s) AS s"
QUESTIONS = ("word", '"part one" -nothing', "café 日本語")


def articles(count: int, words: int) -> str:
    return json.dumps(
        [
            {
                "external_ref": f"r{number}",
                "kind": "article",
                "published": True,
                "metadata": {},
                "chunks": [
                    {"content": "word part one café 日本語 " + " ".join(f"w{number}x{n}" for n in range(words))}
                ],
            }
            for number in range(count)
        ]
    )


def load(connection: Connection, org_id: int, count: int, words: int) -> None:
    references = [f"r{number}" for number in range(count)]
    connection.execute("SELECT * FROM kbsearch.reserve_kb_articles_v1(%s, %s)", [org_id, references])
    connection.execute("SELECT kbsearch.write_kb_articles_v1(%s, %s::jsonb)", [org_id, articles(count, words)])


@pytest.fixture
def org_id(connection: Connection) -> int:
    row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('interrupted') RETURNING id").fetchone()
    assert row is not None
    made = int(row[0])
    load(connection, made, 20, 5)
    return made


def state(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute(
        "SELECT c.id, c.content FROM kbsearch.kb_article_chunks AS c ORDER BY c.org_id, c.id"
    ).fetchall()


def left_locks(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute(
        "SELECT l.pid, l.objid FROM pg_catalog.pg_locks AS l WHERE l.locktype = 'advisory' AND l.database = "
        "(SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())"
    ).fetchall()


@pytest.mark.parametrize("milliseconds", [1, 20, 100, 250])
def test_a_write_that_a_timeout_ends_leaves_nothing(connection: Connection, org_id: int, milliseconds: int) -> None:
    before = state(connection)
    connection.execute(f"SET statement_timeout = {milliseconds}".encode())
    with pytest.raises(psycopg.errors.QueryCanceled):
        load(connection, org_id, 2000, 60)
    connection.execute("RESET statement_timeout")
    assert state(connection) == before
    assert faults(connection) == []
    assert left_locks(connection) == []


def test_a_write_that_is_cancelled_leaves_nothing(connection: Connection, org_id: int, database: str) -> None:
    before = state(connection)
    caught: list[str | None] = []

    def write() -> None:
        with psycopg.connect(database, autocommit=True) as other:
            pids.append(other.info.backend_pid)
            try:
                load(other, org_id, 2000, 200)
            except psycopg.Error as error:
                caught.append(error.sqlstate)

    pids: list[int] = []
    thread = threading.Thread(target=write)
    thread.start()
    while thread.is_alive():
        if pids and left_locks(connection):
            connection.execute("SELECT pg_catalog.pg_cancel_backend(%s)", [pids[0]])
        time.sleep(0.01)
    thread.join()
    assert caught == ["57014"]
    # the reservation was committed before
    assert state(connection) == before
    assert faults(connection) == []
    assert left_locks(connection) == []


@pytest.mark.parametrize("access", ["READ WRITE", "READ ONLY"])
@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_isolation_and_read_only_change_no_answer(connection: Connection, org_id: int, level: str, access: str) -> None:
    right = [connection.execute(ROWS, [org_id, question]).fetchall() for question in QUESTIONS]
    assert all(right)
    with connection.transaction():
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}, {access}".encode())
        assert [connection.execute(ROWS, [org_id, question]).fetchall() for question in QUESTIONS] == right


def test_a_client_without_an_encoding_gets_the_same_bytes(connection: Connection, org_id: int) -> None:
    right = [connection.execute(ROWS, [org_id, question]).fetchall() for question in QUESTIONS]
    connection.execute("SET client_encoding = 'SQL_ASCII'")
    ask = b"SELECT s::text FROM kbsearch.search_kb_hybrid_v1(%d, convert_from('\\x%s', 'UTF8')) AS s"
    for question, rows in zip(QUESTIONS, right, strict=True):
        found = connection.execute(ask % (org_id, question.encode().hex().encode())).fetchall()
        assert [row.decode() if isinstance(row, bytes) else row for (row,) in found] == [row for (row,) in rows]


@pytest.mark.parametrize("function", ["explain_kb_search_v1", "search_kb_hybrid_v1", "open_kb_search_v1"])
def test_a_timeout_ends_the_slowest_questions_in_their_middle(
    connection: Connection, org_id: int, function: str
) -> None:
    """The longest question there may be, of words that all articles have, and as many rows as there may be."""
    load(connection, org_id, 300, 40)
    words = [f"w{number}x{n}" for number in range(300) for n in range(40)]
    question = " ".join(words)[:32768]
    limit = "" if function == "open_kb_search_v1" else ", p_limit => 1000"
    call = f"SELECT count(*) FROM kbsearch.{function}(%s, %s{limit})".encode()
    connection.execute("SET statement_timeout = 30")
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute(call, [org_id, question])
    connection.execute("RESET statement_timeout")
    assert left_locks(connection) == []
    assert connection.execute(call, [org_id, question]).fetchone() != (0,)
