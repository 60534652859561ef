"""What every embedder offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""float32 of shape (texts, dimensions)."""


class _Identity(Protocol):
    """What an embedder computes: two that agree in all of this give vectors that may be compared.

    `recipe` says, as JSON values, what is done around the model (pooling, normalisation, truncation, prefixes for queries and passages);
    it holds no path, no address and nothing else of the machine it runs on or speaks to.
    """

    @property
    def name(self) -> str:
        """Short name for people, the first part of the name of an embedding space."""
        ...

    @property
    def model(self) -> str:
        """The model's published name."""
        ...

    @property
    def revision(self) -> str:
        """Which weights: a digest, a tag or a date; empty when the provider has none."""
        ...

    @property
    def dimensions(self) -> int:
        """Components of a vector; an embedder that does not know them asks its model the first time."""
        ...

    @property
    def recipe(self) -> Mapping[str, Any]:
        """What is done around the model, as JSON values."""
        ...


@runtime_checkable
class Embedder(_Identity, Protocol):
    """Turns texts into vectors of one model. Its name, model, revision, dimensions and recipe are the identity of what it computes."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages to be found: float32, shape (len(texts), dimensions), in the order of `texts`.

        Raises ValueError when a text is blank, TextsRefusedError when some texts have no vector, EmbeddingError when embedding fails.
        """
        ...

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions: float32, shape (len(texts), dimensions), in the order of `texts`.

        Raises ValueError when a text is blank, TextsRefusedError when some texts have no vector, EmbeddingError when embedding fails.
        """
        ...


@runtime_checkable
class AsyncEmbedder(_Identity, Protocol):
    """The same, for callers that must not block: coroutines under other names, so that one object can be both."""

    async def aembed_passages(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages, as Embedder.embed_passages gives them."""
        ...

    async def aembed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions, as Embedder.embed_queries gives them."""
        ...


def check_texts(texts: Sequence[str]) -> None:
    """Raise ValueError naming the first text that is blank, TypeError when one is no string: a model's answer to nothing is noise."""
    if isinstance(texts, str):
        raise TypeError("texts must be a sequence of strings, not one string")
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"text {position} is a {type(text).__name__}, not a string")
        if not text.strip():
            raise ValueError(f"text {position} of {len(texts)} is blank: there is nothing to embed")
