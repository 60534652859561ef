"""What a model is given for documents, before anything is embedded, and what it was given for what is stored."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kbsearch.embed.base import Embedder
from kbsearch.ingest.documents import Document, Rejected
from kbsearch.ingest.feeds import Collected, Source
from kbsearch.ingest.languages import Languages
from kbsearch.ingest.machine import Machine
from kbsearch.ingest.notes import Note
from kbsearch.ingest.passages import Passages
from kbsearch.ingest.plan import LanguagesOfDocuments, Planner
from kbsearch.ingest.report import Connection
from kbsearch.ingest.spaces import Space
from kbsearch.ingest.splitter import Splitter
from kbsearch.schema import DEFAULT, in_schema

_STORED = """SELECT c.chunk_no, i.input
FROM kbsearch.kb_articles AS a
INNER JOIN kbsearch.kb_article_chunks AS c ON c.org_id = a.org_id AND c.article_id = a.id
LEFT JOIN kbsearch.kb_article_embeddings AS e
    ON e.org_id = c.org_id AND e.article_id = c.article_id AND e.chunk_id = c.id AND e.space_id = %(space_id)s
LEFT JOIN kbsearch.kb_embedding_inputs AS i ON i.org_id = e.org_id AND i.input_sha256 = e.input_sha256
WHERE a.org_id = %(org_id)s AND a.external_ref = %(external_ref)s
ORDER BY c.chunk_no, c.id"""
UNKNOWN = "(no vector, or nobody knows what it is of)"
"""Stands for the input of a stored chunk whose vector is missing or was stored without its input."""


@dataclass(frozen=True, slots=True)
class ModelInput:
    """What a model is given for one chunk.

    Attributes:
        external_ref: name of the document.
        chunk: number of the chunk in it, from 0.
        text: the exact text, prefix and all.
        sha256: its digest, which is the key of the vector in the cache, in hexadecimal digits.
        refused: why the model is not given it after all; None where it is.
    """

    external_ref: str
    chunk: int
    text: str
    sha256: str
    refused: str | None


def preview(
    sources: Sequence[Source],
    embedder: Embedder,
    *,
    splitter: Splitter | None = None,
    machine: Machine | None = None,
) -> Iterator[tuple[str, Sequence[ModelInput]] | Rejected]:
    """What a model is given for documents, by their names, in the order in which they are ingested; and what is no document.

    Nothing is embedded and nothing written. The arguments are those of kbsearch.ingest.ingest().
    """
    feed = Collected(sources)
    feed.read()
    splitter = splitter or Splitter.of(embedder)
    passages = Passages.of(embedder, splitter, machine)
    planner = Planner(splitter, None, False, LanguagesOfDocuments(Languages(frozenset()), None), lambda _reference: [])
    for _, entry in feed.documents():
        if isinstance(entry, Rejected):
            yield entry
            continue
        work = planner.anew(entry, None, Note("", planner.chunker, "-", ""))
        yield entry.external_ref, [_given(entry, number, passages, parts) for number, parts in enumerate(work.parts())]


def _given(
    document: Document, number: int, passages: Passages, parts: tuple[str | None, str | None, str]
) -> ModelInput:
    suspicion = passages.suspect(parts)
    return ModelInput(
        document.external_ref,
        number,
        passages.exact(parts),
        passages.sha256(parts),
        None if suspicion is None else str(suspicion),
    )


def stored_inputs(
    connection: Connection, org_id: int, space: Space | None, external_ref: str, schema: str = DEFAULT
) -> list[str]:
    """What a model was given for the stored chunks of a document, in their order; UNKNOWN where nobody knows. Empty for one that is not stored."""
    keys = {"org_id": org_id, "space_id": None if space is None else space.id, "external_ref": external_ref}
    rows = connection.execute(in_schema(_STORED, schema).encode(), keys).fetchall()
    return [UNKNOWN if text is None else str(text) for _, text in rows]


def difference(external_ref: str, stored: Sequence[str], given: Sequence[str]) -> list[str]:
    """Lines of a unified difference between what a model was given for a document and what it would be given now; none where they agree."""
    if list(stored) == list(given):
        return []
    before, after = (_numbered(texts) for texts in (stored, given))
    return list(difflib.unified_diff(before, after, f"stored: {external_ref}", f"now: {external_ref}", lineterm=""))


def _numbered(texts: Sequence[str]) -> list[str]:
    return [line for number, text in enumerate(texts) for line in (f"[chunk {number}]", *text.split("\n"))]
