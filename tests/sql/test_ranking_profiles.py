"""create_kb_ranking_profile_v1: immutable versions, used when asked for or pinned."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.corpus import Corpus, refused


@pytest.fixture
def shelf(corpus: Corpus) -> Corpus:
    corpus.article("refunds", vector=[0, 1])
    corpus.article("llamas", vector=[1, 0])
    return corpus


def test_versions_count_up_and_a_bare_name_is_the_first(shelf: Corpus) -> None:
    assert (
        shelf.call(
            "create_kb_ranking_profile_v1", name="mine", fusion="weighted", vector_weight=0.75, keyword_weight=0.25
        )
        == "mine@1"
    )
    assert shelf.call("create_kb_ranking_profile_v1", name="mine", fusion="keyword") == "mine@2"
    assert shelf.call("create_kb_ranking_profile_v1", name="other", fusion="rrf", rrf_k=1) == "other@1"
    assert [row["score"] for row in shelf.search("refunds", [1, 0], profile="mine@1")] == [
        0.75,
        pytest.approx(0.25, abs=0.2),
    ]
    assert shelf.page("refunds", [1, 0], profile="mine")["profile"] == "mine@1"
    assert shelf.page("refunds", [1, 0], profile="mine@2")["legs"]["vector"]["reason"] == "not_in_fusion"
    assert shelf.search("refunds", [1, 0], profile="other@1")[0]["score"] == round(0.5 / 2, 9) + round(0.5 / 3, 9)


def test_a_new_version_changes_nobodys_answers_until_it_is_pinned(shelf: Corpus) -> None:
    before = shelf.page("refunds", [1, 0])
    assert before["profile"] == "weighted@1"
    pin = "UPDATE kbsearch.organizations SET ranking_profile = %s WHERE id = %s"
    first = shelf.call("create_kb_ranking_profile_v1", name="mine", fusion="vector")
    assert shelf.page("refunds", [1, 0]) == before
    shelf.run(pin, first, shelf.org_id)
    pinned = shelf.page("refunds", [1, 0])
    assert pinned["profile"] == "mine@1"
    shelf.call("create_kb_ranking_profile_v1", name="mine", fusion="keyword")
    assert shelf.page("refunds", [1, 0]) == pinned
    assert shelf.page("refunds", [1, 0], profile="weighted@1")["profile"] == "weighted@1"
    shelf.run(pin, "nothing@1", shelf.org_id)
    with refused("KBPRF"):
        shelf.page("refunds", [1, 0])


def test_a_profile_is_its_organisations_own(shelf: Corpus) -> None:
    other = Corpus(shelf.connection, "another")
    shelf.call("create_kb_ranking_profile_v1", name="mine", fusion="vector")
    with refused("KBPRF"):
        other.page("refunds", profile="mine@1")
    assert other.call("create_kb_ranking_profile_v1", name="mine", fusion="keyword") == "mine@1"


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": None},
        {"name": ""},
        {"name": "Mine"},
        {"name": "1mine"},
        {"name": "mi ne"},
        {"name": "mine@1"},
        {"name": "x" * 64},
        {"name": "weighted"},
        {"name": "rrf"},
        {"fusion": None},
        {"fusion": "arbitrary"},
        {"scorer": None},
        {"scorer": "ts_rank"},
        {"vector_weight": 0.6},
        {"vector_weight": -0.5, "keyword_weight": 1.5},
        {"vector_weight": float("nan")},
        {"keyword_weight": None},
        {"fusion": "rrf", "vector_weight": 0, "keyword_weight": 1},
        {"fusion": "rrf", "rrf_k": 0},
        {"fusion": "rrf", "rrf_k": 10_001},
        {"fusion": "rrf", "rrf_k": None},
    ],
    ids=repr,
)
def test_a_profile_that_makes_no_sense_is_refused(corpus: Corpus, arguments: dict[str, Any]) -> None:
    with refused("KBPRF") as refusal:
        corpus.call("create_kb_ranking_profile_v1", **{"name": "mine", "fusion": "weighted", **arguments})
    assert refusal.detail["problem"]
    assert corpus.value("SELECT count(*) FROM kbsearch.kb_ranking_profiles WHERE org_id = %s", corpus.org_id) == 0


def test_profiles_and_spaces_never_change(shelf: Corpus) -> None:
    shelf.call("create_kb_ranking_profile_v1", name="mine", fusion="rrf")
    with refused("KBPRF"):
        shelf.run("UPDATE kbsearch.kb_ranking_profiles SET rrf_k = 1 WHERE org_id = %s", shelf.org_id)
    with refused("KBPRF"):
        shelf.run("UPDATE kbsearch.kb_builtin_profiles SET rrf_k = 1 WHERE name = 'rrf'")
    for change in ("dimensions = 3", "model = 'x'", "revision = 'x'", "name = 'x'", """recipe = '{"x": 1}'"""):
        with refused("KBSPC"):
            shelf.run(f"UPDATE kbsearch.kb_embedding_spaces SET {change} WHERE id = %s", shelf.space())
    shelf.run("UPDATE kbsearch.kb_embedding_spaces SET name = name WHERE id = %s", shelf.space())
