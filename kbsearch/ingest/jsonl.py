"""Documents from JSON lines: an object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kbsearch.ingest.documents import Document, Rejected, printable

JSONL_SUFFIXES = (".jsonl", ".ndjson")
JSONL_FIELDS = frozenset({"id", "title", "text", "kind", "metadata", "source_uri", "published", "language"})


def read_jsonl(path: Path, *, kind: str, name: str | None = None) -> Iterator[Document | Rejected]:
    """Documents of a file of JSON objects, one a line: id and title or text, optionally kind, metadata, source_uri, published, language.

    A line that is no such object is given as Rejected, with its number after the file's name; blank lines are passed over.
    """
    shown = printable(name or path.name)
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if raw.strip():
                    yield _read_line(f"{shown}:{number}", raw, kind)
    except OSError as error:
        yield Rejected(shown, f"cannot be read: {error.strerror}")


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
        language=entry.get("language"),
    )


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _field_fault(entry: Mapping[str, Any]) -> str | None:
    identifier = entry.get("id")
    if isinstance(identifier, bool) or not isinstance(identifier, str | int) or identifier == "":
        return "id must be a string that is not empty, or an integer"
    for name in ("title", "text", "kind", "source_uri", "language"):
        if not isinstance(entry.get(name), str | None):
            return f"{name} must be a string"
    if not isinstance(entry.get("metadata"), dict | None):
        return "metadata must be an object"
    if not isinstance(entry.get("published", True), bool):
        return "published must be true or false"
    return None
