"""Where documents come from: files of Markdown and text, JSON lines, Python's own documentation."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kbsearch.ingest.documents import Document, Markup, Rejected, printable
from kbsearch.ingest.splitter import headings

MARKUP_BY_SUFFIX: dict[str, Markup] = {".md": "markdown", ".markdown": "markdown", ".txt": "text", ".rst": "text"}
JSONL_SUFFIXES = (".jsonl", ".ndjson")
JSONL_FIELDS = frozenset({"id", "title", "text", "kind", "metadata", "source_uri", "published"})
TITLE_LENGTH = 200
"""Characters of a first line that may serve as a title."""


def read_paths(root: Path, *, kind: str) -> Iterator[Document | Rejected]:
    """Documents of a file or of all files below a folder, in the order of their relative paths.

    Hidden files and folders and files of other types are passed over; links to folders are not followed.
    """
    files = (
        [(path.relative_to(root).as_posix(), path) for path in _walk(root)] if root.is_dir() else [(root.name, root)]
    )
    for name, path in sorted(files):
        yield _read_file(unicodedata.normalize("NFC", name), path, kind)


def _walk(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(folder, name)
            if not name.startswith(".") and path.suffix.lower() in MARKUP_BY_SUFFIX and path.is_file():
                yield path


def _read_file(name: str, path: Path, kind: str) -> Document | Rejected:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Rejected(printable(name), f"not UTF-8: byte {error.object[error.start]:#04x} at {error.start}", name)
    except OSError as error:
        return Rejected(printable(name), f"cannot be read: {error.strerror}", name)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    markup = MARKUP_BY_SUFFIX.get(path.suffix.lower(), "text")
    return Document(external_ref=name, title=title_of(text, markup) or path.stem, text=text, kind=kind, markup=markup)


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


def read_jsonl(path: Path, *, kind: str) -> Iterator[Document | Rejected]:
    """Documents of a file of JSON objects, one a line, with id and title or text, and optionally kind, metadata, source_uri, published.

    A line that is no such object is given as Rejected, with its number; blank lines are passed over.
    """
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if raw.strip():
                yield _read_line(f"{printable(path.name)}:{number}", raw, kind)


def _read_line(where: str, raw: bytes, kind: str) -> Document | Rejected:
    try:
        entry = json.loads(raw.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        return Rejected(where, f"not UTF-8: byte {error.object[error.start]:#04x} at {error.start}")
    except (ValueError, RecursionError) as error:
        return Rejected(where, f"not JSON: {error}")
    if not isinstance(entry, dict):
        return Rejected(where, "not a JSON object")
    if unknown := sorted(set(entry) - JSONL_FIELDS):
        return Rejected(
            where,
            f"unknown fields {', '.join(map(printable, unknown))}; what else is known of a document belongs into metadata",
        )
    if fault := _field_fault(entry):
        return Rejected(where, fault)
    return Document(
        external_ref=str(entry["id"]),
        title=entry.get("title") or "",
        text=entry.get("text") or "",
        kind=entry.get("kind") or kind,
        metadata=entry.get("metadata") or {},
        source_uri=entry.get("source_uri"),
        published=entry.get("published", True),
    )


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _field_fault(entry: dict[str, Any]) -> str | None:
    identifier = entry.get("id")
    if isinstance(identifier, bool) or not isinstance(identifier, str | int) or identifier == "":
        return "id must be a string that is not empty, or an integer"
    for name in ("title", "text", "kind", "source_uri"):
        if not isinstance(entry.get(name), str | None):
            return f"{name} must be a string"
    if not isinstance(entry.get("metadata"), dict | None):
        return "metadata must be an object"
    if not isinstance(entry.get("published", True), bool):
        return "published must be true or false"
    return None


def read_pydoc(*, kind: str) -> Iterator[Document]:
    """Python's language reference by topic (`pydoc_data.topics`), as it comes with the running Python."""
    from pydoc_data.topics import topics  # noqa: PLC0415  (half a megabyte, and some distributions leave it out)

    for name, text in sorted(topics.items()):
        yield Document(external_ref=f"pydoc:{name}", title=title_of(text, "text") or name, text=text, kind=kind)
