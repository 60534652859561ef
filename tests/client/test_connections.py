"""Whatever the clients are given to connect with, the answers are the same, and what is passed in stays its owner's."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import psycopg_pool
import pytest
import sqlalchemy as sa
from psycopg.pq import TransactionStatus
from sqlalchemy import BigInteger
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from kbsearch import (
    AsyncKBSearch,
    Chunk,
    ConnectionKindError,
    CursorError,
    KBSearch,
    KBSearchError,
    LimitError,
    MigrationError,
    NotInstalledError,
    OrganizationError,
    Page,
    migrate,
)
from tests.client.worlds import (
    ALONE,
    ASYNC_ALONE,
    ASYNC_KINDS,
    ASYNC_OWNED,
    KINDS,
    OWNED,
    World,
    async_engine,
    engine,
    new_world,
)


@pytest.fixture(scope="module")
def expected(world: World) -> Page:
    with KBSearch(world.dsn) as client:
        return client.search(world.org, "reset password", [1, 0, 0], kinds=["article"], metadata={"even": True})


@pytest.fixture(scope="module")
def scratch(shared_database: str) -> World:
    """An organisation to write to."""
    return new_world(shared_database, "scratch of connections")


def committed_titles(scratch: World, title: str) -> int:
    with psycopg.connect(scratch.dsn) as connection:
        row = connection.execute("SELECT count(*) FROM kbsearch.kb_articles WHERE title = %s", [title]).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_connection_gives_the_same_page(world: World, expected: Page, kind: str) -> None:
    with KINDS[kind](world.dsn) as connection, KBSearch(connection) as client:
        for _ in range(7):  # psycopg prepares what is run a fifth time
            page = client.search(world.org, "reset password", [1, 0, 0], kinds=["article"], metadata={"even": True})
            assert page == expected


@pytest.mark.parametrize("kind", ASYNC_KINDS)
def test_every_kind_of_asynchronous_connection_gives_the_same_page(
    runner: asyncio.Runner, world: World, expected: Page, kind: str
) -> None:
    async def search() -> None:
        async with ASYNC_KINDS[kind](world.dsn) as connection, AsyncKBSearch(connection) as client:
            for _ in range(7):
                page = await client.search(
                    world.org, "reset password", [1, 0, 0], kinds=["article"], metadata={"even": True}
                )
                assert page == expected

    runner.run(search())


@pytest.mark.parametrize("kind", ALONE)
def test_each_call_is_a_transaction_where_no_owner_has_one(scratch: World, kind: str) -> None:
    title = f"alone {kind}"
    with ALONE[kind](scratch.dsn) as connection, KBSearch(connection) as client:
        article = client.upsert_article(scratch.org, external_ref=title, title=title)
        assert committed_titles(scratch, title) == 1
        with pytest.raises(CursorError):
            client.search(scratch.org, "reset", cursor="nonsense")
        assert client.delete_article(scratch.org, article_id=article)
        assert committed_titles(scratch, title) == 0


@pytest.mark.parametrize("kind", ASYNC_ALONE)
def test_each_asynchronous_call_is_a_transaction_where_no_owner_has_one(
    runner: asyncio.Runner, scratch: World, kind: str
) -> None:
    title = f"async alone {kind}"

    async def write() -> None:
        async with ASYNC_ALONE[kind](scratch.dsn) as connection, AsyncKBSearch(connection) as client:
            article = await client.upsert_article(scratch.org, external_ref=title, title=title)
            assert committed_titles(scratch, title) == 1
            with pytest.raises(CursorError):
                await client.search(scratch.org, "reset", cursor="nonsense")
            assert await client.delete_article(scratch.org, article_id=article)
            assert committed_titles(scratch, title) == 0

    runner.run(write())


@pytest.mark.parametrize("kind", OWNED)
def test_an_owners_transaction_is_seen_survives_a_refusal_and_stays_the_owners(scratch: World, kind: str) -> None:
    title = f"owned {kind}"
    with OWNED[kind](scratch.dsn) as connection, KBSearch(connection) as client:
        article = client.upsert_article(scratch.org, external_ref=title, title=title, body="narwhal")
        assert [item.article_id for item in client.results(scratch.org, "narwhal")] == [article]
        with pytest.raises(OrganizationError) as caught:
            client.search(-1, "narwhal")
        assert (caught.value.sqlstate, caught.value.detail, bool(caught.value.hint)) == ("KBORG", {"org_id": -1}, True)
        assert [item.article_id for item in client.results(scratch.org, "narwhal")] == [article]
        assert committed_titles(scratch, title) == 0
        connection.rollback()
        assert list(client.results(scratch.org, "narwhal")) == []
        client.upsert_article(scratch.org, external_ref=title, title=title)
        connection.commit()
        assert committed_titles(scratch, title) == 1


@pytest.mark.parametrize("kind", ASYNC_OWNED)
def test_an_owners_asynchronous_transaction_is_seen_survives_a_refusal_and_stays_the_owners(
    runner: asyncio.Runner, scratch: World, kind: str
) -> None:
    title = f"async owned {kind}"

    async def write() -> None:
        async with ASYNC_OWNED[kind](scratch.dsn) as connection, AsyncKBSearch(connection) as client:
            article = await client.upsert_article(scratch.org, external_ref=title, title=title, body="porpoise")
            assert [item.article_id async for item in client.results(scratch.org, "porpoise")] == [article]
            with pytest.raises(OrganizationError) as caught:
                await client.search(-1, "porpoise")
            assert (caught.value.sqlstate, caught.value.detail) == ("KBORG", {"org_id": -1})
            assert caught.value.hint
            assert [item.article_id async for item in client.results(scratch.org, "porpoise")] == [article]
            assert committed_titles(scratch, title) == 0
            await connection.rollback()
            assert [item async for item in client.results(scratch.org, "porpoise")] == []
            await client.upsert_article(scratch.org, external_ref=title, title=title)
            await connection.commit()
            assert committed_titles(scratch, title) == 1

    runner.run(write())


def test_without_a_savepoint_a_refusal_ends_the_owners_transaction(scratch: World) -> None:
    with psycopg.connect(scratch.dsn) as connection:
        client = KBSearch(connection, savepoint=False)
        client.upsert_article(scratch.org, external_ref="no savepoint", title="no savepoint")
        with pytest.raises(OrganizationError):
            client.search(-1, "reset")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            client.search(scratch.org, "reset")
        connection.rollback()


def test_a_transaction_that_has_failed_already_says_so(world: World) -> None:
    with psycopg.connect(world.dsn) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            KBSearch(connection).search(world.org, "reset")
        assert connection.info.transaction_status == TransactionStatus.INERROR


def test_an_owners_savepoints_stay(scratch: World) -> None:
    with psycopg.connect(scratch.dsn, autocommit=True) as connection, connection.transaction(force_rollback=True):
        client = KBSearch(connection)
        first = client.upsert_article(scratch.org, title="first", body="manatee")
        with connection.transaction(force_rollback=True):
            client.upsert_article(scratch.org, title="second", body="manatee")
            with pytest.raises(LimitError):
                client.search(scratch.org, "manatee", limit=-1)
            assert client.search(scratch.org, "manatee").total == 2
        assert [item.article_id for item in client.results(scratch.org, "manatee")] == [first]
    assert committed_titles(scratch, "first") == 0


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_a_transaction_begun_by_hand_is_an_owners_too(scratch: World, driver: str) -> None:
    with engine(scratch.dsn, driver, isolation_level="AUTOCOMMIT").connect() as connection:
        client = KBSearch(connection, timeout=60)
        connection.exec_driver_sql("BEGIN")
        client.upsert_article(scratch.org, external_ref="by hand", title=f"by hand {driver}")
        with pytest.raises(LimitError):
            client.search(scratch.org, "reset", limit=-1)
        assert committed_titles(scratch, f"by hand {driver}") == 0
        connection.exec_driver_sql("ROLLBACK")
        assert committed_titles(scratch, f"by hand {driver}") == 0


def test_an_asynchronous_transaction_begun_by_hand_is_an_owners_too(runner: asyncio.Runner, scratch: World) -> None:
    async def write() -> None:
        made = async_engine(scratch.dsn, "asyncpg", isolation_level="AUTOCOMMIT")
        async with made.connect() as connection:
            client = AsyncKBSearch(connection, timeout=60)
            await connection.execute(sa.text("BEGIN"))
            await client.upsert_article(scratch.org, external_ref="by hand", title="by async hand")
            await connection.execute(sa.text("ROLLBACK"))
        await made.dispose()

    runner.run(write())
    assert committed_titles(scratch, "by async hand") == 0


class Base(DeclarativeBase):
    pass


class Article(Base):
    """As a host may map one of the tables."""

    __tablename__ = "kb_articles"
    __table_args__ = ({"schema": "kbsearch"},)
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    title: Mapped[str | None]


def test_a_session_is_flushed_as_for_a_query(world: World) -> None:
    with Session(engine(world.dsn)) as session:
        client = KBSearch(session)
        (first, *_) = client.results(world.org, "reset")
        article = session.get_one(Article, first.article_id)
        article.title = "a new title of it"
        assert next(client.results(world.org, "reset title")).title == "a new title of it"
        article.title = "another"
        with session.no_autoflush:
            assert next(client.results(world.org, "reset title")).title == "a new title of it"
        session.rollback()


def test_a_session_that_was_begun_with_a_context_manager_goes_on_after_a_refusal(world: World) -> None:
    with Session(engine(world.dsn)) as session, session.begin():
        with pytest.raises(LimitError):
            KBSearch(session).search(world.org, "reset", limit=5000)
        assert session.scalar(sa.select(sa.func.count()).select_from(Article)) > 0  # type: ignore[operator]


def test_server_side_cursors_of_the_owner_do_not_matter(world: World, expected: Page) -> None:
    with engine(world.dsn, isolation_level="AUTOCOMMIT").connect() as connection:
        streaming = connection.execution_options(stream_results=True, yield_per=1)
        page = KBSearch(streaming).search(
            world.org, "reset password", [1, 0, 0], kinds=["article"], metadata={"even": True}
        )
        assert page == expected


@pytest.mark.parametrize("autocommit", [True, False])
def test_in_a_pipeline_of_the_owner_a_call_waits_for_its_answer(
    world: World, expected: Page, runner: asyncio.Runner, autocommit: bool
) -> None:
    wanted: Any = {"kinds": ["article"], "metadata": {"even": True}}
    with psycopg.connect(world.dsn, autocommit=autocommit) as connection, connection.pipeline():
        client = KBSearch(connection)
        for timeout in (60.0, float("inf")):
            sent = connection.execute("SELECT 7")
            assert client.search(world.org, "reset password", [1, 0, 0], timeout=timeout, **wanted) == expected
            with pytest.raises(CursorError):
                client.search(world.org, "reset password", cursor="nonsense", timeout=timeout)
            assert client.search(world.org, "reset password", [1, 0, 0], timeout=timeout, **wanted) == expected
            assert sent.fetchone() == (7,)

    async def asynchronously() -> None:
        async with (
            await psycopg.AsyncConnection.connect(world.dsn, autocommit=autocommit) as connection,
            connection.pipeline(),
        ):
            client = AsyncKBSearch(connection)
            for timeout in (60.0, float("inf")):
                sent = await connection.execute("SELECT 7")
                with pytest.raises(CursorError):
                    await client.search(world.org, "reset password", cursor="nonsense", timeout=timeout)
                page = await client.search(world.org, "reset password", [1, 0, 0], timeout=timeout, **wanted)
                assert page == expected
                assert await sent.fetchone() == (7,)

    runner.run(asynchronously())


def test_what_no_client_can_use_is_refused(world: World) -> None:
    given: list[Any] = [
        None,
        5,
        object(),
        sa.create_engine("sqlite://"),
        async_engine(world.dsn),
        sa.MetaData(),
        "postgresql+psycopg://localhost/x",
        psycopg_pool.AsyncConnectionPool(world.dsn, open=False),
        KBSearch(world.dsn),
    ]
    for connection in given:
        with pytest.raises(ConnectionKindError) as caught:
            KBSearch(connection)
        assert caught.value.hint
    others: list[Any] = [
        None,
        engine(world.dsn),
        "postgresql+asyncpg://localhost/x",
        psycopg_pool.ConnectionPool(world.dsn, open=False),
    ]
    for connection in others:
        with pytest.raises(ConnectionKindError, match=r"can use|URL"):
            AsyncKBSearch(connection)
    with psycopg.connect(world.dsn) as connection, pytest.raises(ConnectionKindError):
        AsyncKBSearch(connection)  # type: ignore[arg-type]


def test_a_session_of_another_database_is_refused_when_it_is_used() -> None:
    with Session(sa.create_engine("sqlite://")) as session, pytest.raises(ConnectionKindError, match="sqlite"):
        KBSearch(session).search(1, "reset")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"schema": "no schema"}, MigrationError),
        ({"schema": "pg_x"}, MigrationError),
        ({"timeout": 0}, LimitError),
        ({"timeout": -1}, LimitError),
        ({"timeout": None}, LimitError),
        ({"timeout": "1"}, LimitError),
        ({"timeout": float("nan")}, LimitError),
        ({"timeout": 3e6}, LimitError),
        ({"prepare": "no"}, KBSearchError),
        ({"savepoint": None}, KBSearchError),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any], error: type[KBSearchError]) -> None:
    with pytest.raises(error):
        KBSearch("dbname=x", **options)
    with pytest.raises(error):
        AsyncKBSearch("dbname=x", **options)


def test_unknown_arguments_are_refused(client: KBSearch, world: World) -> None:
    with pytest.raises(TypeError, match="limt"):
        client.search(world.org, "reset", limt=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="titel"):
        client.upsert_article(world.org, titel="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="autocommit"):
        KBSearch(world.dsn, autocommit=True)  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_that_is_not_there_is_named(world: World, kind: str) -> None:
    with (
        KINDS[kind](world.dsn) as connection,
        KBSearch(connection, schema="nowhere") as client,
        pytest.raises(NotInstalledError, match="nowhere") as caught,
    ):
        client.search(world.org, "reset")
    assert "--schema nowhere" in (caught.value.hint or "")


@pytest.mark.parametrize("kind", ASYNC_KINDS)
def test_a_schema_that_is_not_there_is_named_asynchronously(runner: asyncio.Runner, world: World, kind: str) -> None:
    async def search() -> None:
        async with (
            ASYNC_KINDS[kind](world.dsn) as connection,
            AsyncKBSearch(connection, schema="nowhere") as client,
        ):
            with pytest.raises(NotInstalledError, match="nowhere"):
                await client.search(world.org, "reset")

    runner.run(search())


def test_kbsearch_may_live_in_another_schema(runner: asyncio.Runner, bare_database: str) -> None:
    dsn = bare_database
    migrate.upgrade(dsn, schema="help_search")
    with KBSearch(dsn, schema="help_search", timeout=60) as client, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO help_search.organizations (name) VALUES ('renamed')")
        article = client.upsert_article(1, external_ref="x", title="Reset", language="english", chunks=[Chunk("reset")])
        expected = client.search(1, "reset", highlight=True)
        assert [item.article_id for item in expected.items] == [article]
        with pytest.raises(OrganizationError):
            client.search(2, "reset")
        with pytest.raises(NotInstalledError):
            KBSearch(connection).search(1, "reset")

    async def search() -> None:
        async with AsyncKBSearch(dsn, schema="help_search") as other:
            assert await other.search(1, "reset", highlight=True) == expected
            assert await other.delete_article(1, external_ref="x")

    runner.run(search())
