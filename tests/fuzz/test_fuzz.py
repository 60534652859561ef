"""Every public function answers under the laws or raises a documented SQLSTATE, whatever it is given: a share of what `make fuzz` does."""

from __future__ import annotations

import os
from collections.abc import Callable

import psycopg
import pytest

from tests.fuzz import judge, run
from tests.fuzz.judge import FaultError, Fuzzer
from tests.fuzz.values import Call, Cursor
from tools.docs_sql import read_functions

CALLS = 400 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 12
"""Of every function, over SQL."""


def test_every_public_function_answers_or_raises_what_is_documented(
    fuzzer: Fuzzer, record_property: Callable[[str, object], None]
) -> None:
    functions = list(fuzzer.functions.values())
    for number, function in enumerate(functions):
        run.over_sql(fuzzer, [function], number, CALLS)
    run.over_http(fuzzer, run.readers(functions), 1, 10 * CALLS)
    record_property("finding", str(fuzzer.tally))
    assert set(fuzzer.tally.functions) == set(fuzzer.functions)
    assert fuzzer.tally.outcomes["answered"] >= 0.3 * fuzzer.tally.calls
    assert fuzzer.tally.outcomes["KBCUR"] > 0
    assert fuzzer.tally.outcomes["KBTMO"] > 0
    assert fuzzer.tally.outcomes["57014"] > 0


def test_a_cursor_edited_in_any_byte_is_refused(fuzzer: Fuzzer) -> None:
    request = {"p_org_id": str(fuzzer.world.org_id), "p_query_text": "alpha policy", "p_query_embedding": "[1,0,1]"}
    for place in range(0, 400, 7):
        for letter in ("A", "~", ""):
            before = fuzzer.tally.outcomes["answered"]
            fuzzer.call(Call("search_kb_hybrid_v1", {**request, "p_cursor": Cursor(place, letter)}))
            if fuzzer.tally.outcomes["answered"] > before:  # only where that letter stood there already
                assert letter


def test_no_function_hides_errors(shared_database: str) -> None:
    with psycopg.connect(shared_database) as connection:
        hiding = connection.execute(
            r"SELECT p.proname FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = 'kbsearch'::regnamespace AND p.prosrc ~* '\mwhen\s+others\M'"
        ).fetchall()
        handlers = connection.execute(
            r"SELECT p.proname FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = 'kbsearch'::regnamespace AND p.prosrc ~* '\mexception\s+when\M'"
        ).fetchall()
    assert hiding == []
    # Two ask for a lock as long as a table is in use, one gives locks back by an exception of its own.
    assert sorted(handlers) == [
        ("disable_kb_row_security_v1",),
        ("kb_chunks_truncated_v1",),
        ("take_kb_corpus_v1",),
    ]


PLANTED = {
    "an internal error": "RAISE EXCEPTION 'x' USING ERRCODE = 'XX000'",
    "a division by zero": "RETURN (1 / (p_org_id - p_org_id))::text",
    "a code that the COMMENT has not": "RAISE EXCEPTION 'x' USING ERRCODE = 'KBORG', DETAIL = '{}', HINT = 'x'",
    "a code that nobody knows": "RAISE EXCEPTION 'x' USING ERRCODE = 'KBXXX', DETAIL = '{}', HINT = 'x'",
    "no hint": "RAISE EXCEPTION 'x' USING ERRCODE = 'KBLIM', DETAIL = '{}'",
    "a cast of its own": "RETURN ('x' || p_org_id)::bigint::text",
    "another answer each time": "RETURN random()::text",
    "too slow": "PERFORM pg_sleep(9); RETURN 'x'",
    "over the budget": "PERFORM count(*) FROM generate_series(1, 4000000); RETURN 'x'",
    "the end of the connection": "PERFORM pg_terminate_backend(pg_backend_pid()); RETURN 'x'",
}


@pytest.mark.parametrize("body", PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_found(fuzzer: Fuzzer, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "pg_sleep" in body:
        fuzzer.connection.execute("SET statement_timeout = 100")
    if "generate_series" in body:
        monkeypatch.setattr(judge, "BUDGET", 0.02)
    with psycopg.connect(fuzzer.dsn, autocommit=True) as connection:
        connection.execute(
            f"""CREATE FUNCTION kbsearch.planted_v1(p_org_id bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$BEGIN {body}; END$$;
            COMMENT ON FUNCTION kbsearch.planted_v1 IS 'x\n\nArguments:\np_org_id: x\n\nReturns: x\n\nErrors: KBLIM, KBXXX.'""".encode()
        )
        try:
            found = {one.name: one for one in read_functions(connection) if one.public and one.arguments}
            assert "planted_v1" in found
            monkeypatch.setattr(fuzzer, "functions", found)
            monkeypatch.setattr(fuzzer, "_answers", 0)
            with pytest.raises(FaultError):
                fuzzer.call(Call("planted_v1", {"p_org_id": "7"}))
        finally:
            connection.execute("DROP FUNCTION kbsearch.planted_v1")
            fuzzer.reconnect()


def test_rows_for_what_is_another_organisations_are_a_fault(fuzzer: Fuzzer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that answers whatever cursor or stored ranking it is given; ours refuse both."""
    world = fuzzer.world
    strange = [("p_cursor", cursor) for cursor in world.other_cursors] + [("p_snapshot", world.other_snapshot)]
    fetched = Call("fetch_kb_page_v1", {"p_org_id": str(world.org_id), "p_snapshot": world.other_snapshot})
    before = fuzzer.tally.outcomes["KBSNP"]
    fuzzer.call(fetched)
    assert fuzzer.tally.outcomes["KBSNP"] == before + 1
    with psycopg.connect(fuzzer.dsn, autocommit=True) as connection:
        connection.execute(
            """CREATE FUNCTION kbsearch.planted_v1(p_org_id bigint, p_cursor text DEFAULT NULL, p_snapshot uuid DEFAULT NULL) RETURNS text
            LANGUAGE plpgsql STABLE AS $$BEGIN RETURN 'x'; END$$;
            COMMENT ON FUNCTION kbsearch.planted_v1 IS
            'x

Arguments:
p_org_id: x
p_cursor: x
p_snapshot: x

Returns: x

Errors: none.'"""
        )
        try:
            found = {one.name: one for one in read_functions(connection) if one.public and one.arguments}
            monkeypatch.setattr(fuzzer, "functions", found)
            for name, value in strange:
                with pytest.raises(FaultError, match="of another organisation"):
                    fuzzer.call(Call("planted_v1", {"p_org_id": str(world.org_id), name: value}))
                fuzzer.call(Call("planted_v1", {"p_org_id": str(world.other_id), name: value}))
        finally:
            connection.execute("DROP FUNCTION kbsearch.planted_v1")
            fuzzer.reconnect()
