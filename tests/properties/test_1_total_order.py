"""Law 1: the ranking is a total order, score descending and then article id, and so is every choice of what may be ranked."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.load import Database, compare, rows
from tests.oracle import BUILT_IN, Article, Chunk, Search
from tests.strategies import FILTERS, Coverage, Organisation, examples, numbered, questions_of
from tests.windowed import expected, in_windows


@pytest.mark.parametrize(
    ("filters", "operators", "number", "shares"),
    [
        (
            (),
            False,
            150,
            {
                "rows": 0.6,
                "ties": 0.5,
                "both_legs": 0.15,
                "rrf": 0.05,
                "repeated_word": 0.1,
                "languages": 0.25,
                "named": 0.02,
            },
        ),
        (("quota",), False, 40, {"rows": 0.4, "cut": 0.15}),
        (("kinds",), False, 20, {"rows": 0.2}),
        (("metadata",), False, 20, {"rows": 0.2}),
        (("min_score",), False, 30, {"rows": 0.2}),
        ((), True, 50, {"rows": 0.15, "phrases": 0.04, "excluded": 0.02}),
        (FILTERS, True, 20, {}),
    ],
    ids=["plain", *FILTERS, "operators", "everything"],
)
def test_the_ranking_is_the_oracles(
    db: Database, filters: tuple[str, ...], operators: bool, number: int, shares: dict[str, float]
) -> None:
    """Articles, scores to the billionth, places, ties, chunks, similarities and keyword scores."""
    coverage = Coverage()

    @examples(number)
    @given(questions_of(filters=filters, operators=operators))
    def run(drawn: tuple[Organisation, Search]) -> None:
        organisation, search = drawn
        expected = oracle.rank(organisation.articles, search, organisation.reference_length)
        with db.loaded(organisation, search.profile) as org_id:
            answer = db.search(org_id, search)
            total = db.page(org_id, search, p_limit=1)["total"]
        compare(rows(answer), expected)
        assert [each.settled_by_identity for each in answer] == [row.tied_with > 0 for row in expected]
        assert total == len(expected)
        some = len(expected) > 0
        coverage.example(
            rows=len(expected) > 1,
            ties=any(row.tied_with for row in expected),
            both_legs=any(row.keyword_score is not None and row.vector_similarity is not None for row in expected),
            rrf=search.profile.fusion == "rrf" and len(expected) > 1,
            repeated_word=any(count > 1 for count in search.terms("english").values())
            and len(search.terms("english")) > 1,
            languages=len({article.language for article in organisation.articles if article.published}) > 1,
            named=search.language is not None,
            cut=any(row.tied_with for row in expected)
            and len(expected) < len(oracle.rank(organisation.articles, replace(search, quota=None))),
            phrases=bool(search.phrases) and some,
            excluded=bool(search.excluded) and some,
        )

    run()
    coverage.require(**shares)


def test_equal_scores_stand_in_the_order_of_their_ids(db: Database) -> None:
    """Said of the rows themselves, whatever the scores are."""

    @examples(60)
    @given(questions_of(most_articles=24))
    def run(drawn: tuple[Organisation, Search]) -> None:
        organisation, search = drawn
        with db.loaded(organisation, search.profile) as org_id:
            answer = rows(db.search(org_id, search))
        keys = [(-row.score, row.article_id) for row in answer]
        assert keys == sorted(set(keys))
        assert [row.place for row in answer] == list(range(1, len(answer) + 1))

    run()


@pytest.mark.parametrize("profile", BUILT_IN, ids=lambda profile: profile.name)
@pytest.mark.parametrize("others", [0, 40])
def test_nine_tied_policies_and_three_places(db: Database, profile: oracle.Profile, others: int) -> None:
    """The quota takes those with the lowest ids, in whatever order they were inserted; the rows know of all nine."""
    policies = [Article(0, (Chunk(0, "lamp lamp", vector=(3, 4)),), title="lamp", kind="policy")] * 9
    faqs = [Article(0, (Chunk(0, "lamp stone", vector=(1, 1)),), kind="faq")] * others
    search = Search(words=("lamp",), vector=(3, 4), quota={"policy": 3}, profile=profile)
    for seed in range(4):
        articles = list(numbered([*policies, *faqs], 96, 7, seed))
        random.Random(seed).shuffle(articles)
        lowest = sorted(article.id for article in articles if article.kind == "policy")[:3]
        with db.loaded(Organisation(tuple(articles), scattered=True)) as org_id:
            answer = rows(db.search(org_id, search))
            kinds = {article.id: article.kind for article in articles}
            chosen = [row for row in answer if kinds[row.article_id] == "policy"]
            assert [row.article_id for row in chosen] == lowest
            assert {row.tied_with for row in chosen} <= {8, others + 8}
            compare(answer, oracle.rank(articles, search))
            for limit in (1, 2, 3):
                compare(rows(db.search(org_id, search, p_limit=limit)), answer[:limit])


def test_a_quota_counts_articles_and_not_chunks(db: Database) -> None:
    articles = numbered(
        [
            Article(0, (Chunk(0, "lamp"),) * 7, kind="policy"),
            *[Article(0, (Chunk(0, "lamp stone"),), kind="policy")] * 4,
        ],
        8,
        8,
        seed=3,
    )
    search = Search(words=("lamp",), quota={"policy": 3, "*": 0})
    with db.loaded(Organisation((*articles, replace(articles[0], id=500, chunks=(), kind="faq")))) as org_id:
        answer = rows(db.search(org_id, search))
    assert len(answer) == 3
    compare(answer, oracle.rank(articles, search))


def test_numbers_without_meaning_stand_last(db: Database) -> None:
    """NaN sorts first where it is let in: zero vectors, and norms that single precision cannot hold."""
    vectors: list[oracle.Vector] = [(0, 0), (1, 0), (1e-23, 0), (-1, 0), (0, 1e20), (0, 1)]
    articles = numbered([Article(0, (Chunk(0, "stone", vector=vector),), title="lamp") for vector in vectors], 9, 99, 5)
    for profile in BUILT_IN:
        search = Search(words=("lamp",), vector=(1, 0), profile=profile)
        with db.loaded(Organisation(articles)) as org_id:
            answer = rows(db.search(org_id, search))
        compare(answer, oracle.rank(articles, search))
        if profile.fusion == "vector":
            assert [row.vector_similarity for row in answer] == [1.0, 0.0, -1.0]


def test_below_six_decimals_vectors_tie(db: Database) -> None:
    articles = numbered(
        [Article(0, (Chunk(0, vector=vector),)) for vector in [(2000, 1), (1, 0), (3, 0)] * 3], 97, 5, 9
    )
    search = Search(vector=(1, 0), profile=BUILT_IN[2])
    with db.loaded(Organisation(articles)) as org_id:
        answer = rows(db.search(org_id, search))
    assert [(row.article_id, row.score, row.tied_with) for row in answer] == [
        (article_id, 10**9, 8) for article_id in sorted(article.id for article in articles)
    ]


def test_windows_are_ranked_as_the_exact_search_ranks_them(db: Database) -> None:
    """An approximate search has the exact ranking's rows of the articles in its windows, with their scores of both legs."""
    coverage = Coverage()

    @examples(150)
    @given(questions_of(most_articles=16), st.sampled_from([3, 1, 2, 4, 6]))
    def run(drawn: tuple[Organisation, Search], window: int) -> None:
        organisation, search = drawn
        windowed = in_windows(db, window)
        with windowed.loaded(organisation, search.profile) as org_id:
            looked, rows_expected = expected(windowed, organisation, org_id, search)
            compare(rows(windowed.search(org_id, search)), rows_expected)
        everything = oracle.rank(organisation.articles, search, organisation.reference_length)
        coverage.example(
            windows=looked.through_windows,
            both_legs=looked.through_windows and looked.retrieval["index"] is not None and bool(search.words),
            cut=looked.through_windows and len(everything) > len(rows_expected),
            rrf=looked.through_windows and search.profile.fusion == "rrf",
        )

    run()
    coverage.require(windows=0.3, both_legs=0.15, cut=0.2, rrf=0.03)
