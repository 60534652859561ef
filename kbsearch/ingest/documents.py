"""A document on its way into the database, and what is wrong with it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Markup: TypeAlias = Literal["markdown", "text"]

_ABSOLUTE = re.compile(r"/|\\\\|[A-Za-z]:[\\/]|\.\.(?:/|$)")
_FIRST_SURROGATE, _LAST_SURROGATE = "\ud800", "\udfff"


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a source; it becomes one article.

    external_ref is its name within the organisation; for a file the path relative to the ingest root, with `/`, never an absolute path.
    path is the relative path of the file that it is read from, if it is one: its folders and its name are something to search for.
    language is a BCP 47 tag or the name of a text search configuration; None: the organisation's.
    """

    external_ref: str
    title: str
    text: str
    kind: str = "article"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source_uri: str | None = None
    published: bool = True
    markup: Markup = "text"
    language: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A document that was not taken: where it stands (a relative path, or file and line), why, and its external_ref where that is known.

    is_empty: there is nothing in it, so that an article of an earlier ingest is gone, as if the document were missing.
    """

    where: str
    reason: str
    external_ref: str | None = None
    is_empty: bool = False


def validate(document: Document) -> str | None:
    """What keeps a document from being stored, in words for people; None when nothing does."""
    for name, text in (
        ("id", document.external_ref),
        ("title", document.title),
        ("text", document.text),
        ("kind", document.kind),
        ("source_uri", document.source_uri or ""),
        ("language", document.language or ""),
        ("path", document.path or ""),
    ):
        if fault := _text_fault(text):
            return f"{name} contains {fault}"
    for text in _strings(document.metadata):
        if fault := _text_fault(text):
            return f"metadata contains {fault}"
    faults = {
        "metadata contains a number that is not finite": not all(map(math.isfinite, _floats(document.metadata))),
        "path is absolute": bool(document.path) and bool(_ABSOLUTE.match(str(document.path))),
        "it has no id": not document.external_ref,
        f"kind {document.kind!r} is not a kind": not document.kind.strip() or document.kind == "*",
        "it has neither title nor text": not document.title.strip() and not document.text.strip(),
    }
    return next((fault for fault, found in faults.items() if found), None)


def _text_fault(text: str) -> str | None:
    if "\0" in text:
        return f"a NUL character (at {text.index(chr(0))})"
    # isascii is a flag of the string: most texts are done here.
    if not text.isascii() and any(_FIRST_SURROGATE <= character <= _LAST_SURROGATE for character in text):
        return "a lone surrogate, which is no character"
    return None


def _strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, keys included."""
    return (leaf for leaf in _leaves(value) if isinstance(leaf, str))


def _floats(value: Any) -> Iterator[float]:
    return (leaf for leaf in _leaves(value) if isinstance(leaf, float))


def _leaves(value: Any) -> Iterator[Any]:
    pending = [value]
    while pending:
        entry = pending.pop()
        if isinstance(entry, Mapping):
            pending.extend(entry.keys())
            pending.extend(entry.values())
        elif isinstance(entry, list | tuple):
            pending.extend(entry)
        else:
            yield entry


def printable(text: str) -> str:
    """A name that any terminal and any encoder takes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
