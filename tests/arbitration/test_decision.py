"""The decision, in SQL and in Python, against the table of the oracle: total, one verdict a case, and nothing else decides."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsearch import ArbitrationError, PolicyError, arbitration
from tests.arbitration import oracle
from tests.arbitration.calls import Connection, case, decisions, policy
from tests.sql.corpus import refused

SITUATIONS: dict[str, dict[str, Any]] = {
    "vector alone": {"vector_ids": [1, 2], "keyword_ids": []},
    "keyword alone": {"vector_ids": None, "keyword_ids": [1], "similarity_peak": None},
    "equal": {"vector_ids": [1, 2, 3, 4], "keyword_ids": [1, 2, 3, 9]},
    "equal but for a tie": {"vector_ids": [1, 2, 3], "keyword_ids": [1, 2, 3], "keyword_ranks": [1, 2, 2]},
    "a list and its beginning": {"vector_ids": [1, 2, 3], "keyword_ids": [1, 2]},
    "within the limit": {"vector_ids": [1, 2, 3], "keyword_ids": [2, 1, 3]},
    "at the limit": {"vector_ids": [1, 2, 3], "keyword_ids": [1, 4, 5]},
    "over the limit": {"vector_ids": [1, 2, 3], "keyword_ids": [2, 3, 1]},
    "disjoint": {"vector_ids": [1, 2, 3], "keyword_ids": [4, 5, 6]},
}
"""With top_k 3 and a limit of a half."""
PEAKS = ("0.849999", "0.85", "0.8499996", "-0.2")
CLASS_RULES: tuple[dict[str, Any], ...] = (
    {},
    {"identifier": {}, "quoted": {"max_disagreement": "0.500", "calibrated": False}},
    {
        "identifier": {"advisory_leg": "vector"},
        "question": {
            "moderate_rule": "apply_rule",
            "severe_rule": "escalate",
            "vector_weight": 0.9,
            "keyword_weight": 0.1,
        },
        "quoted": {"calibrated": True},
        "empty": {"max_disagreement": 1, "similarity_threshold": -1, "privilege": "0.75"},
    },
)


def cases() -> Iterator[dict[str, Any]]:
    for moderate, severe, leg, calibrated, own in product(
        ("fuse", "apply_rule"),
        ("fuse", "apply_rule", "escalate"),
        (None, "vector", "keyword"),
        (False, True),
        CLASS_RULES,
    ):
        rules = policy(
            top_k=3,
            max_disagreement=0.5,
            moderate_rule=moderate,
            severe_rule=severe,
            advisory_leg=leg,
            calibrated=calibrated,
            class_rules=own,
            vector_weight=0.7,
            keyword_weight=0.3,
            privilege=0.8,
        )
        for one, situation, peak, exploratory in product(
            oracle.CLASSES if own else ("keywords",), SITUATIONS.values(), PEAKS, (False, True)
        ):
            yield case(policy=rules, query_class=one, exploratory=exploratory, **{"similarity_peak": peak, **situation})


def decided(one: dict[str, Any]) -> dict[str, Any]:
    """What Python decides, as SQL says it."""
    found = arbitration.decide(
        one["policy"],
        one["query_class"],
        one["vector_ids"] or [],
        one["vector_ranks"],
        one["keyword_ids"] or [],
        one["keyword_ranks"],
        one["similarity_peak"],
        exploratory=one["exploratory"],
    )
    return dataclasses.asdict(found)


def without_words(decision: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in decision.items() if name != "directive"}


def test_the_table_of_decisions_is_total(pure: Connection) -> None:
    """Every combination of rules, class, rankings, peak and exploratory has one verdict, the oracle's, in SQL and in Python."""
    every = list(cases())
    assert len(every) == 2 * 3 * 3 * 2 * (1 + 5 + 5) * 9 * 4 * 2
    found = decisions(pure, every)
    assert [without_words(one) for one in found] == [oracle.decision(one) for one in every]
    assert [decided(one) for one in every] == found
    assert {one["verdict"] for one in found} == set(arbitration.VERDICTS)
    assert {one["rule"].partition("@")[0] for one in found} == {
        "one_leg.vector",
        "one_leg.keyword",
        "exploratory",
        "calibrated",
        "advisory.vector",
        "advisory.keyword",
        "agree",
        "moderate.fuse",
        "moderate.apply_rule.vector",
        "moderate.apply_rule.keyword",
        "severe.fuse",
        "severe.escalate",
        "severe.apply_rule.vector",
        "severe.apply_rule.keyword",
    }
    # one sentence for each rule, whatever else
    words = {(one["verdict"], one["rule"].partition("@")[0], one["directive"]) for one in found}
    assert len({word[2] for word in words}) == len(
        {
            (verdict, rule.partition(".")[2] if verdict == "advisory" else rule == "severe.fuse")
            for verdict, rule, _ in words
        }
    )


leg = st.lists(st.integers(1, 9), unique=True, max_size=7)
share = st.integers(0, 20).map(lambda n: n / 20)


@st.composite
def any_case(draw: st.DrawFn) -> dict[str, Any]:
    vector, keyword = draw(leg), draw(leg)
    if not vector and not keyword:
        vector = [1]
    ranks = [draw(st.sampled_from([None, *oracle.one_sided(len(ids))])) for ids in (vector, keyword)]
    weight = draw(st.integers(0, 20))
    own = draw(
        st.dictionaries(
            st.sampled_from(oracle.CLASSES),
            st.fixed_dictionaries(
                {},
                optional={
                    "max_disagreement": share,
                    "similarity_threshold": share,
                    "severe_rule": st.sampled_from(["fuse", "escalate", "apply_rule"]),
                    "advisory_leg": st.sampled_from([None, "vector", "keyword"]),
                    "calibrated": st.booleans(),
                },
            ),
            max_size=2,
        )
    )
    return case(
        policy=policy(
            top_k=draw(st.integers(1, 8)),
            penalty=draw(share),
            max_disagreement=draw(share),
            similarity_threshold=draw(share),
            moderate_rule=draw(st.sampled_from(["fuse", "apply_rule"])),
            severe_rule=draw(st.sampled_from(["fuse", "escalate", "apply_rule"])),
            vector_weight=weight / 20,
            keyword_weight=(20 - weight) / 20,
            privilege=draw(st.integers(10, 20)) / 20,
            class_rules=own,
        ),
        query_class=draw(st.sampled_from(oracle.CLASSES)),
        vector_ids=vector,
        vector_ranks=ranks[0],
        keyword_ids=keyword,
        keyword_ranks=ranks[1],
        similarity_peak=str(draw(share)),
        exploratory=draw(st.booleans()),
    )


property_test = settings(max_examples=150, deadline=None, derandomize=True, database=None)


@property_test
@given(any_case())
def test_any_case_is_decided_as_the_table_says(pure: Connection, one: dict[str, Any]) -> None:
    (found,) = decisions(pure, [one])
    assert without_words(found) == oracle.decision(one)
    assert decided(one) == found


@property_test
@given(any_case(), st.permutations(range(1, 10)))
def test_an_id_decides_nothing(pure: Connection, one: dict[str, Any], names: list[int]) -> None:
    """Other names for the articles: the same decision."""
    renamed = {
        **one,
        **{name: [names[n - 1] for n in one[name]] for name in ("vector_ids", "keyword_ids")},
    }
    first, second = decisions(pure, [one, renamed])
    assert first == second


@property_test
@given(any_case())
def test_what_is_beyond_top_k_decides_nothing(pure: Connection, one: dict[str, Any]) -> None:
    k = one["policy"]["top_k"]
    cut = {
        **one,
        **{
            name: one[name] and one[name][:k] for name in ("vector_ids", "vector_ranks", "keyword_ids", "keyword_ranks")
        },
    }
    first, second = decisions(pure, [one, cut])
    assert first == second


@property_test
@given(any_case())
def test_decimals_may_be_numbers_or_text(pure: Connection, one: dict[str, Any]) -> None:
    written = {name: f"{value:.3f}" if name in oracle.DECIMALS else value for name, value in one["policy"].items()}
    written["class_rules"] = {
        each: {name: f"{value:.2f}" if name in oracle.DECIMALS else value for name, value in own.items()}
        for each, own in one["policy"]["class_rules"].items()
    }
    first, second = decisions(pure, [one, {**one, "policy": written}])
    assert first == second == decided({**one, "policy": written})


def test_a_class_is_named_only_where_its_rules_differ(pure: Connection) -> None:
    same = policy(class_rules={"keywords": {"max_disagreement": "0.30", "calibrated": False}})
    other = policy(class_rules={"keywords": {"max_disagreement": "0.31"}})
    elsewhere = policy(class_rules={"question": {"max_disagreement": "0.31"}})
    rules = [one["rule"] for one in decisions(pure, [case(policy=each) for each in (same, other, elsewhere)])]
    assert rules == ["severe.fuse", "severe.fuse@keywords", "severe.fuse"]
    assert [decided(case(policy=each))["rule"] for each in (same, other, elsewhere)] == rules


BAD_CASES: dict[str, dict[str, Any]] = {
    "no leg answered": {"vector_ids": [], "keyword_ids": None},
    "the class is not": {"query_class": "sentence"},
    "the class": {"query_class": None},
    "the peak of": {"similarity_peak": None},
    "the peak": {"similarity_peak": "1.5"},
    "peak": {"similarity_peak": "NaN"},
    "an id twice": {"keyword_ids": [1, 1]},
    "id twice": {"vector_ids": [1, 1], "keyword_ids": []},
    "competition ranks": {"vector_ranks": [1, 3, 3]},
    "number of ranks": {"vector_ranks": [1, 2]},
}


@pytest.mark.parametrize("problem", BAD_CASES)
def test_what_cannot_be_decided_is_refused(pure: Connection, problem: str) -> None:
    wrong = case(**BAD_CASES[problem])
    with refused("KBARB") as refusal:
        decisions(pure, [wrong])
    assert problem in refusal.detail["problem"]
    with pytest.raises(ArbitrationError):
        decided(wrong)


BAD_RULES: list[dict[str, Any]] = [
    {"top_k": 0},
    {"top_k": 101},
    {"top_k": 2.5},
    {"top_k": "5"},
    {"penalty": 1.1},
    {"penalty": None},
    {"penalty": True},
    {"penalty": 0.1234567},
    {"max_disagreement": -0.1},
    {"max_disagreement": "NaN"},
    {"max_disagreement": "1e-3"},
    {"similarity_threshold": 1.5},
    {"similarity_threshold": []},
    {"moderate_rule": "escalate"},
    {"moderate_rule": None},
    {"severe_rule": "ignore"},
    {"severe_rule": ["fuse"]},
    {"advisory_leg": "both"},
    {"advisory_leg": 1},
    {"calibrated": "yes"},
    {"calibrated": None},
    {"vector_weight": 0.6},
    {"vector_weight": 1.5, "keyword_weight": -0.5},
    {"privilege": 0.4},
    {"class_rules": None},
    {"class_rules": []},
    {"class_rules": {"sentence": {}}},
    {"class_rules": {"question": 1}},
    {"class_rules": {"question": {"top_k": 3}}},
    {"class_rules": {"question": {"penalty": 0.5}}},
    {"class_rules": {"question": {"class_rules": {}}}},
    {"class_rules": {"question": {"name": "x"}}},
    {"class_rules": {"question": {"vector_weight": 1}}},
    {"class_rules": {"question": {"severe_rule": None}}},
    {"class_rules": {"question": {"strange": 1}}},
    {"strange": 1},
]


@pytest.mark.parametrize("rules", BAD_RULES, ids=repr)
def test_a_policy_that_is_none_is_refused(pure: Connection, rules: dict[str, Any]) -> None:
    wrong = case(policy=policy(**rules))
    with refused("KBPOL") as refusal:
        decisions(pure, [wrong])
    assert refusal.detail["problem"]
    with pytest.raises(PolicyError):
        decided(wrong)


@pytest.mark.parametrize("name", sorted(policy().keys() - {"name", "version"}))
def test_a_policy_is_complete(pure: Connection, name: str) -> None:
    rules = policy()
    del rules[name]
    with refused("KBPOL"):
        decisions(pure, [case(policy=rules)])
    with pytest.raises(PolicyError):
        decided(case(policy=rules))


@pytest.mark.parametrize("rules", [None, [], {"name": "Mine"}, {"version": 0}, {"version": "1"}], ids=repr)
def test_a_policy_has_a_name_and_a_version(pure: Connection, rules: Any) -> None:
    with refused("KBPOL"):
        decisions(pure, [case(policy=policy(**rules) if isinstance(rules, dict) else rules)])
