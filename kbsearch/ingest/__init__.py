"""Ingest: from files and tables to articles with chunks and embeddings."""

from kbsearch.ingest.compare import Comparison, compare
from kbsearch.ingest.documents import Document, Rejected, validate
from kbsearch.ingest.feeds import Source
from kbsearch.ingest.jsonl import read_jsonl
from kbsearch.ingest.machine import Machine
from kbsearch.ingest.pipeline import ingest
from kbsearch.ingest.questions import CachedEmbedder
from kbsearch.ingest.reembed import reembed
from kbsearch.ingest.report import EmbedReport, IngestReport, UsageError
from kbsearch.ingest.sources import read_paths, read_pydoc
from kbsearch.ingest.splitter import Splitter
from kbsearch.ingest.vectors import embed_missing

__all__ = [
    "CachedEmbedder",
    "Comparison",
    "Document",
    "EmbedReport",
    "IngestReport",
    "Machine",
    "Rejected",
    "Source",
    "Splitter",
    "UsageError",
    "compare",
    "embed_missing",
    "ingest",
    "read_jsonl",
    "read_paths",
    "read_pydoc",
    "reembed",
    "validate",
]
