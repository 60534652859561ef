"""Approximate search of an organisation of 10,000 chunks in a table that it shares: recall, plans, filters, full pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.ann.crowd import CHUNKS_OF_AN_ARTICLE, KINDS, Crowd, crowd
from tests.ann.plans import check_exact, check_windows
from tests.conftest import Databases

CHUNKS = 10_000
OTHERS = 1_000


@pytest.fixture(scope="module")
def large(databases: Databases, template: str) -> Iterator[Crowd]:
    dsn = databases.create(template)
    try:
        with crowd(dsn, CHUNKS, OTHERS) as made:
            made.connection.execute("SELECT kbsearch.create_kb_ann_index_v1(%s)", [made.org_id])
            made.connection.execute("ANALYZE")
            yield made
    finally:
        databases.drop(dsn)


@pytest.fixture
def windowed(large: Crowd) -> Crowd:
    large.use("ann")
    return large


@pytest.mark.parametrize("profile", ["weighted@1", "vector@1", "keyword@1"])
def test_the_first_ten_are_the_exact_ones(windowed: Crowd, profile: str) -> None:
    """At least 99 of 100 of them; and those that are certain, and settled where nothing was missed, without exception."""
    wanted = kept = 0
    for question in windowed.questions(40):
        row = windowed.connection.execute(
            "SELECT m.mode, m.wanted, m.kept FROM kbsearch.measure_kb_recall_v1(%s, %s, %s, 10, %s) AS m",
            [windowed.org_id, question.text, question.vector, profile],
        ).fetchone()
        assert row is not None
        assert row[0] == "ann"
        wanted, kept = wanted + row[1], kept + row[2]
    assert wanted == 400
    assert kept >= 0.99 * wanted


def test_certain_places_are_the_exact_rankings(windowed: Crowd) -> None:
    certain = settled = 0
    for question in windowed.questions(30):
        windowed.use("ann")
        page = windowed.page(question, limit=400)
        windowed.use("exact")
        exact = [
            (item["article_id"], item["score"], item["chunk_id"])
            for item in windowed.page(question, limit=400)["items"]
        ]
        shown = [(item["article_id"], item["score"], item["chunk_id"]) for item in page["items"]]
        retrieval = page["retrieval"]
        assert retrieval["reachable"] == page["total"] == len(shown)
        assert shown[: retrieval["certain"]] == exact[: retrieval["certain"]]
        assert set(shown) <= set(exact) or len(exact) == 400
        certain += retrieval["certain"]
        settled += shown[: retrieval["settled"]] == exact[: retrieval["settled"]]
        assert retrieval["settled"] >= 10
    assert certain > 0
    assert settled >= 27, "the index missed near vectors for more than one question of ten"


@pytest.mark.parametrize("kind", KINDS)
def test_pages_are_full_whatever_the_filter_leaves(windowed: Crowd, kind: str) -> None:
    """Of a third of the articles, through the index; of one of a hundred, by comparing just those: then the rows are the exact ones."""
    for question in windowed.questions(5):
        windowed.use("ann")
        page = windowed.page(question, kinds=[kind], limit=50)
        assert len(page["items"]) == 50
        assert {item["kind"] for item in page["items"]} == {kind}
        ids = [item["article_id"] for item in page["items"]]
        windowed.use("exact")
        exact = windowed.ids(question, kinds=[kind], limit=50)
        if kind == "rare":
            assert page["retrieval"]["mode"] == "exact"
            assert page["retrieval"]["reason"] == "few_allowed"
            assert page["total"] == CHUNKS // CHUNKS_OF_AN_ARTICLE // 100
            assert ids == exact
        else:
            assert len(set(ids[:10]) & set(exact[:10])) >= 9


def test_phrases_and_exclusions_hold(windowed: Crowd) -> None:
    (question,) = windowed.questions(1)
    word = question.text.split()[0]
    excluded = windowed.connection.execute(
        "SELECT array_agg(DISTINCT c.article_id) FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %s AND %s = ANY (c.lexemes)",
        [windowed.org_id, word],
    ).fetchone()
    assert excluded is not None
    assert excluded[0]
    without = type(question)(f"{question.text} -{word}", question.vector)
    page = windowed.page(without, limit=100)
    assert len(page["items"]) == 100
    assert not {item["article_id"] for item in page["items"]} & set(excluded[0])


def counts(crowd: Crowd, relation: str) -> tuple[int, int]:
    """Scans of a table or an index in this transaction, and rows that they returned."""
    row = crowd.connection.execute(
        "SELECT pg_stat_get_xact_numscans(c.oid), pg_stat_get_xact_tuples_returned(c.oid) FROM pg_class AS c WHERE c.oid = to_regclass(%s)",
        [f"kbsearch.{relation}"],
    ).fetchone()
    assert row is not None
    return row[0], row[1]


TABLES = ("kb_articles", "kb_article_chunks", "kb_article_embeddings", "kb_postings")


def test_the_partial_index_is_read_and_no_table_from_end_to_end(windowed: Crowd) -> None:
    (question,) = windowed.questions(1)
    index = f"kb_ann_{windowed.org_id}_{windowed.space_id}"
    windowed.page(question)
    with windowed.connection.transaction():
        before = {name: counts(windowed, name) for name in (index, "kb_article_embeddings_scan", *TABLES)}
        windowed.page(question)
        after = {name: counts(windowed, name) for name in before}
    scans = {name: after[name][0] - before[name][0] for name in before}
    read = {name: after[name][1] - before[name][1] for name in before}
    assert scans[index] == 1
    assert read[index] < CHUNKS / 10
    assert read["kb_article_embeddings_scan"] <= CHUNKS + OTHERS  # the counts of describe_kb_legs_v1, no vectors
    assert {name: scans[name] for name in TABLES} == dict.fromkeys(TABLES, 0)


@pytest.mark.parametrize("profile", ["weighted@1", "vector@1"])
def test_plans_of_windows(windowed: Crowd, superuser: Callable[[str], str], profile: str) -> None:
    """The partial index; the organisation's own rows; nothing from end to end; nothing compiled."""
    check_windows(windowed, superuser(windowed.dsn), profile)


@pytest.mark.parametrize("place", [0, 1])
def test_plans_of_an_exact_search(large: Crowd, superuser: Callable[[str], str], place: int) -> None:
    """Of the organisation that owns nearly all rows, and of one beside it."""
    large.use("exact")
    check_exact(large, superuser(large.dsn), large.org_ids[place])


def test_auto_is_approximate_from_20000_chunks_on_only(windowed: Crowd) -> None:
    (question,) = windowed.questions(1)
    windowed.use("auto")
    retrieval = windowed.page(question)["retrieval"]
    assert (retrieval["mode"], retrieval["reason"]) == ("exact", "few_chunks")
    windowed.use("auto")
    # what the statistics say is what counts
    with windowed.connection.transaction(force_rollback=True):
        windowed.connection.execute(
            "INSERT INTO kbsearch.kb_corpus_stats (org_id, segment_id, chunk_count, occurrence_count) VALUES (%s, 0, 10001, 0)",
            [windowed.org_id],
        )
        assert windowed.page(question)["retrieval"]["mode"] == "ann"


def test_other_organisations_are_searched_as_before(windowed: Crowd) -> None:
    (question,) = windowed.questions(1)
    other = windowed.org_ids[1]
    before = windowed.page(question, other, limit=1000)
    assert before["retrieval"]["mode"] == "exact"
    assert before["retrieval"]["reason"] is None
    assert before["retrieval"]["certain"] == before["total"] == len(before["items"])
    assert not {item["article_id"] for item in before["items"]} & set(windowed.ids(question, limit=400))
