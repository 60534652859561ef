"""Load a collection, ask its questions through search_kb_hybrid_v1, and measure the rankings.

All of it happens in one transaction that is rolled back: the organisation, its articles and its embedding space are never seen by anybody
else and are gone afterwards, also when the process is killed.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import psycopg

from kbsearch.embed.base import Embedder, Vectors
from kbsearch.errors import KBSearchError, translate
from kbsearch.evaluate.collection import Collection, EvaluationDocument, prose, sentences
from kbsearch.evaluate.metrics import measure
from kbsearch.ingest.template import model_input
from kbsearch.models import Chunk
from kbsearch.schema import DEFAULT, in_schema

SYSTEMS: Mapping[str, str] = {
    "vector": "vector@1",
    "keyword": "keyword@1",
    "term_count": "term_count@1",
    "rrf": "rrf@1",
    "weighted": "weighted@1",
}
"""What is compared, and the ranking profile of each: legs first, then fusions."""
DEPTH = 100
"""Articles asked for a query."""
EMBEDDED_AT_ONCE = 512

_SEARCH = """SELECT found.external_ref
FROM kbsearch.search_kb_hybrid_v1(
    p_org_id => %s, p_query_text => %s, p_query_embedding => %s, p_limit => %s, p_profile => %s) AS found
ORDER BY found.place"""

Split: TypeAlias = Literal["none", "sentences"]
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is, and its size."""


@dataclass(frozen=True, slots=True)
class SystemResult:
    """A system's metrics by name, and the median time of a search in milliseconds."""

    metrics: Mapping[str, float]
    median_ms: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an evaluation found.

    load_seconds is the time to write and index articles, chunks and vectors; skipped is the number of documents without any text.
    """

    collection: str
    documents: int
    chunks: int
    queries: int
    refused: Mapping[str, str]
    systems: Mapping[str, SystemResult]
    load_seconds: float
    seconds: float
    skipped: int = 0

    def as_json(self) -> dict[str, Any]:
        """The metrics as JSON values: collection, and systems by name; beside them counts, and the median time of a search by system."""
        return {
            "collection": self.collection,
            "systems": {name: dict(result.metrics) for name, result in self.systems.items()},
            "documents": self.documents,
            "skipped": self.skipped,
            "chunks": self.chunks,
            "queries": self.queries,
            "refused": len(self.refused),
            "median_ms": {name: round(result.median_ms, 3) for name, result in self.systems.items()},
        }


def evaluate(
    connection: psycopg.Connection[Any],
    collection: Collection,
    *,
    systems: Mapping[str, str] = SYSTEMS,
    split: Split = "none",
    embedder: Embedder | None = None,
    syntax: bool = False,
    progress: Progress = lambda _what, _done, _size: None,
    schema: str = DEFAULT,
) -> Evaluation:
    """Measure systems on a collection.

    Args:
        connection: in autocommit mode, to a database with kbsearch. Nothing is left in it.
        collection: what to load and ask. A document is one article; without a split it has one chunk.
        systems: ranking profile by name.
        split: `sentences` makes each sentence a chunk, embedded after its title.
        embedder: needed for whatever the collection brings no vectors for.
        syntax: whether quotation marks and leading hyphens of the questions are operators of the query syntax. They are not in
            collections of prose, where a quoted word need not be in the answer.
        progress: told how far it is.
        schema: that kbsearch is installed in.

    Raises:
        ValueError: vectors are missing and there is no embedder to compute them.
        KBSearchError: the database refused something.
    """
    started = time.monotonic()
    articles = sorted(range(len(collection.documents)), key=lambda place: collection.documents[place].id)
    documents = [collection.documents[place] for place in articles]
    chunks = [_chunks(document, split) for document in documents]
    if split == "none" and collection.document_vectors is not None:
        passage_vectors = collection.document_vectors[articles]
    else:
        texts = [
            model_input(document.title, chunk)
            for document, parts in zip(documents, chunks, strict=True)
            for chunk in parts
        ]
        passage_vectors = _embed(_needed(embedder).embed_passages, texts, "embed passages", progress)
    query_vectors = collection.query_vectors
    if query_vectors is None:
        query_vectors = _embed(
            _needed(embedder).embed_queries, [query.text for query in collection.queries], "embed queries", progress
        )
    if query_vectors.shape[1] != passage_vectors.shape[1]:
        raise ValueError(
            f"queries have vectors of {query_vectors.shape[1]} dimensions, documents of {passage_vectors.shape[1]}"
        )
    refused: dict[str, str] = {}
    results: dict[str, SystemResult] = {}
    try:
        with connection.transaction(force_rollback=True):
            loading = time.monotonic()
            progress("load", 0, len(documents))
            org_id = load(connection, documents, chunks, passage_vectors, schema)
            progress("load", len(documents), len(documents))
            load_seconds = time.monotonic() - loading
            for name, profile in systems.items():
                run: dict[str, list[str]] = {}
                times: list[float] = []
                for done, (query, vector) in enumerate(zip(collection.queries, query_vectors, strict=True), 1):
                    text = query.text if syntax else prose(query.text)
                    try:
                        with connection.transaction():
                            asked = time.perf_counter()
                            run[query.id] = _search(connection, org_id, text, vector, profile, schema)
                            times.append(time.perf_counter() - asked)
                    except psycopg.DatabaseError as error:
                        fault = translate(error, schema)
                        if not isinstance(fault, KBSearchError):
                            raise
                        refused[query.id] = str(fault)
                        run[query.id] = []
                    progress(name, done, len(collection.queries))
                results[name] = SystemResult(measure(collection.qrels, run), statistics.median(times or [0.0]) * 1000)
    except psycopg.DatabaseError as error:
        raise translate(error, schema) from error
    return Evaluation(
        collection=collection.name,
        documents=len(documents),
        chunks=sum(map(len, chunks)),
        queries=len(collection.queries),
        refused=refused,
        systems=results,
        load_seconds=load_seconds,
        seconds=time.monotonic() - started,
        skipped=len(collection.skipped),
    )


def load(
    connection: psycopg.Connection[Any],
    documents: Sequence[EvaluationDocument],
    chunks: Sequence[Sequence[Chunk]],
    vectors: Vectors,
    schema: str = DEFAULT,
) -> int:
    """Write documents, their chunks and the chunks' vectors (a row a chunk, in order) into a new organisation, and return its id."""
    name = f"evaluation {uuid.uuid4()}"

    def execute(statement: str, *parameters: object) -> psycopg.Cursor[Any]:
        return connection.execute(in_schema(statement, schema).encode(), parameters)

    row = execute("INSERT INTO kbsearch.organizations (name) VALUES (%s) RETURNING id", name).fetchone()
    space = execute(
        "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES (%s, %s, %s) RETURNING id",
        name,
        "evaluation",
        vectors.shape[1],
    ).fetchone()
    assert row is not None and space is not None  # noqa: S101, PT018  (INSERT … RETURNING gives a row)
    org_id, space_id = int(row[0]), int(space[0])
    _copy(
        connection,
        in_schema("kbsearch.kb_articles (org_id, external_ref, title, body)", schema),
        ((org_id, document.id, document.title or None, document.text) for document in documents),
    )
    article_ids = dict(execute("SELECT external_ref, id FROM kbsearch.kb_articles WHERE org_id = %s", org_id))
    _copy(
        connection,
        in_schema("kbsearch.kb_article_chunks (org_id, article_id, chunk_no, heading, content)", schema),
        (
            (org_id, article_ids[document.id], number, chunk.heading, chunk.content)
            for document, parts in zip(documents, chunks, strict=True)
            for number, chunk in enumerate(parts)
        ),
    )
    chunk_ids = {
        (article, number): chunk
        for article, number, chunk in execute(
            "SELECT article_id, chunk_no, id FROM kbsearch.kb_article_chunks WHERE org_id = %s", org_id
        )
    }
    places = [
        (article_ids[document.id], number)
        for document, parts in zip(documents, chunks, strict=True)
        for number in range(len(parts))
    ]
    _copy(
        connection,
        in_schema("kbsearch.kb_article_embeddings (org_id, space_id, chunk_id, article_id, embedding)", schema),
        (
            # A list of Python floats reads as a vector, and a double's digits give its float32 back.
            (org_id, space_id, chunk_ids[place], place[0], str(vector.tolist()))
            for place, vector in zip(places, vectors, strict=True)
        ),
    )
    execute("SELECT kbsearch.calibrate_kb_corpus_v1(p_org_id => %s)", org_id)
    for table in ("kb_articles", "kb_article_chunks", "kb_article_embeddings", "kb_postings"):
        execute(f"ANALYZE kbsearch.{table}")
    return org_id


def _copy(connection: psycopg.Connection[Any], target: str, rows: Iterable[tuple[Any, ...]]) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {target} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _search(
    connection: psycopg.Connection[Any], org_id: int, text: str, vector: Vectors, profile: str, schema: str
) -> list[str]:
    rows = connection.execute(
        in_schema(_SEARCH, schema).encode(),
        (org_id, text, str(vector.tolist()), DEPTH, profile),
    )
    return [reference for (reference,) in rows]


def _chunks(document: EvaluationDocument, split: Split) -> list[Chunk]:
    parts = sentences(document.text) if split == "sentences" else [document.text]
    return [Chunk(part) for part in parts if part.strip()] or [Chunk(document.title)]


def _needed(embedder: Embedder | None) -> Embedder:
    if embedder is None:
        raise ValueError("the collection brings no vectors for this, and there is no embedder to compute them")
    return embedder


def _embed(
    function: Callable[[Sequence[str]], Vectors], texts: Sequence[str], what: str, progress: Progress
) -> Vectors:
    parts: list[Vectors] = []
    for batch in _slices(texts):
        parts.append(function(batch))
        progress(what, sum(map(len, parts)), len(texts))
    return np.concatenate(parts)


def _slices(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), EMBEDDED_AT_ONCE):
        yield texts[start : start + EMBEDDED_AT_ONCE]
