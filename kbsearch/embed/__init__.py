"""Embedders: what turns text into vectors."""

from kbsearch.embed.base import Embedder, Vectors, check_texts
from kbsearch.embed.local import LocalEmbedder, MissingExtraError, ModelFileError, OnnxEmbedder

__all__ = [
    "Embedder",
    "LocalEmbedder",
    "MissingExtraError",
    "ModelFileError",
    "OnnxEmbedder",
    "Vectors",
    "check_texts",
]
