"""The manifest: the oracle's, byte for byte; its digest changes with every input and with nothing else; what was changed afterwards is found."""

from __future__ import annotations

import contextlib
import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsearch import ArbitrationError, arbitration
from tests.arbitration import oracle
from tests.arbitration.calls import Connection, case, decisions, manifests, policy, value
from tests.arbitration.test_decision import any_case, decided
from tests.sql.corpus import refused

property_test = settings(max_examples=120, deadline=None, derandomize=True, database=None)
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)

RULES = policy(
    top_k=3,
    severe_rule="apply_rule",
    class_rules={"question": {"severe_rule": "fuse", "privilege": 0.9}},
    privilege=0.8,
)
INPUTS: dict[str, Any] = case(
    policy=RULES,
    query_class="keywords",
    query_text="a question",
    vector_ids=[1, 2, 3],
    vector_ranks=[1, 2, 3],
    keyword_ids=[4, 5, 6],
    keyword_ranks=[1, 2, 3],
    similarity_peak="0.900000",
    exploratory=False,
    chosen_ids=[1, 2, 3],
)


def made(connection: Connection, one: dict[str, Any]) -> dict[str, Any]:
    """The manifest that SQL makes of a case, decided by SQL."""
    (decision,) = decisions(connection, [one])
    (manifest,) = manifests(connection, [{**one, "decision": decision}])
    return manifest


def signed(manifest: dict[str, Any]) -> dict[str, Any]:
    """With the digest that belongs to it."""
    return {**manifest, "manifest_digest": arbitration.digest(manifest)}


@property_test
@given(any_case(), words, st.lists(st.integers(1, 2**50), unique=True, max_size=9))
def test_the_manifest_is_the_oracles(pure: Connection, one: dict[str, Any], question: str, chosen: list[int]) -> None:
    one = {**one, "query_text": question, "chosen_ids": chosen}
    found = made(pure, one)
    assert found == oracle.manifest(one, {**oracle.decision(one), "directive": found["directive"]})
    assert arbitration.digest(found) == found["manifest_digest"]
    assert arbitration.verify(found, question) == ()
    assert arbitration.recompute(found).verdict == found["verdict"]
    assert value(pure, "kbsearch.find_kb_manifest_fault_v1(%s::jsonb)", json.dumps(found)) is None


def test_it_can_be_decided_again_in_sql_from_what_it_says(pure: Connection) -> None:
    manifest = made(pure, INPUTS)
    name, _, version = manifest["policy"].partition("@")
    again = case(
        policy={**manifest["policy_parameters"], "name": name, "version": int(version)},
        query_class=manifest["query_class"],
        vector_ids=manifest["vector_ranking"],
        vector_ranks=manifest["vector_ranks"],
        keyword_ids=manifest["keyword_ranking"],
        keyword_ranks=manifest["keyword_ranks"],
        similarity_peak=manifest["semantic_similarity_peak"],
        exploratory=manifest["exploratory"],
        query_text="a question",
        chosen_ids=[1, 2, 3],
    )
    assert made(pure, again) == manifest


RULE_CHANGES: dict[str, dict[str, Any]] = {
    "name": {"name": "yours"},
    "version": {"version": 2},
    "top_k": {"top_k": 2},
    "penalty": {"penalty": 0.4},
    "max_disagreement": {"max_disagreement": 0.300001},
    "similarity_threshold": {"similarity_threshold": 0.86},
    "moderate_rule": {"moderate_rule": "apply_rule"},
    "severe_rule": {"severe_rule": "fuse"},
    "advisory_leg": {"advisory_leg": "vector"},
    "calibrated": {"calibrated": True},
    "weights": {"vector_weight": 0.6, "keyword_weight": 0.4},
    "privilege": {"privilege": 0.7},
    "no class rules": {"class_rules": {}},
    "other class rules": {"class_rules": {"question": {"severe_rule": "fuse", "privilege": 0.8}}},
    "rules of another class": {"class_rules": {"quoted": {"severe_rule": "fuse", "privilege": 0.9}}},
}
CHANGES: dict[str, dict[str, Any]] = {
    "question": {"query_text": "a questions"},
    "question, one letter's case": {"query_text": "A question"},
    "no question": {"query_text": None},
    "class": {"query_class": "quoted"},
    "class with rules of its own": {"query_class": "question"},
    "vector ranking": {"vector_ids": [1, 3, 2]},
    "another article": {"vector_ids": [1, 2, 7]},
    "fewer articles": {"vector_ids": [1, 2], "vector_ranks": [1, 2]},
    "no vector leg": {"vector_ids": [], "vector_ranks": []},
    "a tie": {"vector_ranks": [1, 2, 2]},
    "keyword ranking": {"keyword_ids": [4, 6, 5]},
    "a tie there": {"keyword_ranks": [1, 1, 3]},
    "no keyword leg": {"keyword_ids": None, "keyword_ranks": None},
    "peak": {"similarity_peak": "0.900001"},
    "peak, other side of the threshold": {"similarity_peak": "0.8"},
    "exploratory": {"exploratory": True},
    "chosen ranking": {"chosen_ids": [1, 3, 2]},
    "shorter chosen ranking": {"chosen_ids": [1, 2]},
    "no chosen ranking": {"chosen_ids": []},
    **{f"policy: {name}": {"policy": {**RULES, **rules}} for name, rules in RULE_CHANGES.items()},
}


def test_the_digest_changes_with_every_input(pure: Connection) -> None:
    changes: dict[str, dict[str, Any]] = {"": {}, **CHANGES}
    digests = {name: made(pure, {**INPUTS, **change})["manifest_digest"] for name, change in changes.items()}
    assert len(set(digests.values())) == len(CHANGES) + 1


SAME: dict[str, dict[str, Any]] = {
    "the same once more": {},
    "articles beyond top_k": {
        "vector_ids": [1, 2, 3, 9],
        "vector_ranks": [1, 2, 3, 3],
        "keyword_ids": [4, 5, 6, 1],
        "keyword_ranks": None,
        "chosen_ids": [1, 2, 3, 4, 5],
    },
    "ranks left out": {"vector_ranks": None, "keyword_ranks": None},
    "digits that do not count": {"similarity_peak": "0.9000004"},
    "the same number": {"similarity_peak": 0.9},
    "numbers as text": {"policy": {**RULES, "max_disagreement": "0.300", "privilege": "0.80"}},
    "another order of keys": {"policy": dict(reversed(RULES.items()))},
    "numbers with zeros": {"policy": json.loads(json.dumps(RULES).replace("0.9}", "0.90}"))},
}


def test_the_digest_changes_with_nothing_else(pure: Connection) -> None:
    assert {made(pure, {**INPUTS, **change})["manifest_digest"] for change in SAME.values()} == {
        made(pure, INPUTS)["manifest_digest"]
    }
    none = {**INPUTS, "vector_ids": None, "vector_ranks": None}
    # without a vector leg there is no peak
    assert (
        made(pure, none)
        == made(pure, {**none, "similarity_peak": "0.1"})
        == made(pure, {**none, "similarity_peak": None})
    )
    escalated = {**INPUTS, "policy": policy(severe_rule="escalate")}
    # and where the search is escalated no chosen ranking
    assert made(pure, escalated) == made(pure, {**escalated, "chosen_ids": None})


@pytest.mark.parametrize(
    "setting", ["extra_float_digits = -15", "DateStyle = 'SQL'", "search_path = ''", "bytea_output = 'escape'"]
)
def test_the_digest_is_the_same_whatever_the_session_has_set(pure: Connection, setting: str) -> None:
    before = made(pure, INPUTS)
    with pure.transaction(force_rollback=True):
        pure.execute(f"SET LOCAL {setting}".encode())
        assert made(pure, INPUTS) == before


TAMPERED: dict[str, Any] = {
    "manifest_version": 2,
    "query_hash": "0" * 64,
    "query_class": "question",
    "vector_ranking": [1, 2, 4],
    "vector_ranks": [1, 1, 3],
    "vector_ranking_hash": "0" * 64,
    "keyword_ranking": [4, 5],
    "keyword_ranks": [1, 2, 2],
    "keyword_ranking_hash": "0" * 64,
    "chosen_ranking_hash": None,
    "semantic_similarity_peak": "0.100000",
    "policy": "mine@2",
    "policy_parameters": {},
    "exploratory": True,
    "arbitration_rule_id": "agree",
    "disagreement_magnitude": "0.1",
    "overlap": "1",
    "verdict": "rankings_agree",
    "directive": "Do it.",
    "manifest_digest": "0" * 64,
}
NOT_DECIDED_AGAIN = {"query_hash", "policy", "manifest_digest"}
"""What only the digest protects: anything else contradicts the rest."""


@pytest.mark.parametrize("name", TAMPERED)
def test_every_field_is_protected(pure: Connection, name: str) -> None:
    manifest = made(pure, INPUTS)
    assert manifest.keys() == TAMPERED.keys()
    changed = {**manifest, name: TAMPERED[name]}
    assert arbitration.verify(changed) != ()
    assert value(pure, "kbsearch.find_kb_manifest_fault_v1(%s::jsonb)", json.dumps(changed)) is not None
    missing = {key: one for key, one in manifest.items() if key != name}
    assert arbitration.verify(missing) != ()
    assert value(pure, "kbsearch.find_kb_manifest_fault_v1(%s::jsonb)", json.dumps(missing)) is not None
    if name not in NOT_DECIDED_AGAIN:
        assert arbitration.verify(signed(changed)) != (), "a new digest is not enough"


def test_another_question_is_found(pure: Connection) -> None:
    manifest = made(pure, INPUTS)
    assert arbitration.verify(manifest, "a question") == ()
    assert arbitration.verify(manifest, "another question") == ("the question is another",)


def test_a_field_that_no_manifest_has_is_found(pure: Connection) -> None:
    manifest = signed({**made(pure, INPUTS), "note": "x"})
    assert arbitration.verify(manifest) == ("there is no note in a manifest",)
    fault = value(pure, "kbsearch.find_kb_manifest_fault_v1(%s::jsonb)", json.dumps(manifest))
    assert fault == "there is no note in a manifest"


JUNK: list[Any] = [None, [], "x", 1, {}, {"manifest_version": 1}, {"manifest_version": True}, {"manifest_version": 1.0}]


@pytest.mark.parametrize("manifest", JUNK, ids=repr)
def test_junk_is_no_manifest(pure: Connection, manifest: Any) -> None:
    assert len(arbitration.verify(manifest)) == 1
    with pytest.raises(ArbitrationError):
        arbitration.recompute(manifest)
    assert value(pure, "kbsearch.find_kb_manifest_fault_v1(%s::jsonb)", json.dumps(manifest)) is not None


@property_test
@given(st.data())
def test_whatever_a_manifest_holds_verifying_ends_in_an_answer(pure: Connection, data: st.DataObject) -> None:
    """Any field replaced by anything that JSON can hold, with a digest that belongs to it: faults, or none, and no other error."""
    values = st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(max_size=5),
        lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=5), one, max_size=3),
        max_leaves=4,
    )
    manifest = deepcopy(made(pure, INPUTS))
    name = data.draw(st.sampled_from(sorted(TAMPERED)))
    if name == "policy_parameters" and data.draw(st.booleans()):
        manifest[name][data.draw(st.sampled_from(sorted(RULES)))] = data.draw(values)
    else:
        manifest[name] = data.draw(values)
    with contextlib.suppress(ArbitrationError):  # it cannot be written in canonical JSON
        manifest = signed(manifest)
    assert isinstance(arbitration.verify(manifest), tuple)


CANONICAL = [
    ("null", "null"),
    (' { "b" : [ 1 , 2 ] , "a" : { } } ', '{"a":{},"b":[1,2]}'),
    ("[]", "[]"),
    ('[true, false, null, -0, -17, 9007199254740991, "x"]', '[true,false,null,0,-17,9007199254740991,"x"]'),
    (
        '"\\u20ac$\\u000f\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/"',
        '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"',
    ),
    (
        r'{"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u0080": 6, "\u00f6": 7}',
        '{"\\r":2,"1":4,"\u0080":6,"ö":7,"€":1,"😀":5,"\ufb33":3}',
    ),
    (
        '{"\U0010ffff": 1, "\uffff": 2, "\U0010ffffa": 3, "\U0010fffea": 4}',
        '{"\U0010fffea":4,"\U0010ffff":1,"\U0010ffffa":3,"\uffff":2}',
    ),
    (r'"\u007f\u2028\b\f\t\u001f"', '"\u007f\u2028\\b\\f\\t\\u001f"'),
    ('{"aa": 1, "a": 2, "B": 3, "": 4}', '{"":4,"B":3,"a":2,"aa":1}'),
    ('[[[{"z": [{"y": null, "x": "1.0"}]}]]]', '[[[{"z":[{"x":"1.0","y":null}]}]]]'),
]
"""The fifth and the sixth are the examples of RFC 8785, sections 3.2.2 and 3.2.3."""


@pytest.mark.parametrize(("given_json", "canonical"), CANONICAL)
def test_json_is_written_in_the_one_way(pure: Connection, given_json: str, canonical: str) -> None:
    assert value(pure, "kbsearch.canonicalize_kb_json_v1(%s::jsonb)", given_json) == canonical
    assert arbitration.canonical_json(json.loads(given_json)) == canonical


@property_test
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(1 - 2**53, 2**53 - 1) | words,
        lambda one: st.lists(one, max_size=4) | st.dictionaries(words, one, max_size=5),
        max_leaves=12,
    )
)
def test_sql_and_python_write_json_alike_and_it_stays_what_it_was(pure: Connection, given_value: Any) -> None:
    written = arbitration.canonical_json(given_value)
    assert json.loads(written) == given_value
    assert value(pure, "kbsearch.canonicalize_kb_json_v1(%s::jsonb)", json.dumps(given_value)) == written


@pytest.mark.parametrize("number", ["0.5", "1.0", "-0.1", "9007199254740992", "1e20", "-9007199254740992"])
def test_other_numbers_have_no_place_in_canonical_json(pure: Connection, number: str) -> None:
    for text in (number, f"[{number}]", f'{{"a": [{{"b": {number}}}]}}'):
        with refused("KBARB"):
            value(pure, "kbsearch.canonicalize_kb_json_v1(%s::jsonb)", text)
        with pytest.raises(ArbitrationError):
            arbitration.canonical_json(json.loads(text))


def test_python_refuses_what_is_no_json() -> None:
    for strange in ({1: 2}, {"\ud800": 1}, object(), b"x"):
        with pytest.raises(ArbitrationError):
            arbitration.canonical_json(strange)


def test_the_hash_of_a_ranking_is_of_its_ids_as_text(pure: Connection) -> None:
    assert value(pure, "kbsearch.hash_kb_ranking_v1('{}')") == arbitration.ranking_hash([])
    assert arbitration.ranking_hash([]) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert value(pure, "kbsearch.hash_kb_ranking_v1('{12,3}')") == arbitration.ranking_hash([12, 3])
    assert value(pure, "kbsearch.hash_kb_text_v1(E'12\n3')") == arbitration.ranking_hash([12, 3])
    assert value(pure, "kbsearch.hash_kb_ranking_v1('{1,23}')") != arbitration.ranking_hash([12, 3])
    assert value(pure, "kbsearch.hash_kb_ranking_v1('{1,NULL}')") is None
    assert decided(INPUTS)["verdict"] == "vector_privileged"
