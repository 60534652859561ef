"""What decides a run, as a record of JSON values: collection, system, embedding space, data, settings, server.

Nothing in it depends on ids, on the time or on the place where it was made: the same data in two databases have the same record.
"""

from __future__ import annotations

import hashlib
import json
import re
from importlib.metadata import version
from typing import Any

import psycopg

from kbsearch import inventory, migrate
from kbsearch.errors import MigrationError, ProfileError
from kbsearch.evaluate.collection import Collection
from kbsearch.schema import DEFAULT, in_schema

FUNCTION = "search_kb_hybrid_v1"
"""The function that is asked."""

CHUNK_ROWS = """FROM kbsearch.kb_articles AS a
INNER JOIN kbsearch.organizations AS o ON o.id = a.org_id
LEFT JOIN kbsearch.kb_article_chunks AS c ON c.org_id = a.org_id AND c.article_id = a.id
LEFT JOIN kbsearch.kb_article_embeddings AS e
    ON e.org_id = c.org_id AND e.article_id = c.article_id AND e.chunk_id = c.id AND e.space_id = o.active_space_id
LEFT JOIN (
    SELECT u.entry >> 12 AS chunk_id, sum(b.sign) AS entries,
        sum(b.sign * pg_catalog.hashtextextended(b.lexeme, u.entry & 4095)::pg_catalog.numeric) AS hash
    FROM kbsearch.kb_postings AS b
    CROSS JOIN LATERAL unnest(b.entries) AS u (entry)
    WHERE b.org_id = %(org_id)s
    GROUP BY u.entry >> 12
) AS p ON p.chunk_id = c.id
WHERE a.org_id = %(org_id)s
ORDER BY coalesce(a.external_ref, '#' || a.id) COLLATE pg_catalog."C", c.chunk_no, c.id"""
"""What to select from: an organisation's chunks (c), with article (a), vector in the active space (e) and entries (p), in the order of names."""

# What an organisation's articles, their chunks and the chunks' vectors are, in the order of their names; and the statistics that scores depend on.
# A vector's text gives back its numbers to the last bit. An article without a name of its own is called by its id.
_CHUNKS = (
    """SELECT coalesce(a.external_ref, '#' || a.id), a.published, c.chunk_no, c.searchable,
    pg_catalog.encode(kbsearch.digest_kb_chunk_v1(c.title, c.heading, c.content), 'hex'),
    pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(e.embedding::pg_catalog.text, 'UTF8')), 'hex'),
    p.entries, p.hash::pg_catalog.text
"""
    + CHUNK_ROWS
)
_ORGANIZATION = """SELECT o.language::pg_catalog.text, o.reference_length,
    (SELECT coalesce(sum(s.chunk_count), 0)::pg_catalog.int8 FROM kbsearch.kb_corpus_stats AS s WHERE s.org_id = o.id),
    (SELECT coalesce(sum(s.occurrence_count), 0)::pg_catalog.int8 FROM kbsearch.kb_corpus_stats AS s WHERE s.org_id = o.id)
FROM kbsearch.organizations AS o
WHERE o.id = %(org_id)s"""
_SPACE = """SELECT s.name, s.model, s.revision, s.dimensions, s.recipe_sha256
FROM kbsearch.organizations AS o
INNER JOIN kbsearch.kb_embedding_spaces AS s ON s.id = o.active_space_id
WHERE o.id = %(org_id)s"""
_PROFILE = """SELECT p.profile, pg_catalog.to_jsonb(p) AS definition
FROM kbsearch.resolve_kb_profile_v1(p_org_id => %(org_id)s, p_profile => %(profile)s) AS p"""
_POLICY = "SELECT kbsearch.resolve_kb_policy_v1(p_org_id => %(org_id)s, p_policy => %(policy)s)"
_EXTENSION = """SELECT pg_catalog.quote_ident(n.nspname)
FROM pg_catalog.pg_extension AS e
INNER JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
WHERE e.extname = 'vector'"""
_SERVER = """SELECT pg_catalog.current_setting('server_version'), pg_catalog.version(),
    (SELECT e.extversion FROM pg_catalog.pg_extension AS e WHERE e.extname = 'vector')"""

Connection = psycopg.Connection[Any]


def sha256_of(value: object) -> str:
    """Digest of JSON values, whatever the order of their names."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def collection_record(collection: Collection) -> dict[str, Any]:
    """What was asked about what: by content, so that a collection is the same in any layout, and whatever the order of its documents."""
    vectors = collection.query_vectors
    return {
        "name": collection.name,
        "corpus_sha256": sha256_of(sorted([one.id, one.title, one.text] for one in collection.documents))
        if collection.documents
        else None,
        "queries_sha256": sha256_of(sorted([query.id, query.text] for query in collection.queries)),
        "qrels_sha256": sha256_of({query: dict(grades) for query, grades in collection.qrels.items()}),
        "documents": len(collection.documents) or None,
        "queries": len(collection.queries),
        "query_vectors_sha256": None if vectors is None else vectors_sha256(vectors),
    }


def vectors_sha256(vectors: Any) -> str:
    """Digest of an array of float32."""
    return hashlib.sha256(vectors.astype("<f4").tobytes()).hexdigest()


def data_record(connection: Connection, org_id: int, schema: str = DEFAULT) -> dict[str, Any]:
    """What an organisation holds.

    Keys: fingerprint (sha256 over names, chunks and vectors, in the order of the names), postings (over the net entries of each chunk), articles,
    chunks, vectors, language, reference_length, indexed_chunks and occurrences (the corpus statistics).
    """
    data, postings = hashlib.sha256(), hashlib.sha256()
    articles: set[str] = set()
    chunks = vectors = 0
    with connection.cursor() as cursor:
        cursor.execute(in_schema(_CHUNKS, schema).encode(), {"org_id": org_id})
        for reference, published, number, searchable, digest, vector, entries, entry_hash in cursor:
            articles.add(reference)
            chunks += number is not None
            vectors += vector is not None
            data.update(json.dumps([reference, published, number, digest, vector]).encode() + b"\n")
            postings.update(
                json.dumps([reference, number, searchable, int(entries or 0), entry_hash or "0"]).encode() + b"\n"
            )
    language, length, indexed, occurrences = _row(connection, _ORGANIZATION, schema, org_id=org_id)
    return {
        "fingerprint": data.hexdigest(),
        "postings": postings.hexdigest(),
        "articles": len(articles),
        "chunks": chunks,
        "vectors": vectors,
        "language": language,
        "reference_length": length,
        "indexed_chunks": indexed,
        "occurrences": occurrences,
    }


def space_record(connection: Connection, org_id: int, schema: str = DEFAULT) -> dict[str, Any]:
    """The embedding space that searches of an organisation use; empty where it has none."""
    found = connection.execute(in_schema(_SPACE, schema).encode(), {"org_id": org_id}).fetchone()
    if found is None:
        return {}
    return dict(zip(("name", "model", "revision", "dimensions", "recipe_sha256"), found, strict=True))


def system_record(
    connection: Connection, org_id: int, name: str, profile: str, functions: str, schema: str = DEFAULT
) -> dict[str, Any]:
    """A system: its profile and, where that arbitrates, its policy, as they are stored; the functions that ranked.

    Raises:
        ProfileError: the organisation has no such ranking profile.
    """
    found = connection.execute(in_schema(_PROFILE, schema).encode(), {"org_id": org_id, "profile": profile}).fetchone()
    if found is None:
        raise ProfileError(
            f"there is no ranking profile {profile!r}",
            detail={"org_id": org_id, "profile": profile},
            hint="Built in are weighted@1, rrf@1, vector@1 and keyword@1 among others.",
        )
    definition = {key: value for key, value in found[1].items() if key != "profile"}
    if policy := definition.get("policy"):
        row = connection.execute(in_schema(_POLICY, schema).encode(), {"org_id": org_id, "policy": policy}).fetchone()
        definition["policy_definition"] = None if row is None else row[0]
    return {
        "name": name,
        "profile": found[0],
        "definition": definition,
        "function": FUNCTION,
        "functions_sha256": functions,
    }


def installed_functions(connection: Connection, schema: str = DEFAULT) -> dict[str, str]:
    """Definitions of kbsearch's functions by name, whatever the schema of the extension vector."""
    row = connection.execute(_EXTENSION).fetchone()
    place = re.compile(rf"\b{re.escape(row[0])}\.") if row else re.compile("(?!)")
    return {
        place.sub("", name): place.sub("", text)
        for name, text in inventory.inventory(connection, schema).items()
        if name.startswith("function ")
    }


def server_record(connection: Connection, schema: str = DEFAULT) -> dict[str, Any]:
    """What answered: versions of PostgreSQL, pgvector and kbsearch, and how the server was built."""
    postgresql, build, pgvector = _row(connection, _SERVER, schema)
    return {
        "postgresql": postgresql,
        "build": build,
        "pgvector": pgvector,
        "kbsearch": version("kbsearch"),
        "schema": _revision(connection, schema),
    }


def _revision(connection: Connection, schema: str) -> str | None:
    """The installed revision; None where the role may not read it, as an application's need not: the functions' digest says more."""
    try:
        return migrate.current(connection, schema=schema)
    except MigrationError:
        return None


def _row(connection: Connection, statement: str, schema: str, **parameters: object) -> tuple[Any, ...]:
    row = connection.execute(in_schema(statement, schema).encode(), parameters).fetchone()
    if row is None:
        raise ValueError("there is no such organisation")
    return tuple(row)
