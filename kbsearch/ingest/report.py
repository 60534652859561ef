"""What an ingest says: while it runs, when it is done, and when it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg

from kbsearch.ingest.documents import Rejected

Connection: TypeAlias = psycopg.Connection[Any]
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a stage ("read", "reserve", "articles", "embed", "prune", "compare"), what is done of it and its size (0 while unknown)."""


class UsageError(ValueError):
    """The request itself cannot be carried out; nothing was written."""


def quiet(_stage: str, _done: int, _size: int) -> None:
    """Progress that nobody is told."""


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest did. Articles and chunks are counts; seconds is wall time."""

    org_id: int
    read: int
    written: int
    unchanged: int
    reembedded: int
    deleted: int
    taken_over: int
    chunks: int
    embedded_chunks: int
    truncated_chunks: int
    rejected: tuple[Rejected, ...]
    notes: tuple[str, ...]
    space: str | None
    space_active: bool | None
    calibrated: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class EmbedReport:
    """What embedding the chunks without a vector did.

    Attributes:
        org_id: the organisation.
        space: name of the embedding space that the vectors are in.
        space_active: whether searches use it.
        missing: chunks that had no vector in it.
        embedded: those that have one now.
        changed: those that were changed or deleted meanwhile: the next run takes them.
        truncated: those of them that are longer than the model reads.
        rejected: those that the model cannot embed, by article and chunk.
        notes: what else is to be said.
        seconds: wall time.
    """

    org_id: int
    space: str
    space_active: bool
    missing: int
    embedded: int
    changed: int
    truncated: int
    rejected: tuple[Rejected, ...]
    notes: tuple[str, ...]
    seconds: float
