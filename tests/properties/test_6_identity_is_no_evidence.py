"""Law 6: an id settles a tie and the answer says so; it never enters a score. Ranks that are fused are competition ranks."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.load import Database, compare, rows
from tests.oracle import BUILT_IN, Article, Chunk, Profile, Search
from tests.strategies import OWN_PROFILES, Coverage, Organisation, examples, numbered, questions_of
from tests.windowed import in_windows, look

RRF = BUILT_IN[1]


def relabelled(organisation: Organisation, articles: dict[int, int], chunks: dict[int, int]) -> Organisation:
    def new(article: Article) -> Article:
        return replace(
            article,
            id=articles[article.id],
            chunks=tuple(replace(chunk, id=chunks[chunk.id]) for chunk in article.chunks),
        )

    return replace(
        organisation,
        articles=tuple(new(article) for article in organisation.articles),
        removed=tuple(new(article) for article in organisation.removed),
    )


def ids_of(organisation: Organisation) -> tuple[list[int], list[int]]:
    articles = organisation.articles + organisation.removed
    return [article.id for article in articles], [chunk.id for article in articles for chunk in article.chunks]


def test_ids_that_keep_their_order_change_nothing(db: Database) -> None:
    """Every id moved up, with gaps between: the same rows, and only the ids are others."""

    @examples(50)
    @given(questions_of(), st.sampled_from([1, 90, 2**40]), st.integers(1, 3))
    def run(drawn: tuple[Organisation, Search], shift: int, stretch: int) -> None:
        organisation, search = drawn
        article_ids, chunk_ids = ids_of(organisation)
        articles = {old: shift + stretch * (old - min(article_ids)) for old in article_ids}
        chunks = {old: shift + stretch * (old - min(chunk_ids)) for old in chunk_ids}
        with db.loaded(organisation, search.profile) as org_id:
            before = rows(db.search(org_id, search))
        with db.loaded(relabelled(organisation, articles, chunks), search.profile) as org_id:
            after = rows(db.search(org_id, search))
        compare(
            after,
            [
                replace(row, article_id=articles[row.article_id], chunk_id=row.chunk_id and chunks[row.chunk_id])
                for row in before
            ],
        )

    run()


def test_ids_in_another_order_change_no_score(db: Database) -> None:
    """Ids dealt anew: each article keeps its score and the number of its ties, only places within a tie are dealt too."""
    coverage = Coverage()

    @examples(60)
    @given(questions_of(filters=()), st.integers(0, 1000))
    def run(drawn: tuple[Organisation, Search], seed: int) -> None:
        organisation, search = drawn
        deal = random.Random(seed)
        article_ids, chunk_ids = ids_of(organisation)
        articles = dict(zip(article_ids, deal.sample(article_ids, len(article_ids)), strict=True))
        chunks = dict(zip(chunk_ids, deal.sample(chunk_ids, len(chunk_ids)), strict=True))
        with db.loaded(organisation, search.profile) as org_id:
            before = rows(db.search(org_id, search))
        with db.loaded(relabelled(organisation, articles, chunks), search.profile) as org_id:
            after = rows(db.search(org_id, search))
        compare(
            sorted((row.article_id, row.score, row.tied_with) for row in after),
            sorted((articles[row.article_id], row.score, row.tied_with) for row in before),
        )
        assert [row.score for row in after] == [row.score for row in before]
        coverage.example(ties=any(row.tied_with for row in before), rrf=search.profile.fusion == "rrf")

    run()
    coverage.require(ties=0.4, rrf=0.03)


def test_equal_articles_have_equal_scores_and_say_so(db: Database) -> None:
    """Articles of the same content: one score, under every profile; settled_by_identity is told of each of them and of nobody else."""

    @examples(60)
    @given(questions_of())
    def run(drawn: tuple[Organisation, Search]) -> None:
        organisation, search = drawn
        content = {
            article.id: repr(replace(article, id=0, chunks=tuple(replace(chunk, id=0) for chunk in article.chunks)))
            for article in organisation.articles
        }
        with db.loaded(organisation, search.profile) as org_id:
            answer = db.search(org_id, search)
        scores = defaultdict(set)
        for each in answer:
            scores[content[each.row.article_id]].add(each.row.score)
            assert each.settled_by_identity == (each.row.tied_with > 0)
        assert all(len(found) == 1 for found in scores.values()), dict(scores)
        if search.quota is None:
            for each in answer:
                assert each.row.tied_with == sum(other.row.score == each.row.score for other in answer) - 1

    run()


@pytest.mark.parametrize(
    "profile", [RRF, *(own for own in OWN_PROFILES if own.fusion == "rrf" and own.scorer == "bm25")]
)
def test_each_first_in_one_leg_only(db: Database, profile: Profile) -> None:
    """Reciprocal rank fusion of two firsts: a tie under equal weights, and the greater weight first under others."""
    articles = numbered(
        [Article(0, (Chunk(0, "lamp"),)), Article(0, (Chunk(0, "stone", vector=(1, 0)),))], 9, 9, seed=0
    )
    by_word, by_vector = (article.id for article in articles)
    parts = {
        by_word: round(1e9 * profile.keyword_weight / (profile.rrf_k + 1)),
        by_vector: round(1e9 * profile.vector_weight / (profile.rrf_k + 1)),
    }
    for order in (articles, articles[::-1]):
        with db.loaded(Organisation(order), profile) as org_id:
            answer = rows(db.search(org_id, Search(words=("lamp",), vector=(1, 0), profile=profile)))
        assert [(row.article_id, row.score) for row in answer] == sorted(
            parts.items(), key=lambda part: (-part[1], part[0])
        )
        assert {row.tied_with for row in answer} == {int(len(set(parts.values())) == 1)}


def test_ranks_are_competition_ranks(db: Database) -> None:
    """Four that tie share rank 1, and the next has rank 5."""
    shapes = [
        Article(0, (Chunk(0, vector=vector),)) for vector in [(1, 0)] * 4 + [(1, 1)] * 2 + [(0, 1)] + [(-1, 0)] * 3
    ]
    organisation = Organisation(numbered(shapes, 6, 6, seed=13))
    with db.loaded(organisation) as org_id:
        answer = rows(db.search(org_id, Search(vector=(1, 0), profile=RRF)))
    # what is turned away counts 0, as what is at right angles does
    ranks = [1] * 4 + [5] * 2 + [7] * 4
    assert [row.score for row in answer] == [round(1e9 / (60 + rank)) for rank in ranks]
    assert [row.tied_with for row in answer] == [3] * 4 + [1] * 2 + [3] * 4


def test_ties_in_windows_are_told(db: Database) -> None:
    """Of what the windows hold, equal articles have equal scores, and say with how many they tie."""
    coverage = Coverage()

    @examples(40)
    @given(questions_of(least_articles=6, filters=(), operators=False), st.sampled_from([3, 5]))
    def run(drawn: tuple[Organisation, Search], window: int) -> None:
        organisation, search = drawn
        content = {
            article.id: repr(replace(article, id=0, chunks=tuple(replace(chunk, id=0) for chunk in article.chunks)))
            for article in organisation.articles
        }
        windowed = in_windows(db, window)
        with windowed.loaded(organisation, search.profile) as org_id:
            through_windows = look(windowed, org_id, search).through_windows
            answer = windowed.search(org_id, search)
        scores = defaultdict(set)
        for each in answer:
            scores[content[each.row.article_id]].add(each.row.score)
            assert each.settled_by_identity == (each.row.tied_with > 0)
            assert each.row.tied_with == sum(other.row.score == each.row.score for other in answer) - 1
        assert all(len(found) == 1 for found in scores.values()), dict(scores)
        coverage.example(ties=through_windows and any(each.row.tied_with for each in answer))

    run()
    coverage.require(ties=0.2)
