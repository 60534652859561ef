"""What a model is given for chunks: rendered, looked over for names of the machine, and embedded, from the cache where it has been before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from kbsearch.embed.base import Embedder
from kbsearch.ingest.cache import Cache, input_sha256, prefix_of
from kbsearch.ingest.embedding import Embedded, embed
from kbsearch.ingest.machine import Machine, Suspicion
from kbsearch.ingest.report import Connection
from kbsearch.ingest.spaces import Space
from kbsearch.ingest.splitter import Splitter
from kbsearch.ingest.template import Template

Parts: TypeAlias = tuple[str | None, str | None, str]
"""Title, heading and content of a chunk."""


@dataclass(slots=True)
class Passages:
    """The model's input for chunks, by an embedder and a splitter's template.

    Attributes:
        embedder: of the model.
        splitter: has the template, and says whether names of the machine are refused.
        machine: whose names; None where they are not refused.
        cache: of the space's passages; None: nothing is kept.
    """

    embedder: Embedder
    splitter: Splitter
    machine: Machine | None = None
    cache: Cache | None = None
    _template: Template = field(init=False, repr=False)
    _prefix: str = field(init=False, repr=False)

    @classmethod
    def of(
        cls,
        embedder: Embedder,
        splitter: Splitter,
        machine: Machine | None = None,
        *,
        cached: tuple[Connection, int, Space, str] | None = None,
    ) -> Passages:
        """The passages of an embedder and a splitter.

        Args:
            embedder: of the model.
            splitter: how chunks become inputs.
            machine: by default this one.
            cached: connection, organisation, space and schema of the cache; None without one.
        """
        if cached is None:
            cache = None
        else:
            connection, org_id, space, schema = cached
            cache = Cache(connection, org_id, space, schema=schema)
        return cls(embedder, splitter, (machine or Machine.here()) if splitter.guarded else None, cache)

    def __post_init__(self) -> None:
        """Compute what is the same for all."""
        self._template = self.splitter.template
        self._prefix = prefix_of(self.embedder, "passage")

    def text(self, parts: Parts) -> str:
        """What the embedder is handed for a chunk, without the prefix that it puts before; empty for a chunk of nothing."""
        return self._template.render(*parts)

    def exact(self, parts: Parts) -> str:
        """What the model is given for a chunk, prefix and all."""
        return self._prefix + self.text(parts)

    def sha256(self, parts: Parts) -> str:
        """Digest of what the model is given for a chunk, as hexadecimal digits."""
        return input_sha256(self.exact(parts)).hex()

    def suspect(self, parts: Parts) -> Suspicion | None:
        """A name of the machine in what the model would be given; None where there is none, or where that is allowed."""
        if self.machine is None:
            return None
        named = zip(("title", "heading", "content"), parts, strict=True)
        return self.machine.suspect({name: text or "" for name, text in named if name in self._template.fields})

    def embed(self, chunks: Iterable[Parts]) -> Embedded:
        """Embed chunks. One with a name of the machine in it is refused, and the model never sees it.

        Raises what kbsearch.ingest.embedding.embed() raises.
        """
        given = list(chunks)
        refused = {position: str(found) for position, parts in enumerate(given) if (found := self.suspect(parts))}
        whole = [position for position in range(len(given)) if position not in refused]
        made = embed(self.embedder, [self.text(given[position]) for position in whole], self.cache)
        if not refused:
            return made
        vectors = np.full((len(given), self.embedder.dimensions), np.nan, dtype=np.float32)
        vectors[whole] = made.vectors
        refused |= {whole[position]: reason for position, reason in made.refused.items()}
        return Embedded(
            vectors,
            dict(sorted(refused.items())),
            frozenset(whole[position] for position in made.unfinished),
            made.error,
        )
