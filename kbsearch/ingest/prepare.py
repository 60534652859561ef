"""What comes before articles are written: portions of work, their vectors in the cache, ids for their chunks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kbsearch.embed.base import Vectors
from kbsearch.ingest.beside import Beside
from kbsearch.ingest.documents import Document, Rejected, printable
from kbsearch.ingest.embedding import Embedded
from kbsearch.ingest.passages import Passages
from kbsearch.ingest.plan import Work
from kbsearch.ingest.report import Connection
from kbsearch.schema import DEFAULT, in_schema

ARTICLES_AT_ONCE = 512
EMBEDDED_AT_ONCE = 128
"""Chunks that are embedded, into the cache, at a time: what is computed again at most after an interruption."""
COMMITTED_AT_ONCE = 512
"""Chunks that are committed together at first, give or take an article."""
COMMITTED_AT_MOST = 2048
"""Chunks that are committed together while that takes little time: written together, they cost less."""
QUICK_SECONDS = 2.0
"""Below that, twice as many are committed at a time; nobody waits long for the next articles, or for a lock of this run."""

_SEQUENCE = "pg_catalog.pg_get_serial_sequence('kbsearch.kb_article_chunks', 'id')"
_MAY_RESERVE = f"SELECT pg_catalog.has_sequence_privilege({_SEQUENCE}, 'USAGE')"
_RESERVE = f"""SELECT ARRAY(
    SELECT pg_catalog.nextval(s.name) FROM (SELECT {_SEQUENCE}::pg_catalog.regclass AS name) AS s CROSS JOIN pg_catalog.generate_series(1, %s))"""


@dataclass(slots=True)
class Counts:
    """What was done."""

    read: int = 0
    written: int = 0
    reembedded: int = 0
    embedded: int = 0
    """Articles that had vectors of the space, which ingest has not known of."""
    deleted: int = 0
    chunks: int = 0
    embedded_chunks: int = 0
    rejected: list[Rejected] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        """Count what was done elsewhere, too."""
        self.read += other.read
        self.written += other.written
        self.reembedded += other.reembedded
        self.embedded += other.embedded
        self.deleted += other.deleted
        self.chunks += other.chunks
        self.embedded_chunks += other.embedded_chunks
        self.rejected += other.rejected
        self.notes += other.notes

    def reject(self, document: Document, reason: str) -> None:
        """Count a document that is not written."""
        self.rejected.append(Rejected(printable(document.external_ref), reason, document.external_ref))


@dataclass(slots=True)
class Ready:
    """A document whose vectors are in the cache.

    Attributes:
        work: what is to be done.
        vectors: of its chunks; None without an embedder.
        chunk_ids: of its chunks; None: as they come.
    """

    work: Work
    vectors: Vectors | None
    chunk_ids: list[int] | None = None


@dataclass(slots=True)
class Group:
    """What is committed together.

    Attributes:
        size: documents, with those that need nothing.
        ready: those that can be written.
        rejected: those that cannot.
        seconds: how long it took to get them ready.
        error: what ended the embedding, before the last of them.
    """

    size: int
    ready: list[Ready]
    rejected: list[Rejected]
    seconds: float
    error: Exception | None = None

    @property
    def chunks(self) -> int:
        """Chunks that are written."""
        return sum(len(one.work.chunks) for one in self.ready)


class Preparer:
    """Embeds documents, into the cache, and gives ids to their chunks, in the order in which they come."""

    def __init__(
        self,
        connection: Connection,
        passages: Passages | None,
        beside: Sequence[Beside],
        schema: str = DEFAULT,
    ) -> None:
        """Nothing is embedded yet; without passages nothing is."""
        self._connection, self._passages, self._beside, self._schema = connection, passages, beside, schema
        row = connection.execute(in_schema(_MAY_RESERVE, schema).encode()).fetchone()
        self.reserves = row is not None and row[0] is True
        """Whether this role may take ids before it writes. If not, one connection writes: ids are given in the order of writing."""

    def prepare(self, entries: Sequence[Work | None]) -> Group:
        """Get a portion ready. Raises what the embedder raises, where nothing was embedded before."""
        started = time.monotonic()
        works = [work for work in entries if work is not None]
        counts = Counts()
        made, error = self._embed(works)
        ready: list[Ready] = []
        start = 0
        for work in works:
            span = range(start, start + len(work.chunks))
            start = span.stop
            if made is None:
                ready.append(Ready(work, None))
            elif refused := [position for position in span if position in made.refused]:
                counts.reject(work.document, f"a chunk has no vector: {made.refused[refused[0]]}")
            elif all(map(made.has, span)):
                ready.append(Ready(work, made.vectors[span.start : span.stop]))
        for other in self._beside:
            other.embed(parts for one in ready for parts in one.work.parts())
        self._reserve([one for one in ready if one.work.stored is None])
        return Group(len(entries), ready, counts.rejected, time.monotonic() - started, error)

    def _embed(self, group: Sequence[Work]) -> tuple[Embedded | None, Exception | None]:
        """The vectors of a group, batch after batch; and what ended it before the last."""
        passages = self._passages
        if passages is None or not group:
            return None, None
        parts = [one for work in group for one in work.parts()]
        vectors = np.full((len(parts), passages.embedder.dimensions), np.nan, dtype=np.float32)
        refused: dict[int, str] = {}
        unfinished = set(range(len(parts)))
        for start in range(0, len(parts), EMBEDDED_AT_ONCE):
            batch = parts[start : start + EMBEDDED_AT_ONCE]
            try:
                made = passages.embed(batch)
            except Exception as error:
                if start == 0:
                    raise
                return Embedded(vectors, refused, frozenset(unfinished)), error
            vectors[start : start + len(batch)] = made.vectors
            refused |= {start + position: reason for position, reason in made.refused.items()}
            unfinished -= {start + position for position in range(len(batch)) if position not in made.unfinished}
            if made.error is not None:
                return Embedded(vectors, refused, frozenset(unfinished)), made.error
        return Embedded(vectors, refused, frozenset(unfinished)), None

    def _reserve(self, new: Sequence[Ready]) -> None:
        """Give the chunks their ids, so that no id depends on which connection writes first."""
        if not new or not self.reserves:
            return
        count = sum(len(one.work.chunks) for one in new)
        row = self._connection.execute(in_schema(_RESERVE, self._schema).encode(), (count,)).fetchone()
        ids = iter([] if row is None else row[0])
        for one in new:
            one.chunk_ids = [next(ids) for _ in one.work.chunks]


class Pace:
    """How many chunks are committed together: twice as many while that is quick, half as many where it is not."""

    def __init__(self) -> None:
        """Start with few."""
        self.chunks = COMMITTED_AT_ONCE

    def took(self, seconds: float) -> None:
        """Learn how long it took to embed and commit a group."""
        if seconds < QUICK_SECONDS:
            self.chunks = max(self.chunks, min(2 * self.chunks, COMMITTED_AT_MOST))
        else:
            self.chunks = min(self.chunks, max(self.chunks // 2, COMMITTED_AT_ONCE))


def groups(items: Iterable[Work | None], pace: Pace) -> Iterator[list[Work | None]]:
    """Work in the portions in which it is committed."""
    group: list[Work | None] = []
    chunks = articles = 0
    for item in items:
        group.append(item)
        if item is not None:
            articles += 1
            chunks += len(item.chunks)
        if chunks >= pace.chunks or articles >= ARTICLES_AT_ONCE:
            yield group
            group, chunks, articles = [], 0, 0
    if group:
        yield group
