"""The log of arbitrations: opt-in, checked, never changed; the trend and the list of what was escalated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.arbitration.calls import Connection, case, decisions, manifests, policy, value
from tests.sql.corpus import Corpus, refused

EQUAL = [1, 2, 3]
DISJOINT = [4, 5, 6]
"""12 of 15 pairs apart."""


def manifest(corpus: Corpus, question: str = "refund", **arguments: Any) -> dict[str, Any]:
    one = case(**{"query_text": question, "chosen_ids": [1], "policy": policy(severe_rule="escalate"), **arguments})
    (decision,) = decisions(corpus.connection, [one])
    return manifests(corpus.connection, [{**one, "decision": decision}])[0]


def log(corpus: Corpus, one: Any, question: str | None = None) -> int:
    return int(
        value(corpus.connection, "kbsearch.log_kb_arbitration_v1(%s, %s, %s)", corpus.org_id, Jsonb(one), question)
    )


def keep(corpus: Corpus, what: str) -> Corpus:
    corpus.run("UPDATE kbsearch.organizations SET arbitration_log = %s WHERE id = %s", what, corpus.org_id)
    return corpus


def rows(corpus: Corpus, columns: str = "manifest, query_text") -> list[tuple[Any, ...]]:
    return corpus.connection.execute(
        f"SELECT {columns} FROM kbsearch.kb_arbitration_log WHERE org_id = %s ORDER BY id".encode(), (corpus.org_id,)
    ).fetchall()


def entry(corpus: Corpus, at: str, question_class: str, keyword: Sequence[int]) -> None:
    """A row logged at a time."""
    one = manifest(corpus, query_class=question_class, vector_ids=EQUAL, keyword_ids=list(keyword))
    corpus.run(
        "INSERT INTO kbsearch.kb_arbitration_log (org_id, logged_at, manifest) VALUES (%s, %s, %s)",
        corpus.org_id,
        at,
        Jsonb(one),
    )


def trend(corpus: Corpus, *bucket: str) -> list[tuple[Any, ...]]:
    return corpus.connection.execute(
        f"SELECT * FROM kbsearch.kb_disagreement_trend_v1(%s{', %s' * len(bucket)})".encode(), (corpus.org_id, *bucket)
    ).fetchall()


def test_nothing_is_logged_unless_it_is_wanted(corpus: Corpus) -> None:
    assert corpus.value("SELECT arbitration_log FROM kbsearch.organizations WHERE id = %s", corpus.org_id) == "off"
    with refused("KBARB") as refusal:
        log(corpus, manifest(corpus))
    assert refusal.detail == {"org_id": corpus.org_id, "problem": "the log is off"}
    assert rows(corpus) == []


def test_the_text_is_kept_only_where_the_organisation_keeps_texts(corpus: Corpus) -> None:
    one = manifest(corpus, "refund")
    log(keep(corpus, "hash"), one, "refund")
    log(keep(corpus, "text"), one, "refund")
    log(corpus, one)
    assert rows(corpus) == [(one, None), (one, "refund"), (one, None)]
    assert "refund" not in json.dumps(one)


def test_ids_are_given_back_and_count_up(corpus: Corpus) -> None:
    keep(corpus, "hash")
    logged = [log(corpus, manifest(corpus, f"question {n}")) for n in range(3)]
    assert rows(corpus, "id") == [(one,) for one in logged]
    assert logged == sorted(set(logged))


@pytest.mark.parametrize(
    "change", [{"verdict": "rankings_agree"}, {"query_hash": "0" * 64}, {"more": 1}, {"verdict": None}]
)
def test_a_manifest_that_was_changed_is_not_logged(corpus: Corpus, change: dict[str, Any]) -> None:
    keep(corpus, "text")
    with refused("KBARB") as refusal:
        log(corpus, {**manifest(corpus), **change}, "refund")
    assert refusal.detail["problem"]
    assert rows(corpus) == []


def test_a_text_that_is_not_the_question_is_not_logged(corpus: Corpus) -> None:
    for what in ("text", "hash"):
        with refused("KBARB"):
            log(keep(corpus, what), manifest(corpus, "refund"), "another")
    assert rows(corpus) == []


@pytest.mark.parametrize("one", [None, [], "x", {}])
def test_what_is_no_manifest_is_not_logged(corpus: Corpus, one: Any) -> None:
    with refused("KBARB"):
        log(keep(corpus, "hash"), one)


@pytest.mark.parametrize("org_id", [None, -1])
@pytest.mark.parametrize(
    "call",
    ["log_kb_arbitration_v1(%s, '{}')", "kb_disagreement_trend_v1(%s)", "list_kb_escalations_v1(%s)"],
)
def test_a_log_is_somebodys(pure: Connection, call: str, org_id: int | None) -> None:
    with refused("KBORG"):
        pure.execute(f"SELECT * FROM kbsearch.{call}".encode(), (org_id,))


def test_rows_never_change_and_may_be_deleted(corpus: Corpus) -> None:
    log(keep(corpus, "text"), manifest(corpus), "refund")
    for change in ("query_text = NULL", "manifest = '{}'", "logged_at = now()"):
        with refused("KBARB"):
            corpus.run(f"UPDATE kbsearch.kb_arbitration_log SET {change} WHERE org_id = %s", corpus.org_id)
    corpus.run("DELETE FROM kbsearch.kb_arbitration_log WHERE org_id = %s", corpus.org_id)
    assert rows(corpus) == []


def test_only_three_ways_of_keeping_a_log_are_known(corpus: Corpus) -> None:
    with pytest.raises(Exception, match="organizations_arbitration_log_check"):
        keep(corpus, "everything")


def test_the_trend_is_by_time_and_class(corpus: Corpus) -> None:
    swapped = [2, 1, 3]
    for at, name, keyword in (
        ("2026-03-01 00:00:00+00", "question", EQUAL),
        ("2026-03-01 23:59:59+00", "question", DISJOINT),
        ("2026-03-01 12:00:00+00", "identifier", swapped),
        ("2026-03-02 00:00:00+00", "question", swapped),
        ("2026-03-02 01:00:00+00", "question", []),
        ("2026-03-04 01:00:00+00", "keywords", []),
    ):
        entry(corpus, at, name, keyword)
    day = datetime(2026, 3, 1, tzinfo=UTC)
    third, most = Decimal("0.333333"), Decimal("0.800000")
    assert trend(corpus) == [
        (day, "identifier", 1, third, third, 1),
        (day, "question", 2, Decimal("0.400000"), most, 1),
        (day + timedelta(days=1), "question", 2, third, third, 1),
        (day + timedelta(days=3), "keywords", 1, None, None, 0),
    ]
    assert [row[:3] for row in trend(corpus, "7 days")] == [
        (datetime(2026, 2, 23, tzinfo=UTC), "identifier", 1),
        (datetime(2026, 2, 23, tzinfo=UTC), "question", 2),
        (datetime(2026, 3, 2, tzinfo=UTC), "keywords", 1),
        (datetime(2026, 3, 2, tzinfo=UTC), "question", 2),
    ]
    assert [row[0].hour for row in trend(corpus, "1 hour")] == [0, 12, 23, 0, 1, 1]


def test_the_trend_is_the_organisations_own(corpus: Corpus) -> None:
    other = Corpus(corpus.connection, "another")
    entry(other, "2026-03-01", "question", DISJOINT)
    assert trend(corpus) == []
    assert (
        corpus.connection.execute("SELECT * FROM kbsearch.list_kb_escalations_v1(%s)", (corpus.org_id,)).fetchall()
        == []
    )


@pytest.mark.parametrize(
    "bucket", [None, "0", "-1 day", "1 month", "1 year 3 days", "0.5 seconds", "100 years", "40000 days"]
)
def test_time_is_divided_into_equal_buckets(corpus: Corpus, bucket: str | None) -> None:
    with refused("KBARB"):
        value(corpus.connection, "count(*) FROM kbsearch.kb_disagreement_trend_v1(%s, %s)", corpus.org_id, bucket)


def test_escalated_searches_are_listed_the_latest_first(corpus: Corpus) -> None:
    keep(corpus, "text")
    escalated = [manifest(corpus, f"question {n}", vector_ids=EQUAL, keyword_ids=DISJOINT) for n in range(5)]
    ids = [log(corpus, one, f"question {n}") for n, one in enumerate(escalated)]
    log(corpus, manifest(corpus, vector_ids=EQUAL, keyword_ids=EQUAL))
    columns = "id, query_class, query_text, query_hash, policy, disagreement, manifest"
    listed = corpus.connection.execute(
        f"SELECT {columns} FROM kbsearch.list_kb_escalations_v1(%s)".encode(), (corpus.org_id,)
    ).fetchall()
    assert listed == [
        (ids[n], "keywords", f"question {n}", escalated[n]["query_hash"], "mine@1", Decimal("0.8"), escalated[n])
        for n in (4, 3, 2, 1, 0)
    ]
    pages = []
    before = None
    while page := corpus.connection.execute(
        "SELECT id FROM kbsearch.list_kb_escalations_v1(%s, 2, %s)", (corpus.org_id, before)
    ).fetchall():
        pages.append([row[0] for row in page])
        before = pages[-1][-1]
    assert pages == [[ids[4], ids[3]], [ids[2], ids[1]], [ids[0]]]


@pytest.mark.parametrize("limit", [None, 0, -1, 1001])
def test_a_limit_is_from_1_to_1000(corpus: Corpus, limit: int | None) -> None:
    with refused("KBLIM"):
        value(corpus.connection, "count(*) FROM kbsearch.list_kb_escalations_v1(%s, %s)", corpus.org_id, limit)


def test_an_organisations_log_goes_with_it(corpus: Corpus) -> None:
    log(keep(corpus, "hash"), manifest(corpus))
    corpus.run("DELETE FROM kbsearch.organizations WHERE id = %s", corpus.org_id)
    assert rows(corpus) == []
