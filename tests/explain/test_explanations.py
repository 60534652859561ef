"""Explanations against the oracle: the same rows, contributions that add up bit for bit, ties with their ids, and why an article is absent."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from psycopg.rows import dict_row

from tests import oracle
from tests.load import Database, arguments, call
from tests.oracle import Article, Chunk, Search
from tests.strategies import FILTERS, Coverage, Organisation, examples, numbered, questions_of

SHARED = (
    *(
        "place",
        "article_id",
        "score",
        "chunk_id",
        "kind",
        "title",
        "external_ref",
        "vector_similarity",
        "keyword_score",
    ),
    *("tied_with", "settled_by_identity", "cursor"),
)


def explained(db: Database, org_id: int, search: Search, **others: Any) -> list[dict[str, Any]]:
    given = arguments(org_id, search, **others)
    with db.connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"SELECT e.* FROM {call('explain_kb_search_v1', given)} AS e", given).fetchall()


def searched(db: Database, org_id: int, search: Search, **others: Any) -> list[dict[str, Any]]:
    given = arguments(org_id, search, **others)
    with db.connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"SELECT s.* FROM {call('search_kb_hybrid_v1', given)} AS s", given).fetchall()


def candidates(db: Database, org_id: int, search: Search) -> list[dict[str, Any]]:
    given = arguments(org_id, search)
    del given["p_limit"]
    with db.connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"SELECT e.* FROM {call('explain_kb_candidates_v1', given)} AS e", given).fetchall()


def reason(db: Database, org_id: int, search: Search, article_id: int, **others: Any) -> dict[str, Any]:
    given = {**arguments(org_id, search, **others), "p_article_id": article_id}
    answer = db.connection.execute(
        f"SELECT {call('explain_kb_article_v1', given)[:-1]}, p_article_id => %(p_article_id)s::bigint)", given
    ).fetchone()
    assert answer is not None
    found: dict[str, Any] = answer[0]
    return found


def test_the_same_rows_and_contributions_that_add_up(db: Database) -> None:
    """Bit for bit, for every row of generated searches: contributions make the score, the words' contributions the keyword score."""
    coverage = Coverage()

    @examples(150)
    @given(questions_of(), st.integers(1, 5))
    def run(drawn: tuple[Organisation, Search], size: int) -> None:
        organisation, search = drawn
        wanted = oracle.find(organisation.articles, search, organisation.reference_length)
        vector_ranks, keyword_ranks = (
            oracle.competition_ranks(best) for best in oracle.legs_of(wanted.found, wanted.bound)
        )
        with db.loaded(organisation, search.profile) as org_id:
            plain = searched(db, org_id, search)
            rows = explained(db, org_id, search)
            paged = explained(db, org_id, search, p_limit=size)
            if len(paged) == size:
                paged += explained(db, org_id, search, p_cursor=paged[-1]["cursor"])
        assert [{name: row[name] for name in SHARED} for row in rows] == [
            {name: row[name] for name in SHARED} for row in plain
        ]
        assert paged == rows
        for row in rows:
            assert row["vector_contribution"] + row["keyword_contribution"] == row["score_billionths"]
            assert row["score_billionths"] / 1e9 == row["score"]
            assert row["vector_rank"] == vector_ranks.get(row["article_id"])
            assert row["keyword_rank"] == keyword_ranks.get(row["article_id"])
            if search.profile.fusion != "rrf":
                raw = sum(match["contribution"] for match in row["matches"])
                assert (round(raw * 1e9 / wanted.bound) / 1e9 if row["matches"] else None) == row["keyword_score"]
            tied = [hit.article_id for hit in wanted.ordered if hit.score == row["score_billionths"]]
            assert row["tied_article_ids"] == sorted(set(tied) - {row["article_id"]})
            assert len(row["tied_article_ids"]) == row["tied_with"]
            says = "says nothing about relevance" in row["explanation"]
            assert says == row["settled_by_identity"] == (row["tied_with"] > 0)
        coverage.example(
            rows=len(rows) > 1,
            tied=any(row["tied_with"] for row in rows),
            words=any(row["matches"] for row in rows),
            rrf=search.profile.fusion == "rrf" and len(rows) > 1,
        )

    run()
    coverage.require(rows=0.6, tied=0.4, words=0.2, rrf=0.05)


def test_candidates_and_what_the_quota_made_of_them(db: Database) -> None:
    """Every candidate, kind by kind, and exactly the ties that the quota cuts through."""
    coverage = Coverage()

    @examples(120)
    @given(questions_of(filters=("quota",), least_articles=8))
    def run(drawn: tuple[Organisation, Search]) -> None:
        organisation, search = drawn
        wanted = oracle.find(organisation.articles, search, organisation.reference_length)
        placed = oracle.cut(wanted, search)
        places = {
            row.article_id: row.place
            for row in oracle.rank(organisation.articles, search, organisation.reference_length)
        }
        with db.loaded(organisation, search.profile) as org_id:
            rows = candidates(db, org_id, search)
        expected = []
        for hit, place_in_kind, kept in sorted(placed, key=lambda entry: (wanted.kinds[entry[0].article_id], entry[1])):
            kind = wanted.kinds[hit.article_id]
            group = [
                keeps
                for other, _, keeps in placed
                if other.score == hit.score and wanted.kinds[other.article_id] == kind
            ]
            expected.append(
                {
                    "kind": kind,
                    "place_in_kind": place_in_kind,
                    "article_id": hit.article_id,
                    "score": hit.score / 1e9,
                    "quota": oracle.quota_of(search, kind),
                    "kept": kept,
                    "place": places.get(hit.article_id),
                    "tied_in_kind": len(group) - 1,
                    "is_tie_cut": True in group and False in group,
                }
            )
        assert [{name: row[name] for name in expected[0]} for row in rows] == expected if expected else rows == []
        assert {row["chunk_id"] for row in rows if row["kind"] in oracle.NOT_INSPECTABLE} <= {None}
        coverage.example(cut=any(row["is_tie_cut"] for row in rows))

    run()
    coverage.require(cut=0.2)


def test_why_an_article_is_here_or_not(db: Database) -> None:
    """Every article of generated organisations, removed and foreign ones too, gets the first reason that holds."""
    seen = set()

    @examples(300)
    @given(st.one_of(questions_of(), *(questions_of(filters=(one,)) for one in FILTERS)), st.integers(1, 4))
    def run(drawn: tuple[Organisation, Search], size: int) -> None:
        organisation, search = drawn
        ranking = oracle.rank(organisation.articles, search, organisation.reference_length)
        places = {row.article_id: row for row in ranking}
        with db.loaded(organisation, search.profile) as org_id:
            for article in [*organisation.articles, *organisation.removed]:
                answer = reason(db, org_id, search, article.id, p_limit=size)
                expected = oracle.explain(organisation.articles, search, article.id, organisation.reference_length)
                assert (answer["status"], answer["article_id"]) == (expected, article.id)
                if expected == "ranked":
                    row = places[article.id]
                    assert (answer["place"], answer["tied_with"]) == (row.place, row.tied_with)
                    assert answer["on_page"] == (row.place <= size)
                    gap = ranking[size - 1].score - row.score if row.place > size else None
                    assert answer["gap_to_page"] == (None if gap is None else gap / 1e9)
                if expected in ("not_in_organization", "unpublished"):
                    assert answer["title"] is None
                seen.add(expected)

    run()
    assert seen >= {
        "ranked",
        "not_in_organization",
        "unpublished",
        "filtered",
        "outside_quota",
        "excluded",
        "not_found",
        "below_floor",
    }


def test_an_exclusion_is_told_before_the_floor(db: Database) -> None:
    """Both hold."""
    articles = numbered([Article(0, (Chunk(0, "lamp stone"),)), Article(0, (Chunk(0, "lamp"),))], 1, 1, seed=1)
    search = Search(words=("lamp",), excluded=(("stone",),), min_score=1.0)
    with db.loaded(Organisation(articles)) as org_id:
        status = {article.id: reason(db, org_id, search, article.id)["status"] for article in articles}
    assert status == {article.id: oracle.explain(articles, search, article.id) for article in articles}
    assert set(status.values()) == {"excluded", "below_floor"}
