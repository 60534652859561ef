"""A user's file: never run, but checked by mypy --strict as it would be in a project that has kbsearch installed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from datetime import datetime, timedelta
from typing import Any, Unpack, assert_type

import numpy as np
import psycopg
import psycopg_pool
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, TableValuedAlias, create_engine, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session
from sqlalchemy.sql.elements import KeyedColumnElement

from kbsearch import (
    ArticleExplanation,
    AsyncKBSearch,
    Candidate,
    Chunk,
    Consistency,
    EscalatedError,
    Explanation,
    KBSearch,
    KBSearchError,
    LimitError,
    Match,
    OpenedSearch,
    Page,
    Passage,
    RankingOptions,
    ReservedArticle,
    Result,
    SearchOptions,
    SearchSelectable,
    SnapshotError,
    StatementTimeoutError,
    as_selectable,
)


def from_everything(
    connection: psycopg.Connection[tuple[Any, ...]],
    pool: psycopg_pool.ConnectionPool[psycopg.Connection[dict[str, Any]]],
    null_pool: psycopg_pool.NullConnectionPool[psycopg.Connection],
    engine: Engine,
    alchemy: Connection,
    session: Session,
    scoped: scoped_session[Session],
) -> list[KBSearch]:
    return [
        KBSearch("dbname=shop"),
        KBSearch(connection, schema="help_search", prepare=False, timeout=2.5, savepoint=False),
        KBSearch(pool),
        KBSearch(null_pool),
        KBSearch(engine),
        KBSearch(alchemy),
        KBSearch(session),
        KBSearch(scoped),
    ]


def from_everything_asynchronous(
    connection: psycopg.AsyncConnection[Any],
    pool: psycopg_pool.AsyncConnectionPool[Any],
    engine: AsyncEngine,
    alchemy: AsyncConnection,
    session: AsyncSession,
) -> list[AsyncKBSearch]:
    return [
        AsyncKBSearch("dbname=shop"),
        AsyncKBSearch(connection),
        AsyncKBSearch(pool, timeout=1),
        AsyncKBSearch(engine),
        AsyncKBSearch(alchemy),
        AsyncKBSearch(session),
    ]


class Words:
    """An embedder of the user's own."""

    model: str = "words"
    revision: str = "1"
    dimensions: int = 3

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.zeros((len(texts), 3), dtype=np.float32)


class Service:
    """Another, of lists and of coroutines."""

    @property
    def model(self) -> str:
        return "service"

    @property
    def revision(self) -> str:
        return ""

    @property
    def dimensions(self) -> int:
        return 3

    async def aembed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        return [[0.0, 0.0, 1.0] for _ in texts]


def search(client: KBSearch, embedding: NDArray[np.float64]) -> None:
    page = client.search(1, "reset password", [0.6, 0.8, 0.0], limit=3, metadata={"lang": "de"}, timeout=0.5)
    assert_type(page, Page)
    assert_type(page.items, tuple[Result, ...])
    assert_type(page.next_cursor, str | None)
    assert_type(page.legs.keyword.languages, tuple[str, ...])
    (result, *_) = page.items
    assert_type(result.article_id, int)
    assert_type(result.excerpt_html, str | None)
    assert_type(result.metadata, Mapping[str, Any])
    assert_type(client.search(1, None, embedding, kinds=("faq",), kind_quota={"*": 2}, language="german"), Page)
    assert_type(client.pages(1, "reset", (1, 2, 3), highlight=True), Generator[Page, None, None])
    assert_type(client.results(1, "reset", cursor=page.next_cursor), Generator[Result, None, None])
    pages: Iterator[Page] = client.pages(1, "reset")
    assert_type(next(pages), Page)
    assert_type(client.upsert_article(1, title="a", chunks=[Chunk("b", embedding=[1, 2, 3])], timeout=1), int)
    assert_type(client.reserve_articles(1, ["a"]), tuple[ReservedArticle, ...])
    assert_type(client.delete_article(1, external_ref="a"), bool)


def snapshots(client: KBSearch, consistency: Consistency) -> None:
    page = client.search(1, "reset", consistency="snapshot", expires_in=timedelta(hours=1))
    assert_type(page.snapshot, str | None)
    assert_type(page.expires_at, datetime | None)
    assert_type(page.gone, int)
    if page.snapshot is not None:
        assert_type(client.fetch_page(1, page.snapshot, cursor=page.next_cursor, limit=5, highlight=True), Page)
        assert_type(client.close_search(1, page.snapshot, timeout=1), bool)
    opened = client.open_search(1, "reset", [1, 0, 0], kinds=["faq"], expires_in=timedelta(minutes=1))
    assert_type(opened, OpenedSearch)
    assert_type((opened.snapshot, opened.total, opened.expires_at), tuple[str, int, datetime])
    with closing(client.results(1, "reset", consistency=consistency)) as results:
        for result in results:
            assert_type(result, Result)


def arbitrations(client: KBSearch) -> None:
    page = client.search(1, "reset", profile="arbitrate@1", exploratory=True, log_arbitration=True)
    assert_type(page.verdict, str | None)
    assert_type(page.manifest, Mapping[str, Any] | None)
    if page.manifest is not None:
        assert_type(client.log_arbitration(1, page.manifest, "reset", timeout=1), int)
    try:
        assert_type(list(client.results(1, "reset", log_arbitration=True)), list[Result])
    except EscalatedError as error:
        assert_type(error.manifest, dict[str, Any])
        client.log_arbitration(1, error.manifest)


def explanations(client: KBSearch, **ranking: Unpack[RankingOptions]) -> None:
    explained = client.explain(1, "reset", limit=3, offset=1, **ranking)
    assert_type(explained, tuple[Explanation, ...])
    assert_type(explained[0].matches, tuple[Match, ...])
    assert_type(explained[0].vector_rank, int | None)
    why = client.explain_article(1, "reset", [1, 0, 0], article_id=5, limit=3)
    assert_type(why, ArticleExplanation)
    assert_type(why.place, int | None)
    assert_type(client.explain_candidates(1, "reset", kind_quota={"faq": 2}), tuple[Candidate, ...])
    passages = client.source(1, 5, explained[0].chunk_id)
    assert_type(passages, tuple[Passage, ...])
    assert_type(passages[0].metadata, Mapping[str, Any])


async def search_async(client: AsyncKBSearch) -> None:
    assert_type(await client.search(1, "reset password", [0.6, 0.8, 0.0], limit=3), Page)
    assert_type(client.pages(1, "reset"), AsyncGenerator[Page, None])
    pages: AsyncIterator[Page] = client.pages(1, "reset", consistency="snapshot")
    assert_type(await anext(pages), Page)
    async with aclosing(client.results(1, "reset", consistency="snapshot", timeout=3)) as results:
        assert_type(await anext(results), Result)
    assert_type(await client.open_search(1, "reset"), OpenedSearch)
    assert_type(await client.fetch_page(1, "x", offset=5), Page)
    assert_type(await client.close_search(1, "x"), bool)
    assert_type(await client.explain(1, "reset"), tuple[Explanation, ...])
    assert_type(await client.explain_article(1, "reset", article_id=1), ArticleExplanation)
    assert_type(await client.explain_candidates(1, "reset"), tuple[Candidate, ...])
    assert_type(await client.source(1, 1), tuple[Passage, ...])
    assert_type(await client.log_arbitration(1, {}), int)
    async for result in client.results(1, "reset", metadata=[{"lang": "de"}, {"lang": "en"}]):
        assert_type(result, Result)
    assert_type(await client.upsert_article(1, title="a"), int)
    assert_type(await client.reserve_articles(1, ["a"]), tuple[ReservedArticle, ...])
    assert_type(await client.delete_article(1, article_id=1), bool)


def with_embedders() -> None:
    with KBSearch("dbname=shop", embedder=Words()) as client:
        assert_type(client, KBSearch)


async def with_embedders_async() -> None:
    async with AsyncKBSearch("dbname=shop", embedder=Words()) as client:
        assert_type(client, AsyncKBSearch)
    async with AsyncKBSearch("dbname=shop", embedder=Service(), schema="help_search"):
        pass


def faq(client: KBSearch, text: str, **options: Unpack[SearchOptions]) -> Page:
    """A function of the user's own that passes options on."""
    options.setdefault("kinds", ["faq"])
    return client.search(1, text, **options)


def errors(client: KBSearch) -> int:
    try:
        faq(client, "reset", limit=5)
    except LimitError as error:
        assert_type(error.sqlstate, str)
        assert_type(error.detail, dict[str, Any])
        assert_type(error.hint, str | None)
        return error.http_status
    except SnapshotError as error:
        assert_type(error.detail["reason"], Any)
        return 410
    except StatementTimeoutError:
        return StatementTimeoutError.http_status
    except KBSearchError as error:
        assert_type(error.http_status, int)
    return 200


class Base(DeclarativeBase):
    pass


class Ticket(Base):
    __tablename__ = "tickets"
    id: Mapped[int] = mapped_column(primary_key=True)
    article_id: Mapped[int]


def join(session: Session) -> None:
    found = as_selectable(1, "reset password", [0.6, 0.8, 0.0], limit=20, highlight=True, schema="kbsearch")
    assert_type(found, SearchSelectable)
    as_sqlalchemy_has_it: TableValuedAlias = found
    statement = (
        select(Ticket, found.c.score, found.c.excerpt_html)
        .join(found, found.c.article_id == Ticket.article_id)
        .order_by(found.c.place)
    )
    for ticket, score, excerpt in session.execute(statement).tuples():
        assert_type(ticket, Ticket)
        assert_type(score, float)
        assert_type(excerpt, str | None)
    assert_type(found.c.metadata, KeyedColumnElement[dict[str, Any]])
    session.execute(select(as_sqlalchemy_has_it))


KBSearch(create_engine("postgresql+psycopg://"))
