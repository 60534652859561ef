"""On a streaming standby every reading function says what it says on the primary, byte for byte, and every writing one is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.faults.replica import Pair, replicated
from tools.docs_sql import Function, read_functions

Connection = psycopg.Connection[Any]
QUESTIONS = ("alpha policy", '"alpha beta" -gamma', "日本語 café C++", "running Häuser P-8A")
ROUNDS = 4
"""Calls of each function, with other samples of its arguments."""
READ_ONLY = "25006"
FRESH = ("define_kb_ann_index_v1",)
"""Says something else each time: every build of an index has a name of its own."""


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with replicated() as made:
        yield made


@pytest.fixture
def both(pair: Pair) -> Iterator[tuple[Connection, Connection]]:
    with (
        psycopg.connect(pair.primary, autocommit=True) as primary,
        psycopg.connect(pair.standby, autocommit=True) as standby,
    ):
        yield primary, standby


def said(connection: Connection, statement: str | sql.Composed, parameters: Any = ()) -> Any:
    """Rows, or all of the error but where it came from."""
    try:
        return connection.execute(
            statement if isinstance(statement, sql.Composed) else statement.encode(), parameters
        ).fetchall()
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary, error.diag.message_detail, error.diag.message_hint


def sound(function: Function, pair: Pair, turn: int) -> tuple[sql.Composed, list[Any]]:
    """A call with the samples of each argument that the turn comes to."""
    named: list[sql.Composed] = []
    given: list[Any] = []
    for argument in function.arguments:
        samples = pair.world.samples.get(f"{function.name}.{argument.name}") or pair.world.samples.get(argument.name)
        if argument.default is not None and (not samples or (len(given) + turn) % 2):
            continue
        kind = "ext.vector" if argument.type == "vector" else argument.type
        named.append(sql.SQL("{} => %s::{}").format(sql.Identifier(argument.name), sql.SQL(kind)))
        given.append(samples[turn % len(samples)] if samples else None)
    call = sql.SQL("SELECT to_json(s)::text FROM kbsearch.{}({}) AS s")
    return call.format(sql.Identifier(function.name), sql.SQL(", ").join(named)), given


def test_what_reads_says_the_same_and_what_writes_is_refused(pair: Pair, both: tuple[Connection, Connection]) -> None:
    primary, standby = both
    answered, refused = 0, set[str]()
    for function in read_functions(primary):
        if not function.public or not function.arguments or function.name in FRESH:
            continue
        for turn in range(ROUNDS):
            statement, given = sound(function, pair, turn)
            here = said(standby, statement, given)
            if function.volatility == "VOLATILE" and isinstance(here, list):
                # there was nothing to write
                with primary.transaction(force_rollback=True):
                    assert here == said(primary, statement, given), function.name
            elif function.volatility == "VOLATILE":
                # refused for what was asked, or for where
                assert here[0] == READ_ONLY or (here[0].startswith("KB") and here[2] and here[3]), (function.name, here)
                refused.add(function.name if here[0] in (READ_ONLY, "KBSNP") else "")
            else:
                assert here == said(primary, statement, given), function.name
                answered += isinstance(here, list)
    assert answered > 2 * ROUNDS
    assert {"upsert_kb_article_v1", "open_kb_search_v1", "rebuild_kb_index_v1"} <= refused


def test_pages_go_on_at_the_other_server(pair: Pair, both: tuple[Connection, Connection]) -> None:
    """A cursor that one of both made is good at the other; a stored ranking is read there too."""
    ask = "SELECT kbsearch.search_kb_hybrid_page_v1(%s, %s, '[0.5,-2,1e-3]', p_limit => 3, p_cursor => %s)::text"
    for question in QUESTIONS:
        cursor, pages = None, 0
        while True:
            here, there = (said(one, ask, [pair.world.org_id, question, cursor]) for one in both)
            assert here == there
            page = json.loads(here[0][0])
            pages += 1
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert pages > 1 or question.startswith('"')
    (snapshot,) = both[0].execute(
        "SELECT s.snapshot FROM kbsearch.open_kb_search_v1(%s, 'alpha policy') AS s", [pair.world.org_id]
    ).fetchone() or (None,)
    pair.catch_up()
    stored = "SELECT kbsearch.fetch_kb_page_v1(%s, %s)::text"
    here, there = (said(one, stored, [pair.world.org_id, snapshot]) for one in both)
    assert here == there
    assert isinstance(here, list)


def test_approximate_searches_read_the_same_index(pair: Pair, both: tuple[Connection, Connection]) -> None:
    primary, standby = both
    given = [pair.world.org_id]
    primary.execute("SELECT kbsearch.create_kb_ann_index_v1(%s)", given)
    primary.execute("UPDATE kbsearch.organizations SET retrieval = 'ann', ann_window = 5 WHERE id = %s", given)
    try:
        pair.catch_up()
        for question in QUESTIONS:
            for statement in (
                "SELECT kbsearch.search_kb_hybrid_page_v1(%s, %s, '[0.5,-2,1e-3]')::text",
                "SELECT s::text FROM kbsearch.explain_kb_search_v1(%s, %s, '[0.5,-2,1e-3]') AS s",
                "SELECT s::text FROM kbsearch.measure_kb_recall_v1(%s, %s, '[0.5,-2,1e-3]') AS s",
            ):
                here = said(standby, statement, [*given, question])
                assert here == said(primary, statement, [*given, question])
                assert isinstance(here, list)
        page = json.loads(
            said(standby, "SELECT kbsearch.search_kb_hybrid_page_v1(%s, 'alpha', '[1,0,1]')::text", given)[0][0]
        )
        assert page["retrieval"]["mode"] == "ann"
    finally:
        primary.execute("UPDATE kbsearch.organizations SET retrieval = 'exact' WHERE id = %s", given)


def test_a_ranking_cannot_be_stored_there_and_the_error_says_why(
    pair: Pair, both: tuple[Connection, Connection]
) -> None:
    told = said(both[1], "SELECT s::text FROM kbsearch.open_kb_search_v1(%s, 'alpha') AS s", [pair.world.org_id])
    assert told[0] == "KBSNP"
    assert json.loads(told[2])["is_replica"] is True


def test_what_is_written_comes_to_the_standby(pair: Pair, both: tuple[Connection, Connection]) -> None:
    primary, standby = both
    ask = "SELECT s.external_ref FROM kbsearch.search_kb_hybrid_v1(%s, 'zanzibar') AS s"
    assert said(standby, ask, [pair.world.org_id]) == []
    primary.execute("SELECT kbsearch.upsert_kb_article_v1(%s, 'late', 'Zanzibar', 'zanzibar')", [pair.world.org_id])
    pair.catch_up()
    assert said(standby, ask, [pair.world.org_id]) == [("late",)]
