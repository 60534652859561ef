"""An embedder for commands: how often a text has certain letters."""

from __future__ import annotations

from collections.abc import Sequence


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Every text looks the same way."""
    return [[1.0, 1.0, 1.0] for _ in texts]
