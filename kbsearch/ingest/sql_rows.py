"""From a row of a query to a document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from psycopg import Column

from kbsearch.ingest.documents import Document, Rejected, printable
from kbsearch.ingest.feeds import checked_document
from kbsearch.ingest.headings import headings
from kbsearch.ingest.html import read_html
from kbsearch.ingest.report import UsageError
from kbsearch.ingest.sql_query import Undecodable

Format: TypeAlias = Literal["text", "markdown", "html"]

COLUMNS = ("id", "title", "body", "text", "kind", "metadata", "source_uri", "published", "language", "updated_at")
"""What a query may have, in any order; body and text are two names of the same."""
_BOOL, _BYTEA = 16, 17


def checked_columns(description: Sequence[Column], updated_at: str | None) -> tuple[str, ...]:
    """Names of the query's columns that make documents.

    Raises UsageError for a column that is missing, unknown, there twice or of another type.
    """
    names = [column.name for column in description]
    known = {*COLUMNS, *([updated_at] if updated_at else [])}
    twice = sorted({name for name in names if names.count(name) > 1})
    faults = {
        f"has more than one column {', '.join(twice)}": bool(twice),
        f"has columns that mean nothing here: {', '.join(sorted(set(names) - known))}": not set(names) <= known,
        "has no column id": "id" not in names,
        "has no column title, body or text": not {"title", "body", "text"} & set(names),
        "has both a column body and a column text, which mean the same": {"body", "text"} <= set(names),
        f"has no column {updated_at}, which --updated-at names": updated_at is not None and updated_at not in names,
    }
    types = {column.name: column.type_code for column in description}
    faults |= {f"has a column {name} of type bytea, which is no text": types[name] == _BYTEA for name in types}
    if "published" in types:
        faults["has a column published that is not of type boolean"] = types["published"] != _BOOL
    if found := [fault for fault, is_so in faults.items() if is_so]:
        raise UsageError(
            f"the query of --from-sql {'; it '.join(found)}. Columns may be {', '.join(COLUMNS)}: rename one with AS,"
            " and put what else there is into metadata with jsonb_build_object()"
        )
    return tuple(name for name in names if name in COLUMNS and name != "updated_at")


@dataclass(frozen=True, slots=True)
class RowReader:
    """Makes documents of rows.

    Attributes:
        columns: names of the values of a row, the first is `id`; published is a truth value, all others are text.
        format: of the body.
        kind: of rows that name none.
    """

    columns: tuple[str, ...]
    format: Format
    kind: str

    def document(self, row: Sequence[Any]) -> Document | Rejected:
        """The document of a row, or why it is none."""
        values: dict[str, Any] = dict(zip(self.columns, row, strict=True))
        reference = values["id"]
        for name, value in values.items():
            if isinstance(value, Undecodable):
                known = reference if isinstance(reference, str) else None
                return Rejected(self.where(known), f"{name} is not UTF-8: byte {value.position}", known)
        if not reference:
            return Rejected(self.where(None), "its id is NULL or empty")
        metadata = self._metadata(values.get("metadata"))
        if isinstance(metadata, str):
            return Rejected(self.where(reference), metadata, reference)
        title, text, language = (
            values.get("title"),
            values.get("body", values.get("text")) or "",
            values.get("language"),
        )
        if self.format == "html" and text:
            page = read_html(text)
            title, text, language = title or page.title, page.text, language or page.language
        elif self.format == "markdown" and not title:
            title = next((heading.title for heading in headings(text, "markdown")), None)
        checked = checked_document(
            Document(
                external_ref=reference,
                title=title or "",
                text=text,
                kind=values.get("kind") or self.kind,
                metadata=metadata,
                source_uri=values.get("source_uri"),
                published=values.get("published") is not False,
                markup="text" if self.format == "text" else "markdown",
                language=language,
            )
        )
        return replace(checked, where=self.where(reference)) if isinstance(checked, Rejected) else checked

    @staticmethod
    def where(reference: str | None) -> str:
        """A row as people know it."""
        return "a row" if reference is None else f"row {printable(reference)}"

    @staticmethod
    def _metadata(text: str | None) -> Mapping[str, Any] | str:
        """An object; a string says why there is none."""
        try:
            value = json.loads(text) if text is not None else None
        except (ValueError, RecursionError) as error:
            return f"metadata is not JSON: {error}"
        if value is None:
            return {}
        return value if isinstance(value, dict) else "metadata is not a JSON object"
