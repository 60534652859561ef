"""Law 5: an article is one result, with the score of its best chunk; of equally good chunks the lowest id is shown; a page of n holds n articles."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from tests import oracle
from tests.load import Database, compare, rows
from tests.oracle import BUILT_IN, Article, Chunk, Profile, Search
from tests.strategies import ABSOLUTE, Coverage, Organisation, examples, numbered, questions_of
from tests.windowed import in_windows, look


def taken_apart(organisation: Organisation) -> Organisation:
    """The same chunks, each the only one of an article that has the chunk's id."""
    return replace(
        organisation,
        removed=(),
        articles=tuple(
            replace(article, id=chunk.id, chunks=(chunk,))
            for article in organisation.articles
            for chunk in article.chunks
        ),
    )


def test_an_article_is_its_best_chunk(db: Database) -> None:
    """Asked of the database alone: every chunk as an article of its own gives the scores, and the best of each article's is the article's."""
    coverage = Coverage()

    @examples(80)
    @given(questions_of(most_articles=10, most_chunks=5, profiles=ABSOLUTE, filters=(), operators=False))
    def run(drawn: tuple[Organisation, Search]) -> None:
        organisation, search = drawn
        article_of = {chunk.id: article.id for article in organisation.articles for chunk in article.chunks}
        with db.loaded(taken_apart(organisation), search.profile) as org_id:
            chunks = [each.row for each in db.search(org_id, search)]
        with db.loaded(organisation, search.profile) as org_id:
            articles = [each.row for each in db.search(org_id, search)]
        best: dict[int, oracle.Row] = {}
        for row in sorted(chunks, key=lambda row: (-row.score, row.article_id)):
            best.setdefault(article_of[row.article_id], row)
        assert len({row.article_id for row in articles}) == len(articles)
        kinds = {article.id: article.kind for article in organisation.articles}
        compare(
            [(row.article_id, row.score, row.chunk_id, row.vector_similarity, row.keyword_score) for row in articles],
            [
                (
                    article_id,
                    row.score,
                    None if kinds[article_id] in oracle.NOT_INSPECTABLE else row.article_id,
                    row.vector_similarity,
                    row.keyword_score,
                )
                for article_id, row in sorted(best.items(), key=lambda entry: (-entry[1].score, entry[0]))
            ],
        )
        coverage.example(
            several_chunks=len(chunks) > len(articles) > 0,
            equal_chunks=len({(article_of[row.article_id], row.score) for row in chunks}) < len(chunks),
        )

    run()
    coverage.require(several_chunks=0.5, equal_chunks=0.3)


@pytest.mark.parametrize("profile", BUILT_IN, ids=lambda profile: profile.name)
def test_one_article_of_two_hundred_chunks_is_one_result(db: Database, profile: Profile) -> None:
    """All of them nearer, and with more of the word, than any other article's: a page of ten has ten articles."""
    long = Article(0, tuple(Chunk(0, "lamp lamp lamp", vector=(3, 4)) for _ in range(200)))
    short = [Article(0, (Chunk(0, "lamp stone cloud", vector=(1, number)),)) for number in range(2, 14)]
    organisation = Organisation(numbered([long, *short], 93, 950, seed=6), scattered=True)
    search = Search(words=("lamp",), vector=(3, 4), profile=profile)
    expected = oracle.rank(organisation.articles, search)
    assert len(expected) == 13
    with db.loaded(organisation) as org_id:
        for limit in (1, 2, 10, 13):
            compare(rows(db.search(org_id, search, p_limit=limit)), expected[:limit])
        compare(rows(db.search(org_id, search, p_limit=10, p_offset=3)), expected[3:])


@pytest.mark.parametrize("profile", BUILT_IN, ids=lambda profile: profile.name)
def test_of_equally_good_chunks_the_lowest_is_shown(db: Database, profile: Profile) -> None:
    """Whatever the order in which they were written: their ids cross 99 to 100."""
    chunks = [Chunk(0, "lamp", vector=(3, 4))] * 9 + [Chunk(0, "stone", vector=(4, 3))] * 3
    for seed in range(6):
        organisation = Organisation(numbered([Article(0, tuple(chunks))] * 5, 8, 78, seed), scattered=seed % 2 == 1)
        search = Search(words=("lamp",), vector=(3, 4), profile=profile)
        with db.loaded(organisation) as org_id:
            shown = {row.article_id: row.chunk_id for row in rows(db.search(org_id, search))}
        assert shown == {
            article.id: min(chunk.id for chunk in article.chunks if chunk.content == "lamp")
            for article in organisation.articles
        }


def test_an_article_with_nothing_to_open_shows_no_chunk(db: Database) -> None:
    organisation = Organisation(
        numbered([Article(0, (Chunk(0, "lamp"),), kind=kind) for kind in ("faq", "policy")], 1, 1, 0)
    )
    with db.loaded(organisation) as org_id:
        answer = db.page(org_id, Search(words=("lamp",)))["items"]
    assert [(item["kind"], item["inspectable"], item["chunk_id"]) for item in answer] == [
        ("faq", False, None),
        ("policy", True, 2),
    ]


@pytest.mark.parametrize(
    "profile", [one for one in BUILT_IN if one.fusion != "arbitrate"], ids=lambda profile: profile.name
)
def test_windows_hold_articles_and_not_chunks(db: Database, profile: Profile) -> None:
    """One article's two hundred chunks are nearer, and have more of the word, than any other's: windows of ten have ten articles."""
    long = Article(0, tuple(Chunk(0, "lamp lamp lamp", vector=(3, 4)) for _ in range(200)))
    short = [Article(0, (Chunk(0, "lamp stone cloud", vector=(1, number)),)) for number in range(2, 24)]
    organisation = Organisation(numbered([long, *short], 93, 950, seed=6), scattered=True)
    search = Search(words=("lamp",), vector=(3, 4), profile=profile)
    windowed = in_windows(db, 10)
    with windowed.loaded(organisation) as org_id:
        looked = look(windowed, org_id, search)
        assert looked.through_windows
        assert looked.articles is not None
        assert 10 <= len(looked.articles) <= 20
        expected = oracle.rank(organisation.articles, search, within=looked.articles)
        for limit in (1, 2, 10, 20):
            compare(rows(windowed.search(org_id, search, p_limit=limit)), expected[:limit])
