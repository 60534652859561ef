"""A cancelled task cancels its statement on the server, and pools get every connection back in order."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psycopg
import psycopg_pool
import pytest
from psycopg.pq import TransactionStatus
from sqlalchemy.orm import scoped_session, sessionmaker

from kbsearch import AsyncKBSearch, KBSearch, KBSearchError, LimitError, StatementTimeoutError
from tests.client.blocking import activity, locked_article, named, until_waiting, until_waiting_async, waiting
from tests.client.worlds import ASYNC_ALONE, World, engine

TASKS = 50
WAIT = 60.0
"""Seconds after which a test says that it hangs."""


async def cancelled_while_waiting(world: World, name: str, client: AsyncKBSearch, article: int, **options: Any) -> None:
    """Start a write that waits for a lock, cancel it, and see that the server waits no more."""
    task = asyncio.create_task(client.upsert_article(world.org, article_id=article, title="cancelled", **options))
    await until_waiting_async(world, name)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 10
    assert waiting(world, name) == 0


@pytest.mark.parametrize("timeout", [None, 60])
@pytest.mark.parametrize("kind", ASYNC_ALONE)
def test_cancelling_a_task_cancels_its_statement(
    runner: asyncio.Runner, world: World, kind: str, timeout: float | None
) -> None:
    name = f"cancel {kind} {timeout}"

    async def cancel() -> None:
        with locked_article(world) as article:
            async with ASYNC_ALONE[kind](named(world, name)) as connection, AsyncKBSearch(connection) as client:
                await cancelled_while_waiting(world, name, client, article, timeout=timeout)
                if kind == "sqlalchemy connection, autocommit":  # SQLAlchemy has thrown it away
                    await connection.rollback()
                assert (await client.search(world.org, "reset", timeout=timeout)).items
                assert all(state == "idle" for state, _ in activity(world, name))

    runner.run(asyncio.wait_for(cancel(), WAIT))


@pytest.mark.parametrize("timeout", [None, 60])
def test_a_cancelled_task_leaves_its_owners_transaction_usable(
    runner: asyncio.Runner, world: World, timeout: float | None
) -> None:
    name = f"cancel in transaction {timeout}"

    async def cancel() -> None:
        with locked_article(world) as article:
            async with await psycopg.AsyncConnection.connect(named(world, name)) as connection:
                client = AsyncKBSearch(connection)
                await client.upsert_article(world.org, external_ref="kept", title="kept", body="axolotl")
                await cancelled_while_waiting(world, name, client, article, timeout=timeout)
                assert connection.info.transaction_status == TransactionStatus.INTRANS
                assert (await client.search(world.org, "axolotl", timeout=timeout)).total == 1
                await connection.rollback()

    runner.run(asyncio.wait_for(cancel(), WAIT))


def test_a_task_that_is_cancelled_twice_leaves_its_own_connection_usable(runner: asyncio.Runner, world: World) -> None:
    """As a structured-concurrency library does: the clearing up is cancelled, too."""

    async def cancel() -> None:
        with locked_article(world) as article:
            async with AsyncKBSearch(named(world, "twice"), timeout=60) as client:
                for delay in range(12):
                    task = asyncio.create_task(client.upsert_article(world.org, article_id=article, title="cancelled"))
                    await until_waiting_async(world, "twice")
                    task.cancel()
                    for _ in range(delay):
                        await asyncio.sleep(0)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                    assert (await client.search(world.org, "reset")).items
                assert [state for state, _ in activity(world, "twice")] == ["idle"]

    runner.run(asyncio.wait_for(cancel(), WAIT))


def test_a_task_that_waits_for_its_turn_can_be_cancelled(runner: asyncio.Runner, world: World) -> None:
    async def cancel() -> None:
        with locked_article(world) as article:
            async with AsyncKBSearch(named(world, "turn")) as client:
                first = asyncio.create_task(client.upsert_article(world.org, article_id=article, title="first"))
                await until_waiting_async(world, "turn")
                second = asyncio.create_task(client.search(world.org, "reset"))
                await asyncio.sleep(0.05)
                assert not second.done()
                second.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await second
                assert waiting(world, "turn") == 1
                first.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await first
                assert (await client.search(world.org, "reset")).items

    runner.run(asyncio.wait_for(cancel(), WAIT))


@pytest.mark.parametrize("kind", ["dsn", "psycopg connection, autocommit", "sqlalchemy connection, autocommit"])
def test_tasks_take_turns_over_a_single_connection(runner: asyncio.Runner, world: World, kind: str) -> None:
    async def search() -> None:
        async with ASYNC_ALONE[kind](world.dsn) as connection, AsyncKBSearch(connection, timeout=60) as client:
            expected = await client.search(world.org, "reset password", [1, 0, 0])
            pages = await asyncio.gather(
                *(client.search(world.org, "reset password", [1, 0, 0]) for _ in range(20)),
                *(client.search(world.org, "reset", limit=-1) for _ in range(5)),
                return_exceptions=True,
            )
            assert pages[:20] == [expected] * 20
            assert {type(page) for page in pages[20:]} == {LimitError}

    runner.run(asyncio.wait_for(search(), WAIT))


def test_threads_take_turns_over_a_single_connection(world: World) -> None:
    with KBSearch(world.dsn, timeout=60) as client, ThreadPoolExecutor(8) as threads:
        expected = client.search(world.org, "reset password", [1, 0, 0])
        pages = threads.map(lambda _: client.search(world.org, "reset password", [1, 0, 0]), range(40))
        assert list(pages) == [expected] * 40


def test_scoped_sessions_do_not_wait_for_each_other(world: World) -> None:
    sessions = scoped_session(sessionmaker(engine(named(world, "waiting scope"))))
    client = KBSearch(sessions)

    def search(number: int, article: int) -> Any:
        try:
            if number == 0:
                return client.upsert_article(world.org, article_id=article, title="waits", timeout=WAIT)
            until_waiting(world, "waiting scope")
            return client.search(world.org, "reset").total
        finally:
            sessions.rollback()
            sessions.remove()

    with ThreadPoolExecutor(2) as threads:
        with locked_article(world) as article:
            first = threads.submit(search, 0, article)
            assert threads.submit(search, 1, article).result(WAIT / 2) > 0
        assert first.result(WAIT) == article


def nothing_is_left(world: World, name: str, stats: dict[str, int]) -> None:
    """Both connections of a pool are back, no one waits for one, and the server has no more of them, none in a transaction."""
    assert stats["pool_size"] == stats["pool_available"] == 2
    assert stats.get("requests_waiting", 0) == 0
    sessions = activity(world, name)
    assert [state for state, _ in sessions] == ["idle", "idle"]


@pytest.mark.parametrize("autocommit", [False, True])
def test_a_pool_of_two_serves_fifty_tasks(runner: asyncio.Runner, world: World, autocommit: bool) -> None:
    name = f"pool {autocommit}"
    outcomes: Counter[str] = Counter()

    async def one(client: AsyncKBSearch, number: int, article: int) -> None:
        match number % 5:
            case 0:
                found = [item.article_id async for item in client.results(world.org, "reset", [1, 0, 0], limit=5)]
                assert len(set(found)) == len(found) == 12
            case 1:
                with pytest.raises(LimitError):
                    await client.search(world.org, "reset", limit=-1)
            case 2:
                with pytest.raises(StatementTimeoutError):
                    await client.upsert_article(world.org, article_id=article, title="x", timeout=0.05)
            case 3:
                await client.upsert_article(world.org, article_id=article, title="cancelled", timeout=60)
            case _:
                async with asyncio.timeout(random.uniform(0, 0.2)):
                    await asyncio.gather(*(client.search(world.org, "reset") for _ in range(3)))
        outcomes["done"] += 1

    async def all_of_them() -> None:
        options = {"autocommit": autocommit}
        async with psycopg_pool.AsyncConnectionPool(
            named(world, name), min_size=2, max_size=2, open=False, kwargs=options
        ) as pool:
            client = AsyncKBSearch(pool)
            with locked_article(world) as article:
                tasks = [asyncio.create_task(one(client, number, article)) for number in range(TASKS)]
                waits = [task for number, task in enumerate(tasks) if number % 5 == 3]
                # Those that wait for the lock hold both connections: each is let go by cancelling it.
                while pending := [task for task in waits if not task.done()]:
                    await asyncio.sleep(random.uniform(0.01, 0.05))
                    random.choice(pending).cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
            for number, result in enumerate(results):
                expected: tuple[Any, ...] = {3: (asyncio.CancelledError,), 4: (TimeoutError, type(None))}.get(
                    number % 5, (type(None),)
                )
                assert isinstance(result, expected), (number, result)
            assert (await client.search(world.org, "reset")).items
            nothing_is_left(world, name, pool.get_stats())

    runner.run(asyncio.wait_for(all_of_them(), WAIT))
    assert outcomes["done"] >= 30


def test_a_pool_of_two_serves_fifty_threads(world: World) -> None:
    name = "threads"
    with (
        psycopg_pool.ConnectionPool(named(world, name), min_size=2, max_size=2) as pool,
        locked_article(world) as article,
        ThreadPoolExecutor(TASKS) as threads,
    ):
        client = KBSearch(pool)

        def one(number: int) -> type | int:
            try:
                match number % 3:
                    case 0:
                        return len(list(client.results(world.org, "reset", [1, 0, 0], limit=5)))
                    case 1:
                        return client.search(world.org, "reset", cursor="nonsense").total
                    case _:
                        return client.upsert_article(world.org, article_id=article, title="x", timeout=0.05)
            except KBSearchError as error:
                return type(error)

        results = list(threads.map(one, range(TASKS), timeout=WAIT))
        assert results[0::3] == [12] * 17
        assert {getattr(result, "__name__", result) for result in results[1::3]} == {"CursorError"}
        assert set(results[2::3]) == {StatementTimeoutError}
        nothing_is_left(world, name, pool.get_stats())


class Gate:
    """An embedder that lets nobody through until it is opened, as a slow service does."""

    model, revision, dimensions = "toy", "", 3

    def __init__(self) -> None:
        self.inside, self.open = 0, threading.Event()

    def embed_queries(self, texts: Sequence[str]) -> Any:
        self.inside += 1
        assert self.open.wait(WAIT)
        return np.array([[1, 0, 0]] * len(texts), dtype=np.float32)


def test_no_connection_is_held_while_a_question_is_embedded(world: World) -> None:
    gate = Gate()
    with (
        psycopg_pool.ConnectionPool(named(world, "gate"), min_size=1, max_size=1) as pool,
        ThreadPoolExecutor(3) as threads,
    ):
        client = KBSearch(pool, embedder=gate)
        searches = [threads.submit(client.search, world.org, "reset", space_id=world.space) for _ in range(3)]
        deadline = time.monotonic() + WAIT
        while gate.inside < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pool.connection(timeout=5) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        gate.open.set()
        assert all(search.result(WAIT).legs.vector.takes_part for search in searches)


class Asynchronous:
    """An embedder of coroutines."""

    model, revision, dimensions = "toy", "", 3

    def __init__(self) -> None:
        self.inside, self.most = 0, 0

    async def aembed_queries(self, texts: Sequence[str]) -> Any:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(0.2)
        self.inside -= 1
        return np.array([[1, 0, 0]] * len(texts), dtype=np.float32)


class Coroutine:
    """One whose embed_queries is a coroutine, against the protocol."""

    model, revision, dimensions = "toy", "", 3

    async def embed_queries(self, texts: Sequence[str]) -> Any:
        return np.array([[1, 0, 0]] * len(texts), dtype=np.float32)


def test_questions_are_embedded_side_by_side(runner: asyncio.Runner, world: World) -> None:
    async def search(embedder: Any) -> None:
        async with psycopg_pool.AsyncConnectionPool(world.dsn, min_size=1, max_size=1, open=False) as pool:
            plain = await AsyncKBSearch(pool).search(world.org, "reset", [1, 0, 0], space_id=world.space)
            client = AsyncKBSearch(pool, embedder=embedder)
            pages = await asyncio.gather(*(client.search(world.org, "reset", space_id=world.space) for _ in range(5)))
            assert pages == [plain] * 5

    embedder = Asynchronous()
    runner.run(search(embedder))
    assert embedder.most == 5
    runner.run(search(Coroutine()))
    gate = Gate()
    threading.Timer(0.3, gate.open.set).start()
    runner.run(search(gate))
    assert gate.inside == 5


def test_an_embedder_that_fails_or_is_cancelled_leaves_nothing_behind(runner: asyncio.Runner, world: World) -> None:
    class Failing(Asynchronous):
        async def aembed_queries(self, texts: Sequence[str]) -> Any:
            raise OSError(f"no service for {texts}")

    async def search() -> None:
        async with psycopg_pool.AsyncConnectionPool(
            named(world, "failing"), min_size=2, max_size=2, open=False
        ) as pool:
            with pytest.raises(OSError, match="no service"):
                await AsyncKBSearch(pool, embedder=Failing()).search(world.org, "reset", space_id=world.space)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await AsyncKBSearch(pool, embedder=Asynchronous()).search(world.org, "reset", space_id=world.space)
            nothing_is_left(world, "failing", pool.get_stats())

    runner.run(search())
