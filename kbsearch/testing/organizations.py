"""Organisations with articles, for tests."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import psycopg

from kbsearch.client import KBSearch
from kbsearch.client.plans import Budget
from kbsearch.client.sources import Connectable
from kbsearch.embed.base import Embedder
from kbsearch.errors import ArticleError
from kbsearch.models import Chunk, Page, Result, VectorLike
from kbsearch.options import SearchOptions
from kbsearch.schema import DEFAULT
from kbsearch.statements import Statement

Article: TypeAlias = str | Mapping[str, Any]
"""An article's body; or the keyword arguments of upsert_article(), of which chunks may be mappings or texts, too, and `embedding` is the
body's vector."""

_CREATE = """INSERT INTO kbsearch.organizations (name, language)
VALUES (%(name)s, CAST(%(language)s AS pg_catalog.regconfig)) RETURNING id"""
_CREATE_DEFAULT = "INSERT INTO kbsearch.organizations (name) VALUES (%(name)s) RETURNING id"
_SPACE = """INSERT INTO kbsearch.kb_embedding_spaces (name, model, revision, dimensions, recipe)
VALUES (%(name)s, %(model)s, %(revision)s, CAST(%(dimensions)s AS integer), CAST(%(recipe)s AS pg_catalog.jsonb))
ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id"""


@dataclass(frozen=True, slots=True)
class Organization:
    """An organisation of a test, and the client that it is searched with.

    Attributes:
        client: searches and writes.
        id: the organisation's.
        name: the organisation's.
        connection: what folders are ingested over, in autocommit mode; None if there is none.
        schema: the schema that kbsearch is installed in.
    """

    client: KBSearch = field(repr=False)
    id: int
    name: str
    connection: psycopg.Connection[Any] | None = field(default=None, repr=False)
    schema: str = DEFAULT

    def load(
        self, articles: Iterable[Article] = (), *, folder: str | Path | None = None, embedder: Embedder | None = None
    ) -> tuple[int, ...]:
        """Write articles, or ingest the files of a folder; arguments as of load_organization().

        Returns the ids of `articles`, in their order; of a folder's files, in the order of their paths.
        """
        written = tuple(self._write(articles, embedder))
        if folder is not None:
            written += self._ingest(Path(folder), embedder)
        return written

    def search(self, text: str | None, embedding: VectorLike | None = None, **options: Unpack[SearchOptions]) -> Page:
        """One page, as KBSearch.search() gives it."""
        return self.client.search(self.id, text, embedding, **options)

    def results(
        self, text: str | None, embedding: VectorLike | None = None, **options: Unpack[SearchOptions]
    ) -> list[Result]:
        """All articles found, best first."""
        return list(self.client.results(self.id, text, embedding, **options))

    def _write(self, articles: Iterable[Article], embedder: Embedder | None) -> Iterator[int]:
        prepared = [_prepared(number, article, embedder) for number, article in enumerate(articles, start=1)]
        # One space for all: vectors of two are never compared.
        dimensions = {len(vector) for article in prepared for vector in _vectors(article) if "space_id" not in article}
        if len(dimensions) > 1:
            raise ValueError(
                f"embeddings of {sorted(dimensions)} components: one search compares vectors of one length"
            )
        space = self._space(dimensions.pop(), embedder) if dimensions else None
        for article in prepared:
            if space is not None and _vectors(article):
                article.setdefault("space_id", space)
            yield self.client.upsert_article(self.id, **article)

    def _space(self, dimensions: int, embedder: Embedder | None) -> int:
        """The embedding space of the given vectors, or of an embedder's."""
        model, revision, recipe = "test", "", "{}"
        if embedder is not None:
            model, revision, recipe = (
                embedder.model,
                embedder.revision,
                json.dumps(dict(embedder.recipe), sort_keys=True),
            )
        identity = hashlib.sha256(json.dumps([model, revision, dimensions, recipe]).encode()).hexdigest()
        values = {
            "name": f"test/{identity[:10]}",
            "model": model,
            "revision": revision,
            "dimensions": dimensions,
            "recipe": recipe,
        }
        return int(_ask(self.client, _SPACE, **values))

    def _ingest(self, folder: Path, embedder: Embedder | None) -> tuple[int, ...]:
        from kbsearch.ingest import Source, ingest, read_paths  # noqa: PLC0415  (slow to import)

        if self.connection is None or not self.connection.autocommit:
            raise TypeError(
                "a folder is ingested over a psycopg connection in autocommit mode: load_organization(connection, folder=…)"
            )
        if not folder.exists():
            raise FileNotFoundError(f"there is no folder {folder}")
        documents = list(read_paths(folder, kind="article"))
        report = ingest(
            self.connection,
            self.id,
            [Source(folder.name or "folder", documents)],
            embedder=embedder,
            schema=self.schema,
        )
        if report.rejected or not documents:
            told = (
                "; ".join(f"{one.where}: {one.reason}" for one in report.rejected)
                or "it has no files that can be ingested"
            )
            raise ArticleError(
                f"not all of the folder {folder} could be loaded: {told}", hint="See: kbsearch ingest --help"
            )
        references = sorted(str(document.external_ref) for document in documents)
        return tuple(one.article_id for one in self.client.reserve_articles(self.id, references))


def load_organization(
    target: Connectable | KBSearch,
    articles: Iterable[Article] = (),
    *,
    folder: str | Path | None = None,
    name: str = "test",
    language: str | None = None,
    embedder: Embedder | None = None,
    schema: str = DEFAULT,
) -> Organization:
    """Make an organisation with articles, and return it with a client.

        org = load_organization(connection, ["We refund shipping.", {"title": "Returns", "body": "…", "embedding": [1, 0, 0]}])
        page = org.search("refund")

    Vectors, given or computed, are put into an embedding space of their own, which the organisation's searches then use.

    Args:
        target: a client, or what one can be made of: a psycopg connection or pool, SQLAlchemy's engine, connection or session.
        articles: texts, or mappings with the keyword arguments of upsert_article(). Chunks may be texts or mappings, and `embedding` is the vector
            of an article that is one chunk.
        folder: its files are ingested as `kbsearch ingest` does it; over a psycopg connection in autocommit mode.
        name: of the organisation; there may be several of a name.
        language: the organisation's text search configuration, `"german"`; by default the database's own default for one.
        embedder: computes the vectors of chunks that come without one.
        schema: the schema that kbsearch is installed in; a client knows its own.

    Raises:
        KBSearchError: the database refused something, or not all of a folder could be ingested.
        TypeError, ValueError, FileNotFoundError: the arguments are unusable.
    """
    if isinstance(target, str):
        raise TypeError(
            "a connection string would leave nobody to close the connection: pass a connection, or a client"
        )
    if isinstance(target, KBSearch):
        client, connection = target, None
    else:
        client = KBSearch(target, embedder=embedder, schema=schema)
        connection = target if isinstance(target, psycopg.Connection) else None
    created = (
        _ask(client, _CREATE, name=name, language=language) if language else _ask(client, _CREATE_DEFAULT, name=name)
    )
    organization = Organization(client, int(created), name, connection, schema)
    organization.load(articles, folder=folder, embedder=embedder)
    return organization


def _ask(client: KBSearch, sql: str, **values: Any) -> Any:
    """The one value that a statement gives, run as the client's calls are: in its schema and in its owner's transaction."""
    plan = client._calls._ask(Statement(sql, values), Budget(math.inf))  # noqa: SLF001  (no call of a client makes an organisation)
    return client._run(plan)[0][0]  # noqa: SLF001


def _prepared(number: int, article: Article, embedder: Embedder | None) -> dict[str, Any]:
    """The keyword arguments of upsert_article() for an article."""
    if not isinstance(article, str | Mapping):
        raise TypeError(f"article {number} is neither a text nor a mapping, but {type(article).__name__}")
    options: dict[str, Any] = {"body": article} if isinstance(article, str) else dict(article)
    vector = options.pop("embedding", None)
    chunks = [_chunk(chunk) for chunk in options.get("chunks") or ()]
    if vector is not None and chunks:
        raise ValueError(f"article {number} has chunks: each has an embedding of its own, the article has none")
    content = options.get("body") or options.get("title") or ""
    if vector is not None or (embedder is not None and not chunks):
        chunks = [Chunk(content, embedding=vector)]
    if embedder is not None:
        chunks = _embedded(options.get("title"), chunks, embedder)
    if chunks:
        options["chunks"] = chunks
    return options


def _chunk(chunk: Chunk | str | Mapping[str, Any]) -> Chunk:
    if isinstance(chunk, Chunk):
        return chunk
    return Chunk(chunk) if isinstance(chunk, str) else Chunk(**chunk)


def _embedded(title: str | None, chunks: Sequence[Chunk], embedder: Embedder) -> list[Chunk]:
    """Chunks with vectors, of what an ingest would have the model read."""
    from kbsearch.ingest.template import Template  # noqa: PLC0415  (slow to import)

    template = Template()
    lacking = [chunk for chunk in chunks if chunk.embedding is None]
    vectors = iter(
        embedder.embed_passages([template.render(title, chunk.heading, chunk.content) for chunk in lacking])
        if lacking
        else ()
    )
    return [chunk if chunk.embedding is not None else replace(chunk, embedding=next(vectors)) for chunk in chunks]


def _vectors(article: Mapping[str, Any]) -> list[VectorLike]:
    return [chunk.embedding for chunk in article.get("chunks") or () if chunk.embedding is not None]
