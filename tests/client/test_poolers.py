"""Behind a transaction-mode pooler every transaction may run in another session: nothing is relied on, and nothing is left, in one."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import psycopg_pool
import pytest

from kbsearch import AsyncKBSearch, ConnectionKindError, CursorError, KBSearch, Page, StatementTimeoutError
from tests.client.blocking import locked_article
from tests.client.pooler import Pooler, pooled
from tests.client.worlds import World, async_engine, engine

PREPARED = "SELECT count(*) FROM pg_prepared_statements"
LEFT = {
    "prepared statements": PREPARED,
    "settings": "SELECT count(*) FROM pg_settings WHERE name = 'statement_timeout' AND setting <> '0'",
    "advisory locks": "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
    "cursors": "SELECT count(*) FROM pg_cursors",
    "temporary tables": "SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()",
}


def count(connection: psycopg.Connection[Any], statement: str) -> int:
    row = connection.execute(statement.encode(), prepare=False).fetchone()
    assert row is not None
    return int(row[0])


def left_behind(pooler: Pooler) -> dict[str, int]:
    """What is left in the sessions, other than nothing."""
    found = {name: sum(count(server, statement) for server in pooler.servers) for name, statement in LEFT.items()}
    return {name: number for name, number in found.items() if number}


def everything(client: KBSearch, world: World) -> list[Page]:
    """Every kind of call, often enough for psycopg to prepare it if it may."""
    name = "through the pooler"
    for number in range(7):
        client.upsert_article(world.org, external_ref=name, title=f"Quoll {number}", body="quoll")
        assert [item.title for item in client.results(world.org, "quoll")] == [f"Quoll {number}"]
        with pytest.raises(CursorError):
            client.search(world.org, "quoll", cursor="nonsense")
        assert client.reserve_articles(world.org, [name])[0].content_sha256 is None
        assert client.delete_article(world.org, external_ref=name)
    return list(client.pages(world.org, "reset password", [1, 0, 0], limit=2))


@pytest.mark.parametrize("timeout", [60, float("inf")])
def test_a_connection_string_works_through_a_pooler(world: World, timeout: float) -> None:
    with KBSearch(world.dsn) as direct:
        expected = list(direct.pages(world.org, "reset password", [1, 0, 0], limit=2))
    with pooled(world.dsn) as pooler:
        with KBSearch(pooler.dsn, timeout=timeout) as client:
            assert everything(client, world) == expected
            with locked_article(world) as article, pytest.raises(StatementTimeoutError):
                client.upsert_article(world.org, article_id=article, title="late", timeout=0.2)
        assert min(pooler.transactions) > 15
        assert left_behind(pooler) == {}


def test_other_connections_work_through_a_pooler_without_preparing(world: World) -> None:
    with pooled(world.dsn) as pooler:
        with psycopg.connect(pooler.dsn) as connection:
            everything(KBSearch(connection, prepare=False, timeout=60), world)
            connection.rollback()
        with psycopg.connect(pooler.dsn, autocommit=True) as connection:
            everything(KBSearch(connection, prepare=False, timeout=60), world)
        with psycopg_pool.ConnectionPool(pooler.dsn, min_size=2) as pool:
            everything(KBSearch(pool, prepare=False, timeout=60), world)
        made = engine(pooler.dsn)
        everything(KBSearch(made, prepare=False, timeout=60), world)
        with made.connect() as alchemy:
            everything(KBSearch(alchemy, prepare=False, timeout=60), world)
            driver = alchemy.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            assert driver.prepare_threshold == 5, "the owner's setting was changed"
        assert min(pooler.transactions) > 40
        assert left_behind(pooler) == {}


def test_asynchronous_connections_work_through_a_pooler(runner: asyncio.Runner, world: World) -> None:
    async def search(pooler: Pooler) -> None:
        made = async_engine(pooler.dsn)
        async with (
            await psycopg.AsyncConnection.connect(pooler.dsn, autocommit=True) as connection,
            psycopg_pool.AsyncConnectionPool(pooler.dsn, min_size=2, open=False) as pool,
        ):
            for given in (pooler.dsn, connection, pool, made):
                async with AsyncKBSearch(given, prepare=False, timeout=60) as client:
                    for _ in range(7):
                        pages = [page async for page in client.pages(world.org, "reset", [1, 0, 0], limit=5)]
                        assert [len(page.items) for page in pages] == [5, 5, 2]
        await made.dispose()

    with pooled(world.dsn) as pooler:
        runner.run(search(pooler))
        assert left_behind(pooler) == {}


def test_the_pooler_breaks_what_relies_on_a_session(world: World) -> None:
    """Else the tests above would show nothing."""
    with pooled(world.dsn) as pooler, psycopg.connect(pooler.dsn, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            everything(KBSearch(connection, prepare=True), world)
        connection.execute("SET statement_timeout = '7s'", prepare=False)
        shown = {connection.execute("SHOW statement_timeout", prepare=False).fetchone() for _ in range(4)}
        assert shown == {("7s",), ("0",)}


@pytest.mark.parametrize(("prepare", "expected"), [(None, 0), (False, 0), (True, 1)])
def test_what_is_prepared_on_a_connection_of_ones_own(world: World, prepare: bool | None, expected: int) -> None:
    with KBSearch(world.dsn, prepare=prepare) as client:
        for _ in range(7):
            client.search(world.org, "reset")
        with client._source._lend() as connection:  # type: ignore[attr-defined]
            assert count(connection, PREPARED) == expected


@pytest.mark.parametrize(("prepare", "calls", "expected"), [(None, 4, 0), (None, 7, 1), (False, 7, 0), (True, 1, 1)])
@pytest.mark.parametrize("through", ["psycopg", "sqlalchemy"])
def test_what_is_prepared_on_a_given_connection(
    world: World, prepare: bool | None, calls: int, expected: int, through: str
) -> None:
    with engine(world.dsn, isolation_level="AUTOCOMMIT").connect() as alchemy:
        driver = alchemy.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        client = KBSearch(driver if through == "psycopg" else alchemy, prepare=prepare)
        for _ in range(calls):
            client.search(world.org, "reset")
        assert count(driver, f"{PREPARED} WHERE statement LIKE '%search_kb%'") == expected
        driver.prepare_threshold = None
        KBSearch(driver if through == "psycopg" else alchemy, prepare=True).search(world.org, "reset", timeout=60)
        assert driver.prepare_threshold is None


def test_a_driver_that_always_prepares_says_so(world: World) -> None:
    with pytest.raises(ConnectionKindError, match="asyncpg"):
        AsyncKBSearch(async_engine(world.dsn, "asyncpg"), prepare=False)
