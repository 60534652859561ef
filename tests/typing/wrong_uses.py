"""Wrong uses, each of which mypy must find: never run. test_public_types.py takes the comments away and expects these errors and no others."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
import psycopg_pool
from sqlalchemy import Engine, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from kbsearch import AsyncKBSearch, Chunk, KBSearch, as_selectable


def connections(
    connection: psycopg.Connection,
    async_connection: psycopg.AsyncConnection,
    pool: psycopg_pool.ConnectionPool[psycopg.Connection],
    async_pool: psycopg_pool.AsyncConnectionPool[psycopg.AsyncConnection],
    engine: Engine,
    async_engine: AsyncEngine,
    session: AsyncSession,
) -> None:
    KBSearch(5)  # type: ignore[arg-type]
    KBSearch(async_connection)  # type: ignore[arg-type]
    KBSearch(async_pool)  # type: ignore[arg-type]
    KBSearch(async_engine)  # type: ignore[arg-type]
    KBSearch(session)  # type: ignore[arg-type]
    AsyncKBSearch(connection)  # type: ignore[arg-type]
    AsyncKBSearch(pool)  # type: ignore[arg-type]
    AsyncKBSearch(engine)  # type: ignore[arg-type]
    KBSearch("dbname=shop", timeout="1")  # type: ignore[arg-type]
    KBSearch("dbname=shop", shema="x")  # type: ignore[call-arg]
    KBSearch("dbname=shop", prepare=0.5)  # type: ignore[arg-type]


class NoEmbedder:
    """Has the vectors and does not say of what."""

    def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]


class Coroutines:
    """For AsyncKBSearch only."""

    model = "m"
    revision = ""
    dimensions = 3

    async def aembed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]


class CoroutineInstead(Coroutines):
    """A coroutine under the name of the function."""

    async def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]


def embedders() -> None:
    KBSearch("dbname=shop", embedder=NoEmbedder())  # type: ignore[arg-type]
    KBSearch("dbname=shop", embedder=Coroutines())  # type: ignore[arg-type]
    KBSearch("dbname=shop", embedder=CoroutineInstead())  # type: ignore[arg-type]


def calls(client: KBSearch) -> None:
    client.search("1", "reset")  # type: ignore[arg-type]
    client.search(1)  # type: ignore[call-arg]
    client.search(1, "reset", "[1,2,3]")  # type: ignore[arg-type]
    client.search(1, "reset", ["1", "2"])  # type: ignore[arg-type]
    client.search(1, "reset", limit="3")  # type: ignore[arg-type]
    client.search(1, "reset", limt=3)  # type: ignore[call-arg]
    client.search(1, "reset", None, "cursor")  # type: ignore[call-arg]
    client.search(1, "reset", kind_quota={"faq": "1"})  # type: ignore[dict-item]
    client.search(1, "reset", metadata="lang")  # type: ignore[arg-type]
    client.pages(1, "reset", highlight="yes")  # type: ignore[arg-type]
    client.results(1, "reset", profile=1)  # type: ignore[arg-type]
    client.upsert_article(1, titel="a")  # type: ignore[call-arg]
    client.upsert_article(1, chunks=["a"])  # type: ignore[list-item]
    client.upsert_article(1, metadata=[1])  # type: ignore[arg-type]
    client.delete_article(1, 5)  # type: ignore[call-arg]
    client.search(1, "reset").items.clear()  # type: ignore[attr-defined]
    client.search(1, "reset").items[0].place = 2  # type: ignore[misc]
    client.search(1, "reset", consistency="strict")  # type: ignore[arg-type]
    client.search(1, "reset", consistency="snapshot", expires_in=60)  # type: ignore[arg-type]
    client.fetch_page(1, client.search(1, "reset").snapshot)  # type: ignore[arg-type]
    client.fetch_page(1, "x", kinds=["faq"])  # type: ignore[call-arg]
    client.open_search(1, "reset", limit=3)  # type: ignore[call-arg]
    client.explain(1, "reset", highlight=True)  # type: ignore[call-arg]
    client.explain_article(1, "reset")  # type: ignore[call-arg]
    client.explain_candidates(1, "reset", limit=3)  # type: ignore[call-arg]
    client.explain(1, "reset")[0].place = 2  # type: ignore[misc]
    client.source(1, "reset")  # type: ignore[arg-type]
    client.connection.close()  # type: ignore[attr-defined]
    for _ in client.search(1, "reset"):  # type: ignore[attr-defined]
        pass
    Chunk(content=5)  # type: ignore[arg-type]


async def asynchronous_calls(client: AsyncKBSearch) -> None:
    next(client.search(1, "reset").items)  # type: ignore[attr-defined]
    for _ in client.results(1, "reset"):  # type: ignore[attr-defined]
        pass
    await client.pages(1, "reset")  # type: ignore[misc]
    client.results(1, "reset").close()  # type: ignore[attr-defined]
    await client.upsert_article(1, kind=None)  # type: ignore[arg-type]


def selectables() -> None:
    as_selectable(1, "reset", timeout=3)  # type: ignore[call-arg]
    as_selectable(1, "reset", limit="3")  # type: ignore[arg-type]
    select(as_selectable(1, "reset").c.score).where("reset")  # type: ignore[arg-type]
