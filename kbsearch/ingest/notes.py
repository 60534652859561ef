"""What ingest notes with every article it writes, in content_sha256: enough to know whether there is anything to do."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Self

from kbsearch.ingest.documents import Document
from kbsearch.ingest.splitter import Splitter

_PARTS = 4


@dataclass(frozen=True, slots=True)
class Note:
    """What an article was made of. docs/how-to/keep-a-table-in-sync.md has SQL that writes one, to say what source an article is of.

    Attributes:
        content: digest of everything of the document that decides the article.
        chunker: digest of what decides how it was split.
        space: id of the embedding space of its vectors, `-` where it has none.
        source: name of the source it belongs to.
    """

    content: str
    chunker: str
    space: str
    source: str

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """The note in an article's content_sha256; None where that is another's, or empty."""
        parts = (text or "").split(":", _PARTS - 1)
        return cls(*parts) if len(parts) == _PARTS else None

    def __str__(self) -> str:
        """As it is stored."""
        return f"{self.content}:{self.chunker}:{self.space}:{self.source}"


def content_digest(document: Document, language: str | None) -> str:
    """sha256 of everything that decides an article, its chunks apart; language: the text search configuration it is stored with."""
    return digest(
        {
            "title": document.title,
            "text": document.text,
            "kind": document.kind,
            "metadata": document.metadata,
            "source_uri": document.source_uri,
            "published": document.published,
            "markup": document.markup,
            "language": language,
            "path": document.path,
        }
    )


def chunker_digest(splitter: Splitter) -> str:
    """16 digits of a digest of all that decides the chunks of a text."""
    return digest({"splitter": dict(splitter.settings), "template": splitter.layout})[:16]


def digest(value: Any) -> str:
    """sha256 of a JSON value, as hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
