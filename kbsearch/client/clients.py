"""The clients: their calls' plans, run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from kbsearch.client.calls import Calls, Consistency, found
from kbsearch.client.plans import (
    AsyncQueryEmbedder,
    CallPlan,
    Embed,
    Identify,
    Query,
    QueryEmbedder,
    Settings,
    identity,
    run,
    run_async,
)
from kbsearch.client.sources import AsyncConnectable, AsyncOwn, Connectable, Own, async_source, source
from kbsearch.models import (
    ArticleExplanation,
    Candidate,
    Explanation,
    OpenedSearch,
    Page,
    Passage,
    ReservedArticle,
    Result,
    VectorLike,
)
from kbsearch.options import (
    ArticleOptions,
    ClientOptions,
    ExplainOptions,
    FetchOptions,
    RankingOptions,
    SearchOptions,
)

T = TypeVar("T")
_FETCH = 100
"""Articles that results() fetches at a time."""


class KBSearch:
    """Searches and writes.

    What is passed in stays its owner's: the client never commits, rolls back or closes it.

    - A connection string: the client opens a connection of its own in autocommit mode, when it is first needed, and again when it was lost;
      used as a context manager it opens it at once and closes it at the end.
    - A psycopg connection, or SQLAlchemy's Connection or Session: calls run inside the transaction that is open or begin one as any statement
      does, and see what is not yet committed (of an autoflushing Session, what is not yet flushed, too). Each is in a savepoint: when it is refused
      or its time is up, what the transaction did before stays, and it can go on.
    - A pool of psycopg_pool, or SQLAlchemy's Engine: every query borrows a connection and is a transaction of its own, committed at once. None
      is held between two queries, for instance while a question is embedded.

    SQLAlchemy's may use the drivers psycopg, psycopg2 and (asynchronous) asyncpg. No call leaves session state behind or relies on any.

    May be shared between threads; over a single connection their calls take turns.

    Args:
        connection: what to connect with, one of the above.
        embedder: computes the embedding of a question that comes without one. Its model, revision and dimensions must be those of the space
            that is searched: vectors of two spaces are never compared.
        options: schema, prepare, timeout, savepoint: see kbsearch.options.ClientOptions.

    Raises:
        ConnectionKindError: the client can't use such an object.
    """

    def __init__(
        self, connection: Connectable, *, embedder: QueryEmbedder | None = None, **options: Unpack[ClientOptions]
    ) -> None:
        """Keep what is given; nothing is asked of the database yet."""
        settings = Settings(**options)
        self._calls = Calls(settings, embeds=embedder is not None)
        self._source = source(connection, settings)
        self._embedder = embedder

    def __enter__(self) -> Self:
        """Open the connection if it is the client's own."""
        if isinstance(self._source, Own):
            self._source.open()
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
        if isinstance(self._source, Own):
            self._source.close()

    def search(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        consistency: Consistency = "cursor",
        expires_in: timedelta | None = None,
        log_arbitration: bool = False,
        timeout: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> Page:
        """Return one page of the ranking.

        Args:
            org_id: the organisation searched.
            text: the question. Words are OR-ed; `"a phrase"` must occur; `-word` excludes.
            embedding: the question's vector, of the searched space's dimensions; without one the client's embedder computes it, and
                without an embedder the vector leg takes no part.
            consistency: `"cursor"` ranks and stores nothing. `"snapshot"` stores the whole ranking, so that its other pages stand still
                while others write: they are those of `fetch_page(org_id, page.snapshot, cursor=page.next_cursor)`, until
                `close_search(org_id, page.snapshot)` or `page.expires_at`. That writes: it is refused on a replica.
            expires_in: how long the stored ranking can be read, at most a day; 15 minutes by default.
            log_arbitration: write the manifest of a search that was arbitrated, an escalated one too, into the organisation's log; its text, too,
                where organizations.arbitration_log is `text`. Where it is `off` that is an ArbitrationError. A page by cursor has nothing of its
                own to log: its verdict is that of the first page.
            timeout: seconds that the call may take in the database; the client's by default, `math.inf` for no limit.
            options: limit, offset, cursor, kinds, kind_quota, metadata, min_score, profile, space_id, exploratory, language, highlight:
                see kbsearch.options.SearchOptions.

        Raises:
            KBSearchError: the request was refused; see kbsearch.errors for the kinds.
            StatementTimeoutError: the time is up.
            psycopg.Error, sqlalchemy.exc.DBAPIError: the database failed.
        """
        return self._run(
            self._calls.search(org_id, text, embedding, timeout, consistency, expires_in, log_arbitration, **options)
        )

    def pages(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        consistency: Consistency = "cursor",
        expires_in: timedelta | None = None,
        log_arbitration: bool = False,
        timeout: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> Generator[Page, None, None]:
        """Iterate over the pages of a search to the end; arguments as in search(), limit at least 1, timeout for each page; logged once.

        The pages put end to end are the ranking: nothing twice, nothing missing. A search that finds nothing gives one empty page,
        which says why. What is written to the organisation meanwhile may move articles whose own chunks changed; with
        `consistency="snapshot"` it moves nothing, and what was deleted is left out and counted in `page.gone`. The stored ranking is removed
        at the end, also where the iteration fails or is given up. (Who gives it up in the middle calls `close()` of what this returns, or
        lets go of it.)
        """
        walk = self._calls.pages(org_id, text, embedding, timeout, consistency, expires_in, log_arbitration, **options)
        try:
            for plan in walk:
                yield self._run(plan)
        finally:
            with suppress(Exception):  # what ended the walk is what is raised; what is left expires
                self._run(walk.close())

    def results(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        consistency: Consistency = "cursor",
        expires_in: timedelta | None = None,
        log_arbitration: bool = False,
        timeout: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> Generator[Result, None, None]:
        """Iterate over all articles found, best first; `limit` is how many are fetched at a time, the rest as in pages().

        Raises:
            EscalatedError: the search was escalated, and so there are none.
        """
        options.setdefault("limit", _FETCH)
        pages = self.pages(
            org_id,
            text,
            embedding,
            consistency=consistency,
            expires_in=expires_in,
            log_arbitration=log_arbitration,
            timeout=timeout,
            **options,
        )
        with closing(pages):
            for page in pages:
                yield from found(page)

    def open_search(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        expires_in: timedelta | None = None,
        timeout: float | None = None,
        **options: Unpack[RankingOptions],
    ) -> OpenedSearch:
        """Rank once and store the whole ranking, for fetch_page() and close_search(); nothing of it is read yet.

        Args:
            org_id: as in search(), and so are text, embedding and timeout.
            text: the question.
            embedding: its vector.
            expires_in: how long the ranking can be read, at most a day; 15 minutes by default.
            timeout: seconds.
            options: kinds, kind_quota, metadata, min_score, profile, space_id, exploratory, language: see kbsearch.options.RankingOptions.

        Raises:
            SnapshotError: nothing can be stored: the transaction is read-only, or the server a replica.
            EscalatedError: the search was escalated; nothing is stored.
            KBSearchError: the request was refused otherwise.
        """
        return self._run(self._calls.open_search(org_id, text, embedding, timeout, expires_in, **options))

    def fetch_page(
        self, org_id: int, snapshot: str, *, timeout: float | None = None, **options: Unpack[FetchOptions]
    ) -> Page:
        """Return a page of a stored ranking, whatever was written since; on a replica, too, once it has got there.

        Args:
            org_id: the organisation that was searched.
            snapshot: `snapshot` of a page or of what open_search() returned.
            timeout: as in search().
            options: limit, offset, cursor, highlight: see kbsearch.options.FetchOptions.

        Raises:
            SnapshotError: it has expired, was closed, gave way to newer ones, or never was.
            KBSearchError: the request was refused otherwise.
        """
        return self._run(self._calls.fetch_page(org_id, snapshot, timeout, **options))

    def close_search(self, org_id: int, snapshot: str, *, timeout: float | None = None) -> bool:
        """Remove a stored ranking that is not needed any more; False if there was none."""
        return self._run(self._calls.close_search(org_id, snapshot, timeout))

    def explain(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        timeout: float | None = None,
        **options: Unpack[ExplainOptions],
    ) -> tuple[Explanation, ...]:
        """Return the articles of the page that search() gives for the same arguments, each with what made its score and its place.

        Args:
            org_id: as in search(), and so are text, embedding and timeout.
            text: the question.
            embedding: its vector.
            timeout: seconds.
            options: limit, offset, cursor, kinds, kind_quota, metadata, min_score, profile, space_id, exploratory, language: see
                kbsearch.options.ExplainOptions.
        """
        return self._run(self._calls.explain(org_id, text, embedding, timeout, **options))

    def explain_article(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        article_id: int,
        timeout: float | None = None,
        **options: Unpack[ExplainOptions],
    ) -> ArticleExplanation:
        """Say why an article is where it is in the search of the same arguments, or why it is not there; arguments as in explain().

        Args:
            org_id: the organisation searched.
            text: the question.
            embedding: its vector.
            article_id: the article asked about; there need not be one.
            timeout: seconds.
            options: as in explain(); limit, offset and cursor say what the page is.
        """
        return self._run(self._calls.explain_article(org_id, text, embedding, article_id, timeout, **options))

    def explain_candidates(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        timeout: float | None = None,
        **options: Unpack[RankingOptions],
    ) -> tuple[Candidate, ...]:
        """Return every article that the ranking of a search saw, kind by kind, best first: those that a quota kept and those that it cut.

        Args:
            org_id: as in search(), and so are text, embedding and timeout.
            text: the question.
            embedding: its vector.
            timeout: seconds.
            options: kinds, kind_quota, metadata, min_score, profile, space_id, exploratory, language: see kbsearch.options.RankingOptions.
        """
        return self._run(self._calls.explain_candidates(org_id, text, embedding, timeout, **options))

    def log_arbitration(
        self,
        org_id: int,
        manifest: Mapping[str, Any],
        query_text: str | None = None,
        *,
        timeout: float | None = None,
    ) -> int:
        """Write what an arbitrated search decided into the organisation's log, and return the id of the row.

        Args:
            org_id: the organisation that was searched.
            manifest: `manifest` of a page, not of one by cursor, or of an EscalatedError.
            query_text: the question; kept where organizations.arbitration_log is `text`, checked against the manifest's hash everywhere.
            timeout: as in search().

        Raises:
            ArbitrationError: the organisation keeps no log, the manifest was changed, or the question is another.
            KBSearchError: the request was refused otherwise.
        """
        return self._run(self._calls.log_arbitration(org_id, manifest, query_text, timeout))

    def source(
        self, org_id: int, article_id: int, chunk_id: int | None = None, *, timeout: float | None = None
    ) -> tuple[Passage, ...]:
        """Open what a search found: the passage of a published article, or all of its passages in the order of the text.

        Raises:
            SourceError: there is no such article or passage, or it is of a kind that has nothing to open.
        """
        return self._run(self._calls.source(org_id, article_id, chunk_id, timeout))

    def upsert_article(self, org_id: int, *, timeout: float | None = None, **article: Unpack[ArticleOptions]) -> int:
        """Write an article with all its chunks and embeddings, in place of what it was, and return its id.

        Args:
            org_id: the organisation it belongs to.
            timeout: as in search().
            article: external_ref, title, body, kind, chunks, published, metadata, source_uri, language, content_sha256, article_id, space_id:
                see kbsearch.options.ArticleOptions.

        Raises:
            KBSearchError: it was refused, and nothing was written.
        """
        return self._run(self._calls.upsert_article(org_id, timeout, **article))

    def delete_article(
        self,
        org_id: int,
        *,
        article_id: int | None = None,
        external_ref: str | None = None,
        timeout: float | None = None,
    ) -> bool:
        """Delete an article by id or by the application's name of it; False if there was none."""
        return self._run(self._calls.delete_article(org_id, article_id, external_ref, timeout))

    def reserve_articles(
        self, org_id: int, external_refs: Sequence[str], *, timeout: float | None = None
    ) -> tuple[ReservedArticle, ...]:
        """Give articles their ids before they are written, in sorted order of their names, so that no id depends on who was first."""
        return self._run(self._calls.reserve_articles(org_id, external_refs, timeout))

    def _run(self, plan: CallPlan[T]) -> T:
        return run(plan, self._do)

    def _do(self, step: Query | Identify | Embed) -> Any:
        if isinstance(step, Query):
            return self._source.ask(step)
        assert self._embedder is not None  # noqa: S101  (mypy: plans of a client without one have no such step)
        return self._embedder.embed_queries([step.text]) if isinstance(step, Embed) else identity(self._embedder)


class AsyncKBSearch:
    """KBSearch for asyncio: the same calls, awaited; pages() and results() are iterated with `async for`.

    Takes a connection string, a psycopg AsyncConnection, an AsyncConnectionPool, or SQLAlchemy's AsyncEngine, AsyncConnection or AsyncSession.
    Cancelling a task cancels its statement on the server; the connection can be used again. (SQLAlchemy throws away a connection
    whose statement was cancelled, and a transaction of its owner's in it is lost.)

    May be shared between tasks; over a single connection their calls take turns.

    Args:
        connection: what to connect with, one of the above.
        embedder: as in KBSearch, or one with `aembed_queries`, which is awaited. `embed_queries` is called in a thread, by several tasks at a time.
        options: see kbsearch.options.ClientOptions.

    Raises:
        ConnectionKindError: the client can't use such an object.
    """

    def __init__(
        self,
        connection: AsyncConnectable,
        *,
        embedder: QueryEmbedder | AsyncQueryEmbedder | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        """Keep what is given; nothing is asked of the database yet."""
        settings = Settings(**options)
        self._calls = Calls(settings, embeds=embedder is not None)
        self._source = async_source(connection, settings)
        self._embedder = embedder

    async def __aenter__(self) -> Self:
        """Open the connection if it is the client's own."""
        if isinstance(self._source, AsyncOwn):
            await self._source.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection if it is the client's own."""
        await self.close()

    async def close(self) -> None:
        """Close the connection if it is the client's own."""
        if isinstance(self._source, AsyncOwn):
            await self._source.close()

    async def search(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        consistency: Consistency = "cursor",
        expires_in: timedelta | None = None,
        log_arbitration: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
        **options: Unpack[SearchOptions],
    ) -> Page:
        """As KBSearch.search()."""
        return await self._run(
            self._calls.search(org_id, text, embedding, timeout, consistency, expires_in, log_arbitration, **options)
        )

    async def pages(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        consistency: Consistency = "cursor",
        expires_in: timedelta | None = None,
        log_arbitration: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
        **options: Unpack[SearchOptions],
    ) -> AsyncGenerator[Page, None]:
        """As KBSearch.pages()."""
        walk = self._calls.pages(org_id, text, embedding, timeout, consistency, expires_in, log_arbitration, **options)
        try:
            for plan in walk:
                yield await self._run(plan)
        finally:
            with suppress(Exception):  # what ended the walk is what is raised; what is left expires
                await self._run(walk.close())

    async def results(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        consistency: Consistency = "cursor",
        expires_in: timedelta | None = None,
        log_arbitration: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
        **options: Unpack[SearchOptions],
    ) -> AsyncGenerator[Result, None]:
        """As KBSearch.results()."""
        options.setdefault("limit", _FETCH)
        pages = self.pages(
            org_id,
            text,
            embedding,
            consistency=consistency,
            expires_in=expires_in,
            log_arbitration=log_arbitration,
            timeout=timeout,
            **options,
        )
        async with aclosing(pages):
            async for page in pages:
                for result in found(page):
                    yield result

    async def open_search(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        expires_in: timedelta | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
        **options: Unpack[RankingOptions],
    ) -> OpenedSearch:
        """As KBSearch.open_search()."""
        return await self._run(self._calls.open_search(org_id, text, embedding, timeout, expires_in, **options))

    async def fetch_page(
        self,
        org_id: int,
        snapshot: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        **options: Unpack[FetchOptions],
    ) -> Page:
        """As KBSearch.fetch_page()."""
        return await self._run(self._calls.fetch_page(org_id, snapshot, timeout, **options))

    async def close_search(
        self,
        org_id: int,
        snapshot: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> bool:
        """As KBSearch.close_search()."""
        return await self._run(self._calls.close_search(org_id, snapshot, timeout))

    async def explain(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        **options: Unpack[ExplainOptions],
    ) -> tuple[Explanation, ...]:
        """As KBSearch.explain()."""
        return await self._run(self._calls.explain(org_id, text, embedding, timeout, **options))

    async def explain_article(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        article_id: int,
        timeout: float | None = None,  # noqa: ASYNC109
        **options: Unpack[ExplainOptions],
    ) -> ArticleExplanation:
        """As KBSearch.explain_article()."""
        return await self._run(self._calls.explain_article(org_id, text, embedding, article_id, timeout, **options))

    async def explain_candidates(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        **options: Unpack[RankingOptions],
    ) -> tuple[Candidate, ...]:
        """As KBSearch.explain_candidates()."""
        return await self._run(self._calls.explain_candidates(org_id, text, embedding, timeout, **options))

    async def log_arbitration(
        self,
        org_id: int,
        manifest: Mapping[str, Any],
        query_text: str | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> int:
        """As KBSearch.log_arbitration()."""
        return await self._run(self._calls.log_arbitration(org_id, manifest, query_text, timeout))

    async def source(
        self,
        org_id: int,
        article_id: int,
        chunk_id: int | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> tuple[Passage, ...]:
        """As KBSearch.source()."""
        return await self._run(self._calls.source(org_id, article_id, chunk_id, timeout))

    async def upsert_article(
        self,
        org_id: int,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        **article: Unpack[ArticleOptions],
    ) -> int:
        """As KBSearch.upsert_article()."""
        return await self._run(self._calls.upsert_article(org_id, timeout, **article))

    async def delete_article(
        self,
        org_id: int,
        *,
        article_id: int | None = None,
        external_ref: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> bool:
        """As KBSearch.delete_article()."""
        return await self._run(self._calls.delete_article(org_id, article_id, external_ref, timeout))

    async def reserve_articles(
        self,
        org_id: int,
        external_refs: Sequence[str],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> tuple[ReservedArticle, ...]:
        """As KBSearch.reserve_articles()."""
        return await self._run(self._calls.reserve_articles(org_id, external_refs, timeout))

    async def _run(self, plan: CallPlan[T]) -> T:
        return await run_async(plan, self._do)

    async def _do(self, step: Query | Identify | Embed) -> Any:
        if isinstance(step, Query):
            return await self._source.ask(step)
        embedder: Any = self._embedder
        if isinstance(step, Identify):
            return await asyncio.to_thread(identity, embedder)
        if hasattr(embedder, "aembed_queries"):
            return await embedder.aembed_queries([step.text])
        vectors = await asyncio.to_thread(embedder.embed_queries, [step.text])
        return await vectors if inspect.isawaitable(vectors) else vectors
