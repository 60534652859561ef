"""A call's timeout ends its statements on the server, says so, and leaves no trace in the connection's session or transaction."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import psycopg
import psycopg_pool
import pytest
import sqlalchemy as sa

from kbsearch import AsyncKBSearch, KBSearch, LimitError, StatementTimeoutError
from tests.client.blocking import activity, locked_article, named, until_waiting
from tests.client.worlds import ASYNC_KINDS, ASYNC_OWNED, KINDS, OWNED, World, articles_world, engine

SHORT = 0.2
SHOW = "SELECT current_setting('statement_timeout')"


def show(connection: Any) -> str:
    """The statement_timeout of a connection, whatever it is one of."""
    if isinstance(connection, psycopg.Connection):
        row = connection.execute(SHOW).fetchone()
        assert row is not None
        return str(row[0])
    return str(connection.execute(sa.text(SHOW)).scalar_one())


async def show_async(connection: Any) -> str:
    if isinstance(connection, psycopg.AsyncConnection):
        row = await (await connection.execute(SHOW)).fetchone()
        assert row is not None
        return str(row[0])
    return str((await connection.execute(sa.text(SHOW))).scalar_one())


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_ends_in_time_and_the_connection_goes_on(world: World, kind: str) -> None:
    name = f"timeout {kind}"
    with KINDS[kind](named(world, name)) as connection, KBSearch(connection, timeout=60) as client:
        with locked_article(world) as article:
            started = time.monotonic()
            with pytest.raises(StatementTimeoutError, match=r"0\.2 seconds") as caught:
                client.upsert_article(world.org, article_id=article, title="late", timeout=SHORT)
            assert SHORT <= time.monotonic() - started < 10
            assert caught.value.sqlstate == "57014"
            assert caught.value.detail == {"timeout": SHORT}
            assert caught.value.hint
            assert client.search(world.org, "reset").items
        if kind in OWNED:
            connection.rollback()
        assert all(state == "idle" for state, _ in activity(world, name))


@pytest.mark.parametrize("kind", ASYNC_KINDS)
def test_an_asynchronous_call_ends_in_time_and_the_connection_goes_on(
    runner: asyncio.Runner, world: World, kind: str
) -> None:
    name = f"async timeout {kind}"

    async def write() -> None:
        async with (
            ASYNC_KINDS[kind](named(world, name)) as connection,
            AsyncKBSearch(connection, timeout=SHORT) as client,
        ):
            with locked_article(world) as article:
                with pytest.raises(StatementTimeoutError) as caught:
                    await client.upsert_article(world.org, article_id=article, title="late")
                assert caught.value.sqlstate == "57014"
                assert (await client.search(world.org, "reset", timeout=60)).items
            if kind in ASYNC_OWNED:
                await connection.rollback()
            assert all(state == "idle" for state, _ in activity(world, name))

    runner.run(write())


def test_a_search_ends_in_time(database: str) -> None:
    world = articles_world(database, "search")
    with psycopg.connect(database) as blocker, KBSearch(database, timeout=SHORT) as client:
        blocker.execute("LOCK TABLE kbsearch.kb_articles IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StatementTimeoutError):
            client.search(world.org, "reset")
        with pytest.raises(StatementTimeoutError):
            next(client.pages(world.org, "reset"))
        blocker.rollback()
        assert client.search(world.org, "reset").items


@pytest.mark.parametrize("kind", OWNED)
def test_an_owners_transaction_keeps_its_own_timeout_and_its_work(world: World, kind: str) -> None:
    title = f"before {kind}"
    with OWNED[kind](world.dsn) as connection, KBSearch(connection, timeout=60) as client:
        assert show(connection) == "0"
        client.search(world.org, "reset")
        assert show(connection) == "0"
        execute = connection.execute if isinstance(connection, psycopg.Connection) else None
        set_local = "SET LOCAL statement_timeout = '37s'"
        execute(set_local) if execute else connection.execute(sa.text(set_local))
        client.upsert_article(world.org, external_ref=title, title=title, body="walrus")
        assert show(connection) == "37s"
        with pytest.raises(LimitError):
            client.search(world.org, "reset", limit=-1)
        assert show(connection) == "37s"
        with locked_article(world) as article, pytest.raises(StatementTimeoutError):
            client.upsert_article(world.org, article_id=article, title="late", timeout=SHORT)
        assert show(connection) == "37s"
        assert client.search(world.org, "walrus").total == 1
        connection.rollback()
        assert show(connection) == "0"


@pytest.mark.parametrize("kind", ASYNC_OWNED)
def test_an_owners_asynchronous_transaction_keeps_its_own_timeout_and_its_work(
    runner: asyncio.Runner, world: World, kind: str
) -> None:
    async def write() -> None:
        async with ASYNC_OWNED[kind](world.dsn) as connection, AsyncKBSearch(connection, timeout=60) as client:
            await client.upsert_article(world.org, external_ref="w", title="w", body="walrus")
            assert await show_async(connection) == "0"
            with locked_article(world) as article, pytest.raises(StatementTimeoutError):
                await client.upsert_article(world.org, article_id=article, title="late", timeout=SHORT)
            assert await show_async(connection) == "0"
            assert (await client.search(world.org, "walrus")).total == 1
            await connection.rollback()

    runner.run(write())


@pytest.mark.parametrize("setting", ["'1h'", "0", "1234"])
def test_a_session_keeps_its_own_timeout(world: World, setting: str) -> None:
    with psycopg.connect(world.dsn, autocommit=True) as connection, KBSearch(connection, timeout=60) as client:
        connection.execute(f"SET statement_timeout = {setting}".encode())
        before = show(connection)
        client.search(world.org, "reset")
        with locked_article(world) as article, pytest.raises(StatementTimeoutError):
            client.upsert_article(world.org, article_id=article, title="late", timeout=SHORT)
        assert show(connection) == before


def test_a_pools_connections_keep_their_own_timeout(world: World) -> None:
    with psycopg_pool.ConnectionPool(world.dsn, min_size=1, max_size=1) as pool:
        KBSearch(pool, timeout=60).search(world.org, "reset")
        with pool.connection() as connection:
            assert show(connection) == "0"
    with engine(world.dsn).connect() as connection:
        KBSearch(connection, savepoint=False, timeout=60).search(world.org, "reset")
        assert show(connection) == "0"


def test_other_peoples_cancelling_and_other_timeouts_are_not_ours(world: World) -> None:
    with (
        psycopg.connect(named(world, "cancelled"), autocommit=True) as connection,
        locked_article(world) as article,
    ):
        client = KBSearch(connection, timeout=60)

        def cancel() -> None:
            until_waiting(world, "cancelled")
            connection.cancel_safe()

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.upsert_article(world.org, article_id=article, title="late")
        thread.join()
        connection.execute("SET statement_timeout = '100ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.upsert_article(world.org, article_id=article, title="late", timeout=math.inf)
        # The call's own timeout replaces the connection's, even with more time.
        connection.execute("SET statement_timeout = '1ms'")
        assert client.search(world.org, "reset").items


class Slow:
    """An embedder that takes its time."""

    model, revision, dimensions = "toy", "", 3

    def __init__(self, seconds: float) -> None:
        self.seconds, self.asked = seconds, False

    def embed_queries(self, texts: Sequence[str]) -> Any:
        self.asked = True
        time.sleep(self.seconds)
        return np.array([[1, 0, 0]] * len(texts), dtype=np.float32)


def test_the_time_is_the_databases_not_the_embedders(world: World) -> None:
    with KBSearch(world.dsn, embedder=Slow(1.5), timeout=1) as client:
        page = client.search(world.org, "reset", space_id=world.space)
        assert page.legs.vector.takes_part


def test_the_statements_of_a_call_share_its_time(database: str) -> None:
    world = articles_world(database, "shared time")
    quick = Slow(0.3)
    with (
        psycopg.connect(database) as first,
        psycopg.connect(database) as second,
        KBSearch(named(world, "shared"), embedder=quick, timeout=1.5) as client,
    ):
        first.execute("LOCK TABLE kbsearch.kb_embedding_spaces IN ACCESS EXCLUSIVE MODE")
        lag = 1.0

        def release() -> None:
            until_waiting(world, "shared")
            time.sleep(lag)
            second.execute("LOCK TABLE kbsearch.kb_articles IN ACCESS EXCLUSIVE MODE")
            first.rollback()

        thread = threading.Thread(target=release)
        thread.start()
        started = time.monotonic()
        with pytest.raises(StatementTimeoutError):
            client.search(world.org, "reset", space_id=world.space)
        elapsed = time.monotonic() - started
        thread.join()
        second.rollback()
    assert quick.asked
    assert elapsed < lag + 0.3 + 1.5, "the search had all the time anew"


@pytest.mark.parametrize("timeout", [0, -1, 2.2e6, "1", True, float("nan"), -math.inf, np.array([1, 2])])
def test_a_timeout_that_cannot_be_is_refused(client: KBSearch, world: World, timeout: Any) -> None:
    with pytest.raises(LimitError, match="timeout"):
        client.search(world.org, "reset", timeout=timeout)
    with pytest.raises(LimitError, match="timeout"):
        next(client.results(world.org, "reset", timeout=timeout))
    with pytest.raises(LimitError, match="timeout"):
        client.upsert_article(world.org, title="x", timeout=timeout)


@pytest.mark.parametrize("timeout", [1e-9, 0.0004, 1, np.float32(0.5), 2_000_000])
def test_every_timeout_that_can_be_is_taken(client: KBSearch, world: World, timeout: Any) -> None:
    try:
        assert client.search(world.org, "reset", timeout=timeout).items
    except StatementTimeoutError:
        assert timeout < 0.001
