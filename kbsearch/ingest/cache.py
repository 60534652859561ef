"""What models answered, by what they were given: an organisation's cache of vectors.

The key is the sha256 of the exact text that the model is given, prefix and all, with the embedding space and the role; never a document's content
alone. The text itself is kept beside, once, so that anybody can see what a vector is of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from kbsearch.embed.base import Embedder
from kbsearch.embed.checked import Role
from kbsearch.ingest.report import Connection
from kbsearch.ingest.spaces import Space
from kbsearch.schema import DEFAULT, in_schema

_FIND = """SELECT k.input_sha256, k.embedding
FROM kbsearch.kb_embedding_cache AS k
WHERE k.org_id = %s AND k.space_id = %s AND k.role = %s AND k.input_sha256 = ANY (%s::pg_catalog.bytea [])"""
_KNOWN_INPUTS = """SELECT i.input_sha256
FROM kbsearch.kb_embedding_inputs AS i
WHERE i.org_id = %s AND i.input_sha256 = ANY (%s::pg_catalog.bytea [])"""
_COPY_INPUTS = "COPY kbsearch.kb_embedding_inputs (org_id, input_sha256, input) FROM STDIN WITH (FORMAT binary)"
_COPY_VECTORS = (
    "COPY kbsearch.kb_embedding_cache (org_id, input_sha256, space_id, role, embedding) FROM STDIN WITH (FORMAT binary)"
)
# One run at a time: COPY, which is several times faster than INSERT, knows no ON CONFLICT.
_LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(p_org_id => %s, p_lock => 'cache'))"
_COUNT = """INSERT INTO kbsearch.kb_embedding_counts AS n (org_id, space_id, role, hits, misses) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (org_id, space_id, role)
DO UPDATE SET hits = n.hits + excluded.hits, misses = n.misses + excluded.misses, updated_at = now()"""

_ATTEMPTS = 20
"""Times that a batch is stored anew where another run stores the same at the same time, and transactions see no later commit by default."""


def prefix_of(embedder: Embedder, role: Role) -> str:
    """What an embedder puts before the texts of a role, as its recipe says."""
    return str(embedder.recipe.get(f"{role}_prefix", "") or "")


def input_sha256(text: str) -> bytes:
    """Digest of the exact text that a model is given."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def is_storable(text: str) -> bool:
    """Whether the database can hold a text: no NUL, and no half of a surrogate pair."""
    try:
        return "\0" not in text and text.encode() is not None
    except UnicodeEncodeError:
        return False


def binary(vector: NDArray[np.float32]) -> bytes:
    """A vector as PostgreSQL receives it: number of dimensions, two unused bytes, big-endian single precision."""
    return len(vector).to_bytes(2, "big") + b"\0\0" + vector.astype(">f4").tobytes()


def vector_of(sent: bytes) -> NDArray[np.float32]:
    """A vector as PostgreSQL sends it."""
    return np.frombuffer(sent, dtype=">f4", offset=4).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Cache:
    """The cache of an organisation for one embedding space and role. The connection must be in autocommit mode."""

    connection: Connection
    org_id: int
    space: Space
    role: Role = "passage"
    schema: str = DEFAULT

    def find(self, digests: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """The vectors that are there, by the digests of their inputs."""
        if not digests:
            return {}
        keys = (self.org_id, self.space.id, self.role, list(digests))
        rows = self.connection.execute(in_schema(_FIND, self.schema).encode(), keys, binary=True).fetchall()
        return {bytes(digest): vector_of(bytes(sent)) for digest, sent in rows}

    def store(self, inputs: Mapping[bytes, str], vectors: Mapping[bytes, NDArray[np.float32]]) -> None:
        """Keep vectors and what they are of, in one transaction; what another run has stored meanwhile stays."""
        if not vectors:
            return
        for attempt in range(_ATTEMPTS):
            try:
                with self.connection.transaction():
                    self.connection.execute(in_schema(_LOCK, self.schema).encode(), (self.org_id,))
                    known = self.find(list(vectors))
                    self._copy(inputs, {digest: vector for digest, vector in vectors.items() if digest not in known})
            except (psycopg.errors.UniqueViolation, psycopg.errors.SerializationFailure):
                if attempt + 1 == _ATTEMPTS:
                    raise
            else:
                return

    def count(self, hits: int, misses: int) -> None:
        """Count how often the cache was asked."""
        if hits or misses:
            keys = (self.org_id, self.space.id, self.role, hits, misses)
            self.connection.execute(in_schema(_COUNT, self.schema).encode(), keys)

    def _copy(self, inputs: Mapping[bytes, str], vectors: Mapping[bytes, NDArray[np.float32]]) -> None:
        digests = sorted(vectors)
        if not digests:
            return
        rows = self.connection.execute(
            in_schema(_KNOWN_INPUTS, self.schema).encode(), (self.org_id, digests), binary=True
        ).fetchall()
        known = {bytes(digest) for (digest,) in rows}
        self._copy_rows(
            _COPY_INPUTS,
            ("int8", "bytea", "text"),
            [(self.org_id, digest, inputs[digest]) for digest in digests if digest not in known],
        )
        # What vector_recv reads is what the type bytea sends: the bytes as they are.
        self._copy_rows(
            _COPY_VECTORS,
            ("int8", "bytea", "int8", "text", "bytea"),
            [(self.org_id, digest, self.space.id, self.role, binary(vectors[digest])) for digest in digests],
        )

    def _copy_rows(self, statement: str, types: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        if not rows:
            return
        with self.connection.cursor() as cursor, cursor.copy(in_schema(statement, self.schema).encode()) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)
