from __future__ import annotations

from typing import Any

import numpy as np
import psycopg
import pytest

from kbsearch.evaluate import METRICS, SYSTEMS, Collection, EvaluationDocument, Query, evaluate

Connection = psycopg.Connection[Any]

COLLECTION = Collection(
    name="small",
    documents=(
        EvaluationDocument("z", "Cats", "Cats purr. Cats sleep. Cats hunt mice at night."),
        EvaluationDocument("y", "Dogs", "Dogs bark. Dogs chase cats."),
        EvaluationDocument("x", "Birds", "Birds sing. Birds fly. Birds lay eggs."),
    ),
    queries=(Query("1", "who hunts mice"), Query("2", 'what "lays" eggs -birds')),
    qrels={"1": {"z": 1}, "2": {"x": 1}},
    document_vectors=np.eye(3, dtype=np.float32),
    query_vectors=np.eye(3, dtype=np.float32)[[0, 2]],
)


class OneHot:
    """Vectors by the first letter after the title; enough to see which text was embedded."""

    name, model, revision, dimensions = "one-hot", "one-hot", "", 3
    recipe: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self.inputs: list[str] = []

    def embed_passages(self, texts: Any) -> Any:
        self.inputs.extend(texts)
        return np.eye(3, dtype=np.float32)[["CDB".index(text[0]) for text in texts]]

    def embed_queries(self, texts: Any) -> Any:
        return np.eye(3, dtype=np.float32)[[0 for _ in texts]]


def contents(connection: Connection) -> list[int]:
    tables = (
        "organizations",
        "kb_articles",
        "kb_article_chunks",
        "kb_article_embeddings",
        "kb_embedding_spaces",
        "kb_postings",
        "kb_corpus_stats",
    )
    counts = []
    for table in tables:
        row = connection.execute(f"SELECT count(*) FROM kbsearch.{table}".encode()).fetchone()
        assert row is not None
        counts.append(int(row[0]))
    return counts


def test_systems_are_measured_and_nothing_is_left(connection: Connection) -> None:
    before = contents(connection)
    evaluation = evaluate(connection, COLLECTION)
    assert contents(connection) == before
    assert (evaluation.documents, evaluation.chunks, evaluation.queries, evaluation.refused) == (3, 3, 2, {})
    assert set(evaluation.systems) == set(SYSTEMS)
    for result in evaluation.systems.values():
        assert dict(result.metrics) == dict.fromkeys(METRICS, 1)
    assert evaluation.as_json() == {
        "collection": "small",
        "systems": {name: dict(result.metrics) for name, result in evaluation.systems.items()},
        "documents": 3,
        "skipped": 0,
        "chunks": 3,
        "queries": 2,
        "refused": 0,
        "median_ms": {name: round(result.median_ms, 3) for name, result in evaluation.systems.items()},
    }


def test_operators_of_questions_count_only_when_asked_for(connection: Connection) -> None:
    evaluation = evaluate(connection, COLLECTION, systems={"keyword": "keyword@1"}, syntax=True)
    assert evaluation.systems["keyword"].metrics["R@100"] == 0.5


def test_split_into_sentences_an_article_stays_one_result(connection: Connection) -> None:
    embedder = OneHot()
    evaluation = evaluate(connection, COLLECTION, split="sentences", embedder=embedder)
    assert (evaluation.documents, evaluation.chunks) == (3, 8)
    assert "Cats\nCats hunt mice at night." in embedder.inputs
    assert evaluation.systems["weighted"].metrics["RR"] == 1
    # Of 8 chunks 3 are one article's: without collapse its chunks would fill the places and be counted more than once.
    assert evaluation.systems["vector"].metrics["R@10"] == 1


def test_a_refused_question_counts_0_and_is_named(connection: Connection) -> None:
    collection = Collection(
        name="c",
        documents=COLLECTION.documents,
        queries=(Query("1", "who hunts mice"), Query("2", "x" * 40_000)),
        qrels=COLLECTION.qrels,
        document_vectors=COLLECTION.document_vectors,
        query_vectors=COLLECTION.query_vectors,
    )
    evaluation = evaluate(connection, collection, systems={"weighted": "weighted@1"})
    assert list(evaluation.refused) == ["2"]
    assert evaluation.systems["weighted"].metrics["R@100"] == 0.5


def test_missing_vectors_need_an_embedder(connection: Connection) -> None:
    with pytest.raises(ValueError, match="no embedder"):
        evaluate(connection, COLLECTION, split="sentences")
