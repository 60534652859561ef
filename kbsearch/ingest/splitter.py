"""From a document's text to its chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from semantic_text_splitter import MarkdownSplitter, TextSplitter

from kbsearch.ingest.documents import Markup
from kbsearch.models import Chunk

CAPACITY = 900
HEADING_SEPARATOR = " > "

# A line, then a line of one repeated punctuation mark at least as long: a section title of reStructuredText and of plain text manuals.
_UNDERLINED = re.compile(r"^(?P<title>\S[^\n]*)\n(?P<mark>[=\-~^*\"'`#+:.])(?P=mark){2,}[ \t]*$", re.MULTILINE)
_MARKDOWN = MarkdownIt("commonmark")
UNBROKEN = 2_000
"""Characters without a space beyond which a run is cut here: the library's time grows with the square of a run's length."""
_PAUSE = re.compile("[\u3002\uff01\uff1f\uff61\uff0e.!?\uff1b;\u3001\uff0c,][^\\w\\s]*")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a text: offset of its first character, level from 1 (highest), and its words."""

    offset: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Splitter:
    """Splits texts into chunks of at most `capacity` characters at the best boundary that fits: headings, paragraphs, sentences, words.

    The default of 900 characters suits a model that reads 256 tokens, title and heading included: of the chunks of Python's language reference
    14 % are longer than that (of 1,200 characters: 50 %), and what is cut off is still found by its words. The measure is characters, not a
    model's tokens, so that a text has the same chunks with every embedder and without one.
    """

    capacity: int = CAPACITY

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the chunks of a text, as JSON values: part of an embedding space's recipe."""
        return {"splitter": "semantic-text-splitter", "version": 1, "capacity": self.capacity, "headings": "above"}

    def split(self, text: str, markup: Markup = "text", *, title: str | None = None) -> list[Chunk]:
        """The chunks of a text, in order, none of them blank; no chunk when the text is.

        A chunk's heading is the path of the headings above it, joined by ` > `, without those that its own content has, and without
        the first when that is the document's title.
        """
        splitter = MarkdownSplitter(self.capacity) if markup == "markdown" else TextSplitter(self.capacity)
        outline = list(headings(text, markup))
        if outline and outline[0].title == title:
            del outline[0]
        chunks: list[Chunk] = []
        above: list[Heading] = []
        reached = 0
        for offset, content in _chunks(splitter, text, self.capacity):
            while reached < len(outline) and outline[reached].offset < offset:
                heading = outline[reached]
                above = [*(higher for higher in above if higher.level < heading.level), heading]
                reached += 1
            if content.strip():
                # A heading that opens the chunk ends the sections of its level and below.
                opening = (
                    outline[reached].level if reached < len(outline) and outline[reached].offset == offset else None
                )
                path = [heading.title for heading in above if opening is None or heading.level < opening]
                chunks.append(Chunk(content, HEADING_SEPARATOR.join(path) or None))
        return chunks


def _chunks(splitter: MarkdownSplitter | TextSplitter, text: str, capacity: int) -> Iterator[tuple[int, str]]:
    """The library's chunks with their offsets; runs of over UNBROKEN characters without a space are cut apart from the rest."""
    start = 0
    for run in re.finditer(rf"\S{{{UNBROKEN + 1},}}", text):
        yield from ((start + offset, content) for offset, content in splitter.chunk_indices(text[start : run.start()]))
        yield from _cut(text, run.start(), run.end(), capacity)
        start = run.end()
    yield from ((start + offset, content) for offset, content in splitter.chunk_indices(text[start:]))


def _cut(text: str, start: int, end: int, capacity: int) -> Iterator[tuple[int, str]]:
    """Pieces of at most `capacity` characters, cut after the last pause in their second half where there is one."""
    while end - start > capacity:
        pauses = [pause.end() for pause in _PAUSE.finditer(text, start + capacity // 2, start + capacity)]
        cut = pauses[-1] if pauses else start + capacity
        yield start, text[start:cut]
        start = cut
    yield start, text[start:end]


def headings(text: str, markup: Markup) -> Iterator[Heading]:
    """The headings of a text in order, with their levels."""
    return _markdown_headings(text) if markup == "markdown" else _underlined_headings(text)


def _markdown_headings(text: str) -> Iterator[Heading]:
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    tokens = _MARKDOWN.parse(text)
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.map is not None and inline.type == "inline":
            words = "".join(
                child.content or " " for child in inline.children or () if not child.type.endswith(("_open", "_close"))
            )
            title = " ".join(words.split())
            if title:
                line = text[starts[token.map[0]] :]
                yield Heading(starts[token.map[0]] + len(line) - len(line.lstrip(" ")), int(token.tag[1:]), title)


def _underlined_headings(text: str) -> Iterator[Heading]:
    levels: dict[str, int] = {}
    for match in _UNDERLINED.finditer(text):
        title = match["title"].strip()
        if len(match[0]) - len(match["title"]) - 1 >= len(title) and re.search(r"\w", title):
            yield Heading(match.start(), levels.setdefault(match["mark"], len(levels) + 1), title)
