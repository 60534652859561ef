"""One call of an embedder, or of its cache, with what can go wrong taken apart: texts without a vector, and a service that has none to give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kbsearch.embed.base import Embedder, Vectors
from kbsearch.embed.checked import Role
from kbsearch.embed.errors import EmbeddingError, TextsRefusedError
from kbsearch.ingest.cache import Cache, input_sha256, prefix_of

_SHORTEST, _LONGEST = 1e-15, 1e15
"""Between these norms a vector has a direction, as kb_article_embeddings.has_direction has it."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """What an embedder made of texts.

    Attributes:
        vectors: float32 of shape (texts, dimensions); rows of texts without a vector mean nothing.
        refused: why a text never has a vector, by position.
        unfinished: positions of texts without a vector that may have one another time.
        error: what stopped the embedder; None when it did not stop.
    """

    vectors: Vectors
    refused: Mapping[int, str]
    unfinished: frozenset[int] = frozenset()
    error: EmbeddingError | None = None

    def has(self, position: int) -> bool:
        """Whether a text has a vector."""
        return position not in self.refused and position not in self.unfinished


def embed(embedder: Embedder, texts: Sequence[str], cache: Cache | None = None, role: Role = "passage") -> Embedded:
    """Embed texts, but those whose vectors the cache has, and of equal ones only one. What is computed is kept there, even if some fail.

    Raises EmbeddingError when nothing was embedded, or the answer is no array of vectors of the embedder's dimensions; what else the embedder raises.
    """
    prefix = prefix_of(embedder, role)
    digests = [input_sha256(prefix + text) for text in texts]
    found = {} if cache is None else cache.find(list(dict.fromkeys(digests)))
    asked = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in found}
    made = _ask(embedder, list(asked.values()), role)
    places = {digest: place for place, digest in enumerate(asked)}
    if cache is not None:
        cache.store(
            {digest: prefix + text for digest, text in asked.items()},
            {digest: made.vectors[place] for digest, place in places.items() if made.has(place)},
        )
        cache.count(len(texts) - len(asked), len(asked))
    vectors = np.empty((len(texts), embedder.dimensions), dtype=np.float32)
    for position, digest in enumerate(digests):
        vectors[position] = found[digest] if digest in found else made.vectors[places[digest]]
    asked_places = [places.get(digest, -1) for digest in digests]
    return Embedded(
        vectors,
        {position: made.refused[place] for position, place in enumerate(asked_places) if place in made.refused},
        frozenset(position for position, place in enumerate(asked_places) if place in made.unfinished),
        made.error,
    )


def _ask(embedder: Embedder, texts: Sequence[str], role: Role) -> Embedded:
    error: EmbeddingError | None = None
    failures: Mapping[int, str] = {}
    try:
        ask = embedder.embed_passages if role == "passage" else embedder.embed_queries
        vectors = ask(texts) if texts else np.empty((0, embedder.dimensions), dtype=np.float32)
    except EmbeddingError as failed:
        if failed.vectors is None:
            raise
        vectors, failures = failed.vectors, failed.failures
        error = None if isinstance(failed, TextsRefusedError) else failed
    if vectors.shape != (len(texts), embedder.dimensions):
        raise EmbeddingError(
            f"the embedder {embedder.name} gave an array of shape {vectors.shape} for {len(texts)} texts of {embedder.dimensions} dimensions"
        )
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    lacking = {position for position, norm in enumerate(norms) if not np.isfinite(norm)} | set(failures)
    refused = {
        position: f"its vector has no direction: its norm is {norm:g}"
        for position, norm in enumerate(norms)
        if position not in lacking and not _SHORTEST <= norm <= _LONGEST
    }
    if error is None:
        refused |= {
            position: failures.get(position, "its vector has a component that is no number") for position in lacking
        }
        lacking = set()
    return Embedded(vectors, refused, frozenset(lacking), error)
