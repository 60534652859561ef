"""From a document's text to its chunks."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from kbsearch.embed.base import Embedder
from kbsearch.ingest.documents import Markup
from kbsearch.ingest.headings import Heading, headings
from kbsearch.ingest.template import HEADING_SEPARATOR, TEMPLATE, Template, Tokens, parse_template
from kbsearch.models import Chunk

CHARACTERS = 900
"""Default size of chunks in characters, title and heading not included: about 220 tokens of English prose."""
TOKENS = 256
"""Default size of chunks in tokens, or what the model reads, if that is less: title, heading and special tokens included."""
UNBROKEN = 2_000
"""Characters without a space beyond which a run is cut here: the library's time grows with the square of a run's length."""
_PAUSE = re.compile("[\u3002\uff01\uff1f\uff61\uff0e.!?\uff1b;\u3001\uff0c,][^\\w\\s]*")

Measure: TypeAlias = Literal["characters", "tokens"]


@dataclass(frozen=True, slots=True)
class Splitter:
    """Splits texts into chunks of at most `capacity` at the best boundary that fits: headings, paragraphs, sentences, words.

    With a chunk's text goes what it is searched and embedded by beside it: the part of an embedding space's recipe that is no embedder's.

    Attributes:
        capacity: in tokens, of what the model reads for a chunk, title, heading and special tokens included; or in characters of the
            chunk's own text.
        measure: what the capacity counts.
        tokens: of the model that embeds the chunks, if they can be counted: then no chunk is longer than the model reads, whatever the measure.
        layout: template of what the model is given; see kbsearch.ingest.template.
        path: whether a chunk's heading path begins with the relative path of its file.
        guarded: whether names of the machine are refused in what the model is given; see kbsearch.ingest.machine.
    """

    capacity: int = CHARACTERS
    measure: Measure = "characters"
    tokens: Tokens | None = None
    layout: str = TEMPLATE
    path: bool = True
    guarded: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be measured."""
        if self.measure == "tokens" and self.tokens is None:
            raise ValueError("chunks are measured in tokens by an embedder that counts them, and there is none")
        if self.capacity < 1:
            raise ValueError(f"a chunk of {self.capacity} {self.measure} has no content")
        parse_template(self.layout)

    @classmethod
    def of(
        cls,
        embedder: Embedder | None,
        *,
        tokens: int | None = None,
        characters: int | None = None,
        layout: str = TEMPLATE,
        path: bool = True,
        guarded: bool = True,
    ) -> Splitter:
        """The splitter for an embedder: by its model's tokens if it counts them, else by characters; sizes given by the caller count first.

        Raises ValueError when a size is given that cannot be: in tokens that nobody counts, or more than the model reads; when layout is no
        template.
        """
        other: dict[str, Any] = {"layout": layout, "path": path, "guarded": guarded}
        counted = Tokens.of(embedder)
        if characters is not None:
            return cls(characters, "characters", counted, **other)
        if counted is not None:
            if tokens is not None and tokens > counted.limit:
                raise ValueError(
                    f"the model {counted.model} reads {counted.limit} tokens, so a chunk cannot have {tokens}"
                )
            return cls(tokens or min(TOKENS, counted.limit), "tokens", counted, **other)
        if tokens is not None:
            raise ValueError("this embedder does not count tokens: give the size of chunks in characters")
        return cls(**other)

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the chunks of a text, as JSON values: part of an embedding space's recipe."""
        return {
            "splitter": "semantic-text-splitter",
            "version": 3,
            "measure": self.measure,
            "capacity": self.capacity,
            "headings": "path and above" if self.path else "above",
            **({} if self.tokens is None else {"tokens_of": self.tokens.model, "limit": self.tokens.limit}),
        }

    @property
    def template(self) -> Template:
        """What the model reads of the chunks."""
        return Template(self.tokens, self.layout)

    def split(
        self, text: str, markup: Markup = "text", *, title: str | None = None, path: str | None = None
    ) -> list[Chunk]:
        """The chunks of a text, in order, none of them blank; no chunk when the text is.

        A chunk's heading is the path of the headings above it, joined by ` > `, without those that its own content has, and without
        the first when that is the document's title; before them stands the path of the document's file, if it has one.
        """
        first = [path] if self.path and path else []
        outline = list(headings(text, markup))
        if outline and outline[0].title == title:
            del outline[0]
        template = self.template
        pending = deque(self._pieces(text, markup, title, list(_paths(first, outline)), template))
        chunks: list[Chunk] = []
        above: list[Heading] = []
        reached = 0
        while pending:
            offset, content = pending.popleft()
            while reached < len(outline) and outline[reached].offset < offset:
                heading = outline[reached]
                above = [*(higher for higher in above if higher.level < heading.level), heading]
                reached += 1
            if not content.strip():
                continue
            # A heading that opens the chunk ends the sections of its level and below.
            opening = outline[reached].level if reached < len(outline) and outline[reached].offset == offset else None
            titles = [heading.title for heading in above if opening is None or heading.level < opening]
            chunk = Chunk(content, HEADING_SEPARATOR.join([*first, *titles]) or None)
            if len(content) > 1 and not self._is_read(template.render(title, chunk.heading, content)):
                halves = TextSplitter(len(content) // 2).chunk_indices(content)
                pending.extendleft((offset + start, half) for start, half in reversed(halves))
            else:
                chunks.append(chunk)
        return chunks

    def _is_read(self, rendered: str) -> bool:
        """Whether a chunk is within the capacity in tokens, and the model reads all of it."""
        if self.tokens is None:
            return True
        most = self.capacity if self.measure == "tokens" else self.tokens.limit
        return self.tokens.count(rendered) <= most

    def _pieces(
        self, text: str, markup: Markup, title: str | None, paths: list[str], template: Template
    ) -> Iterator[tuple[int, str]]:
        """Pieces of a text with their offsets; runs of over UNBROKEN characters without a space are cut apart from the rest.

        In tokens, each is measured together with the title and the longest heading path: which it gets is known once it is cut.
        """
        kind = MarkdownSplitter if markup == "markdown" else TextSplitter
        if self.measure == "tokens" and self.tokens is not None:
            count = self.tokens.count
            longest = max(paths, key=lambda path: count(template.render(None, path, "")), default=None)
            splitter = kind.from_callback(lambda piece: count(template.render(title, longest, piece)), self.capacity)
        else:
            splitter = kind(self.capacity)
        start = 0
        for run in re.finditer(rf"\S{{{UNBROKEN + 1},}}", text):
            yield from _from(start, splitter.chunk_indices(text[start : run.start()]))
            yield from _cut(text, run.start(), run.end(), self.capacity)
            start = run.end()
        yield from _from(start, splitter.chunk_indices(text[start:]))


def _paths(first: list[str], outline: list[Heading]) -> Iterator[str]:
    """Every heading path of a document."""
    above: list[Heading] = []
    yield from first
    for heading in outline:
        above = [*(higher for higher in above if higher.level < heading.level), heading]
        yield HEADING_SEPARATOR.join([*first, *(part.title for part in above)])


def _from(start: int, pieces: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    return ((start + offset, content) for offset, content in pieces)


def _cut(text: str, start: int, end: int, capacity: int) -> Iterator[tuple[int, str]]:
    """Pieces of at most `capacity` characters, cut after the last pause in their second half where there is one."""
    while end - start > capacity:
        pauses = [pause.end() for pause in _PAUSE.finditer(text, start + capacity // 2, start + capacity)]
        cut = pauses[-1] if pauses else start + capacity
        yield start, text[start:cut]
        start = cut
    yield start, text[start:end]
