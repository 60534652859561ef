"""Ingest: from files and tables to articles with chunks and embeddings."""

from kbsearch.ingest.documents import Document, Rejected, validate
from kbsearch.ingest.feeds import Source
from kbsearch.ingest.jsonl import read_jsonl
from kbsearch.ingest.pipeline import ingest
from kbsearch.ingest.report import EmbedReport, IngestReport, UsageError
from kbsearch.ingest.sources import read_paths, read_pydoc
from kbsearch.ingest.splitter import Splitter
from kbsearch.ingest.vectors import embed_missing

__all__ = [
    "Document",
    "EmbedReport",
    "IngestReport",
    "Rejected",
    "Source",
    "Splitter",
    "UsageError",
    "embed_missing",
    "ingest",
    "read_jsonl",
    "read_paths",
    "read_pydoc",
    "validate",
]
