"""What a model was given is the key of its vector: equal input is computed once, other input never shares one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbsearch import KBSearch
from kbsearch.embed.errors import TextsRefusedError
from kbsearch.ingest import CachedEmbedder, Document, Splitter, UsageError, embed_missing
from kbsearch.ingest.cache import Cache, binary, input_sha256, vector_of
from kbsearch.ingest.embedding import embed
from kbsearch.ingest.organizations import organization_id
from kbsearch.ingest.spaces import ensure_space
from kbsearch.models import Chunk
from tests.ingest.test_pipeline import Connection, HashEmbedder, Picky, documents, rows, run
from tests.ingest.test_recipe import Prefixed

CACHED = """SELECT i.input, k.role, k.space_id
FROM kbsearch.kb_embedding_cache AS k
JOIN kbsearch.kb_embedding_inputs AS i ON i.org_id = k.org_id AND i.input_sha256 = k.input_sha256
WHERE k.org_id = %s
ORDER BY i.input COLLATE "C", k.role, k.space_id"""
COUNTS = "SELECT n.role, n.hits, n.misses FROM kbsearch.kb_embedding_counts AS n WHERE n.org_id = %s ORDER BY n.role"


def inputs(connection: Connection, org_id: int) -> list[str]:
    return [text for text, _, _ in rows(connection, CACHED, org_id)]


def test_equal_content_under_other_headings_or_titles_is_other_input(connection: Connection) -> None:
    embedder = HashEmbedder()
    entries = [
        Document("a", "A", "# One\n\nsame", markup="markdown"),
        Document("b", "A", "# Two\n\nsame", markup="markdown"),
        Document("c", "C", "same"),
        Document("d", "D", "same"),
        Document("e", "D", "same", path="x/e.md"),
        Document("f", "D", "same", path="y/e.md"),
    ]
    report = run(connection, entries, embedder=embedder, splitter=Splitter(8))
    found = rows(
        connection,
        """SELECT a.external_ref, c.title, c.heading, c.content, e.input_sha256, e.embedding::text FROM kbsearch.kb_article_embeddings AS e
        JOIN kbsearch.kb_article_chunks AS c ON c.org_id = e.org_id AND c.id = e.chunk_id
        JOIN kbsearch.kb_articles AS a ON a.org_id = c.org_id AND a.id = c.article_id
        WHERE c.content = 'same' ORDER BY 1""",
    )
    assert [row[0] for row in found] == list("abcdef")
    assert len({row[4] for row in found}) == len({row[5] for row in found}) == 6
    assert len(embedder.inputs) == len(set(embedder.inputs)) == report.chunks


def test_equal_input_is_computed_once_within_a_run_and_between_runs(connection: Connection) -> None:
    embedder = HashEmbedder()
    first = run(connection, [Document("a", "T", "x"), Document("b", "T", "x")], embedder=embedder)
    assert embedder.inputs == ["T\nx"]
    run(connection, [Document("c", "T", "x"), Document("d", "T", "y")], embedder=embedder)
    assert embedder.inputs == ["T\nx", "T\ny"]
    # An article that is gone and comes back, and one whose other chunk was edited, cost no call for what was there.
    KBSearch(connection).delete_article(first.org_id, external_ref="d")
    run(connection, [Document("d", "T", "y")], embedder=embedder)
    long = "w" * 38
    run(connection, [Document("e", "E", f"{long}\n\nend")], embedder=embedder)
    before = len(embedder.inputs)
    run(connection, [Document("e", "E", f"{long}\n\nother")], embedder=embedder)
    assert embedder.inputs[before:] == ["E\nother"]
    assert inputs(connection, first.org_id).count("T\nx") == 1
    assert rows(connection, COUNTS, first.org_id) == [("passage", 4, len(embedder.inputs))]


def test_the_same_text_as_question_and_as_passage_is_two_entries(connection: Connection) -> None:
    embedder = Prefixed()
    report = run(connection, [Document("a", "", "same")], embedder=embedder)
    cached = CachedEmbedder(embedder, connection, report.org_id)
    questions, passages = cached.embed_queries(["same"]), cached.embed_passages(["same"])
    assert not np.array_equal(questions, passages)
    assert [(text, role) for text, role, _ in rows(connection, CACHED, report.org_id)] == [
        ("passage: same", "passage"),
        ("query: same", "query"),
    ]
    assert embedder.read == ["passage: same", "query: same"]


def test_without_prefixes_the_role_alone_keeps_them_apart(connection: Connection) -> None:
    class Asymmetric(HashEmbedder):
        def embed_queries(self, texts: Sequence[str]) -> Any:
            return -super().embed_queries(texts)

    embedder = Asymmetric()
    report = run(connection, [Document("a", "", "same")], embedder=embedder)
    cached = CachedEmbedder(embedder, connection, report.org_id)
    assert np.array_equal(cached.embed_queries(["same"]), -cached.embed_passages(["same"]))
    assert len(inputs(connection, report.org_id)) == 2
    assert rows(connection, "SELECT count(*) FROM kbsearch.kb_embedding_inputs") == [(1,)]  # the text once


def test_spaces_share_nothing(connection: Connection) -> None:
    org_id = run(connection, documents(2), embedder=HashEmbedder()).org_id
    for other in (HashEmbedder("2"), Prefixed(passage="")):
        run(connection, documents(2), embedder=other)
        assert len(other.inputs) == 4
    found = rows(connection, CACHED, org_id)
    assert len({space for _, _, space in found}) == 3
    assert len(found) == 12
    assert rows(connection, "SELECT count(*) FROM kbsearch.kb_embedding_inputs") == [(4,)]


def test_organisations_share_nothing_and_what_is_cached_goes_with_them(connection: Connection) -> None:
    embedder = HashEmbedder()
    run(connection, documents(2), embedder=embedder)
    other = run(connection, documents(2), org="other", embedder=embedder).org_id
    assert len(embedder.inputs) == 8
    connection.execute("DELETE FROM kbsearch.organizations WHERE id = %s", [other])
    for table in ("kb_embedding_inputs", "kb_embedding_cache", "kb_embedding_counts"):
        assert rows(connection, f"SELECT DISTINCT t.org_id FROM kbsearch.{table} AS t") == [(other - 1,)]


def test_a_cached_vector_is_the_computed_one_to_the_last_bit(connection: Connection) -> None:
    class Odd(HashEmbedder):
        def vector(self, text: str) -> list[float]:
            return [1 / 3, 1e-20, -0.0, 3e7, 1.17549435e-38, 1e-45, -1 / 7, float(len(text))]

    org_id = organization_id(connection, "o", create=True)
    embedder = Odd()
    space = ensure_space(connection, embedder, Splitter())
    cache = Cache(connection, org_id, space)
    computed = embed(embedder, ["a", "bb"], cache)
    again = embed(embedder, ["bb", "a"], cache)
    assert embedder.inputs == ["a", "bb"]
    assert again.vectors[::-1].tobytes() == computed.vectors.tobytes() == embedder.embed_queries(["a", "bb"]).tobytes()


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_vectors_come_back_as_they_were_sent(values: list[float]) -> None:
    vector = np.array(values, dtype=np.float32)
    assert vector_of(binary(vector)).tobytes() == vector.tobytes()


@given(texts=st.lists(st.sampled_from("abcde"), max_size=8), known=st.sets(st.sampled_from("abcde")))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_cache_holds_every_text_gets_its_own_vector(
    connection: Connection, texts: list[str], known: set[str]
) -> None:
    org_id = organization_id(connection, "o", create=True)
    connection.execute("DELETE FROM kbsearch.kb_embedding_inputs")
    embedder = HashEmbedder()
    cache = Cache(connection, org_id, ensure_space(connection, embedder, Splitter()))
    embed(embedder, sorted(known), cache)
    embedder.inputs.clear()
    made = embed(embedder, texts, cache)
    assert made.vectors.tobytes() == HashEmbedder().embed_queries(texts).tobytes() if texts else len(made.vectors) == 0
    assert embedder.inputs == list(dict.fromkeys(text for text in texts if text not in known))


def test_what_a_failing_model_gave_is_kept_and_not_asked_again(connection: Connection) -> None:
    entries = [Document("a", "", "fine"), Document("b", "", "refuse"), Document("c", "", "well")]
    first = run(connection, entries, embedder=Picky())
    assert [entry.where for entry in first.rejected] == ["b"]
    assert inputs(connection, first.org_id) == ["fine", "well"]
    again = Picky()
    run(connection, [Document("d", "", "fine"), Document("e", "", "refuse")], embedder=again)
    assert inputs(connection, first.org_id) == ["fine", "well"]


def test_runs_that_store_the_same_at_the_same_time_get_along(connection: Connection, database: str) -> None:
    org_id = organization_id(connection, "o", create=True)
    space = ensure_space(connection, HashEmbedder(), Splitter())
    texts = [f"text {number}" for number in range(200)]

    def store(seed: int) -> bytes:
        with psycopg.connect(database, autocommit=True) as own:
            order = list(np.random.default_rng(seed).permutation(texts))
            for start in range(0, len(order), 20):
                embed(HashEmbedder(), order[start : start + 20], Cache(own, org_id, space))
            return embed(HashEmbedder(), texts, Cache(own, org_id, space)).vectors.tobytes()

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(store, range(4)))) == 1
    assert len(inputs(connection, org_id)) == 200


def test_searches_keep_no_questions_unless_they_are_asked_to(connection: Connection) -> None:
    embedder = HashEmbedder()
    report = run(connection, documents(3), embedder=embedder)
    before = rows(connection, CACHED, report.org_id)
    plain = KBSearch(connection, embedder=embedder).search(report.org_id, "alpha number1")
    assert rows(connection, CACHED, report.org_id) == before
    client = KBSearch(connection, embedder=CachedEmbedder(embedder, connection, report.org_id))
    assert client.search(report.org_id, "alpha number1").items == plain.items
    assert len(rows(connection, CACHED, report.org_id)) == len(before) + 1
    assert client.search(report.org_id, "alpha number1").items == plain.items
    assert rows(connection, COUNTS, report.org_id)[1] == ("query", 1, 1)


def test_questions_of_another_model_or_that_cannot_be_stored_are_answered_and_not_kept(connection: Connection) -> None:
    report = run(connection, documents(1), embedder=HashEmbedder())
    before = rows(connection, CACHED, report.org_id)
    for other in (HashEmbedder("2"), Prefixed()):
        assert CachedEmbedder(other, connection, report.org_id).embed_queries(["x"]).shape == (1, 8)
    nobodys = CachedEmbedder(HashEmbedder(), connection, organization_id(connection, "empty", create=True))
    assert nobodys.embed_queries(["x"]).shape == (1, 8)
    assert CachedEmbedder(HashEmbedder(), connection, report.org_id).embed_queries(["a\0b"]).shape == (1, 8)
    assert rows(connection, CACHED, report.org_id) == before


def test_the_cached_embedder_is_the_embedder_to_others(connection: Connection, database: str) -> None:
    report = run(connection, documents(1), embedder=Picky())
    cached, own = CachedEmbedder(Picky(), connection, report.org_id), Picky()
    assert (cached.name, cached.model, cached.revision, cached.dimensions, cached.recipe) == (
        own.name,
        own.model,
        own.revision,
        own.dimensions,
        own.recipe,
    )
    with pytest.raises(TextsRefusedError) as refused:
        cached.embed_passages(["fine", "refuse"])
    assert set(refused.value.failures) == {1}
    with pytest.raises(ValueError, match="blank"):
        cached.embed_queries([" "])
    with psycopg.connect(database) as inside, pytest.raises(UsageError, match="autocommit"):
        CachedEmbedder(Picky(), inside, report.org_id)


def test_chunks_of_plain_sql_are_cached_by_what_the_model_was_given(connection: Connection) -> None:
    org_id = organization_id(connection, "o", create=True)
    KBSearch(connection).upsert_article(org_id, external_ref="p", title="T", chunks=[Chunk("x", "H")])
    embed_missing(connection, org_id, HashEmbedder())
    assert inputs(connection, org_id) == ["T\nH\nx"]
    assert rows(connection, "SELECT e.input_sha256 FROM kbsearch.kb_article_embeddings AS e") == [
        (hashlib.sha256(b"T\nH\nx").digest(),)
    ]
    assert input_sha256("T\nH\nx") == hashlib.sha256(b"T\nH\nx").digest()
