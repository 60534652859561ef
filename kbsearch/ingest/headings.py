"""The headings of a text: where they stand, how deep, and what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from markdown_it import MarkdownIt

from kbsearch.ingest.documents import Markup

# A line, then a line of one repeated punctuation mark at least as long: a section title of reStructuredText and of plain text manuals.
_UNDERLINED = re.compile(r"^(?P<title>\S[^\n]*)\n(?P<mark>[=\-~^*\"'`#+:.])(?P=mark){2,}[ \t]*$", re.MULTILINE)
_INDENT = re.compile(" *")
_MARKDOWN = MarkdownIt("commonmark")
TITLE_LENGTH = 200
"""Characters of a first line that may serve as a title."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a text: offset of its first character, level from 1 (highest), and its words."""

    offset: int
    level: int
    title: str


def headings(text: str, markup: Markup) -> Iterator[Heading]:
    """The headings of a text in order, with their levels."""
    return _markdown_headings(text) if markup == "markdown" else _underlined_headings(text)


def title_of(text: str, markup: Markup) -> str | None:
    """The first heading of a text, else its first line with a letter or a digit; None when there is neither.

    A line longer than 200 characters is cut after its last whole word.
    """
    first = next(iter(headings(text, markup)), None)
    if first is not None:
        return first.title[:TITLE_LENGTH]
    for line in text.splitlines():
        if re.search(r"\w", line):
            stripped = line.strip()
            if len(stripped) <= TITLE_LENGTH:
                return stripped
            return stripped[:TITLE_LENGTH].rsplit(None, 1)[0]
    return None


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
                indented = _INDENT.match(text, starts[token.map[0]])
                yield Heading(indented.end() if indented else 0, int(token.tag[1:]), title)


def _underlined_headings(text: str) -> Iterator[Heading]:
    levels: dict[str, int] = {}
    for match in _UNDERLINED.finditer(text):
        title = match["title"].strip()
        if len(match[0]) - len(match["title"]) - 1 >= len(title) and re.search(r"\w", title):
            yield Heading(match.start(), levels.setdefault(match["mark"], len(levels) + 1), title)
