"""Arbitration policies: immutable versions, an organisation's own beside the built-in ones."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.arbitration.calls import POLICY, Connection, case, decisions, value
from tests.sql.corpus import Corpus, refused

REFERENCE = {
    **POLICY,
    "name": "reference",
    "moderate_rule": "apply_rule",
    "severe_rule": "escalate",
}


def create(corpus: Corpus, name: str = "mine", **arguments: Any) -> str:
    given = {one: Jsonb(rules) if one == "class_rules" else rules for one, rules in arguments.items()}
    named = ", ".join(f"p_{one} => %({one})s" for one in given)
    row = corpus.connection.execute(
        f"SELECT kbsearch.create_kb_arbitration_policy_v1(%(org)s, %(name)s{', ' if named else ''}{named})".encode(),
        {"org": corpus.org_id, "name": name, **given},
    ).fetchone()
    assert row is not None
    return str(row[0])


def resolved(corpus: Corpus, policy: str | None) -> Any:
    return value(corpus.connection, "kbsearch.resolve_kb_policy_v1(%s, %s)", corpus.org_id, policy)


def test_what_comes_with_kbsearch(corpus: Corpus) -> None:
    assert resolved(corpus, "reference@1") == REFERENCE
    assert resolved(corpus, "default@1")["version"] == 1
    names = corpus.connection.execute("SELECT name, version FROM kbsearch.kb_builtin_policies ORDER BY 1, 2").fetchall()
    assert names == [("default", 1), ("reference", 1)]


def test_every_policy_that_comes_with_kbsearch_can_decide(corpus: Corpus) -> None:
    policies = [resolved(corpus, name) for name in ("reference@1", "default@1")]
    assert len(decisions(corpus.connection, [case(policy=one) for one in policies])) == 2


def test_versions_count_up_and_a_bare_name_is_the_first(corpus: Corpus) -> None:
    assert create(corpus) == "mine@1"
    assert (
        create(corpus, max_disagreement=Decimal("0.250"), class_rules={"quoted": {"severe_rule": "escalate"}})
        == "mine@2"
    )
    assert create(corpus, "other", top_k=100, privilege=Decimal("0.6"), advisory_leg="keyword") == "other@1"
    assert resolved(corpus, "mine") == resolved(corpus, "mine@1") == POLICY
    second = {**POLICY, "version": 2, "max_disagreement": 0.25, "class_rules": {"quoted": {"severe_rule": "escalate"}}}
    assert resolved(corpus, "mine@2") == second
    assert resolved(corpus, "other")["privilege"] == 0.6


@pytest.mark.parametrize("name", ["nothing", "mine@2", "mine@0", "mine@01", "mine@", "@1", "", "Mine", "mine@1 ", None])
def test_there_is_no_other(corpus: Corpus, name: str | None) -> None:
    create(corpus)
    assert resolved(corpus, name) is None


def test_a_policy_is_its_organisations_own(corpus: Corpus) -> None:
    create(corpus)
    other = Corpus(corpus.connection, "another")
    assert resolved(other, "mine@1") is None
    assert create(other, calibrated=True) == "mine@1"
    assert resolved(corpus, "mine@1") == POLICY
    other.run("DELETE FROM kbsearch.organizations WHERE id = %s", other.org_id)
    assert resolved(corpus, "mine@1") == POLICY


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": None},
        {"name": ""},
        {"name": "Mine"},
        {"name": "mine@1"},
        {"name": "x" * 64},
        {"name": "reference"},
        {"name": "default"},
        {"top_k": 0},
        {"top_k": 101},
        {"top_k": None},
        {"penalty": Decimal("1.1")},
        {"penalty": None},
        {"max_disagreement": Decimal("NaN")},
        {"max_disagreement": Decimal("0.1234567")},
        {"similarity_threshold": Decimal(-2)},
        {"moderate_rule": "escalate"},
        {"severe_rule": None},
        {"advisory_leg": "both"},
        {"calibrated": None},
        {"vector_weight": Decimal("0.6")},
        {"vector_weight": Decimal("1.5"), "keyword_weight": Decimal("-0.5")},
        {"privilege": Decimal("0.4")},
        {"class_rules": {"sentence": {}}},
        {"class_rules": {"question": {"top_k": 3}}},
        {"class_rules": {"question": {"vector_weight": 1}}},
        {"class_rules": []},
        {"description": None},
    ],
    ids=repr,
)
def test_a_policy_that_makes_no_sense_is_refused(corpus: Corpus, arguments: dict[str, Any]) -> None:
    with refused("KBPOL") as refusal:
        create(corpus, **arguments)
    assert refusal.detail["problem"]
    kept = corpus.value("SELECT count(*) FROM kbsearch.kb_arbitration_policies WHERE org_id = %s", corpus.org_id)
    assert kept == 0


@pytest.mark.parametrize("org_id", [None, -1])
def test_a_policy_is_somebodys(pure: Connection, org_id: int | None) -> None:
    with refused("KBORG"):
        value(pure, "kbsearch.create_kb_arbitration_policy_v1(%s, 'mine')", org_id)


def test_policies_never_change(corpus: Corpus) -> None:
    create(corpus)
    for table in ("kb_arbitration_policies", "kb_builtin_policies"):
        for change in ("top_k = 6", "max_disagreement = 1", "class_rules = '{\"quoted\": {}}'", "description = 'x'"):
            with refused("KBPOL"):
                corpus.run(f"UPDATE kbsearch.{table} SET {change}")
        corpus.run(f"UPDATE kbsearch.{table} SET top_k = top_k")


BAD_ROWS = [
    "top_k = 0",
    "penalty = 1.5",
    "penalty = 'NaN'",
    "max_disagreement = 0.1234567",
    "similarity_threshold = 2",
    "moderate_rule = 'escalate'",
    "severe_rule = 'ignore'",
    "advisory_leg = 'both'",
    "vector_weight = 0.6",
    "privilege = 0.3",
    "class_rules = '{\"sentence\": {}}'",
    "class_rules = '[]'",
    "version = 0",
    "name = 'Mine'",
]


@pytest.mark.parametrize("change", BAD_ROWS)
def test_no_row_can_be_what_no_policy_is(corpus: Corpus, change: str) -> None:
    """Whoever may write the table is held to the same rules."""
    column, _, wrong = change.partition(" = ")
    columns = dict.fromkeys(
        ("top_k", "penalty", "privilege", "vector_weight", "class_rules", "advisory_leg"), "DEFAULT"
    )
    columns |= {
        "org_id": str(corpus.org_id),
        "name": "'mine'",
        "version": "1",
        "max_disagreement": "0",
        "similarity_threshold": "0",
        "moderate_rule": "'fuse'",
        "severe_rule": "'fuse'",
    }
    insert = "INSERT INTO kbsearch.kb_arbitration_policies ({}) VALUES ({})"
    broken = {**columns, column: wrong}
    with pytest.raises(psycopg.errors.CheckViolation):
        corpus.run(insert.format(", ".join(broken), ", ".join(broken.values())))
    corpus.run(insert.format(", ".join(columns), ", ".join(columns.values())))
