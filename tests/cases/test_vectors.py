"""Vectors that mean nothing never outrank one that does, and what callers have in hand is accepted."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kbsearch import KBSearch
from kbsearch.errors import DimensionError, VectorError
from kbsearch.models import Chunk
from tests.sql.corpus import Corpus, refused

WITHOUT_DIRECTION = {"zero": [0.0, 0.0], "tiny": [1e-23, 1e-23], "huge": [1e20, 1e20]}


@pytest.mark.parametrize("useless", WITHOUT_DIRECTION.values(), ids=WITHOUT_DIRECTION)
@pytest.mark.parametrize("profile", ["weighted@1", "rrf@1", "vector@1"])
def test_a_stored_vector_without_direction_never_outranks_a_real_one(
    corpus: Corpus, useless: list[float], profile: str
) -> None:
    noise = corpus.article("llamas", vector=useless)
    opposite = corpus.article("alpacas", vector=[-1, -1])
    near = corpus.article("camels", vector=[1, 1])
    words = corpus.article("refunds", vector=useless)
    page = corpus.page("refunds", [1, 1], profile=profile)
    found = [item["article_id"] for item in page["items"]]
    assert noise not in found
    assert {near, opposite} <= set(found)
    assert page["legs"]["vector"]["chunks_without_direction"] == 2
    if profile != "vector@1":
        assert next(item for item in page["items"] if item["article_id"] == words)["vector_similarity"] is None
    for floor in (1e-9, 0.0001, 0.5):
        assert noise not in corpus.found("refunds", [1, 1], profile=profile, min_score=floor)
    assert noise not in corpus.found(None, [1, 1], min_score=-1)


@pytest.mark.parametrize("useless", WITHOUT_DIRECTION.values(), ids=WITHOUT_DIRECTION)
def test_nothing_but_vectors_without_direction_is_said(corpus: Corpus, useless: list[float]) -> None:
    corpus.article("llamas", vector=useless)
    page = corpus.page(None, [1, 1])
    assert page["items"] == []
    assert (page["legs"]["vector"]["takes_part"], page["legs"]["vector"]["reason"]) == (False, "no_direction")


def test_eight_articles_of_one_title_and_zero_vectors(corpus: Corpus) -> None:
    articles = [corpus.article("", title="Refund policy", vector=[0, 0]) for _ in range(8)]
    rows = corpus.search("refund", [1, 0])
    assert [row["article_id"] for row in rows] == articles
    assert {(row["tied_with"], row["settled_by_identity"]) for row in rows} == {(7, True)}
    for size in (1, 2, 3):
        assert [
            a for offset in range(0, 8, size) for a in corpus.found("refund", [1, 0], limit=size, offset=offset)
        ] == articles
    page = corpus.page("llama", [1, 0])
    assert page["items"] == []
    assert page["legs"]["keyword"]["reason"] == "no_known_words"
    assert page["legs"]["vector"]["reason"] == "no_direction"


def test_eight_articles_of_one_title_and_one_vector(corpus: Corpus) -> None:
    articles = [corpus.article("", title="Refund policy", vector=[1, 1]) for _ in range(8)]
    assert corpus.found("refund", [1, 0]) == articles
    assert corpus.found("llama", [1, 0]) == articles


@pytest.mark.parametrize("useless", WITHOUT_DIRECTION.values(), ids=WITHOUT_DIRECTION)
def test_the_ingest_functions_refuse_it_and_store_nothing(corpus: Corpus, useless: list[float]) -> None:
    chunks: list[dict[str, Any]] = [{"content": "good", "embedding": [1, 0]}, {"content": "bad", "embedding": useless}]
    with refused("KBVEC") as refusal:
        corpus.call("upsert_kb_article_v1", title="x", chunks=chunks, space_id=corpus.space())
    assert refusal.detail["chunk_no"] == 1
    with pytest.raises(VectorError):
        KBSearch(corpus.connection).upsert_article(
            corpus.org_id, title="x", chunks=[Chunk("bad", embedding=useless)], space_id=corpus.space()
        )
    assert corpus.value("SELECT count(*) FROM kbsearch.kb_articles WHERE org_id = %s", corpus.org_id) == 0


@pytest.mark.parametrize("useless", WITHOUT_DIRECTION.values(), ids=WITHOUT_DIRECTION)
def test_a_question_without_direction_is_refused(corpus: Corpus, useless: list[float]) -> None:
    corpus.article("refunds", vector=[1, 0])
    with refused("KBVEC"):
        corpus.search("refunds", useless)
    with pytest.raises(VectorError):
        KBSearch(corpus.connection).search(corpus.org_id, "refunds", useless)


@pytest.mark.parametrize("component", [float("nan"), float("inf"), float("-inf"), 1e39])
def test_a_question_that_is_no_vector_is_refused_by_the_client(corpus: Corpus, component: float) -> None:
    corpus.article("refunds", vector=[1, 0])
    with pytest.raises(VectorError) as refusal:
        KBSearch(corpus.connection).search(corpus.org_id, "refunds", [1.0, component])
    assert refusal.value.sqlstate == "KBVEC"


@pytest.mark.parametrize("dimensions", [1, 3, 2000])
def test_a_question_of_other_dimensions_is_told_both_numbers(corpus: Corpus, dimensions: int) -> None:
    corpus.article("refunds", vector=[1, 0])
    with refused("KBDIM") as refusal:
        corpus.search("refunds", [1.0] * dimensions)
    assert (refusal.detail["given"], refusal.detail["expected"]) == (dimensions, 2)
    assert f"has {dimensions} dimensions" in refusal.message
    assert refusal.message.endswith("has 2")
    with pytest.raises(DimensionError):
        KBSearch(corpus.connection).search(corpus.org_id, "refunds", [1.0] * dimensions)


def test_a_stored_vector_of_other_dimensions_is_refused(corpus: Corpus) -> None:
    article = corpus.article("refunds")
    chunk = corpus.value("SELECT id FROM kbsearch.kb_article_chunks WHERE org_id = %s", corpus.org_id)
    with refused("KBDIM") as refusal:
        corpus.run(
            "INSERT INTO kbsearch.kb_article_embeddings (org_id, article_id, chunk_id, space_id, embedding) VALUES (%s, %s, %s, %s, '[1,2,3]')",
            corpus.org_id,
            article,
            chunk,
            corpus.space(2),
        )
    assert (refusal.detail["given"], refusal.detail["expected"]) == (3, 2)


@pytest.mark.parametrize("dimensions", [2, 17, 384])
@pytest.mark.parametrize("profile", ["weighted@1", "vector@1", "rrf@1"])
def test_what_a_chunk_was_embedded_from_finds_it_first_with_similarity_one(
    corpus: Corpus, dimensions: int, profile: str
) -> None:
    rng = random.Random(dimensions)
    vectors = [[rng.uniform(-1, 1) for _ in range(dimensions)] for _ in range(20)]
    articles = [corpus.article("text", vector=vector) for vector in vectors]
    for article, vector in zip(articles, vectors, strict=True):
        first = corpus.search(None, vector, profile=profile)[0]
        assert (first["article_id"], first["vector_similarity"]) == (article, 1.0)


@pytest.mark.parametrize(
    "embedding",
    [
        [3, 4],
        [3.0, 4.0],
        (3, 4),
        (3.0, 4.0),
        np.array([3, 4]),
        np.array([3, 4], dtype=np.float16),
        np.array([3, 4], dtype=np.float32),
        np.array([3, 4], dtype=np.float64),
        [np.float32(3), np.float64(4)],
        np.array([9, 3, 9, 4])[1::2],
    ],
    ids=[
        "list of int",
        "list of float",
        "tuple of int",
        "tuple of float",
        "int64",
        "float16",
        "float32",
        "float64",
        "numpy scalars",
        "strided",
    ],
)
def test_any_list_of_numbers_is_an_embedding(corpus: Corpus, embedding: Any) -> None:
    near = corpus.article("a", vector=[3, 4])
    corpus.article("b", vector=[4, -3])
    result = KBSearch(corpus.connection).search(corpus.org_id, None, embedding).items[0]
    assert (result.article_id, result.vector_similarity) == (near, 1.0)
    KBSearch(corpus.connection).upsert_article(
        corpus.org_id, external_ref="written", chunks=[Chunk("c", embedding=embedding)], space_id=corpus.space()
    )
    assert len(KBSearch(corpus.connection).search(corpus.org_id, None, embedding).items) == 3


@pytest.mark.parametrize(
    "embedding",
    [
        ["3", "4"],
        "[3,4]",
        "34",
        [True, False],
        [None, 1.0],
        [[3, 4]],
        np.array(["3", "4"]),
        [],
        np.array([[3, 4]]),
        {"3": 4},
        [3 + 1j, 4],
        3,
    ],
    ids=repr,
)
def test_anything_else_is_a_clear_error(corpus: Corpus, embedding: Any) -> None:
    corpus.article("a", vector=[3, 4])
    with pytest.raises(VectorError) as refusal:
        KBSearch(corpus.connection).search(corpus.org_id, "a", embedding)
    assert refusal.value.sqlstate == "KBVEC"
    assert "embedding" in str(refusal.value)


def test_vectors_of_what_chunks_said_before_are_counted(corpus: Corpus) -> None:
    """Whatever was changed, and however: the answer says how many are found by what they said before."""
    articles = [corpus.article(f"text {n}", title=f"title {n}", vector=[1, n]) for n in range(4)]
    unpublished = corpus.article("hidden", vector=[1, 1], published=False)

    def told() -> int:
        legs = corpus.page("text", [1, 1])["legs"]
        assert legs["vector"]["takes_part"]
        return int(legs["vector"]["chunks_with_stale_embedding"])

    def change(table: str, what: str, *articles: int) -> None:
        key = "id" if table == "kb_articles" else "article_id"
        corpus.run(f"UPDATE kbsearch.{table} SET {what} WHERE org_id = %s AND {key} = ANY (%s)", corpus.org_id, list(articles))  # fmt: skip

    assert told() == 0
    change("kb_article_chunks", "content = content, heading = heading", *articles)
    assert told() == 0
    change("kb_article_chunks", "content = 'other text'", *articles[:1])
    change("kb_article_chunks", "heading = 'other'", articles[1])
    change("kb_articles", "title = 'other'", articles[2], articles[0])
    change("kb_article_chunks", "content = 'other'", unpublished)
    assert told() == 3
    change("kb_articles", "published = true", unpublished)
    assert told() == 4
    change("kb_article_chunks", "content = 'text 0'", articles[0])
    change("kb_articles", "title = 'title 0'", articles[0])
    assert told() == 3, "what a chunk says again is what its vector is of"
    change("kb_article_embeddings", "embedding = '[2,1]'", articles[1])
    assert told() == 2
    change("kb_articles", "published = false", articles[2])
    assert told() == 1
    assert corpus.page("text")["legs"]["vector"]["chunks_with_stale_embedding"] is None


def test_five_vectors_of_384_dimensions_fit_a_page(corpus: Corpus) -> None:
    """An exact search reads every page of an organisation's vectors: a column too many, and it reads a quarter more."""
    space = corpus.space(384)
    for n in range(3):
        corpus.article(f"text {n}")
    corpus.run(
        "INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, chunk_id, article_id, embedding) "
        "SELECT c.org_id, %s, c.id, c.article_id, pg_catalog.array_fill(1.0, ARRAY[384])::ext.vector "
        "FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %s",
        space,
        corpus.org_id,
    )
    widest = corpus.value(
        "SELECT pg_catalog.max(pg_catalog.pg_column_size(e.*)) FROM kbsearch.kb_article_embeddings AS e WHERE e.space_id = %s",
        space,
    )
    # a page is 8,192 bytes less 24; a row takes 4 beside its own, which are a multiple of 8
    assert 5 * (widest + -widest % 8 + 4) <= 8192 - 24
