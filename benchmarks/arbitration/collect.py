"""What the legs and the arbitrated searches say of the collections' questions: asked of a server once, and kept."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import psycopg

from benchmarks.arbitration.policies import OWN
from kbsearch import embedded
from kbsearch.embed.base import Embedder, Vectors
from kbsearch.embed.local import LocalEmbedder
from kbsearch.evaluate import Collection, CollectionError, prose
from kbsearch.evaluate.run import load
from kbsearch.models import Chunk

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("KBSEARCH_SHARED") or ROOT.parent / "shared") / "data"
"""Collections with relevance judgements, which are no part of the repository: in KBSEARCH_SHARED, or beside the checkout."""
COLLECTED = ROOT / "build" / "arbitration"

COLLECTIONS = ("scifact", "cranfield", "stackfaq")
TRAINING = "scifact-train"
"""The questions of SciFact's training split, in queries_train.jsonl and qrels_train.tsv beside the others."""
DEPTH = 10
"""Articles of a ranking that are looked at."""
SEARCHED = ("weighted@1", "arbitrate@1", "arbitrate_reference@1", "own@1")
"""Profiles whose rankings are kept, to compare what is computed from the legs with what the server answers; own@1 has the policy OWN."""
BUILTIN = ("default@1", "reference@1")

_LEGS = """SELECT found.external_ref, found.vector_similarity, found.keyword_score, found.score
FROM kbsearch.search_kb_hybrid_v1(
    p_org_id => %s, p_query_text => %s, p_query_embedding => %s, p_limit => 1000, p_profile => %s) AS found
ORDER BY found.place"""
_SEARCH = """SELECT found.external_ref
FROM kbsearch.search_kb_hybrid_v1(
    p_org_id => %s, p_query_text => %s, p_query_embedding => %s, p_limit => %s, p_profile => %s) AS found
ORDER BY found.place"""

_VERSIONS = """SELECT 'PostgreSQL ' || current_setting('server_version') || ', pgvector ' || e.extversion
FROM pg_catalog.pg_extension AS e WHERE e.extname = 'vector'"""

Array: TypeAlias = npt.NDArray[Any]
Track: TypeAlias = Callable[[Sequence[int], str], Iterable[int]]
"""Gives back the numbers, with a bar that moves; the text says what is being done."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was answered to a set of questions. Rows are questions, columns documents by article id.

    Attributes:
        queries: ids of the questions.
        classes: by classify_kb_query_v1, of the question as it is; it is searched for without operators of the query syntax.
        similarity: of every document, rounded to millionths as the server does.
        keyword: score of the keyword leg alone, 0 … 1; NaN where no word matches, and beyond its best 1,000 where other searches bring none.
        gains: grade of the judgement, 0 where there is none.
        searched: (SEARCHED, questions, DEPTH) columns in the order of the server's ranking, -1 where it ends; no rows where nothing was searched.
        policies: JSON of the BUILTIN policies by name.
        source: digest of the collection and of the SQL that answered.
        server: versions of what answered.
    """

    queries: Array
    classes: Array
    similarity: Array
    keyword: Array
    gains: Array
    searched: Array
    policies: Array
    source: Array
    server: Array

    def save(self, path: Path) -> None:
        """Write it; whoever reads the path sees all of it or nothing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".tmp")
        with unfinished.open("wb") as file:
            np.savez_compressed(file, **{one.name: getattr(self, one.name) for one in fields(self)})
        unfinished.replace(path)

    @classmethod
    def read(cls, path: Path) -> Asked:
        """Read what was written."""
        with np.load(path, allow_pickle=False) as file:
            return cls(**{one.name: file[one.name] for one in fields(cls)})

    def builtin(self) -> dict[str, dict[str, Any]]:
        """Parameters of the BUILTIN policies by name."""
        found: dict[str, dict[str, Any]] = json.loads(str(self.policies))
        return found


def missing(shared: Path) -> list[Path]:
    """Files of the collections that are not there."""
    names = ("corpus.jsonl", "queries.jsonl", "qrels.tsv", "minilm.docs.npy", "minilm.queries.npy")
    needed = [shared / collection / name for collection in COLLECTIONS for name in names]
    needed += [shared / "scifact" / name for name in ("queries_train.jsonl", "qrels_train.tsv")]
    return [path for path in needed if not path.is_file()]


def collect(shared: Path, collected: Path, track: Track, *, again: bool = False) -> dict[str, Asked]:
    """Ask what has not been asked, and return all of it by name: COLLECTIONS and TRAINING.

    A set of questions is asked again where the collection or the SQL has changed.

    Args:
        shared: folder of the collections.
        collected: where the answers are kept; a file is written as soon as its questions are answered.
        track: told how far it is.
        again: whether to ask all again.
    """
    found: dict[str, Asked] = {}
    wanted: dict[str, list[str]] = {}
    sources = {collection: fingerprint(shared / collection) for collection in COLLECTIONS}
    for collection, source in sources.items():
        for name in (collection, TRAINING) if TRAINING.startswith(collection) else (collection,):
            asked = None if again else _kept(collected / f"{name}.npz", source)
            if asked is None:
                wanted.setdefault(collection, []).append(name)
            else:
                found[name] = asked
    if wanted:
        with _server() as connection:
            for collection, names in wanted.items():
                given = Collection.load(shared / collection)
                sets = [given if name == collection else training(given, shared / collection) for name in names]
                for asked_of, asked in zip(sets, answers(connection, sets, track, searched=COLLECTIONS), strict=True):
                    found[asked_of.name] = replace(asked, source=np.array(sources[collection]))
                    found[asked_of.name].save(collected / f"{asked_of.name}.npz")
    return found


def fingerprint(folder: Path) -> str:
    """The sha256 of a collection, of kbsearch's SQL and of the policy that is searched with."""
    digest = hashlib.sha256(json.dumps(asdict(OWN)).encode())
    for path in [*sorted((ROOT / "sql").rglob("*.sql")), *sorted(folder.iterdir())]:
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def training(collection: Collection, folder: Path, embedder: Embedder | None = None) -> Collection:
    """The same documents with the questions of the training split, embedded here.

    Raises:
        CollectionError: it cannot be read.
        MissingExtraError: the packages of the local embedder are not installed.
    """
    with tempfile.TemporaryDirectory() as directory:
        split = Path(directory) / f"{collection.name}-train"
        split.mkdir()
        for name, copied in (
            ("corpus.jsonl", "corpus.jsonl"),
            ("queries_train.jsonl", "queries.jsonl"),
            ("qrels_train.tsv", "qrels.tsv"),
        ):
            shutil.copyfile(folder / name, split / copied)
        found = Collection.load(split)
    vectors = (embedder or LocalEmbedder()).embed_queries([query.text for query in found.queries])
    return replace(found, document_vectors=collection.document_vectors, query_vectors=vectors)


def answers(
    connection: psycopg.Connection[Any], collections: Sequence[Collection], track: Track, searched: Sequence[str]
) -> Iterator[Asked]:
    """Load the documents of the first collection (all have the same) and ask the questions of each; nothing stays in the database.

    Args:
        connection: in autocommit mode, to a database with kbsearch.
        collections: each with vectors.
        track: told how far it is.
        searched: names of the collections that are searched by SEARCHED, too.
    """
    first = collections[0]
    order = sorted(range(len(first.documents)), key=lambda place: first.documents[place].id)
    documents = [first.documents[place] for place in order]
    if first.document_vectors is None:
        raise CollectionError(f"{first.name} has no vectors of its documents")
    vectors = first.document_vectors[order]
    columns = {document.id: place for place, document in enumerate(documents)}
    with connection.transaction(force_rollback=True):
        chunks = [[Chunk(document.text if document.text.strip() else document.title)] for document in documents]
        org_id = load(connection, documents, chunks, vectors)
        own = {name: _argument(value) for name, value in OWN.parameters().items()}
        named = ", ".join(f"p_{name} => %({name})s" for name in own)
        connection.execute(
            f"SELECT kbsearch.create_kb_arbitration_policy_v1(p_org_id => %(org_id)s, p_name => 'own', {named})".encode(),
            own | {"org_id": org_id},
        )
        connection.execute(
            "SELECT kbsearch.create_kb_ranking_profile_v1(p_org_id => %s, p_name => 'own', p_fusion => 'arbitrate', p_policy => 'own@1')",
            [org_id],
        )
        for collection in collections:
            profiles = SEARCHED if collection.name in searched else ()
            yield _ask(connection, org_id, collection, columns, vectors, profiles, track)


def _ask(
    connection: psycopg.Connection[Any],
    org_id: int,
    collection: Collection,
    columns: Mapping[str, int],
    vectors: Vectors,
    profiles: Sequence[str],
    track: Track,
) -> Asked:
    if collection.query_vectors is None:
        raise CollectionError(f"{collection.name} has no vectors of its questions")
    count = len(collection.queries)
    similarity = np.round(collection.query_vectors.astype(np.float64) @ vectors.astype(np.float64).T, 6)
    keyword = np.full((count, len(columns)), np.nan)
    gains = np.zeros((count, len(columns)))
    searched = np.full((len(profiles), count, DEPTH), -1)
    classes = []
    for row in track(range(count), f"asking {collection.name}"):
        query, vector = collection.queries[row], str(collection.query_vectors[row].tolist())
        for document, grade in collection.qrels[query.id].items():
            if document in columns:
                gains[row, columns[document]] = max(0, grade)
        # keyword@1 last: its score is exact to the billionth
        for profile in ("vector@1", "weighted@1", "keyword@1"):
            for reference, near, words, score in connection.execute(
                _LEGS, (org_id, prose(query.text), vector, profile)
            ):
                if near is not None:  # its last digit may be another than numpy's
                    similarity[row, columns[reference]] = near
                if words is not None:
                    keyword[row, columns[reference]] = score if profile == "keyword@1" else words
        for number, profile in enumerate(profiles):
            ranking = _ranking(connection, (org_id, prose(query.text), vector, DEPTH, profile))
            searched[number, row, : len(ranking)] = [columns[reference] for reference in ranking]
        classes.append(_one(connection, "SELECT kbsearch.classify_kb_query_v1(%s)", query.text))
    policies = {
        name: _one(connection, "SELECT kbsearch.resolve_kb_policy_v1(%s, %s)", org_id, name) for name in BUILTIN
    }
    return Asked(
        queries=np.array([query.id for query in collection.queries]),
        classes=np.array(classes),
        similarity=similarity,
        keyword=keyword,
        gains=gains,
        searched=searched,
        policies=np.array(json.dumps(policies)),
        source=np.array(""),
        server=np.array(_one(connection, _VERSIONS)),
    )


def _argument(value: Any) -> Any:
    """A rule of a policy as an argument of create_kb_arbitration_policy_v1."""
    if isinstance(value, dict):
        return json.dumps(value)
    return Decimal(str(value)) if isinstance(value, float) else value


def _ranking(connection: psycopg.Connection[Any], arguments: Sequence[Any]) -> list[str]:
    """What a search finds; nothing where it is escalated."""
    try:
        with connection.transaction():
            return [reference for (reference,) in connection.execute(_SEARCH, arguments)]
    except psycopg.DatabaseError as error:
        if error.sqlstate != "KBESC":
            raise
        return []


def _one(connection: psycopg.Connection[Any], statement: str, *parameters: Any) -> Any:
    row = connection.execute(statement.encode(), parameters).fetchone()
    return None if row is None else row[0]


def _kept(path: Path, source: str) -> Asked | None:
    """What a file has, if it answers what would be asked now."""
    try:
        asked = Asked.read(path)
    except (FileNotFoundError, KeyError):
        return None
    return asked if str(asked.source) == source else None


@contextmanager
def _server() -> Iterator[psycopg.Connection[Any]]:
    """A database on a server of its own, which is removed afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="kbsearch-bench-"))
    try:
        server = embedded.start(directory / "postgres")
        with psycopg.connect(embedded.ensure_database(server), autocommit=True) as connection:
            yield connection
    finally:
        embedded.stop(directory / "postgres")
        shutil.rmtree(directory, ignore_errors=True)
