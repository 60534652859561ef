"""Law 1: the ranking is a total order, score descending and then article id, and so is every choice of what may be ranked."""

from __future__ import annotations

from hypothesis import given

from tests import oracle
from tests.load import Database, compare, rows
from tests.oracle import Article, Chunk, Search
from tests.strategies import Organisation, examples, numbered, questions_of


def test_the_ranking_is_the_oracles(db: Database) -> None:
    """Articles, scores to the billionth, places, ties, chunks, similarities and keyword scores."""

    @examples(300)
    @given(questions_of())
    def run(drawn: tuple[Organisation, Search]) -> None:
        organisation, search = drawn
        expected = oracle.rank(organisation.articles, search, organisation.reference_length)
        with db.loaded(organisation, search.profile) as org_id:
            answer = db.search(org_id, search)
            compare(rows(answer), expected)
            assert [each.settled_by_identity for each in answer] == [row.tied_with > 0 for row in expected]

    run()
