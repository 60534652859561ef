"""Ingest: from files to articles with chunks and embeddings."""

from kbsearch.ingest.documents import Document, Rejected, validate
from kbsearch.ingest.pipeline import IngestReport, Source, UsageError, ingest
from kbsearch.ingest.sources import read_jsonl, read_paths, read_pydoc
from kbsearch.ingest.splitter import Splitter

__all__ = [
    "Document",
    "IngestReport",
    "Rejected",
    "Source",
    "Splitter",
    "UsageError",
    "ingest",
    "read_jsonl",
    "read_paths",
    "read_pydoc",
    "validate",
]
