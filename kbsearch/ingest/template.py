"""What a model gets to read of a chunk, and how much it can read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

from kbsearch.embed.base import Embedder
from kbsearch.models import Chunk

TEMPLATE = "title\nheading\ncontent"
"""What a model gets to read of a chunk: these parts, a line each, those that are missing left out."""
HEADING_SEPARATOR = " > "


@runtime_checkable
class TokenCounter(Protocol):
    """What an embedder offers by whose model's tokens chunks are measured."""

    @property
    def max_tokens(self) -> int | None:
        """What the model reads at most of one passage, special tokens and prefix included; None where nobody knows."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of one passage as the model is given it, special tokens and prefix included, nothing cut off."""
        ...


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a model: how many a text has, how many are read, and whose they are (part of what decides chunks)."""

    count: Callable[[str], int]
    limit: int
    model: str

    @classmethod
    def of(cls, embedder: Embedder | None) -> Tokens | None:
        """Those of an embedder's model; None when it does not count them."""
        counter: object = embedder
        if embedder is None or not isinstance(counter, TokenCounter) or counter.max_tokens is None:
            return None
        return cls(counter.count_tokens, int(counter.max_tokens), f"{embedder.model} {embedder.revision}".strip())


class Template:
    """Renders chunks. Of a title and of a heading path at most a quarter each of what the model reads is rendered, so half is the content's."""

    def __init__(self, tokens: Tokens | None = None) -> None:
        """Without tokens nothing is cut off."""
        self._tokens = tokens
        self._shortened = lru_cache(4096)(self._shorten)

    def render(self, title: str | None, heading: str | None, content: str) -> str:
        """The exact text that the model reads for a chunk."""
        parts = (
            self._shortened((title,)) if title else "",
            self._shortened(tuple(heading.split(HEADING_SEPARATOR))) if heading else "",
            content,
        )
        return "\n".join(part for part in parts if part.strip())

    def sha256(self, title: str | None, chunk: Chunk) -> str:
        """Digest of the exact text that the model reads for a chunk, as hexadecimal digits."""
        return hashlib.sha256(self.render(title, chunk.heading, chunk.content).encode()).hexdigest()

    def _shorten(self, path: tuple[str, ...]) -> str:
        """As many of the last parts of a path as fit, of the last as many words, of its first word as many characters."""
        for start in range(len(path)):
            joined = HEADING_SEPARATOR.join(path[start:])
            if self._fits(joined):
                return joined
        words = path[-1].split()
        count = self._fitting(len(words), lambda number: " ".join(words[:number]))
        if count or not words:
            return " ".join(words[:count])
        return words[0][: self._fitting(len(words[0]), lambda number: words[0][:number])]

    def _fitting(self, most: int, prefix: Callable[[int], str]) -> int:
        """The greatest number whose prefix fits, found by bisection, which goes by lengths nearly in proportion to their tokens."""
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._fits(prefix(middle)) else (low, middle - 1)
        while low and not self._fits(prefix(low)):
            low -= 1
        return low

    def _fits(self, text: str) -> bool:
        if self._tokens is None:
            return True
        none = self._tokens.count("")
        return self._tokens.count(text) - none <= (self._tokens.limit - none) // 4


def model_input(title: str | None, chunk: Chunk) -> str:
    """The text that a model reads for a chunk if it can read all of it."""
    return Template().render(title, chunk.heading, chunk.content)


def model_inputs(template: Template, title: str | None, chunks: Sequence[Chunk]) -> list[str]:
    """The exact texts that the model reads for the chunks of an article."""
    return [template.render(title, chunk.heading, chunk.content) for chunk in chunks]
