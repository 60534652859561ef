"""Embedders: what turns text into vectors."""

from kbsearch.embed.base import AsyncEmbedder, Embedder, Vectors, check_texts
from kbsearch.embed.errors import EmbeddingError, MissingExtraError, ModelFileError, TextsRefusedError
from kbsearch.embed.function import CallableEmbedder
from kbsearch.embed.local import LocalEmbedder, OnnxEmbedder
from kbsearch.embed.remote import OpenAIEmbedder, Retries
from kbsearch.embed.transformer import SentenceTransformersEmbedder

__all__ = [
    "AsyncEmbedder",
    "CallableEmbedder",
    "Embedder",
    "EmbeddingError",
    "LocalEmbedder",
    "MissingExtraError",
    "ModelFileError",
    "OnnxEmbedder",
    "OpenAIEmbedder",
    "Retries",
    "SentenceTransformersEmbedder",
    "TextsRefusedError",
    "Vectors",
    "check_texts",
]
