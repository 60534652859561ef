"""An embedder around a function of yours."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from kbsearch.embed.checked import CheckedEmbedder, Role
from kbsearch.embed.errors import EmbeddingError

EmbeddingFunction: TypeAlias = Callable[[list[str]], Any]
"""Takes texts; gives as many vectors in the same order, as an array or as an iterable of arrays or lists of numbers."""


class CallableEmbedder(CheckedEmbedder):
    """Embeds with a function, and checks what it gives as strictly as a service's answers.

    Args:
        function: takes a list of texts and gives their vectors, for passages and, without another, for questions.
        model: name of the model; with `revision`, dimensions and recipe it is the identity of the embedding space.
        query_function: for questions, where the model treats them otherwise.
        dimensions: components of a vector; None: the function is asked the first time.
        revision: which weights; change it whenever the function begins to compute something else.
        name: short name for people; by default the last part of the model's.
        query_prefix: put before each question, part of the recipe.
        passage_prefix: put before each passage, part of the recipe.
        normalise: divide each vector by its length.
        recipe: what else decides the vectors, as JSON values.

    Raises:
        EmbeddingError: dimensions, model or name are unusable.
    """

    def __init__(
        self,
        function: EmbeddingFunction,
        *,
        model: str,
        query_function: EmbeddingFunction | None = None,
        dimensions: int | None = None,
        revision: str = "",
        name: str | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
        normalise: bool = True,
        recipe: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep the functions; nothing is asked yet."""
        for one in (function, query_function):
            if one is not None and not callable(one):
                raise EmbeddingError(f"a {type(one).__name__} is no function that could embed texts")
        super().__init__(
            model=model,
            name=name,
            revision=revision,
            dimensions=dimensions,
            query_prefix=query_prefix,
            passage_prefix=passage_prefix,
            normalise=normalise,
            recipe={"interface": "function", "separate_queries": query_function is not None, **(recipe or {})},
        )
        self._functions: dict[Role, EmbeddingFunction] = {"passage": function, "query": query_function or function}

    def _answer(self, texts: list[str], role: Role) -> Any:
        try:
            answer = self._functions[role]([self._prefixes[role] + text for text in texts])
            answer = list(answer) if isinstance(answer, Iterator) else answer
        except EmbeddingError:
            raise
        except Exception as error:
            raise EmbeddingError(
                f"the embedding function of {self.model} failed: {type(error).__name__}: {error}",
                failures=dict.fromkeys(range(len(texts)), f"{type(error).__name__}: {error}"),
            ) from error
        if inspect.iscoroutine(answer):
            answer.close()
            raise EmbeddingError(
                f"the embedding function of {self.model} is a coroutine function",
                hint="Give a plain function, or write a class with aembed_passages and aembed_queries.",
            )
        return answer
