"""The Python client: a thin shell that runs the statements and types the answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, Self

import psycopg
from psycopg.rows import class_row, tuple_row

from kbsearch import statements
from kbsearch.errors import (
    ArticleError,
    KBSearchError,
    LimitError,
    QueryTextError,
    SpaceError,
    raise_translated,
)
from kbsearch.models import Chunk, Page, ReservedArticle, Result, VectorLike
from kbsearch.statements import Statement

_NO_LANGUAGE = ("42602", "42704", "3F000", "42601", "0A000")
"""What the type regconfig says of a name it cannot resolve: invalid name, no such object or schema, too many dots, another database."""


class QueryEmbedder(Protocol):
    """What the client needs of an embedder; every kbsearch.embed.Embedder is one."""

    @property
    def model(self) -> str:
        """The model's published name."""
        ...

    @property
    def revision(self) -> str:
        """Which weights; empty when the provider has none."""
        ...

    @property
    def dimensions(self) -> int:
        """Components of a vector."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> Any:
        """Vectors of questions, shape (len(texts), dimensions)."""
        ...


class KBSearch:
    """Searches and writes through a psycopg 3 connection.

    With a connection string the client opens a connection of its own, in autocommit mode and without prepared statements (so that it works
    behind a transaction pooler), and closes it: use it as a context manager. A connection that is passed in stays its owner's: the client
    runs inside whatever transaction it is in and never commits, rolls back or closes.

    Not to be shared between threads that search at the same time.

    Args:
        connection: a psycopg connection, or a connection string.
        embedder: computes the embedding of a question that comes without one. Its model, revision and dimensions must be those of the space
            that is searched: vectors of two spaces are never compared.

    Raises:
        psycopg.OperationalError: there is no connection to be had.
    """

    def __init__(self, connection: psycopg.Connection[Any] | str, *, embedder: QueryEmbedder | None = None) -> None:
        """Open a connection, or keep the one given."""
        self._owned = isinstance(connection, str)
        self._connection: psycopg.Connection[Any] = (
            psycopg.connect(connection, autocommit=True, prepare_threshold=None)
            if isinstance(connection, str)
            else connection
        )
        self._embedder = embedder

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection used."""
        return self._connection

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection if it is the client's own."""
        self.close()

    def close(self) -> None:
        """Close the connection if it is the client's own."""
        if self._owned:
            self._connection.close()

    def search(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        limit: int = 10,
        offset: int = 0,
        cursor: str | None = None,
        kinds: Sequence[str] | None = None,
        kind_quota: Mapping[str, int] | None = None,
        metadata: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        min_score: float | None = None,
        profile: str | None = None,
        space_id: int | None = None,
        exploratory: bool = False,
    ) -> Page:
        """Return one page of the ranking.

        Args:
            org_id: the organisation searched.
            text: the question. Words are OR-ed; `"a phrase"` must occur; `-word` excludes.
            embedding: the question's vector, of the searched space's dimensions; without one the client's embedder computes it, and
                without an embedder the vector leg takes no part.
            limit: number of articles, 0 … 1000.
            offset: number of articles to skip; not together with a cursor.
            cursor: `next_cursor` of the page before, or `cursor` of an article, of the same request.
            kinds: only articles of these kinds.
            kind_quota: at most so many articles of each kind; `"*"` is every kind not named.
            metadata: only articles whose metadata contain this; of a list, any of them.
            min_score: only articles of at least this score.
            profile: ranking profile, name@version; the organisation's by default.
            space_id: embedding space; the organisation's active one by default.
            exploratory: reserved for arbitration.

        Raises:
            KBSearchError: the request was refused; see kbsearch.errors for the kinds.
            psycopg.Error: the database failed.
        """
        if embedding is None:
            embedding, space_id = self._embed(org_id, text, space_id)
        statement = statements.search_page(
            org_id,
            text,
            embedding,
            limit=limit,
            offset=offset,
            cursor=cursor,
            kinds=kinds,
            kind_quota=kind_quota,
            metadata=metadata,
            min_score=min_score,
            profile=profile,
            space_id=space_id,
            exploratory=exploratory,
        )
        return Page.from_json(json.loads(self._value(statement)))

    def pages(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        limit: int = 10,
        cursor: str | None = None,
        kinds: Sequence[str] | None = None,
        kind_quota: Mapping[str, int] | None = None,
        metadata: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        min_score: float | None = None,
        profile: str | None = None,
        space_id: int | None = None,
        exploratory: bool = False,
    ) -> Iterator[Page]:
        """Iterate over the pages of a search to the end, by cursors; arguments as in search(), limit at least 1.

        The pages put end to end are the ranking: nothing twice, nothing missing. A search that finds nothing gives one empty page,
        which says why. What is written to the organisation meanwhile may move articles whose own chunks changed.
        """
        statements.integer(limit, "limit", LimitError)
        if limit == 0:
            raise LimitError("pages of 0 articles never reach the end", hint="Use a limit of at least 1.")
        if embedding is None:
            embedding, space_id = self._embed(org_id, text, space_id)
        while True:
            # Straight to the statement: an embedder is asked once, not for every page.
            page = Page.from_json(
                json.loads(
                    self._value(
                        statements.search_page(
                            org_id,
                            text,
                            embedding,
                            limit=limit,
                            cursor=cursor,
                            kinds=kinds,
                            kind_quota=kind_quota,
                            metadata=metadata,
                            min_score=min_score,
                            profile=profile,
                            space_id=space_id,
                            exploratory=exploratory,
                        )
                    )
                )
            )
            yield page
            if page.end_reached or page.next_cursor is None:
                return
            cursor = page.next_cursor

    def results(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        limit: int = 100,
        cursor: str | None = None,
        kinds: Sequence[str] | None = None,
        kind_quota: Mapping[str, int] | None = None,
        metadata: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        min_score: float | None = None,
        profile: str | None = None,
        space_id: int | None = None,
        exploratory: bool = False,
    ) -> Iterator[Result]:
        """Iterate over all articles found, best first; `limit` is how many are fetched at a time, the rest as in search()."""
        for page in self.pages(
            org_id,
            text,
            embedding,
            limit=limit,
            cursor=cursor,
            kinds=kinds,
            kind_quota=kind_quota,
            metadata=metadata,
            min_score=min_score,
            profile=profile,
            space_id=space_id,
            exploratory=exploratory,
        ):
            yield from page.items

    def upsert_article(
        self,
        org_id: int,
        *,
        external_ref: str | None = None,
        title: str | None = None,
        body: str | None = None,
        kind: str = "article",
        chunks: Sequence[Chunk] | None = None,
        published: bool = True,
        metadata: Mapping[str, Any] | None = None,
        source_uri: str | None = None,
        language: str | None = None,
        content_sha256: str | None = None,
        article_id: int | None = None,
        space_id: int | None = None,
    ) -> int:
        """Write an article with all its chunks and embeddings, in place of what it was, and return its id.

        Args:
            org_id: the organisation it belongs to.
            external_ref: the application's own name of it; an article of this name is replaced.
            title: its title.
            body: its text; without chunks the one chunk is the body.
            kind: its kind.
            chunks: its passages.
            published: whether searches find it.
            metadata: a JSON object.
            source_uri: where it comes from.
            language: text search configuration; the organisation's by default.
            content_sha256: what reserve_articles() gives back of it.
            article_id: the article to replace, by id.
            space_id: embedding space of the chunks' vectors; the organisation's active one by default.

        Raises:
            KBSearchError: it was refused, and nothing was written.
        """
        statement = statements.upsert_article(
            org_id,
            external_ref=external_ref,
            title=title,
            body=body,
            kind=kind,
            chunks=chunks,
            published=published,
            metadata=metadata,
            source_uri=source_uri,
            language=language,
            content_sha256=content_sha256,
            article_id=article_id,
            space_id=space_id,
        )
        try:
            return int(self._value(statement, ArticleError))
        except psycopg.Error as error:
            if language is not None and error.sqlstate in _NO_LANGUAGE:
                raise ArticleError(
                    f"language {language!r} is no text search configuration: {error.diag.message_primary}",
                    detail={"language": language},
                    hint="Name one of pg_catalog.pg_ts_config, or None for the organisation's.",
                ) from error
            raise

    def delete_article(self, org_id: int, *, article_id: int | None = None, external_ref: str | None = None) -> bool:
        """Delete an article by id or by the application's name of it; False if there was none."""
        statement = statements.delete_article(org_id, article_id=article_id, external_ref=external_ref)
        return bool(self._value(statement, ArticleError))

    def reserve_articles(self, org_id: int, external_refs: Sequence[str]) -> tuple[ReservedArticle, ...]:
        """Give articles their ids before they are written, in sorted order of their names, so that no id depends on who was first."""
        statement = statements.reserve_articles(org_id, external_refs)
        with _our_errors(ArticleError), self._connection.cursor(row_factory=class_row(ReservedArticle)) as cursor:
            return tuple(cursor.execute(statement.sql.encode(), statement.parameters).fetchall())

    def _embed(self, org_id: int, text: str | None, space_id: int | None) -> tuple[VectorLike | None, int | None]:
        """The question's vector and the space it belongs to; no vector without an embedder, a question or a space."""
        statements.plain_text(text, "text", QueryTextError)
        if self._embedder is None or text is None or not text.strip():
            return None, space_id
        row = self._row(statements.searched_space(org_id, space_id))
        if row is None:
            return None, space_id
        space, model, revision, dimensions = row
        ours = (self._embedder.model, self._embedder.revision, self._embedder.dimensions)
        if (model, revision, dimensions) != ours:
            raise SpaceError(
                f"the embedder's vectors (model {ours[0]}, revision {ours[1]!r}, {ours[2]} dimensions) may not be compared with those of "
                f"space {space} (model {model}, revision {revision!r}, {dimensions} dimensions)",
                detail={"space_id": space, "model": model, "revision": revision, "dimensions": dimensions},
                hint="Use the space's own model, pass an embedding, or search without an embedder.",
            )
        vectors = self._embedder.embed_queries([text])
        return statements.vector(vectors[0]), space

    def _row(self, statement: Statement, unencodable: type[KBSearchError] = QueryTextError) -> tuple[Any, ...] | None:
        with _our_errors(unencodable), self._connection.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(statement.sql.encode(), statement.parameters).fetchone()

    def _value(self, statement: Statement, unencodable: type[KBSearchError] = QueryTextError) -> Any:
        row = self._row(statement, unencodable)
        assert row is not None  # noqa: S101  (a call of a function gives one row)
        return row[0]


@contextmanager
def _our_errors(unencodable: type[KBSearchError]) -> Iterator[None]:
    """Raise our own errors instead of the driver's where there is one; `unencodable` for text the connection's encoding has not."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise unencodable(
            f"the connection's encoding {error.encoding} has no character for {error.object[error.start]!r}",
            hint="Connect with client_encoding=UTF8.",
        ) from error
    except psycopg.Error as error:
        raise_translated(error)
