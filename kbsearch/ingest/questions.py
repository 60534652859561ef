"""Questions whose vectors are kept: for callers that ask the same ones again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kbsearch.embed.base import Embedder, Vectors, check_texts
from kbsearch.embed.checked import Role, refusal
from kbsearch.ingest.cache import Cache, is_storable
from kbsearch.ingest.embedding import embed
from kbsearch.ingest.report import Connection, UsageError
from kbsearch.ingest.spaces import active_identity
from kbsearch.schema import DEFAULT


class CachedEmbedder:
    """An embedder that keeps what it was asked, and the answers, in an organisation's cache.

    Searches write nothing, so the client keeps no vectors of questions by itself; `KBSearch(…, embedder=CachedEmbedder(…))` does. Texts are
    looked up in the organisation's active space, if that is of this embedder's model: in another, or without one, nothing is kept.
    """

    def __init__(self, embedder: Embedder, connection: Connection, org_id: int, *, schema: str = DEFAULT) -> None:
        """Keep the parts; nothing is asked yet.

        Args:
            embedder: computes what is not in the cache.
            connection: writes the cache; in autocommit mode, and another than one that searches in a read-only transaction.
            org_id: the organisation whose cache it is.
            schema: that kbsearch is installed in.

        Raises UsageError when the connection is not in autocommit mode.
        """
        if not connection.autocommit:
            raise UsageError("the cache needs a connection in autocommit mode: vectors are committed as they are made")
        self._embedder, self._connection, self._org_id, self._schema = embedder, connection, org_id, schema

    @property
    def name(self) -> str:
        """The embedder's."""
        return self._embedder.name

    @property
    def model(self) -> str:
        """The embedder's."""
        return self._embedder.model

    @property
    def revision(self) -> str:
        """The embedder's."""
        return self._embedder.revision

    @property
    def dimensions(self) -> int:
        """The embedder's."""
        return self._embedder.dimensions

    @property
    def recipe(self) -> Mapping[str, Any]:
        """The embedder's."""
        return self._embedder.recipe

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages, as the embedder gives them. Raises what the embedder raises."""
        return self._embed(texts, "passage")

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions, as the embedder gives them. Raises what the embedder raises."""
        return self._embed(texts, "query")

    def _embed(self, texts: Sequence[str], role: Role) -> Vectors:
        check_texts(texts)
        made = embed(self._embedder, texts, self._cache(texts, role), role)
        if made.error is not None:
            raise made.error
        if made.refused:
            raise refusal(dict(made.refused), made.vectors, self.model)
        return made.vectors

    def _cache(self, texts: Sequence[str], role: Role) -> Cache | None:
        found = active_identity(self._connection, self._org_id, self._schema)
        if found is None or not all(map(is_storable, texts)):
            return None
        space, identity, recipe = found
        prefixes = ("query_prefix", "passage_prefix")
        if identity != (self.model, self.revision, self.dimensions) or any(
            recipe.get(name) != self.recipe.get(name) for name in prefixes
        ):
            return None
        return Cache(self._connection, self._org_id, space, role, self._schema)
