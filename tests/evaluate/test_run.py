from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from kbsearch.errors import ProfileError
from kbsearch.evaluate import METRICS, SYSTEMS, Collection, Evaluation, EvaluationDocument, Query, evaluate

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
        "unjudged": 0,
        "escalated": {},
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


def test_two_loads_of_a_collection_save_the_same_bytes(database: str, shared_database: str, tmp_path: Path) -> None:
    """In two databases, the second with another organisation before, its documents and questions in another order."""
    turned = replace(
        COLLECTION,
        documents=COLLECTION.documents[::-1],
        document_vectors=np.eye(3, dtype=np.float32)[::-1],
        queries=COLLECTION.queries,
        qrels=dict(reversed(list(COLLECTION.qrels.items()))),
    )
    systems = {**SYSTEMS, "arbitrate@1": "arbitrate@1"}
    for name, dsn, collection in (("a", database, COLLECTION), ("b", shared_database, turned)):
        with psycopg.connect(dsn, autocommit=True) as opened:
            if name == "b":
                opened.execute("INSERT INTO kbsearch.organizations (name) VALUES ('another')")
            for result in evaluate(opened, collection, systems=systems).systems.values():
                result.run.save(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == sorted(["qrels", *(f"{name}.{suffix}" for name in systems for suffix in ("json", "run"))])
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def leaves(record: Any, path: str = "") -> dict[str, Any]:
    if isinstance(record, dict):
        return {name: leaf for key, value in record.items() for name, leaf in leaves(value, f"{path}.{key}").items()}
    return {path[1:]: record}


def changed(one: Evaluation, other: Evaluation) -> set[str]:
    """Names of the leaves of the records in which two evaluations of weighted differ."""
    first, second = (leaves(found.systems["weighted"].run.record) for found in (one, other))
    return {name for name in {*first, *second} if first.get(name) != second.get(name)}


def test_the_record_says_what_is_different(connection: Connection) -> None:
    """Whatever decides a run is in its record: a change of each shows there, and nowhere else."""
    weighted = {"weighted": "weighted@1"}

    def ask(collection: Collection = COLLECTION, **options: Any) -> Evaluation:
        return evaluate(connection, collection, **{"systems": weighted, **options})

    usual = ask()
    assert changed(usual, ask()) == set()
    assert changed(usual, ask(syntax=True)) == {"settings.syntax"}
    other_grade = replace(COLLECTION, qrels={"1": {"z": 2}, "2": {"x": 1}})
    assert changed(usual, ask(other_grade)) == {"collection.qrels_sha256"}
    asked = replace(COLLECTION, queries=(Query("1", "who hunts a mouse"), COLLECTION.queries[1]))
    assert changed(usual, ask(asked)) == {"collection.queries_sha256"}
    moved = replace(COLLECTION, query_vectors=np.eye(3, dtype=np.float32)[[1, 2]])
    assert changed(usual, ask(moved)) == {"collection.query_vectors_sha256"}
    vectors = np.eye(3, dtype=np.float32)
    vectors[0, 1] = 1e-4
    assert changed(usual, ask(replace(COLLECTION, document_vectors=vectors))) == {"data.fingerprint"}
    text = replace(COLLECTION, documents=(EvaluationDocument("z", "Cats", "Cats purr."), *COLLECTION.documents[1:]))
    assert changed(usual, ask(text)) == {
        *("collection.corpus_sha256", "data.fingerprint", "data.postings", "data.occurrences", "data.reference_length")
    }
    assert changed(usual, ask(systems={"weighted": "rrf@1"})) >= {"system.profile", "system.definition.fusion"}
    embedded = ask(embedder=OneHot(), split="sentences")
    assert {"space.model", "settings.split", "data.chunks", "data.fingerprint"} <= changed(usual, embedded)
    connection.execute(
        "CREATE OR REPLACE FUNCTION kbsearch.kb_idf_v1(p_chunk_total bigint, p_document_frequency bigint) RETURNS bigint "
        "LANGUAGE sql IMMUTABLE PARALLEL SAFE BEGIN ATOMIC SELECT 1::bigint; END"
    )
    assert changed(usual, ask()) == {"system.functions_sha256"}


def test_an_escalated_question_counts_0_and_is_told(connection: Connection) -> None:
    """Which is what a user gets: no ranking. It is no fault, and so not among those refused."""
    disagreeing = replace(COLLECTION, query_vectors=np.eye(3, dtype=np.float32)[[1, 2]])
    systems = {"reference": "arbitrate_reference@1", "weighted": "weighted@1"}
    evaluation = evaluate(connection, disagreeing, systems=systems)
    reference, weighted = evaluation.systems["reference"], evaluation.systems["weighted"]
    assert reference.escalated == ("1",)
    assert reference.run.rankings["1"] == ()
    assert reference.metrics["R@100"] == 0.5
    assert weighted.escalated == ()
    assert evaluation.refused == {}
    assert evaluation.as_json()["escalated"] == {"reference": 1}


def test_a_profile_that_there_is_not_is_refused_before_anything_is_asked(connection: Connection) -> None:
    with pytest.raises(ProfileError, match="weigthed@1"):
        evaluate(connection, COLLECTION, systems={"x": "weigthed@1"})
