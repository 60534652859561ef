"""Vectors of what is ingested in other spaces, too: while one space gives way to another, what is written belongs into both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kbsearch.embed.base import Embedder
from kbsearch.ingest.machine import Machine
from kbsearch.ingest.passages import Parts, Passages
from kbsearch.ingest.report import Connection
from kbsearch.ingest.spaces import Space, ensure_space, space_in_use, splitter_of
from kbsearch.ingest.vectors import store_vectors, stored_chunks
from kbsearch.schema import DEFAULT


@dataclass(frozen=True, slots=True)
class Beside:
    """Another space of the organisation, and its model's passages."""

    connection: Connection
    org_id: int
    space: Space
    passages: Passages
    schema: str

    @classmethod
    def of(
        cls,
        connection: Connection,
        org_id: int,
        embedder: Embedder,
        machine: Machine | None,
        schema: str = DEFAULT,
    ) -> Beside:
        """The space of an embedder that the organisation has vectors in, the active one first; a new one where there is none."""
        space = space_in_use(connection, org_id, embedder, schema)
        splitter = splitter_of(connection, org_id, embedder, schema, name=None if space is None else space.name)
        space = space or ensure_space(connection, embedder, splitter, schema)
        passages = Passages.of(embedder, splitter, machine, cached=(connection, org_id, space, schema))
        return cls(connection, org_id, space, passages, schema)

    def embed(self, chunks: Iterable[Parts]) -> None:
        """Compute the vectors of chunks that are going to be stored, into the cache. Raises what the embedder raises.

        A chunk that this model cannot embed is left without: the space cannot be activated while it is published.
        """
        made = self.passages.embed(chunks)
        if made.error is not None:
            raise made.error

    def store(self, references: Sequence[str]) -> None:
        """Give the chunks of articles their vectors, in the transaction that wrote them."""
        for reference in references:
            chunks = stored_chunks(self.connection, self.org_id, reference, self.schema)
            store_vectors(self.connection, self.org_id, self.space, self.passages, chunks, self.schema)
