"""From documents to articles in the database: validate, reserve ids, split, embed, write.

What is ingested decides everything, when or where from decides nothing: documents are taken in the order of their external_ref, ids are
reserved in that order before anything is embedded, and no path outside the ingest root is stored or embedded. A run that was stopped
anywhere is completed by the next one: an article is done when it is committed, and what is done is not done again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import psycopg
from psycopg.types.json import Jsonb

from kbsearch.client import KBSearch
from kbsearch.embed.base import Embedder, Vectors
from kbsearch.errors import KBSearchError
from kbsearch.ingest.documents import Document, Rejected, printable, validate
from kbsearch.ingest.splitter import Splitter
from kbsearch.models import Chunk
from kbsearch.statements import vector_text

RESERVED_AT_ONCE = 1000
CHUNKS_AT_ONCE = 128
"""Chunks that are embedded together and whose articles are committed together: some seconds of work."""
ARTICLES_AT_ONCE = 64
TEMPLATE = "title\nheading\ncontent"
"""What a model gets to read of a chunk: these parts, a line each, those that are missing left out."""

Connection: TypeAlias = psycopg.Connection[Any]
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a stage ("read", "reserve", "articles", "prune"), what is done of it and its size (0 while unknown)."""


class UsageError(ValueError):
    """The request itself cannot be carried out; nothing was written."""


@dataclass(frozen=True, slots=True)
class Source:
    """Documents that belong together: what `prune` compares with. The name is kept with every article, and is no path."""

    name: str
    documents: Iterable[Document | Rejected]
    complete: bool = True
    """Whether the documents are all of the source; if not, its missing documents cannot be told from removed ones."""


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest did. Articles and chunks are counts; seconds is wall time."""

    org_id: int
    read: int
    written: int
    unchanged: int
    reembedded: int
    deleted: int
    taken_over: int
    chunks: int
    embedded_chunks: int
    truncated_chunks: int
    rejected: tuple[Rejected, ...]
    notes: tuple[str, ...]
    space: str | None
    space_active: bool | None
    calibrated: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class _Space:
    id: int
    name: str


@dataclass(slots=True)
class _Work:
    """A document to be written: everything but its vectors."""

    document: Document
    fingerprint: str
    chunks: list[Chunk]
    only_embeddings: bool = False


@dataclass(slots=True)
class _Counts:
    written: int = 0
    unchanged: int = 0
    reembedded: int = 0
    deleted: int = 0
    taken_over: int = 0
    chunks: int = 0
    embedded_chunks: int = 0
    rejected: list[Rejected] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def organization_id(connection: Connection, name: str, *, create: bool) -> int:
    """The id of the organisation of that name, which is created when it is missing and `create` is given.

    Raises UsageError when there is none, or more than one.
    """
    if not name.strip() or "\0" in name:
        raise UsageError("an organisation needs a name")
    with connection.transaction():
        # Two first ingests at the same time make one organisation.
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('kbsearch organization ' || %s, 0))", (name,))
        rows = connection.execute(
            "SELECT id FROM kbsearch.organizations WHERE name = %s ORDER BY id LIMIT 2", (name,)
        ).fetchall()
        if len(rows) > 1:
            raise UsageError(f"more than one organisation is called {name!r}")
        if not rows:
            if not create:
                raise UsageError(f"there is no organisation called {name!r}")
            rows = connection.execute(
                "INSERT INTO kbsearch.organizations (name) VALUES (%s) RETURNING id", (name,)
            ).fetchall()
    return int(rows[0][0])


def model_input(title: str | None, chunk: Chunk) -> str:
    """The exact text that a model reads for a chunk."""
    return "\n".join(part for part in (title, chunk.heading, chunk.content) if part and part.strip())


def space_recipe(embedder: Embedder, splitter: Splitter) -> dict[str, Any]:
    """Everything beside the model that decides a chunk's vector, as JSON values."""
    return {**embedder.recipe, "template": TEMPLATE, "chunker": dict(splitter.settings)}


def space_name(embedder: Embedder, splitter: Splitter) -> str:
    """Name of the embedding space: the embedder's name and ten digits of a digest of model, revision, dimensions and recipe."""
    identity = [embedder.model, embedder.revision, embedder.dimensions, space_recipe(embedder, splitter)]
    return f"{embedder.name}/{_digest(identity)[:10]}"


def content_digest(document: Document, splitter: Splitter) -> str:
    """sha256 of everything that decides an article and its chunks: a change of any of it writes the article anew."""
    return _digest(
        {
            "title": document.title,
            "text": document.text,
            "kind": document.kind,
            "metadata": document.metadata,
            "source_uri": document.source_uri,
            "published": document.published,
            "markup": document.markup,
            "splitter": dict(splitter.settings),
            "template": TEMPLATE,
        }
    )


def ingest(
    connection: Connection,
    org_id: int,
    sources: Sequence[Source],
    *,
    embedder: Embedder | None = None,
    splitter: Splitter | None = None,
    prune: bool = False,
    progress: Progress | None = None,
) -> IngestReport:
    """Bring an organisation's articles up to date with the documents of some sources.

    The connection must be in autocommit mode and have no transaction open: articles are committed in batches as they are done. Without an
    embedder, articles are found by their words only. prune: articles that an earlier ingest wrote for one of these sources and that the
    source has no more are deleted. A document that cannot be stored is reported in `rejected` and keeps nobody from being stored.

    Raises UsageError when `prune` is asked of a source that is incomplete or empty; what the embedder raises; psycopg.Error when the
    database fails. What was committed before stays, and the next run goes on from there.
    """
    if not connection.autocommit:
        raise UsageError("ingest needs a connection in autocommit mode: articles are committed as they are done")
    return _Ingest(
        connection, org_id, embedder, splitter or Splitter(), progress or (lambda _stage, _done, _size: None)
    ).run(sources, prune)


class _Ingest:
    def __init__(
        self, connection: Connection, org_id: int, embedder: Embedder | None, splitter: Splitter, progress: Progress
    ) -> None:
        self._connection, self._client, self._org_id = connection, KBSearch(connection), org_id
        self._embedder, self._splitter, self._progress = embedder, splitter, progress
        self._counts = _Counts()
        self._space: _Space | None = None

    def run(self, sources: Sequence[Source], prune: bool) -> IngestReport:
        started = time.monotonic()
        counts, embedder = self._counts, self._embedder
        truncated_before = int(getattr(embedder, "truncated", 0))
        read, documents = self._read(sources)
        if prune:
            for source in sources:
                if not source.complete:
                    raise UsageError(
                        f"--prune needs whole sources, and {source.name} is a single file: its removed neighbours cannot be told"
                    )
                if not any(name == source.name for name, _ in documents):
                    raise UsageError(
                        f"--prune would delete everything of {source.name}, which has no document: is the path right?"
                    )
        if embedder is not None and documents:
            self._space = self._space_of(embedder)
        known = self._reserve([document.external_ref for _, document in documents])
        first_load = self._is_first_load(known)
        self._write(documents, known)
        if prune:
            self._prune(sources, documents)
        calibrated = first_load and counts.written > 0 and not self._pending()
        if calibrated:
            self._connection.execute("SELECT kbsearch.calibrate_kb_corpus_v1(p_org_id => %s)", (self._org_id,))
        return IngestReport(
            org_id=self._org_id,
            read=read,
            written=counts.written,
            unchanged=counts.unchanged,
            reembedded=counts.reembedded,
            deleted=counts.deleted,
            taken_over=counts.taken_over,
            chunks=counts.chunks,
            embedded_chunks=counts.embedded_chunks,
            truncated_chunks=int(getattr(embedder, "truncated", 0)) - truncated_before,
            rejected=tuple(counts.rejected),
            space=None if self._space is None else self._space.name,
            space_active=self._activate(),
            notes=tuple(counts.notes),
            calibrated=calibrated,
            seconds=time.monotonic() - started,
        )

    # Reading

    def _read(self, sources: Sequence[Source]) -> tuple[int, list[tuple[str, Document]]]:
        """How many documents there were, and those that can be stored, each with its source's name, by external_ref."""
        documents: dict[str, tuple[str, Document]] = {}
        read = 0
        for source in sources:
            if ":" in source.name or not source.name.strip():
                raise UsageError(f"{source.name!r} is no name for a source: it must not be blank nor contain a colon")
            for document in source.documents:
                read += 1
                self._progress("read", read, 0)
                if isinstance(document, Rejected):
                    self._counts.rejected.append(document)
                    continue
                where = printable(document.external_ref.replace("\0", "\\x00"))
                fault = validate(document)
                if fault is None and document.external_ref in documents:
                    fault = "another document of this ingest has the same id"
                if fault is not None:
                    self._counts.rejected.append(Rejected(where, fault, document.external_ref))
                else:
                    documents[document.external_ref] = (source.name, document)
        # Python orders strings by code point, which is the order of their UTF-8 bytes: the same as COLLATE "C".
        return read, [documents[reference] for reference in sorted(documents)]

    # Ids and spaces

    def _space_of(self, embedder: Embedder) -> _Space:
        name, recipe = space_name(embedder, self._splitter), space_recipe(embedder, self._splitter)
        with self._connection.transaction():
            self._connection.execute(
                "INSERT INTO kbsearch.kb_embedding_spaces (name, model, revision, dimensions, recipe)"
                " VALUES (%s, %s, %s, %s, %s) ON CONFLICT (name) DO NOTHING",
                (name, embedder.model, embedder.revision, embedder.dimensions, Jsonb(recipe)),
            )
            row = self._connection.execute(
                "SELECT id, model = %s AND revision = %s AND dimensions = %s AND recipe = %s FROM kbsearch.kb_embedding_spaces WHERE name = %s",
                (embedder.model, embedder.revision, embedder.dimensions, Jsonb(recipe), name),
            ).fetchone()
        if row is None or not row[1]:
            raise UsageError(f"the embedding space {name!r} exists with another model or recipe")
        return _Space(int(row[0]), name)

    def _reserve(self, references: Sequence[str]) -> dict[str, str | None]:
        """Ids for all, in order; what the last ingest noted about each."""
        known: dict[str, str | None] = {}
        for start in range(0, len(references), RESERVED_AT_ONCE):
            batch = references[start : start + RESERVED_AT_ONCE]
            for article in self._client.reserve_articles(self._org_id, batch):
                known[article.external_ref] = article.content_sha256
            self._progress("reserve", len(known), len(references))
        return known

    def _is_first_load(self, known: Mapping[str, str | None]) -> bool:
        """Whether the organisation has nothing but what an unfinished first load of these documents left."""
        row = self._connection.execute(
            """
            SELECT o.reference_length = 100,
                (SELECT count(*) FROM kbsearch.kb_articles AS a WHERE a.org_id = o.id AND a.content_sha256 IS NOT NULL),
                (SELECT count(*) FROM kbsearch.kb_articles AS a WHERE a.org_id = o.id AND a.content_sha256 IS NULL AND NOT a.external_ref = ANY (%s))
            FROM kbsearch.organizations AS o
            WHERE o.id = %s
            """,
            (list(known), self._org_id),
        ).fetchone()
        if row is None:
            return False
        default_length, done, foreign = row
        unfinished = any(noted is None for noted in known.values())
        return (
            foreign == 0
            and unfinished
            and (done == 0 or (default_length and done == sum(noted is not None for noted in known.values())))
        )

    def _pending(self) -> bool:
        """Whether an id was reserved and its article is still to be written."""
        row = self._connection.execute(
            "SELECT EXISTS (SELECT 1 FROM kbsearch.kb_articles AS a WHERE a.org_id = %s AND a.content_sha256 IS NULL AND NOT a.published)",
            (self._org_id,),
        ).fetchone()
        return bool(row and row[0])

    # Writing

    def _write(self, documents: Sequence[tuple[str, Document]], known: Mapping[str, str | None]) -> None:
        done = 0
        for batch in _batches(self._work(documents, known)):
            todo = [work for work in batch if work is not None]
            vectors = self._embed(todo)
            with self._connection.transaction():
                for work, rows in zip(todo, vectors, strict=True):
                    self._write_one(work, rows, is_new=known.get(work.document.external_ref) is None)
            done += len(batch)
            self._progress("articles", done, len(documents))

    def _work(
        self, documents: Sequence[tuple[str, Document]], known: Mapping[str, str | None]
    ) -> Iterator[_Work | None]:
        """What is to be done for each document; None for nothing."""
        space = "-" if self._space is None else str(self._space.id)
        for source, document in documents:
            digest = content_digest(document, self._splitter)
            noted_digest, noted_space, noted_source = _noted(known.get(document.external_ref))
            if noted_digest == digest and (self._space is None or noted_space == space):
                self._counts.unchanged += 1
                yield None
                continue
            if noted_source not in (None, source) and noted_digest != digest:
                self._counts.taken_over += 1
            chunks = self._splitter.split(document.text, document.markup, title=document.title) or [
                Chunk(document.title)
            ]
            if noted_digest == digest:
                yield _Work(document, f"{digest}:{space}:{noted_source or source}", chunks, only_embeddings=True)
            else:
                yield _Work(document, f"{digest}:{space}:{source}", chunks)

    def _embed(self, batch: Sequence[_Work]) -> list[Vectors | None]:
        if self._embedder is None:
            return [None] * len(batch)
        inputs = [model_input(work.document.title, chunk) for work in batch for chunk in work.chunks]
        vectors = self._embedder.embed_passages(inputs) if inputs else None
        split: list[Vectors | None] = []
        start = 0
        for work in batch:
            split.append(None if vectors is None else vectors[start : start + len(work.chunks)])
            start += len(work.chunks)
        return split

    def _write_one(self, work: _Work, vectors: Vectors | None, *, is_new: bool) -> None:
        counts, document = self._counts, work.document
        try:
            with self._connection.transaction():
                if (
                    work.only_embeddings
                    and vectors is not None
                    and self._space is not None
                    and self._add_embeddings(work, vectors, self._space)
                ):
                    counts.reembedded += 1
                else:
                    self._upsert(work, vectors)
                    counts.written += 1
                    counts.chunks += len(work.chunks)
        except (KBSearchError, psycopg.DataError, psycopg.errors.ProgramLimitExceeded) as error:
            # The document's fault: refused by kbsearch, by a type or by a limit of PostgreSQL. All else is not about this document.
            counts.rejected.append(Rejected(printable(document.external_ref), str(error), document.external_ref))
            if is_new:
                self._client.delete_article(self._org_id, external_ref=document.external_ref)
            return
        if vectors is not None:
            counts.embedded_chunks += len(work.chunks)

    def _upsert(self, work: _Work, vectors: Vectors | None) -> None:
        document, chunks = work.document, work.chunks
        if vectors is not None:
            chunks = [
                replace(chunk, embedding=vector, input_sha256=_input_sha256(document, chunk))
                for chunk, vector in zip(chunks, vectors, strict=True)
            ]
        self._client.upsert_article(
            self._org_id,
            external_ref=document.external_ref,
            title=document.title or None,
            body=document.text,
            kind=document.kind,
            chunks=chunks,
            published=document.published,
            metadata=document.metadata,
            source_uri=document.source_uri,
            content_sha256=work.fingerprint,
            space_id=None if self._space is None else self._space.id,
        )

    def _add_embeddings(self, work: _Work, vectors: Vectors, space: _Space) -> bool:
        """Put vectors of this space beside what the article has; False when its chunks are not those of the document any more."""
        reference = work.document.external_ref
        rows = self._connection.execute(
            """
            SELECT c.article_id, c.id, c.heading, c.content
            FROM kbsearch.kb_articles AS a JOIN kbsearch.kb_article_chunks AS c ON c.org_id = a.org_id AND c.article_id = a.id
            WHERE a.org_id = %s AND a.external_ref = %s
            ORDER BY c.chunk_no, c.id
            """,
            (self._org_id, reference),
        ).fetchall()
        if [Chunk(content, heading) for _, _, heading, content in rows] != work.chunks:
            return False
        self._connection.execute(
            "DELETE FROM kbsearch.kb_article_embeddings AS e WHERE e.org_id = %s AND e.space_id = %s AND e.article_id = %s",
            (self._org_id, space.id, rows[0][0]),
        )
        # A parameter of unknown type takes the column's, in whatever schema the extension lives.
        with self._connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, chunk_id, article_id, embedding, input_sha256)"
                " VALUES (%s, %s, %s, %s, %s, decode(%s, 'hex'))",
                [
                    (
                        self._org_id,
                        space.id,
                        chunk_id,
                        article_id,
                        vector_text(vector),
                        _input_sha256(work.document, chunk),
                    )
                    for (article_id, chunk_id, _, _), vector, chunk in zip(rows, vectors, work.chunks, strict=True)
                ],
            )
        self._connection.execute(
            "UPDATE kbsearch.kb_articles SET content_sha256 = %s WHERE org_id = %s AND external_ref = %s",
            (work.fingerprint, self._org_id, reference),
        )
        return True

    # Afterwards

    def _prune(self, sources: Sequence[Source], documents: Sequence[tuple[str, Document]]) -> None:
        present = {document.external_ref for _, document in documents}
        present.update(rejected.external_ref for rejected in self._counts.rejected if rejected.external_ref is not None)
        if any(rejected.external_ref is None for rejected in self._counts.rejected):
            self._counts.notes.append(
                "nothing was pruned: a document that could not be read may be one of those that seem to be missing"
            )
            return
        names = {source.name for source in sources}
        gone = [
            reference
            for reference, noted in self._connection.execute(
                "SELECT a.external_ref, a.content_sha256 FROM kbsearch.kb_articles AS a"
                ' WHERE a.org_id = %s AND a.external_ref IS NOT NULL AND a.content_sha256 IS NOT NULL ORDER BY a.external_ref COLLATE "C"',
                (self._org_id,),
            )
            if _noted(noted)[2] in names and reference not in present
        ]
        for start in range(0, len(gone), ARTICLES_AT_ONCE):
            with self._connection.transaction():
                for reference in gone[start : start + ARTICLES_AT_ONCE]:
                    self._client.delete_article(self._org_id, external_ref=reference)
                    self._counts.deleted += 1
            self._progress("prune", self._counts.deleted, len(gone))

    def _activate(self) -> bool | None:
        """Switch searches to this ingest's space as soon as no vector of the old one lacks its counterpart; None without a space."""
        if self._space is None:
            return None
        with self._connection.transaction():
            self._connection.execute(
                "SELECT 1 FROM kbsearch.organizations AS o WHERE o.id = %s FOR UPDATE", (self._org_id,)
            )
            row = self._connection.execute(
                """
                SELECT o.active_space_id, (
                    SELECT count(*)
                    FROM kbsearch.kb_article_embeddings AS old
                    WHERE old.org_id = o.id AND old.space_id = o.active_space_id AND NOT EXISTS (
                        SELECT 1
                        FROM kbsearch.kb_article_embeddings AS new
                        WHERE new.org_id = old.org_id AND new.article_id = old.article_id AND new.chunk_id = old.chunk_id AND new.space_id = %s)
                )
                FROM kbsearch.organizations AS o
                WHERE o.id = %s
                """,
                (self._space.id, self._org_id),
            ).fetchone()
            active, missing = row or (None, 0)
            if active == self._space.id:
                return True
            if missing:
                self._counts.notes.append(
                    f"searches stay on the embedding space before: {missing} chunks of other sources"
                    f" have no vector in {self._space.name} yet; ingest those too"
                )
                return False
            self._connection.execute(
                "UPDATE kbsearch.organizations SET active_space_id = %s WHERE id = %s", (self._space.id, self._org_id)
            )
            return True


def _batches(items: Iterable[_Work | None]) -> Iterator[list[_Work | None]]:
    batch: list[_Work | None] = []
    chunks = articles = 0
    for item in items:
        batch.append(item)
        if item is not None:
            articles += 1
            chunks += len(item.chunks)
        if chunks >= CHUNKS_AT_ONCE or articles >= ARTICLES_AT_ONCE or len(batch) >= RESERVED_AT_ONCE:
            yield batch
            batch, chunks, articles = [], 0, 0
    if batch:
        yield batch


def _noted(noted: str | None) -> tuple[str | None, str | None, str | None]:
    """Digest, space id and source name of the note that ingest keeps in content_sha256."""
    match (noted or "").split(":", 2):
        case [digest, space, source]:
            return digest, space, source
    return None, None, None


def _input_sha256(document: Document, chunk: Chunk) -> str:
    return hashlib.sha256(model_input(document.title, chunk).encode()).hexdigest()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
