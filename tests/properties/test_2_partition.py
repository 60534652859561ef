"""Law 2: pages of any sizes, by offset or by cursor, put end to end are the ranking: nothing twice, nothing missing, same order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.load import Database, Found, compare, rows
from tests.oracle import BUILT_IN, Article, Chunk, Profile, Search
from tests.strategies import Coverage, Organisation, examples, numbered, questions_of
from tests.windowed import in_windows, look

Step = tuple[int, str]
"""A page: its size, and how it is reached: by "offset" or by "cursor"."""


def steps(ways: Sequence[str]) -> st.SearchStrategy[list[Step]]:
    """The pages of a walk; it begins again with the first when the last is not the end."""
    sizes = st.sampled_from([2, 1, 3, 2, 4, 1, 7])
    return st.lists(st.tuples(sizes, st.sampled_from(ways)), min_size=1, max_size=5)


def walk(db: Database, org_id: int, search: Search, plan: Sequence[Step]) -> list[list[Found]]:
    """The pages from the first to the empty one that is behind the end, which is left out."""
    pages: list[list[Found]] = []
    seen = 0
    while True:
        size, way = plan[len(pages) % len(plan)]
        by_cursor = way == "cursor" and seen > 0
        place: dict[str, Any] = {"p_cursor": pages[-1][-1].cursor} if by_cursor else {"p_offset": seen}
        page = db.search(org_id, search, p_limit=size, **place)
        if not page:
            return pages
        pages.append(page)
        seen += len(page)
        assert seen <= 1000, "a walk without an end"


def together(pages: Sequence[Sequence[Found]]) -> list[Found]:
    return [each for page in pages for each in page]


def test_pages_of_any_sizes_are_the_ranking(db: Database) -> None:
    coverage = Coverage()

    @examples(150)
    @given(
        questions_of(least_articles=8, most_articles=18),
        steps(["offset"]),
        steps(["cursor"]),
        steps(["offset", "cursor", "cursor"]),
    )
    def run(drawn: tuple[Organisation, Search], offsets: list[Step], cursors: list[Step], mixed: list[Step]) -> None:
        organisation, search = drawn
        with db.loaded(organisation, search.profile) as org_id:
            ranking = db.search(org_id, search)
            walks = [walk(db, org_id, search, plan) for plan in (offsets, cursors, mixed)]
        for pages in walks:
            compare(together(pages), ranking)
        full = [
            len(pages) >= 2 and len(pages[1]) == plan[1 % len(plan)][0]
            for pages, plan in zip(walks, (offsets, cursors, mixed), strict=True)
        ]
        coverage.example(
            two_full_pages=any(full),
            two_full_pages_of_every_walk=all(full),
            tie_across_a_break=any(
                left[-1].row.score == right[0].row.score for pages in walks for left, right in pairwise(pages)
            ),
        )

    run()
    coverage.require(two_full_pages=1 / 2, two_full_pages_of_every_walk=1 / 3, tie_across_a_break=1 / 3)


def test_every_rows_cursor_resumes_behind_it(db: Database) -> None:
    coverage = Coverage()

    @examples(50)
    @given(questions_of(least_articles=6, most_articles=14), st.integers(1, 4), st.integers(0, 3))
    def run(drawn: tuple[Organisation, Search], size: int, skip: int) -> None:
        organisation, search = drawn
        with db.loaded(organisation, search.profile) as org_id:
            ranking = db.search(org_id, search)
            for place, each in enumerate(ranking, start=1):
                compare(db.search(org_id, search, p_cursor=each.cursor), ranking[place:])
                compare(db.search(org_id, search, p_cursor=each.cursor, p_limit=size), ranking[place : place + size])
            beside = db.search(org_id, search, p_offset=skip, p_limit=size)
        compare(beside, ranking[skip : skip + size])
        coverage.example(
            two_full_pages=len(ranking) >= 2 * size,
            ids_of_two_lengths=len({len(str(each.row.article_id)) for each in ranking}) > 1,
            scores_of_two_lengths=len({len(str(each.row.score)) for each in ranking}) > 1,
        )

    run()
    coverage.require(two_full_pages=1 / 2, ids_of_two_lengths=1 / 5, scores_of_two_lengths=1 / 20)


def test_a_limit_is_a_prefix_of_a_higher_one(db: Database) -> None:
    """Also of its total and its ties: what is counted does not depend on how much of it is shown."""

    @examples(50)
    @given(questions_of(most_articles=18), st.lists(st.integers(0, 20), min_size=1, max_size=5))
    def run(drawn: tuple[Organisation, Search], limits: list[int]) -> None:
        organisation, search = drawn
        with db.loaded(organisation, search.profile) as org_id:
            ranking = db.search(org_id, search)
            for limit in limits:
                compare(db.search(org_id, search, p_limit=limit), ranking[:limit])
                assert db.page(org_id, search, p_limit=limit)["total"] == len(ranking)

    run()


def test_pages_as_json_are_the_same_rows(db: Database) -> None:
    """search_kb_hybrid_page_v1 walked with its own next_cursor, to the page that says it is the last."""

    @examples(40)
    @given(questions_of(most_articles=12), st.lists(st.integers(1, 5), min_size=1, max_size=3))
    def run(drawn: tuple[Organisation, Search], sizes: list[int]) -> None:
        organisation, search = drawn
        with db.loaded(organisation, search.profile) as org_id:
            ranking = db.search(org_id, search)
            items: list[dict[str, Any]] = []
            cursor = None
            number = 0
            while True:
                page = db.page(org_id, search, p_limit=sizes[number % len(sizes)], p_cursor=cursor)
                items += page["items"]
                assert page["total"] == len(ranking)
                assert page["end_reached"] == (len(items) == len(ranking))
                assert page["next_cursor"] == (None if page["end_reached"] else items[-1]["cursor"])
                if page["end_reached"]:
                    break
                cursor = page["next_cursor"]
                number += 1
        shown = [(item["place"], item["article_id"], item["chunk_id"], item["score"], item["cursor"]) for item in items]
        compare(
            shown,
            [
                (each.row.place, each.row.article_id, each.row.chunk_id, each.row.score / 1e9, each.cursor)
                for each in ranking
            ],
        )

    run()


@pytest.mark.parametrize("profile", BUILT_IN, ids=lambda profile: profile.name)
def test_scores_and_ids_are_compared_as_numbers(db: Database, profile: Profile) -> None:
    """Scores of 1 to 10 digits, ids of 1 to 4: a cursor that compares text loses or repeats some of them."""
    vectors: list[tuple[int, int]] = [(1, 0), (1, 1000), (1, 30), (1, 3), (-1, 0), (1, 200_000 // 100)]
    shapes = [Article(0, (Chunk(0, word, vector=vector),)) for vector in vectors for word in ("lamp", "stone")]
    for first in (1, 95, 995):
        articles = numbered(shapes, first, first, seed=first)
        search = Search(words=("lamp",), vector=(1, 0), profile=profile)
        with db.loaded(Organisation(articles)) as org_id:
            ranking = db.search(org_id, search)
            assert len(ranking) in (6, 12)
            for size in (1, 2, 5):
                compare(together(walk(db, org_id, search, [(size, "cursor")])), ranking)


def eight(vector: tuple[int, int]) -> Organisation:
    """Eight articles of identical titles and vectors, whose ids cross 9 to 10."""
    return Organisation(numbered([Article(0, (Chunk(0, "stone", vector=vector),), title="lamp")] * 8, 4, 96, seed=11))


@pytest.mark.parametrize("embedding", [None, (1.0, 0.0)])
@pytest.mark.parametrize("vector", [(0, 0), (3, 4)])
@pytest.mark.parametrize("profile", BUILT_IN, ids=lambda profile: profile.name)
def test_eight_articles_of_identical_titles(
    db: Database, profile: Profile, vector: tuple[int, int], embedding: tuple[float, float] | None
) -> None:
    """The example of the field: with a word that matches, all eight, tied; without one, as many as have a direction to compare."""
    words = profile.fusion != "vector"
    directed = vector != (0, 0) and embedding is not None and profile.fusion != "keyword"
    if not words and embedding is None:
        with db.loaded(eight(vector)) as org_id, pytest.raises(psycopg.Error) as caught:
            db.search(org_id, Search(words=("lamp",), profile=profile))
        assert caught.value.sqlstate == "KBQRY"
        return
    with db.loaded(eight(vector)) as org_id:
        for word, matches in (("lamp", words), ("walrus", False)):
            search = Search(words=(word,), vector=embedding, profile=profile)
            ranking = db.search(org_id, search)
            if not matches and not directed:
                assert ranking == []
            else:
                assert [(each.row.article_id, each.row.tied_with) for each in ranking] == [
                    (n, 7) for n in sorted(a.id for a in eight(vector).articles)
                ]
                assert all(each.settled_by_identity for each in ranking)
                assert len({each.row.score for each in ranking}) == 1
            for size in (1, 2, 3):
                for way in ("offset", "cursor"):
                    compare(together(walk(db, org_id, search, [(size, way)])), ranking)
            legs = db.page(org_id, search)["legs"]
            assert legs["vector"]["takes_part"] == directed
            assert legs["vector"]["reason"] == (
                "not_in_fusion"
                if profile.fusion == "keyword"
                else "no_embedding"
                if embedding is None
                else "no_direction"
                if vector == (0, 0)
                else None
            )
            assert legs["keyword"]["takes_part"] == matches
            assert legs["keyword"]["reason"] == (
                "not_in_fusion" if not words else None if matches else "no_known_words"
            )


def test_pages_of_one_tie_of_many(db: Database) -> None:
    """Sixty articles of one score among forty others, and one with 150 chunks of that score: no cut before the collapse may show."""
    tied = Article(0, (Chunk(0, "lamp", vector=(3, 4)),))
    shapes = [Article(0, tied.chunks * 150), *[tied] * 60, *[Article(0, (Chunk(0, "stone lamp", vector=(0, 1)),))] * 40]
    organisation = Organisation(numbered(shapes, 60, 9, seed=2), scattered=True)
    for profile in BUILT_IN:
        search = Search(words=("lamp",), vector=(3, 4), profile=profile)
        with db.loaded(organisation) as org_id:
            ranking = db.search(org_id, search)
            assert len(ranking) == 101
            assert sorted(row.article_id for row in rows(ranking)) == sorted(a.id for a in organisation.articles)
            for limit in (1, 5, 50):
                compare(db.search(org_id, search, p_limit=limit), ranking[:limit])
                assert db.page(org_id, search, p_limit=limit)["total"] == 101
            compare(together(walk(db, org_id, search, [(17, "cursor"), (30, "offset")])), ranking)


def test_pages_of_windows_are_their_ranking(db: Database) -> None:
    """Windows do not depend on the page: pages put end to end are the ranking of the windows, and the last says that the exact one goes on."""
    coverage = Coverage()

    @examples(60)
    @given(
        questions_of(least_articles=8, most_articles=18, filters=(), operators=False),
        st.sampled_from([3, 5, 2]),
        steps(["offset", "cursor"]),
    )
    def run(drawn: tuple[Organisation, Search], window: int, plan: list[Step]) -> None:
        organisation, search = drawn
        windowed = in_windows(db, window)
        with windowed.loaded(organisation, search.profile) as org_id:
            looked = look(windowed, org_id, search)
            ranking = windowed.search(org_id, search)
            pages = walk(windowed, org_id, search, plan)
            for size in (1, 4):
                compare(windowed.search(org_id, search, p_limit=size), ranking[:size])
            last = windowed.page(org_id, search, p_limit=3, p_offset=max(0, len(ranking) - 2))
            behind = windowed.page(org_id, search, p_offset=len(ranking) + 1)
            first = windowed.page(org_id, search, p_limit=1)
        compare(together(pages), ranking)
        for page in (last, behind):
            assert page["end_reached"]
            assert page["next_cursor"] is None
            assert page["retrieval"]["window_exhausted"] == looked.retrieval.get("is_cut", False)
        assert behind["items"] == []
        assert first["retrieval"]["reachable"] == len(ranking)
        assert first["retrieval"]["mode"] == looked.retrieval["mode"]
        assert not first["retrieval"]["window_exhausted"] or len(ranking) <= 1
        coverage.example(windows=looked.through_windows, several=looked.through_windows and len(pages) > 1)

    run()
    coverage.require(windows=0.4, several=0.15)


def test_leading_places_that_are_certain_are_the_exact_rankings(db: Database) -> None:
    """Whatever the windows hold; and those that are settled, as the index of so few vectors has the nearest ones in its window."""
    coverage = Coverage()

    @examples(150)
    @given(questions_of(least_articles=6, most_articles=18, filters=(), operators=False), st.sampled_from([3, 5, 2, 8]))
    def run(drawn: tuple[Organisation, Search], window: int) -> None:
        organisation, search = drawn
        windowed = in_windows(db, window)
        with windowed.loaded(organisation, search.profile) as org_id:
            answer = windowed.page(org_id, search)
            shown = [(item["article_id"], item["score"], item["chunk_id"]) for item in answer["items"]]
        exact = [
            (row.article_id, row.score / 1e9, row.chunk_id)
            for row in oracle.rank(organisation.articles, search, organisation.reference_length)
        ]
        retrieval = answer["retrieval"]
        assert 0 <= retrieval["certain"] <= retrieval["settled"] <= retrieval["reachable"] == len(shown)
        settled = retrieval["settled"]
        places = [(article, chunk) for article, _, chunk in shown[:settled]]
        assert places == [(article, chunk) for article, _, chunk in exact[:settled]]
        if search.profile.fusion != "rrf":
            assert shown[:settled] == exact[:settled]
        windows = retrieval["mode"] == "ann"
        coverage.example(
            windows=windows,
            certain=windows and retrieval["certain"] > 0,
            settled=windows and settled > 0,
            not_all=windows and settled < len(shown),
            rrf=windows and settled > 0 and search.profile.fusion == "rrf",
        )

    run()
    coverage.require(windows=0.4, certain=0.03, settled=0.03, not_all=0.1)


@pytest.mark.parametrize(
    "profile", [one for one in BUILT_IN if one.fusion != "arbitrate"], ids=lambda profile: profile.name
)
def test_leading_places_are_settled_where_scores_differ(db: Database, profile: Profile) -> None:
    """Thirty articles, of which the one that is nearer has more of the words: the windows of eight leave some places without a doubt."""
    shapes = [
        Article(0, (Chunk(0, " ".join(["lamp stone"] * (30 - number) + ["milk"] * number), vector=(30, number)),))
        for number in range(30)
    ]
    organisation = Organisation(numbered(shapes, 90, 7, seed=4))
    search = Search(words=("lamp", "stone"), vector=(30, 0), profile=profile)
    exact = [row.article_id for row in oracle.rank(organisation.articles, search)]
    windowed = in_windows(db, 8)
    with windowed.loaded(organisation) as org_id:
        answer = windowed.page(org_id, search)
    retrieval = answer["retrieval"]
    assert retrieval["mode"] == "ann"
    assert retrieval["window_exhausted"]
    if profile.scorer == "bm25":
        assert 5 <= retrieval["settled"] <= 8
    assert (retrieval["certain"] > 0) == (profile.fusion in ("weighted", "keyword") and profile.scorer == "bm25")
    shown = [item["article_id"] for item in answer["items"]]
    assert shown[: retrieval["settled"]] == exact[: retrieval["settled"]]
