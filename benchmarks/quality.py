"""How well the systems answer the questions of whole collections: nDCG@10, beside their speed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import peers
from benchmarks.data import Question
from benchmarks.peers import PAGE
from benchmarks.provenance import record
from benchmarks.store import Say, Scale, Store
from kbsearch import embedded
from kbsearch.evaluate import Collection, prose
from kbsearch.evaluate.metrics import measure as metrics
from kbsearch.evaluate.run import load
from kbsearch.models import Chunk

COLLECTIONS = ("scifact", "cranfield", "stackfaq")
DATABASE = Scale("quality", {})

_SEARCH = """SELECT s.external_ref FROM kbsearch.search_kb_hybrid_v1(
    p_org_id => %s, p_query_text => %s, p_query_embedding => %s, p_limit => 10, p_profile => %s) AS s ORDER BY s.place"""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question of a collection."""

    id: str
    question: Question


def measure(store: Store, folder: Path, say: Say) -> dict[str, Any]:
    """Every system on every collection that is there; the organisation is the whole database, as the peers would have it. Empty without any."""
    found: list[dict[str, Any]] = []
    under: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for name in COLLECTIONS:
        if not (folder / name / "qrels.tsv").is_file():
            continue
        collection = Collection.load(folder / name)
        if collection.document_vectors is None or collection.query_vectors is None:
            continue
        say(f"quality: {name}", 0, 0)
        begin = time.monotonic()
        store.drop(DATABASE.name)
        embedded.ensure_database(store.server(), DATABASE.name)
        with store.connect(DATABASE.name) as connection:
            chunks = [[Chunk(document.text)] for document in collection.documents]
            org_id = load(connection, collection.documents, chunks, collection.document_vectors)
            for step in itertools.chain.from_iterable(peers.STEPS.values()):
                for statement in step.statements:
                    connection.execute(statement.encode())
            connection.execute("VACUUM ANALYZE")
            asked = [
                _Asked(query.id, Question(tuple(prose(query.text).split()), vector))
                for query, vector in zip(collection.queries, collection.query_vectors, strict=True)
            ]
            under = under or record(store, [DATABASE.name])
            rankings = _rankings(store, connection, org_id, asked)
        seconds[name] = time.monotonic() - begin
        found += [
            {"collection": name, "system": system, "ndcg": metrics(collection.qrels, ranking)["nDCG@10"]}
            for system, ranking in rankings.items()
        ]
    store.drop(DATABASE.name)
    return {"quality": found, "seconds": seconds, "measured": {"quality": under}} if found else {}


def _rankings(
    store: Store, connection: psycopg.Connection[Any], org_id: int, asked: Sequence[_Asked]
) -> dict[str, dict[str, list[str]]]:
    refs = dict(
        connection.execute(
            "SELECT c.id, a.external_ref FROM kbsearch.kb_article_chunks AS c INNER JOIN kbsearch.kb_articles AS a ON a.org_id = "
            "c.org_id AND a.id = c.article_id"
        ).fetchall()
    )

    def ours(profile: str, *, embedded_question: bool = True) -> dict[str, list[str]]:
        return {
            one.id: [
                row[0]
                for row in connection.execute(
                    _SEARCH,
                    [org_id, one.question.text, one.question.embedding if embedded_question else None, profile],
                    prepare=True,
                )
            ]
            for one in asked
        }

    rankings: dict[str, dict[str, list[str]]] = {
        "kbsearch weighted": ours("weighted@1"),
        "kbsearch rrf": ours("rrf@1"),
        "kbsearch keyword": ours("keyword@1", embedded_question=False),
    }
    for peer in peers.available():
        rankings[peer.key] = {
            one.id: [refs[row[0]] for row in connection.execute(built[0].encode(), built[1], prepare=True)]
            for one in asked
            if (built := peer.build(one.question, None, PAGE, 0))
        }
    if peers.version("pg_textsearch") is not None:
        with peers.textsearch(store, DATABASE) as other:
            peers.fill_textsearch(connection, other, org_id)
            rankings["pg_textsearch"] = {
                one.id: [refs[row[0]] for row in other.execute(peers.TEXTSEARCH.encode(), [one.question.text, PAGE])]
                for one in asked
            }
    return rankings
