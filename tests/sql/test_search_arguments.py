"""What search_kb_hybrid_v1 and search_kb_hybrid_page_v1 accept and refuse."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.sql.corpus import Corpus, refused

FUNCTIONS_OF_AN_ORGANISATION: dict[str, dict[str, Any]] = {
    "search_kb_hybrid_v1": {"query_text": "refunds"},
    "search_kb_hybrid_page_v1": {"query_text": "refunds"},
    "upsert_kb_article_v1": {"title": "x"},
    "delete_kb_article_v1": {"article_id": 1},
    "reserve_kb_articles_v1": {"external_refs": ["a"]},
    "rebuild_kb_index_v1": {},
    "compact_kb_postings_v1": {},
    "calibrate_kb_corpus_v1": {},
    "create_kb_ranking_profile_v1": {"name": "mine", "fusion": "vector"},
}


@pytest.mark.parametrize("function", FUNCTIONS_OF_AN_ORGANISATION)
@pytest.mark.parametrize("org_id", [None, 0, -1, 2**62])
def test_a_missing_organisation_is_an_error_and_never_everybody(
    corpus: Corpus, function: str, org_id: int | None
) -> None:
    corpus.article("refunds")
    with refused("KBORG") as refusal:
        corpus.call(function, **{**FUNCTIONS_OF_AN_ORGANISATION[function], "org_id": org_id})
    assert refusal.detail["org_id"] == org_id


@pytest.mark.parametrize(
    "arguments",
    [
        {"kinds": []},
        {"kinds": ["policy", None]},
        {"metadata": []},
        {"metadata": [1]},
        {"metadata": [{"k": 1}, "x"]},
        {"metadata": "1"},
        {"metadata": '"x"'},
        {"metadata": "null"},
        {"kind_quota": "[]"},
        {"kind_quota": "3"},
        {"kind_quota": {"policy": -1}},
        {"kind_quota": {"policy": 1.5}},
        {"kind_quota": {"policy": "3"}},
        {"kind_quota": {"policy": None}},
        {"kind_quota": {"policy": 1e10}},
        {"min_score": float("nan")},
    ],
    ids=repr,
)
def test_filters_that_mean_nothing_are_refused(corpus: Corpus, arguments: dict[str, Any]) -> None:
    corpus.article("refunds")
    with refused("KBFLT") as refusal:
        corpus.search("refunds", **arguments)
    assert refusal.detail["argument"] == f"p_{next(iter(arguments))}"


def test_kinds_and_metadata_filter_both_legs_and_no_score(corpus: Corpus) -> None:
    policy = corpus.article("refunds", vector=[1, 0], kind="policy", metadata={"region": "eu", "tags": ["a", "b"]})
    faq = corpus.article("refunds", vector=[1, 0], kind="faq", metadata={"region": "us"})
    page = corpus.article("refunds in all", vector=[1, 1], kind="page")
    for embedding in (None, [1, 0]):
        everything = {row["article_id"]: row["score"] for row in corpus.search("refunds", embedding)}
        assert set(everything) == {policy, faq, page}
        for arguments, expected in (
            ({"kinds": ["policy"]}, {policy}),
            ({"kinds": ["policy", "faq", "unknown"]}, {policy, faq}),
            ({"kinds": ["unknown"]}, set()),
            ({"metadata": {}}, {policy, faq, page}),
            ({"metadata": {"region": "eu"}}, {policy}),
            ({"metadata": {"tags": ["b"]}}, {policy}),
            ({"metadata": [{"region": "us"}, {"tags": ["a"]}]}, {policy, faq}),
            ({"metadata": {"region": "xx"}}, set()),
            ({"metadata": {"region": "eu"}, "kinds": ["faq"]}, set()),
        ):
            rows = corpus.search("refunds", embedding, **arguments)
            assert {row["article_id"]: row["score"] for row in rows} == {
                article: everything[article] for article in expected
            }


def test_a_floor_cuts_at_the_score_that_is_shown(corpus: Corpus) -> None:
    for n in range(6):
        corpus.article("refunds " + "of it " * n, vector=[3, n])
    rows = corpus.search("refunds", [1, 0])
    for n, row in enumerate(rows):
        assert [r["article_id"] for r in corpus.search("refunds", [1, 0], min_score=row["score"])] == [
            r["article_id"] for r in rows[: n + 1]
        ]
        assert len(corpus.search("refunds", [1, 0], min_score=row["score"] + 1e-9)) == n
    assert corpus.found("refunds", [1, 0], min_score=float("-inf")) == [row["article_id"] for row in rows]
    assert corpus.search("refunds", [1, 0], min_score=float("inf")) == []
    assert corpus.page("refunds", [1, 0], min_score=2)["total"] == 0


@pytest.mark.parametrize(
    "profile",
    [
        "none@1",
        "weighted@2",
        "weighted@0",
        "weighted@",
        "@1",
        "",
        "weighted@1x",
        "WEIGHTED@1",
        "weighted@99999999999",
        " weighted@1",
    ],
)
def test_an_unknown_profile_is_refused(corpus: Corpus, profile: str) -> None:
    with refused("KBPRF") as refusal:
        corpus.search("refunds", profile=profile)
    assert refusal.detail["profile"] == profile


def test_an_unknown_space_is_refused(corpus: Corpus) -> None:
    with refused("KBSPC") as refusal:
        corpus.search("refunds", [1, 0], space_id=2**62)
    assert refusal.detail["space_id"] == 2**62


def test_quota_of_zero_and_of_unnamed_kinds(corpus: Corpus) -> None:
    articles = {kind: [corpus.article("refunds", kind=kind) for _ in range(3)] for kind in ("policy", "faq", "page")}
    assert corpus.found("refunds", kind_quota={"policy": 0}) == [*articles["faq"], *articles["page"]]
    assert corpus.found("refunds", kind_quota={"policy": 2, "*": 0}) == articles["policy"][:2]
    assert corpus.found("refunds", kind_quota={"policy": 1, "*": 1}) == [
        articles[kind][0] for kind in ("policy", "faq", "page")
    ]
    assert corpus.found("refunds", kind_quota={}) == list(itertools.chain.from_iterable(articles.values()))
    assert corpus.page("refunds", kind_quota={"*": 2})["total"] == 6


def test_both_functions_give_the_same_rows(corpus: Corpus) -> None:
    for n in range(4):
        corpus.article(f"refunds {n}", title=f"T{n}", vector=[1, n], metadata={"n": n}, external_ref=f"r{n}")
    assert corpus.page("refunds", [1, 1])["items"] == corpus.search("refunds", [1, 1])


def test_searches_write_nothing(corpus: Corpus) -> None:
    corpus.article("refunds", vector=[1, 0])
    with corpus.connection.transaction():
        corpus.run("SET TRANSACTION READ ONLY")
        assert corpus.page("refunds", [1, 0])["total"] == 1
        assert len(corpus.search("refunds", [1, 0])) == 1
