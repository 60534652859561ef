"""Blocks are made beside writers: what is committed before, between and after their steps is in them or noted as changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.index.derived import faults
from tests.index.operations import reset

Connection = psycopg.Connection[Any]
EDIT = "UPDATE kbsearch.kb_article_chunks SET content = 'bee ' || content"
"""So many rows that the writer does not merge, which would keep compact waiting."""


@pytest.fixture
def two(database: str) -> Iterator[tuple[Connection, Connection]]:
    """Two connections to an organisation of 300 chunks, without blocks."""
    with (
        psycopg.connect(database, autocommit=True) as one,
        psycopg.connect(database, autocommit=True) as other,
    ):
        reset(one)
        one.execute("INSERT INTO kbsearch.kb_articles (org_id, title, published) VALUES (1, 'ant', true)")
        one.execute(
            "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content) SELECT 1, 1, 'ants and cats' FROM generate_series(1, 300)"
        )
        yield one, other


def compact(connection: Connection) -> None:
    connection.execute("SELECT kbsearch.compact_kb_postings_v1(1)")


def count(connection: Connection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM kbsearch.{table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def test_compact_makes_them_and_notes_go(two: tuple[Connection, Connection]) -> None:
    one, _ = two
    compact(one)
    assert count(one, "kb_keyword_blocks") == 1
    assert count(one, "kb_keyword_changes") == 0
    one.execute(EDIT.encode())
    assert count(one, "kb_keyword_changes") > 0
    assert faults(one) == []
    compact(one)
    assert count(one, "kb_keyword_changes") == 0
    assert faults(one) == []
    built = one.execute("SELECT xmin::text FROM kbsearch.kb_keyword_impacts LIMIT 1").fetchall()
    compact(one)
    assert one.execute("SELECT xmin::text FROM kbsearch.kb_keyword_impacts LIMIT 1").fetchall() == built, "for nothing"


def test_the_first_are_not_made_beside_a_write(two: tuple[Connection, Connection]) -> None:
    """The writer looked for blocks when there were none, so it noted nothing."""
    one, other = two
    with other.transaction():
        other.execute(EDIT.encode())
        compact(one)
        assert count(one, "kb_keyword_blocks") == 0
    compact(one)
    assert count(one, "kb_keyword_blocks") == 1
    assert faults(one) == []


def test_an_older_snapshot_notes_what_it_writes(two: tuple[Connection, Connection]) -> None:
    one, other = two
    with other.transaction():
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert count(other, "kb_keyword_blocks") == 0
        compact(one)
        assert count(other, "kb_keyword_blocks") == 0
        other.execute(EDIT.encode())
    assert count(one, "kb_keyword_changes") > 0
    assert faults(one) == []


@pytest.mark.parametrize("moment", ["before the merges", "before the blocks", "after the blocks", "open all the while"])
def test_a_write_beside_later_ones_stays_noted(two: tuple[Connection, Connection], moment: str) -> None:
    one, other = two
    compact(one)
    one.execute("UPDATE kbsearch.kb_article_chunks SET content = 'cat' WHERE id = 2")

    def write(now: str) -> None:
        if now == moment:
            other.execute(EDIT.encode())

    if moment == "open all the while":
        other.execute("BEGIN")
        write(moment)
    with one.transaction():
        one.execute("SELECT pg_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(1, 'maintenance'))")
        row = one.execute("SELECT kbsearch.begin_kb_keyword_blocks_v1(1, 1)").fetchone()
        assert row is not None
        assert len(row[0]) == 1
        write("before the merges")
        one.execute(
            "SELECT kbsearch.merge_kb_entries_v1(1, ARRAY(SELECT DISTINCT lexeme FROM kbsearch.kb_postings WHERE org_id = 1), '{}', '{}', '{}', 0, 0)"
        )
        write("before the blocks")
        try:
            one.execute("SELECT kbsearch.build_kb_keyword_blocks_v1(1, %s)", [row[0]])
        except psycopg.errors.DataException as error:
            raise AssertionError("a chunk has two impacts") from error
        write("after the blocks")
    if moment == "open all the while":
        other.execute("COMMIT")
    assert count(one, "kb_keyword_changes") == 2, "of the old rows and of the new ones"
    assert faults(one) == []
    compact(one)
    assert count(one, "kb_keyword_changes") == 0
    assert faults(one) == []


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_fixed_snapshot_makes_none(two: tuple[Connection, Connection], isolation: str) -> None:
    one, other = two
    with one.transaction():
        one.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}".encode())
        count(one, "kb_keyword_blocks")
        other.execute(EDIT.encode())
        one.execute("SELECT kbsearch.begin_kb_keyword_blocks_v1(1, 1)")
        compact(one)
    assert count(one, "kb_keyword_blocks") == 0
    assert faults(one) == []


def test_small_organisations_have_none(two: tuple[Connection, Connection]) -> None:
    one, _ = two
    compact(one)
    for least, left in ((600, 1), (602, 0)):  # they stay until half of them is gone
        one.execute("SELECT kbsearch.begin_kb_keyword_blocks_v1(1, %s)", [least])
        assert count(one, "kb_keyword_blocks") == left
        assert (count(one, "kb_keyword_impacts") > 0) == bool(left)
    assert faults(one) == []


@pytest.mark.parametrize("change", ["reference_length = 7", "language = 'simple'"])
def test_they_follow_the_organisation(two: tuple[Connection, Connection], change: str) -> None:
    one, _ = two
    compact(one)
    one.execute(f"UPDATE kbsearch.organizations SET {change} WHERE id = 1".encode())
    assert count(one, "kb_keyword_blocks") == 1
    assert faults(one) == []


def test_they_go_with_the_organisation(two: tuple[Connection, Connection]) -> None:
    one, _ = two
    compact(one)
    one.execute(EDIT.encode())
    one.execute("DELETE FROM kbsearch.organizations WHERE id = 1")
    assert [count(one, f"kb_keyword_{name}") for name in ("blocks", "impacts", "changes")] == [0, 0, 0]
