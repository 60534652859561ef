"""Builds of a collection for A/A: the same configuration in throw-away databases, each written in another way, by what ingest itself uses."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeAlias

import numpy as np
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from kbsearch import embedded, migrate
from kbsearch.client import KBSearch
from kbsearch.embed.base import Embedder, Vectors
from kbsearch.evaluate.aa import Side
from kbsearch.evaluate.collection import Collection, EvaluationDocument
from kbsearch.ingest.documents import Document, Rejected
from kbsearch.ingest.feeds import Collected, Feed, Source
from kbsearch.ingest.passages import Passages
from kbsearch.ingest.pipeline import ingest
from kbsearch.ingest.report import IngestReport
from kbsearch.ingest.sources import read_paths
from kbsearch.ingest.spaces import activate_space, ensure_space
from kbsearch.ingest.splitter import Splitter
from kbsearch.models import Chunk
from kbsearch.schema import DEFAULT, in_schema

PREFIX = "kbsearch_aa_"
"""Of the names of throw-away databases."""
BATCH = 97
"""Documents at a time where the size of batches is varied; ingest's own is 512."""
ORGANIZATION = "aa"

Connection: TypeAlias = psycopg.Connection[Any]
Progress: TypeAlias = Callable[[str, int, int], None]
Write: TypeAlias = Callable[["Builder", Connection, int], None]

_ABANDONED = """SELECT d.datname
FROM pg_catalog.pg_database AS d
WHERE pg_catalog.starts_with(d.datname, %(prefix)s)
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity AS a WHERE a.datname = d.datname)"""
_LOCK = "SELECT pg_catalog.pg_advisory_lock(pg_catalog.hashtext('kbsearch aa'))"
_UNLOCK = "SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtext('kbsearch aa'))"
_CALIBRATE = "SELECT kbsearch.calibrate_kb_corpus_v1(p_org_id => %s)"


class BuildError(RuntimeError):
    """A build cannot be made."""


class GivenVectors:
    """An embedder that has the vectors of a collection and computes none: what it is given must be a document of it, word for word."""

    name = "given"

    def __init__(self, collection: Collection) -> None:
        """Remember which vector is of which text.

        Raises:
            BuildError: the collection has no vectors, or not as many as texts.
        """
        if collection.document_vectors is None or collection.query_vectors is None:
            raise BuildError("the collection brings no vectors: name an embedder")
        self.model, self.revision = f"vectors of {collection.name}", ""
        self.dimensions = int(collection.document_vectors.shape[1])
        self.recipe: dict[str, Any] = {}
        self._passages: dict[str, Vectors] = {}
        for document, vector in zip(collection.documents, collection.document_vectors, strict=True):
            self._passages[_words(f"{document.title} {document.text or document.title}")] = vector
        self._queries = {
            _words(query.text): vector
            for query, vector in zip(collection.queries, collection.query_vectors, strict=True)
        }

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of documents. Raises BuildError for what is none."""
        return self._find(self._passages, texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The vectors of questions. Raises BuildError for what is none."""
        return self._find(self._queries, texts)

    def _find(self, known: dict[str, Vectors], texts: Sequence[str]) -> Vectors:
        found = [known.get(_words(text)) for text in texts]
        for text, vector in zip(texts, found, strict=True):
            if vector is None:
                raise BuildError(f"the collection has no vector of what was to be embedded: {text[:80]!r}")
        return np.array(found, dtype=np.float32).reshape(len(texts), self.dimensions)


def _words(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class Builder:
    """What all builds of a comparison have in common.

    Attributes:
        collection: what is written.
        embedder: of passages and questions.
        splitter: how documents become chunks.
        progress: told how far it is.
        schema: that kbsearch is installed in.
    """

    collection: Collection
    embedder: Embedder
    splitter: Splitter
    progress: Progress = lambda _what, _done, _size: None
    schema: str = DEFAULT

    @classmethod
    def of(
        cls, collection: Collection, embedder: Embedder | None, progress: Progress, schema: str = DEFAULT
    ) -> Builder:
        """With an embedder, chunks are what ingest makes for it; with the collection's vectors, a document is one chunk."""
        if embedder is not None:
            return cls(collection, embedder, Splitter.of(embedder), progress, schema)
        longest = max(len(document.title) + len(document.text) for document in collection.documents) + 1
        # Nobody's name is kept from a model that nothing is sent to.
        whole = Splitter(longest, path=False, guarded=False)
        return cls(collection, GivenVectors(collection), whole, progress, schema)

    def build(self, connection: Connection, write: Write) -> int:
        """Write the collection into a new organisation, in one of the ways below, and return its id.

        Raises:
            BuildError: a document was rejected.
        """
        row = connection.execute(
            in_schema("INSERT INTO kbsearch.organizations (name) VALUES (%s) RETURNING id", self.schema).encode(),
            (ORGANIZATION,),
        ).fetchone()
        org_id = int(row[0]) if row else 0
        write(self, connection, org_id)
        return org_id

    def side(self, connection: Connection, org_id: int, texts: Sequence[str]) -> Side:
        """The build as it is compared; its questions are embedded for it alone."""
        return Side(connection, org_id, self.embedder.embed_queries(list(texts)), self.schema)

    def documents(self) -> list[Document]:
        """The collection's documents, in the order of their names."""
        return [_document(one) for one in sorted(self.collection.documents, key=lambda one: one.id)]

    def ingest(self, connection: Connection, org_id: int, sources: Sequence[Source] | Feed) -> IngestReport:
        """What `kbsearch ingest` does; a document that is rejected is an error."""
        report = ingest(
            connection,
            org_id,
            sources,
            embedder=self.embedder,
            splitter=self.splitter,
            progress=self.progress,
            schema=self.schema,
        )
        if report.rejected:
            raise BuildError(f"{report.rejected[0].where} was rejected: {report.rejected[0].reason}")
        return report

    def calibrate(self, connection: Connection, org_id: int) -> None:
        """What ingest does at the end of a first load."""
        connection.execute(in_schema(_CALIBRATE, self.schema).encode(), (org_id,))

    def reserve(self, connection: Connection, org_id: int) -> None:
        """Give all documents their ids."""
        with KBSearch(connection, schema=self.schema) as client:
            client.reserve_articles(org_id, [document.external_ref for document in self.documents()])


def _document(document: EvaluationDocument) -> Document:
    return Document(external_ref=document.id, title=document.title, text=document.text)


# Ways to write the same.


def in_bulk(builder: Builder, connection: Connection, org_id: int) -> None:
    """As `kbsearch ingest` does it with one file: the build that others are compared with."""
    with TemporaryDirectory(prefix="kbsearch-aa-") as folder:
        _write_jsonl(Path(folder) / "corpus.jsonl", builder.documents())
        builder.ingest(connection, org_id, [Source("aa", read_paths(Path(folder), kind="article"))])


def from_another_folder(builder: Builder, connection: Connection, org_id: int) -> None:
    """From a folder at another place, the documents backwards and dealt to files in folders inside."""
    with TemporaryDirectory(prefix="kbsearch aa, another place ") as folder:
        root = Path(folder) / "deeper" / "in"
        documents = builder.documents()[::-1]
        for number in range(3):
            _write_jsonl(root / f"{'zyx'[number]}" / f"part {number}.jsonl", documents[number::3])
        builder.ingest(connection, org_id, [Source("aa", read_paths(root, kind="article"))])


def in_reverse(builder: Builder, connection: Connection, org_id: int) -> None:
    """The last document first; ids are reserved in the order of the names, as ever."""
    builder.ingest(connection, org_id, _Backwards([Source("aa", builder.documents())]))


def in_batches(builder: Builder, connection: Connection, org_id: int) -> None:
    """BATCH documents an ingest, so that statements, transactions and segments have other sizes."""
    documents = builder.documents()
    builder.reserve(connection, org_id)
    for start in range(0, len(documents), BATCH):
        builder.ingest(connection, org_id, [Source("aa", documents[start : start + BATCH])])
    builder.calibrate(connection, org_id)


def row_by_row(builder: Builder, connection: Connection, org_id: int) -> None:
    """An article at a time through `upsert_kb_article_v1`, each in a transaction, its texts embedded one by one and without a cache."""
    space = ensure_space(connection, builder.embedder, builder.splitter, builder.schema)
    passages = Passages.of(builder.embedder, builder.splitter)
    builder.reserve(connection, org_id)
    documents = builder.documents()
    with KBSearch(connection, schema=builder.schema) as client:
        for done, document in enumerate(documents, 1):
            split = builder.splitter.split
            chunks = split(document.text, title=document.title) or split(document.title, title=document.title)
            client.upsert_article(
                org_id,
                external_ref=document.external_ref,
                title=document.title,
                body=document.text,
                chunks=[_embedded(builder.embedder, passages, document.title, chunk) for chunk in chunks],
                space_id=space.id,
            )
            builder.progress("row by row", done, len(documents))
    activate_space(connection, org_id, space, builder.schema)
    builder.calibrate(connection, org_id)


WAYS: dict[str, Write] = {
    "folders": from_another_folder,
    "order": in_reverse,
    "batches": in_batches,
    "rows": row_by_row,
}
"""Ways to build that must give the same as in_bulk."""


class _Backwards(Collected):
    def documents(self) -> Iterator[tuple[str, Document | Rejected]]:
        yield from reversed(list(super().documents()))


def _embedded(embedder: Embedder, passages: Passages, title: str, chunk: Chunk) -> Chunk:
    parts = (title, chunk.heading, chunk.content)
    vector = embedder.embed_passages([passages.text(parts)])[0]
    return Chunk(chunk.content, chunk.heading, embedding=vector, input_sha256=passages.sha256(parts))


def _write_jsonl(path: Path, documents: Sequence[Document]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for one in documents:
            entry = {"id": one.external_ref, "title": one.title, "text": one.text}
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


# Databases.


@dataclass(slots=True)
class Scratch:
    """Makes throw-away databases on a server, and drops them: when it is left, and those that a killed run has left.

    Attributes:
        dsn: of a role that may create databases, for any database of the server.
        schema: that kbsearch is installed in.
    """

    dsn: str
    schema: str = DEFAULT
    _stack: ExitStack = field(default_factory=ExitStack)
    _maintenance: Connection | None = None

    def __enter__(self) -> Self:
        """Connect, and drop what others have abandoned."""
        self._maintenance = self._stack.enter_context(psycopg.connect(self.dsn, autocommit=True))
        with self._alone() as connection:
            for (name,) in connection.execute(_ABANDONED, {"prefix": PREFIX}).fetchall():
                self._drop(name)
        return self

    def __exit__(self, *_: object) -> None:
        """Drop the databases."""
        self._stack.close()

    def database(self, *, install: bool = True) -> str:
        """Create a database, with kbsearch in it or empty, and return its connection string. Nobody else drops it while this is open.

        Raises:
            BuildError: the role may not.
        """
        name = f"{PREFIX}{secrets.token_hex(8)}"
        dsn = make_conninfo(self.dsn, dbname=name)
        with self._alone() as connection:
            try:
                connection.execute(
                    sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'").format(sql.Identifier(name))
                )
            except psycopg.errors.InsufficientPrivilege as error:
                raise BuildError(
                    f"the role {connection.info.user} may not create databases, which A/A builds in: name another --dsn"
                ) from error
            self._stack.callback(self._drop, name)
            keeper = self._stack.enter_context(psycopg.connect(dsn, autocommit=True))
        keeper.execute("SELECT 1")
        if install:
            migrate.upgrade(dsn, schema=self.schema)
        return dsn

    def connect(self, dsn: str) -> Connection:
        """A connection in autocommit mode, closed when this is left."""
        return self._stack.enter_context(psycopg.connect(dsn, autocommit=True, prepare_threshold=None))

    def drop(self, dsn: str) -> None:
        """Drop one of the databases now."""
        self._drop(str(conninfo_to_dict(dsn)["dbname"]))

    def _drop(self, name: str) -> None:
        if self._maintenance is not None and not self._maintenance.closed:
            self._maintenance.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    @contextmanager
    def _alone(self) -> Iterator[Connection]:
        """Between a database's creation and its first session nobody takes it for abandoned."""
        assert self._maintenance is not None  # noqa: S101  (it is entered)
        self._maintenance.execute(_LOCK)
        try:
            yield self._maintenance
        finally:
            if not self._maintenance.closed:
                self._maintenance.execute(_UNLOCK)


def dump_and_restore(source: str, target: str) -> None:
    """Copy a database into an empty one by pg_dump and pg_restore.

    Raises:
        BuildError: one of them failed.
    """
    with TemporaryDirectory(prefix="kbsearch-aa-") as folder:
        file = Path(folder) / "dump"
        _run("pg_dump", "--format=custom", f"--file={file}", f"--dbname={source}")
        _run("pg_restore", "--exit-on-error", "--no-owner", f"--dbname={target}", str(file))


def _run(program: str, *arguments: str) -> None:
    command = [str(embedded.binary(program)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{program} failed: {done.stderr.strip()[-500:]}")
