"""rebuild_kb_index_v1, compact_kb_postings_v1 and calibrate_kb_corpus_v1."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.index.derived import faults
from tests.sql.corpus import Corpus, refused


@pytest.fixture
def alone(database: str) -> Iterator[Corpus]:
    """An organisation in a database of its own, written in many small statements."""
    with psycopg.connect(database, autocommit=True) as connection:
        corpus = Corpus(connection)
        for n in range(40):
            corpus.article(f"refunds {n % 5} " + "of a year " * (n % 7), vector=[1, n])
        corpus.run("UPDATE kbsearch.kb_article_chunks SET content = content || ' llamas' WHERE id % 2 = 0")
        corpus.run("DELETE FROM kbsearch.kb_articles WHERE id % 5 = 0")
        yield corpus


def segments(corpus: Corpus) -> int:
    return int(corpus.value("SELECT count(*) FROM kbsearch.kb_corpus_stats WHERE org_id = %s", corpus.org_id))


def test_compact_and_rebuild_leave_one_segment_and_every_answer(alone: Corpus) -> None:
    before = alone.search("refunds llamas 3 years", [1, 3], limit=100)
    for function in ("compact_kb_postings_v1", "rebuild_kb_index_v1"):
        rows = alone.call(function)
        assert segments(alone) == 1
        assert rows == alone.value("SELECT count(*) FROM kbsearch.kb_postings")
        assert alone.value("SELECT min(sign) FROM kbsearch.kb_postings") == 1
        assert faults(alone.connection) == []
        assert alone.search("refunds llamas 3 years", [1, 3], limit=100) == before
        assert alone.call(function) == rows, "again changes nothing"


def test_rebuild_repairs_what_was_lost(alone: Corpus) -> None:
    before = alone.search("refunds llamas", [1, 3], limit=100)
    alone.run("DELETE FROM kbsearch.kb_postings WHERE lexeme < 'm'")
    alone.run("DELETE FROM kbsearch.kb_corpus_stats")
    assert faults(alone.connection) != []
    alone.call("rebuild_kb_index_v1")
    assert faults(alone.connection) == []
    assert alone.search("refunds llamas", [1, 3], limit=100) == before


def test_an_organisation_without_articles(corpus: Corpus) -> None:
    assert corpus.call("rebuild_kb_index_v1") == 0
    assert corpus.call("compact_kb_postings_v1") == 0
    assert corpus.call("calibrate_kb_corpus_v1") == 100


def test_calibrate_sets_a_share_of_the_mean_length_and_moves_scores_once(alone: Corpus) -> None:
    before = alone.search("refunds", limit=100)
    mean = float(alone.value("SELECT avg(occurrence_count) FROM kbsearch.kb_article_chunks WHERE searchable"))
    length = alone.call("calibrate_kb_corpus_v1")
    assert length == round(0.85 * mean)
    assert faults(alone.connection) == []
    after = alone.search("refunds", limit=100)
    assert [row["score"] for row in after] != [row["score"] for row in before]
    assert alone.call("calibrate_kb_corpus_v1") == length
    assert alone.search("refunds", limit=100) == after


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_calibrate_is_refused_under_a_fixed_snapshot(alone: Corpus, isolation: str) -> None:
    with refused("KBIDX") as refusal, alone.connection.transaction():
        alone.run(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
        alone.call("calibrate_kb_corpus_v1")
    assert refusal.detail["isolation"] == isolation.lower()


@pytest.mark.parametrize("table", ["kbsearch.kb_articles", "kbsearch.kb_article_chunks", "kbsearch.organizations"])
def test_truncate_empties_what_is_derived(alone: Corpus, table: str) -> None:
    alone.run(f"TRUNCATE {table} CASCADE")
    assert (
        alone.value(
            "SELECT (SELECT count(*) FROM kbsearch.kb_postings) + (SELECT count(*) FROM kbsearch.kb_corpus_stats)"
        )
        == 0
    )
    assert faults(alone.connection) == []


def test_an_organisation_of_which_all_is_deleted_leaves_nothing(alone: Corpus) -> None:
    alone.run("DELETE FROM kbsearch.organizations WHERE id = %s", alone.org_id)
    for table in ("kb_articles", "kb_article_chunks", "kb_article_embeddings", "kb_postings", "kb_corpus_stats"):
        assert alone.value(f"SELECT count(*) FROM kbsearch.{table}") == 0
