"""What a model gets to read of a chunk, and how much it can read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from typing import Protocol, runtime_checkable

from kbsearch.embed.base import Embedder
from kbsearch.models import Chunk

FIELDS = ("title", "heading", "content")
"""What a template is filled with: the article's title; where the chunk stands, which is the file's relative path and the headings above
it, joined by HEADING_SEPARATOR; the chunk's text."""
TEMPLATE = "{title}\n{heading}\n{content}"
"""What a model gets to read of a chunk, unless a recipe says otherwise. A line whose fields are all blank is left out."""
HEADING_SEPARATOR = " > "
_FORMATTER = Formatter()


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


def parse_template(text: str) -> list[list[tuple[str, str | None]]]:
    """The lines of a template, each as its literal texts with the fields that follow them.

    Raises ValueError for what is no template: a field that there is not, one that is formatted, no content.
    """
    try:
        parsed = [
            [(literal, name, form, turn) for literal, name, form, turn in _FORMATTER.parse(line)]
            for line in text.split("\n")
        ]
    except ValueError as error:
        raise ValueError(f"{text!r} is no template: {error}; braces of the text itself are written twice") from error
    lines: list[list[tuple[str, str | None]]] = []
    for line in parsed:
        for _, name, form, turn in line:
            if name is not None and (name not in FIELDS or form or turn):
                raise ValueError(
                    f"{text!r} is no template: its fields are {', '.join(f'{{{one}}}' for one in FIELDS)}, as they stand"
                )
        lines.append([(literal, name) for literal, name, _, _ in line])
    if not any(name == "content" for line in lines for _, name in line):
        raise ValueError(f"{text!r} is no template: it has no {{content}}")
    return lines


class Template:
    """Renders chunks. Of a title and of a heading path at most a quarter each of what the model reads is rendered, so half is the content's."""

    def __init__(self, tokens: Tokens | None = None, text: str = TEMPLATE) -> None:
        """Without tokens nothing is cut off. Raises ValueError when text is no template."""
        self._tokens = tokens
        self._lines = parse_template(text)
        self.fields = frozenset(name for line in self._lines for _, name in line if name is not None)
        self._shortened = lru_cache(4096)(self._shorten)

    def render(self, title: str | None, heading: str | None, content: str) -> str:
        """The text that a model is given for a chunk; empty for a chunk of nothing."""
        values = {
            "title": self._shortened((title,)) if title else "",
            "heading": self._shortened(tuple(heading.split(HEADING_SEPARATOR))) if heading else "",
            "content": content,
        }
        blank = {name for name, value in values.items() if not value.strip()}
        if len(blank) == len(values):
            return ""
        lines = []
        for line in self._lines:
            fields = [name for _, name in line if name is not None]
            if not fields or not blank.issuperset(fields):
                lines.append("".join(literal + ("" if name is None else values[name]) for literal, name in line))
        return "\n".join(lines)

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
    """The text that a model reads for a chunk if it can read all of it, by the default template and without a prefix."""
    return Template().render(title, chunk.heading, chunk.content)
