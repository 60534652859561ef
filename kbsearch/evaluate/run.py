"""Ask questions through search_kb_hybrid_v1, and measure the rankings: of a collection that is loaded for that, or of an organisation as it is.

A collection is loaded in one transaction that is rolled back: the organisation, its articles and its embedding space are never seen by anybody
else and are gone afterwards, also when the process is killed. An organisation is asked in one read-only transaction, from the data of one moment.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import psycopg

from kbsearch.embed.base import Embedder, Vectors
from kbsearch.errors import EscalatedError, KBSearchError, translate
from kbsearch.evaluate import fingerprint
from kbsearch.evaluate.collection import Collection, EvaluationDocument, prose, sentences
from kbsearch.evaluate.metrics import measure
from kbsearch.evaluate.runs import SavedRun
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

_SEARCH = """SELECT coalesce(found.external_ref, '#' || found.article_id)
FROM kbsearch.search_kb_hybrid_v1(
    p_org_id => %s, p_query_text => %s, p_query_embedding => %s, p_limit => %s, p_profile => %s) AS found
ORDER BY found.place"""

Split: TypeAlias = Literal["none", "sentences"]
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is, and its size."""
Connection: TypeAlias = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class SystemResult:
    """What a system did.

    Attributes:
        metrics: by name, means over the judged questions.
        median_ms: median time of a search in milliseconds.
        run: its rankings, with the record of what decided them.
        escalated: questions that an arbitrated search gave no ranking for, because the legs disagree: they count 0, like an empty answer,
            which is what a user gets.
    """

    metrics: Mapping[str, float]
    median_ms: float
    run: SavedRun
    escalated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an evaluation found.

    Attributes:
        collection: name of the collection or gold set.
        documents: articles that were searched.
        chunks: their chunks.
        queries: questions that were asked.
        refused: why a question was refused, by its id; it counts 0.
        systems: results by name.
        load_seconds: time to write and index articles, chunks and vectors; 0 where nothing was loaded.
        seconds: wall time.
        skipped: documents without any text.
        unjudged: questions that nothing is judged of, which were not asked.
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
    unjudged: int = 0

    def as_json(self) -> dict[str, Any]:
        """The metrics as JSON values: collection, and systems by name; beside them counts, and the median time of a search by system."""
        return {
            "collection": self.collection,
            "systems": {name: dict(result.metrics) for name, result in self.systems.items()},
            "documents": self.documents,
            "skipped": self.skipped,
            "chunks": self.chunks,
            "queries": self.queries,
            "unjudged": self.unjudged,
            "refused": len(self.refused),
            "escalated": {name: len(result.escalated) for name, result in self.systems.items() if result.escalated},
            "median_ms": {name: round(result.median_ms, 3) for name, result in self.systems.items()},
        }


def evaluate(
    connection: Connection,
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
    prepared = prepare(collection, split, embedder, progress)
    documents, chunks, passage_vectors = prepared.documents, prepared.chunks, prepared.vectors
    query_vectors = vectors_of_queries(collection, embedder, progress)
    if query_vectors.shape[1] != passage_vectors.shape[1]:
        raise ValueError(
            f"queries have vectors of {query_vectors.shape[1]} dimensions, documents of {passage_vectors.shape[1]}"
        )
    settings = {"split": split, "syntax": syntax, "depth": DEPTH}
    texts_asked = [query.text if syntax else prose(query.text) for query in collection.queries]
    asking = _Asking(connection, collection, texts_asked, query_vectors, progress, schema)
    with connection.transaction(force_rollback=True), _translated(schema):
        loading = time.monotonic()
        progress("load", 0, len(documents))
        org_id = load(connection, documents, chunks, passage_vectors, schema)
        progress("load", len(documents), len(documents))
        load_seconds = time.monotonic() - loading
        record = _record(connection, org_id, collection, settings, schema)
        record["collection"]["query_vectors_sha256"] = fingerprint.vectors_sha256(query_vectors)
        record["space"] = _space_of(embedder if prepared.embedded else None, passage_vectors.shape[1])
        results = asking.run(org_id, systems, record)
    return Evaluation(
        collection=collection.name,
        documents=len(documents),
        chunks=sum(map(len, chunks)),
        queries=len(collection.queries),
        refused=asking.refused,
        systems=results,
        load_seconds=load_seconds,
        seconds=time.monotonic() - started,
        skipped=len(collection.skipped),
    )


def evaluate_in_place(
    connection: Connection,
    org_id: int,
    questions: Collection,
    *,
    systems: Mapping[str, str] = SYSTEMS,
    embedder: Embedder | None = None,
    syntax: bool = True,
    unjudged: int = 0,
    progress: Progress = lambda _what, _done, _size: None,
    schema: str = DEFAULT,
) -> Evaluation:
    """Measure systems on an organisation as it is, in one read-only transaction: nothing is loaded, and nothing is written.

    Args:
        connection: in autocommit mode.
        org_id: the organisation.
        questions: queries and judgements by the articles' names, as `kbsearch.evaluate.gold.questions()` gives them; documents are not needed.
        systems: ranking profile by name; the organisation's own profiles, too.
        embedder: of the organisation's active space. None: the questions' own vectors, or the keyword leg alone.
        syntax: whether quotation marks and leading hyphens are operators, as in a search.
        unjudged: number to be told in the result.
        progress: told how far it is.
        schema: that kbsearch is installed in.

    Raises:
        KBSearchError: the database refused something.
    """
    started = time.monotonic()
    vectors = questions.query_vectors
    if vectors is None and embedder is not None:
        vectors = _embed(embedder.embed_queries, [query.text for query in questions.queries], "embed queries", progress)
    texts = [query.text if syntax else prose(query.text) for query in questions.queries]
    asking = _Asking(connection, questions, texts, vectors, progress, schema)
    with connection.transaction(), _translated(schema):
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        record = _record(connection, org_id, questions, {"split": None, "syntax": syntax, "depth": DEPTH}, schema)
        record["collection"]["query_vectors_sha256"] = None if vectors is None else fingerprint.vectors_sha256(vectors)
        results = asking.run(org_id, systems, record)
    return Evaluation(
        collection=questions.name,
        documents=record["data"]["articles"],
        chunks=record["data"]["chunks"],
        queries=len(questions.queries),
        refused=asking.refused,
        systems=results,
        load_seconds=0.0,
        seconds=time.monotonic() - started,
        unjudged=unjudged,
    )


@dataclass(slots=True)
class _Asking:
    """Asks the questions of a collection, and keeps what was refused."""

    connection: Connection
    collection: Collection
    texts: Sequence[str]
    vectors: Vectors | None
    progress: Progress
    schema: str
    refused: dict[str, str] = field(default_factory=dict)

    def run(self, org_id: int, systems: Mapping[str, str], record: Mapping[str, Any]) -> dict[str, SystemResult]:
        functions = fingerprint.sha256_of(fingerprint.installed_functions(self.connection, self.schema))
        results: dict[str, SystemResult] = {}
        for name, profile in systems.items():
            system = fingerprint.system_record(self.connection, org_id, name, profile, functions, self.schema)
            rankings: dict[str, tuple[str, ...]] = {}
            escalated: list[str] = []
            times: list[float] = []
            for place, query in enumerate(self.collection.queries):
                rankings[query.id] = ()
                try:
                    with self.connection.transaction():
                        asked = time.perf_counter()
                        rankings[query.id] = self._search(org_id, place, profile)
                        times.append(time.perf_counter() - asked)
                except psycopg.DatabaseError as error:
                    fault = translate(error, self.schema)
                    if isinstance(fault, EscalatedError):
                        escalated.append(query.id)
                    elif isinstance(fault, KBSearchError):
                        self.refused[query.id] = str(fault)
                    else:
                        raise
                self.progress(name, place + 1, len(self.collection.queries))
            results[name] = SystemResult(
                measure(self.collection.qrels, rankings),
                statistics.median(times or [0.0]) * 1000,
                SavedRun(name, {**record, "system": system}, rankings, self.collection.qrels),
                tuple(escalated),
            )
        return results

    def _search(self, org_id: int, place: int, profile: str) -> tuple[str, ...]:
        vector = None if self.vectors is None else str(self.vectors[place].tolist())
        values = (org_id, self.texts[place], vector, DEPTH, profile)
        return tuple(
            reference for (reference,) in self.connection.execute(in_schema(_SEARCH, self.schema).encode(), values)
        )


@contextmanager
def _translated(schema: str) -> Iterator[None]:
    try:
        yield
    except psycopg.DatabaseError as error:
        raise translate(error, schema) from error


def _record(
    connection: Connection, org_id: int, collection: Collection, settings: Mapping[str, Any], schema: str
) -> dict[str, Any]:
    return {
        "collection": fingerprint.collection_record(collection),
        "space": fingerprint.space_record(connection, org_id, schema),
        "data": fingerprint.data_record(connection, org_id, schema),
        "settings": dict(settings),
        "server": fingerprint.server_record(connection, schema),
    }


def _space_of(embedder: Embedder | None, dimensions: int) -> dict[str, Any]:
    """The identity of the vectors, where their space is made for an evaluation and its name means nothing."""
    if embedder is None:
        return {"model": "the collection's vectors", "revision": "", "dimensions": dimensions, "recipe_sha256": None}
    return {
        "model": embedder.model,
        "revision": embedder.revision,
        "dimensions": dimensions,
        "recipe_sha256": fingerprint.sha256_of(dict(embedder.recipe)),
    }


@dataclass(frozen=True, slots=True)
class Prepared:
    """Documents as they are loaded, in the order of their ids.

    Attributes:
        chunks: of each document.
        vectors: float32, a row a chunk, in order.
        embedded: whether the vectors are an embedder's; else the collection brought them.
    """

    documents: list[EvaluationDocument]
    chunks: list[list[Chunk]]
    vectors: Vectors
    embedded: bool


def prepare(collection: Collection, split: Split, embedder: Embedder | None, progress: Progress) -> Prepared:
    """Make chunks and vectors of a collection's documents.

    Raises:
        ValueError: the collection brings no vectors of the chunks and there is no embedder.
    """
    order = sorted(range(len(collection.documents)), key=lambda place: collection.documents[place].id)
    documents = [collection.documents[place] for place in order]
    chunks = [_chunks(document, split) for document in documents]
    if split == "none" and collection.document_vectors is not None:
        return Prepared(documents, chunks, collection.document_vectors[order], embedded=False)
    texts = [model_input(one.title, chunk) for one, parts in zip(documents, chunks, strict=True) for chunk in parts]
    vectors = _embed(_needed(embedder).embed_passages, texts, "embed passages", progress)
    return Prepared(documents, chunks, vectors, embedded=True)


def vectors_of_queries(collection: Collection, embedder: Embedder | None, progress: Progress) -> Vectors:
    """The vectors of a collection's questions, a row each: its own, or the embedder's.

    Raises:
        ValueError: the collection brings none and there is no embedder.
    """
    if collection.query_vectors is not None:
        return collection.query_vectors
    return _embed(
        _needed(embedder).embed_queries, [query.text for query in collection.queries], "embed queries", progress
    )


def load(
    connection: Connection,
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


def _copy(connection: Connection, target: str, rows: Iterable[tuple[Any, ...]]) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {target} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


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
