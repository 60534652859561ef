"""Law 7: a weighted score is the question's, the chunk's and the corpus statistics' only: not the page's, the filters' or other candidates'."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.load import Database, compare, rows
from tests.oracle import BUILT_IN, Article, Chunk, Row, Search, Vector
from tests.strategies import (
    ABSOLUTE,
    FILTERS,
    Coverage,
    Organisation,
    examples,
    filtered,
    phrases,
    questions_of,
    vectors,
)
from tests.windowed import exactly, in_windows, look

Scored = tuple[int, int, float | None, float | None]


def scored(found: list[Row]) -> dict[int, Scored]:
    """What a row says of an article by itself; the chunk that is shown is the best one whatever else is found."""
    return {row.article_id: (row.score, row.chunk_id or 0, row.vector_similarity, row.keyword_score) for row in found}


def test_filters_and_pages_change_no_score(db: Database) -> None:
    coverage = Coverage()

    @examples(70)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        organisation, search = data.draw(questions_of(profiles=ABSOLUTE, filters=(), operators=False))
        narrow = data.draw(filtered(search, data.draw(st.lists(st.sampled_from(FILTERS), min_size=1, max_size=2))))
        if data.draw(st.booleans()):
            narrow = replace(narrow, excluded=(data.draw(phrases(2)),))
        page: dict[str, Any] = {"p_limit": data.draw(st.integers(1, 5)), "p_offset": data.draw(st.integers(0, 6))}
        with db.loaded(organisation, search.profile) as org_id:
            everything = scored(rows(db.search(org_id, search)))
            filtered_rows = scored(rows(db.search(org_id, narrow)))
            paged = scored(rows(db.search(org_id, search, **page)))
            both = scored(rows(db.search(org_id, narrow, **page)))
        for found in (filtered_rows, paged, both):
            assert found.items() <= everything.items(), {
                article: (score, everything.get(article))
                for article, score in found.items()
                if everything.get(article) != score
            }
        coverage.example(
            some_but_not_all=0 < len(filtered_rows) < len(everything), page=0 < len(paged) < len(everything)
        )

    run()
    coverage.require(some_but_not_all=0.1, page=0.3)


def test_other_articles_vectors_change_no_score(db: Database) -> None:
    """All vectors but one article's are replaced: the candidates are others, and the article's score, chunk and legs are as before."""
    coverage = Coverage()

    @examples(60)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        organisation, search = data.draw(questions_of(profiles=ABSOLUTE))
        search = replace(search, quota=None)
        kept = data.draw(st.sampled_from(organisation.articles))
        vector: Vector = data.draw(vectors(organisation.dimensions, directed=True))
        others = tuple(
            article
            if article is kept
            else replace(article, chunks=tuple(replace(chunk, vector=vector) for chunk in article.chunks))
            for article in organisation.articles
        )
        with db.loaded(organisation, search.profile) as org_id:
            before = scored(rows(db.search(org_id, search)))
            legs_before = db.page(org_id, search, p_limit=0)["legs"]
        with db.loaded(replace(organisation, articles=others), search.profile) as org_id:
            after = scored(rows(db.search(org_id, search)))
            legs_after = db.page(org_id, search, p_limit=0)["legs"]
        if legs_before["vector"]["takes_part"] == legs_after["vector"]["takes_part"]:
            assert before.get(kept.id) == after.get(kept.id)
            coverage.example(found=kept.id in before, other_candidates=before != after)

    run()
    coverage.require(found=0.25, other_candidates=0.1)


def test_a_floor_cuts_where_it_says(db: Database) -> None:
    """p_min_score at a score that occurs keeps it, a billionth more drops it, and nothing below stays."""

    @examples(50)
    @given(questions_of(filters=()), st.integers(0, 15))
    def run(drawn: tuple[Organisation, Search], place: int) -> None:
        organisation, search = drawn
        with db.loaded(organisation, search.profile) as org_id:
            ranking = rows(db.search(org_id, search))
            if not ranking:
                return
            score = ranking[place % len(ranking)].score
            for floor in (score, score + 1):
                compare(
                    rows(db.search(org_id, replace(search, min_score=floor / 1e9))),
                    [row for row in ranking if row.score >= floor],
                )

    run()


def test_scores_stay_between_0_and_1(db: Database) -> None:
    @examples(40)
    @given(questions_of(profiles=ABSOLUTE))
    def run(drawn: tuple[Organisation, Search]) -> None:
        organisation, search = drawn
        with db.loaded(organisation, search.profile) as org_id:
            found = rows(db.search(org_id, search))
        assert all(0 <= row.score <= 10**9 for row in found)
        assert all(row.keyword_score is None or 0 < row.keyword_score <= 1 for row in found)

    run()


def test_a_perfect_match_scores_1(db: Database) -> None:
    """The question's own vector, and a leg alone at full weight."""
    article = Article(5, (Chunk(5, "lamp", vector=(3, 4)),))
    with db.loaded(Organisation((article,))) as org_id:
        for profile in BUILT_IN:
            if profile.fusion in ("weighted", "vector"):
                (row,) = rows(db.search(org_id, Search(vector=(3, 4), profile=profile)))
                assert (row.score, row.vector_similarity) == (10**9, 1.0)
            if profile.scorer == "term_count":
                (row,) = rows(db.search(org_id, Search(words=("lamp",), vector=(3, 4), profile=profile)))
                assert (row.score, row.keyword_score) == (10**9, 1.0)


def test_windows_change_no_score(db: Database) -> None:
    """What one leg found has its true score from the other, too: the exact search's, whatever the window."""
    coverage = Coverage()

    @examples(70)
    @given(
        questions_of(least_articles=6, profiles=ABSOLUTE, filters=(), operators=False),
        st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=2, max_size=2, unique=True),
    )
    def run(drawn: tuple[Organisation, Search], sizes: list[int]) -> None:
        organisation, search = drawn
        windowed = in_windows(db, sizes[0])
        with windowed.loaded(organisation, search.profile) as org_id:
            through_windows = look(windowed, org_id, search).through_windows
            answers = [scored(rows(windowed.search(org_id, search)))]
            windowed.approximate(org_id, sizes[1])
            answers.append(scored(rows(windowed.search(org_id, search))))
            exactly(windowed, org_id)
            everything = scored(rows(windowed.search(org_id, search)))
        for found in answers:
            assert found.items() <= everything.items()
        coverage.example(windows=through_windows and 0 < len(answers[0]) < len(everything))

    run()
    coverage.require(windows=0.25)
