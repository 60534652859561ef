"""What embedders share: their identity, prefixes, and answers that are checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from kbsearch.embed.base import Vectors, check_texts
from kbsearch.embed.checks import check_dimensions, check_vectors
from kbsearch.embed.errors import EmbeddingError, TextsRefusedError

Role: TypeAlias = Literal["query", "passage"]
PROBE = "kbsearch"
"""A text that every model can embed: asked to learn the number of dimensions, and whether a refusal was about the texts."""


class ModelIdentity(ABC):
    """Name, model, revision, dimensions and recipe, as every Embedder has them."""

    def __init__(
        self,
        *,
        model: str,
        name: str | None,
        revision: str,
        dimensions: int | None,
        query_prefix: str,
        passage_prefix: str,
        normalise: bool,
        recipe: Mapping[str, Any],
    ) -> None:
        """Keep the identity; without a name the last part of the model's is taken, without dimensions the model is asked when needed."""
        for label, value in (("model", model), ("name", name)):
            if value is not None and not value.strip():
                raise EmbeddingError(f"{value!r} is no {label} of an embedding model")
        self._model, self._revision = model, revision
        self._name = name or model.rsplit("/", 1)[-1].lower()
        self._dimensions = None if dimensions is None else check_dimensions(dimensions, model)
        self._prefixes: dict[Role, str] = {"query": query_prefix, "passage": passage_prefix}
        self._normalise = normalise
        self._recipe = {
            **recipe,
            "normalisation": "l2" if normalise else "none",
            "query_prefix": query_prefix,
            "passage_prefix": passage_prefix,
        }

    @property
    def name(self) -> str:
        """Short name for people."""
        return self._name

    @property
    def model(self) -> str:
        """The model's published name."""
        return self._model

    @property
    def revision(self) -> str:
        """Which weights; empty when it is not known."""
        return self._revision

    @property
    def dimensions(self) -> int:
        """Components of a vector. If they were not given, the model is asked the first time.

        Raises EmbeddingError when it does not answer.
        """
        if self._dimensions is None:
            self._discover()
        assert self._dimensions is not None  # noqa: S101  (what _discover is for)
        return self._dimensions

    @property
    def recipe(self) -> Mapping[str, Any]:
        """What is done around the model."""
        return dict(self._recipe)

    @abstractmethod
    def _discover(self) -> None:
        """Set the number of dimensions by embedding PROBE."""

    def _check(self, answer: Any, count: int) -> tuple[Vectors, dict[int, str]]:
        """Check an answer, and learn the number of dimensions from the first."""
        vectors, failures = check_vectors(answer, count, self._dimensions, normalise=self._normalise)
        if self._dimensions is None:
            self._dimensions = check_dimensions(vectors.shape[1], self._model)
        return vectors, failures


class CheckedEmbedder(ModelIdentity):
    """An Embedder around `_answer`, which gives the vectors of texts in whatever form its model has them."""

    @abstractmethod
    def _answer(self, texts: list[str], role: Role) -> Any:
        """Vectors of texts without prefix, in their order: an array, or an iterable of arrays or lists."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages: float32, shape (len(texts), dimensions).

        Raises ValueError on a blank text, TextsRefusedError when some texts have no vector, EmbeddingError when embedding fails.
        """
        return self._embed(texts, "passage")

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions: float32, shape (len(texts), dimensions).

        Raises ValueError on a blank text, TextsRefusedError when some texts have no vector, EmbeddingError when embedding fails.
        """
        return self._embed(texts, "query")

    def _embed(self, texts: Sequence[str], role: Role) -> Vectors:
        check_texts(texts)
        if not texts:
            return check_vectors([], 0, self.dimensions, normalise=False)[0]
        vectors, failures = self._check(self._answer(list(texts), role), len(texts))
        if failures:
            raise refusal(failures, vectors, self._model)
        return vectors

    def _discover(self) -> None:
        self._embed([PROBE], "passage")


def refusal(failures: Mapping[int, str], vectors: Vectors, model: str) -> TextsRefusedError:
    """The error for texts that have no vector, in the order of the texts."""
    ordered = dict(sorted(failures.items()))
    first, reason = next(iter(ordered.items()))
    if len(vectors) == 1:
        message = f"{model} has no vector for the text: {reason}"
    else:
        message = f"{model} has no vector for {len(ordered)} of {len(vectors)} texts; text {first}: {reason}"
    return TextsRefusedError(
        message,
        failures=ordered,
        vectors=vectors,
        detail={"model": model, "texts": list(ordered)},
        hint="Shorten or leave out the texts named; all others have their vectors.",
    )
