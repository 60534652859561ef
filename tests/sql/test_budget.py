"""A search has a time budget: it is looked at before each part of a search, and what is over it is refused and never answered late."""

from __future__ import annotations

import json
import time
from typing import Any

import psycopg
import pytest

from tests.sql.test_interrupted import load

Connection = psycopg.Connection[Any]

LONG = " ".join(f"w{number}x{n}" for number in range(100) for n in range(20))
SEARCHES = {
    "search_kb_hybrid_v1": "SELECT s::text FROM kbsearch.search_kb_hybrid_v1(%s, %s) AS s",
    "search_kb_hybrid_page_v1": "SELECT s::text FROM kbsearch.search_kb_hybrid_page_v1(%s, %s) AS s",
    "explain_kb_search_v1": "SELECT s::text FROM kbsearch.explain_kb_search_v1(%s, %s) AS s",
    "explain_kb_candidates_v1": "SELECT s::text FROM kbsearch.explain_kb_candidates_v1(%s, %s) AS s",
    "explain_kb_article_v1": "SELECT kbsearch.explain_kb_article_v1(%s, %s, p_article_id => 1)::text",
    "arbitrate_kb_search_v1": "SELECT kbsearch.arbitrate_kb_search_v1(%s, %s, p_profile => 'arbitrate_reference@1')::text",
    "open_kb_search_v1": "SELECT s.total::text FROM kbsearch.open_kb_search_v1(%s, %s) AS s",
}

PLAN = (
    "jsonb_populate_record("
    "kbsearch.prepare_kb_search_v1({org}, 'word', NULL, 10, 0, NULL, NULL, NULL, NULL, NULL, {profile}, NULL, false, NULL, false), "
    "'{{\"deadline\": {deadline}}}')"
)
STAGES = {
    "analysis": "kbsearch.analyze_kb_question_v1('word', '{{simple}}', '{{\"\"}}', NULL, {clock}, 10000)",
    "phrases": (
        'kbsearch.find_kb_operators_v1({org}, \'[{{"n": 2, "shape": "phrase", "words": " the ", "corpus": 1, "lexemes": []}}]\', '
        "'{{simple}}', '{{\"\"}}', {clock}, 10000)"
    ),
    "ranking": "kbsearch.rank_kb_articles_v1({plan}, NULL, 10, 0, NULL, NULL)",
    "ranking of candidates": "kbsearch.place_kb_candidates_v1({plan}, NULL)",
    "ranking of an arbitration": "kbsearch.arbitrate_kb_plan_v1({arbitrating}, NULL, false)",
    "window": "kbsearch.window_kb_search_v1({plan}, NULL, 'ann', 10, NULL)",
    "explanation": "kbsearch.list_kb_matches_v1({plan}, '{{1}}')",
}


@pytest.fixture
def org_id(connection: Connection) -> int:
    row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('budget') RETURNING id").fetchone()
    assert row is not None
    load(connection, int(row[0]), 100, 20)
    return int(row[0])


def budget(connection: Connection, milliseconds: str) -> None:
    connection.execute("SELECT set_config('kbsearch.search_budget_ms', %s, false)", [milliseconds])


@pytest.mark.parametrize("function", SEARCHES)
def test_what_takes_longer_than_its_budget_is_refused(connection: Connection, org_id: int, function: str) -> None:
    """To analyse a question of 2,000 words takes longer than a millisecond on any machine."""
    budget(connection, "1")
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(SEARCHES[function], [org_id, LONG])
    assert caught.value.sqlstate == "KBTMO"
    assert caught.value.diag.message_hint is not None
    detail = json.loads(caught.value.diag.message_detail or "")
    assert detail["budget_ms"] == 1
    assert detail["stage"] in ("analysis", "words", "ranking")


@pytest.mark.parametrize("function", SEARCHES)
def test_a_budget_that_is_kept_changes_nothing(connection: Connection, org_id: int, function: str) -> None:
    right = connection.execute(SEARCHES[function], [org_id, "word part w1x1"]).fetchall()
    assert right
    for given in ("0", "", "600000", "999999999"):
        budget(connection, given)
        assert connection.execute(SEARCHES[function], [org_id, "word part w1x1"]).fetchall() == right


@pytest.mark.parametrize("given", ["ten", "-1", "1.5", "1s", "9999999999", " 5"])
def test_a_budget_that_is_none_is_refused(connection: Connection, org_id: int, given: str) -> None:
    budget(connection, given)
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(SEARCHES["search_kb_hybrid_v1"], [org_id, "word"])
    assert caught.value.sqlstate == "KBLIM"
    assert json.loads(caught.value.diag.message_detail or "")["given"] == given


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("is_over", [True, False])
def test_each_part_looks_at_the_clock(connection: Connection, org_id: int, stage: str, is_over: bool) -> None:
    given = {"org": org_id, "deadline": '"2000-01-01"' if is_over else "null"}
    statement = "SELECT * FROM " + STAGES[stage].format(
        plan=PLAN.format(profile="NULL", **given),
        arbitrating=PLAN.format(profile="'arbitrate_reference@1'", **given),
        clock="'2000-01-01'" if is_over else "NULL",
        org=org_id,
    )
    if not is_over:
        connection.execute(statement.encode())
        return
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement.encode())
    assert caught.value.sqlstate == "KBTMO", caught.value
    assert json.loads(caught.value.diag.message_detail or "") == {"budget_ms": 10000, "stage": stage.partition(" ")[0]}


def test_a_question_that_no_machine_reads_in_time_is_refused_before_it_is_read(
    connection: Connection, org_id: int
) -> None:
    """By the places where its words stand, which a cursor tells."""
    ask = "SELECT s.cursor FROM kbsearch.search_kb_hybrid_v1(%s, 'word', p_limit => 1, p_cursor => %s) AS s"
    (cursor,) = connection.execute(ask, [org_id, None]).fetchone() or ("",)
    (payload,) = connection.execute("SELECT kbsearch.open_kb_cursor_v1(%s)", [cursor]).fetchone() or ("",)
    parts = payload.split(" ")
    assert parts[5] == "100"
    parts[5] = "500000001"
    (edited,) = connection.execute("SELECT kbsearch.seal_kb_cursor_v1(%s)", [" ".join(parts)]).fetchone() or ("",)
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(ask, [org_id, edited])
    assert caught.value.sqlstate == "KBTMO"
    assert json.loads(caught.value.diag.message_detail or "") == {
        "budget_ms": 10000,
        "stage": "ranking",
        "entries": 500000001,
        "maximum_entries": 500000000,
    }
    budget(connection, "0")
    assert connection.execute(ask, [org_id, edited]).fetchone() is not None


ROWS = {
    "rows of a search": "SELECT count(s.excerpt_html) FROM kbsearch.search_kb_hybrid_v1(%s, %s, p_limit => 1000, p_highlight => true) AS s",
    "a page": "SELECT length(kbsearch.search_kb_hybrid_page_v1(%s, %s, p_limit => 1000, p_highlight => true)::text)",
    "a page of a stored ranking": "SELECT length(kbsearch.fetch_kb_page_v1(%s, %s, 1000, p_highlight => true)::text)",
}


@pytest.fixture
def long_org_id(connection: Connection) -> int:
    """Chunks that take milliseconds to highlight."""
    row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('long') RETURNING id").fetchone()
    assert row is not None
    load(connection, int(row[0]), 100, 1500)
    return int(row[0])


@pytest.mark.parametrize("rows", ROWS)
def test_the_clock_is_looked_at_between_rows(connection: Connection, long_org_id: int, rows: str) -> None:
    """What is over its budget while its rows are written ends then, not after the last: by three tries, as others use the machine, too."""
    asked: Any = "word part one"
    if "fetch" in ROWS[rows]:
        (asked,) = connection.execute(
            "SELECT s.snapshot FROM kbsearch.open_kb_search_v1(%s, 'word part one') AS s", [long_org_id]
        ).fetchone() or (None,)
    taken = []
    for _ in range(3):
        budget(connection, "0")
        started = time.monotonic()
        connection.execute(ROWS[rows], [long_org_id, asked])
        whole = time.monotonic() - started
        budget(connection, str(round(whole * 100)))
        started = time.monotonic()
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(ROWS[rows], [long_org_id, asked])
        assert caught.value.sqlstate == "KBTMO"
        taken.append((time.monotonic() - started) / whole)
        if taken[-1] < 0.5:
            return
    raise AssertionError(f"over a tenth of its time, ended after these parts of it: {taken}")


def test_the_clock_is_looked_at_between_words_that_are_explained(connection: Connection, long_org_id: int) -> None:
    """Thousands of words of a hundred chunks: it is over in the middle of the explanation, or while rows are written, and long before all are."""
    question = " ".join(f"w{number}x{n}" for number in range(4) for n in range(1000))
    explain = "SELECT length(s::text) FROM kbsearch.explain_kb_search_v1(%s, %s, p_limit => 1000) AS s"
    connection.execute("UPDATE kbsearch.kb_article_chunks SET content = %s WHERE org_id = %s", [question, long_org_id])
    taken = []
    for _ in range(3):
        budget(connection, "0")
        started = time.monotonic()
        connection.execute(
            "SELECT count(*) FROM kbsearch.search_kb_hybrid_v1(%s, %s, p_limit => 0) AS s", [long_org_id, question]
        )
        before = time.monotonic() - started
        started = time.monotonic()
        connection.execute(explain, [long_org_id, question])
        whole = time.monotonic() - started
        budget(connection, str(round((before + (whole - before) / 5) * 1000)))
        started = time.monotonic()
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(explain, [long_org_id, question])
        assert caught.value.sqlstate == "KBTMO"
        taken.append((time.monotonic() - started - before) / (whole - before))
        if taken[-1] < 0.6:
            return
    raise AssertionError(f"over a fifth of its time, ended after these parts of it: {taken}")


@pytest.mark.parametrize("given", ["ten", "-1"])
def test_a_stored_ranking_is_read_within_a_budget_that_is_one(connection: Connection, org_id: int, given: str) -> None:
    (snapshot,) = connection.execute(
        "SELECT s.snapshot FROM kbsearch.open_kb_search_v1(%s, 'word') AS s", [org_id]
    ).fetchone() or (None,)
    budget(connection, given)
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("SELECT kbsearch.fetch_kb_page_v1(%s, %s)", [org_id, snapshot])
    assert caught.value.sqlstate == "KBLIM"
