"""What is killed by tests/ingest/test_kills.py: `python -m tests.ingest.killed WORK DSN` says when it begins, and works in small steps."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from kbsearch.embed import Vectors
from kbsearch.ingest import Document, IngestReport, Source, Splitter, ingest, prepare, reembed, vectors
from kbsearch.ingest.organizations import organization_id
from tests.ingest.test_pipeline import HashEmbedder

PAUSE = 0.004
"""Seconds that embedding a text takes."""
SPLITTER = Splitter(60)


class Slow(HashEmbedder):
    """Takes its time, so that a process can be killed meanwhile."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        time.sleep(PAUSE * len(texts))
        return super().embed_passages(texts)


def documents(version: int) -> list[Document]:
    """Documents of the first or of the second ingest, which changes, adds and removes some."""
    return [
        Document(
            f"d{number:02}", f"Title {number}", _text(number, version if number % 3 else 1), path=f"sub/d{number:02}.md"
        )
        for number in range(24 if version == 1 else 32)
        if version == 1 or number % 5
    ]


def _text(number: int, version: int) -> str:
    return "\n\n".join(
        f"alpha beta of {number}, part {part}, as it is in version {version}" for part in range(number % 4 + 1)
    )


def work(name: str, connection: psycopg.Connection[Any]) -> IngestReport | None:
    """Ingest a version of the documents, or embed what is there anew."""
    org_id = organization_id(connection, "o", create=True)
    if name == "reembed":
        reembed(connection, org_id, Slow("2"), space="second", splitter=SPLITTER, activate=True)
        return None
    source = Source("s", documents(int(name)))
    dsn = make_conninfo(connection.info.dsn, password=connection.info.password or None)
    return ingest(
        connection,
        org_id,
        [source],
        embedder=Slow("1"),
        splitter=SPLITTER,
        prune=name == "2",
        connect=partial(psycopg.connect, dsn, autocommit=True),
    )


def small_steps() -> None:
    """Commit more often than usual: there is more to be interrupted."""
    prepare.ARTICLES_AT_ONCE = 3
    prepare.EMBEDDED_AT_ONCE = vectors.CHUNKS_AT_ONCE = 7


if __name__ == "__main__":
    small_steps()
    with psycopg.connect(sys.argv[2], autocommit=True) as opened:
        print("begins", flush=True)  # noqa: T201
        work(sys.argv[1], opened)
