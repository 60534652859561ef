"""Pages of stored rankings: what is written meanwhile moves nothing, and nothing stored is left behind."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from kbsearch import (
    AsyncKBSearch,
    CursorError,
    KBSearch,
    KBSearchError,
    LimitError,
    OpenedSearch,
    Page,
    SnapshotError,
)
from tests.client.worlds import ASYNC_KINDS, KINDS, World, articles_world, tied_world

QUESTION = ("reset password", [1, 0, 0])


@pytest.fixture
def written(shared_database: str, request: pytest.FixtureRequest) -> World:
    """An organisation of this test alone, to write to."""
    return articles_world(shared_database, request.node.nodeid)


def stored(world: World) -> int:
    """How many rankings of the organisation are stored."""
    with psycopg.connect(world.dsn) as connection:
        row = connection.execute(
            "SELECT count(*) FROM kbsearch.kb_search_snapshots AS snapshots WHERE snapshots.org_id = %s", [world.org]
        ).fetchone()
    assert row is not None
    return int(row[0])


def ids(pages: Sequence[Page]) -> list[int]:
    return [item.article_id for page in pages for item in page.items]


def disturb(world: World, ranking: Sequence[int], turn: int) -> int | None:
    """Write what would move the pages of a ranking; the article that is no longer there."""
    with KBSearch(world.dsn) as other:
        other.upsert_article(world.org, external_ref=f"better {turn}", title="reset password", body="reset password")
        if turn == 1:
            other.delete_article(world.org, article_id=ranking[-1])
            return ranking[-1]
        other.upsert_article(world.org, article_id=ranking[-2], title="worse", body="not a word of it")
    return None


def test_pages_stand_still_while_others_write(written: World) -> None:
    with KBSearch(written.dsn) as client:
        whole = client.search(written.org, *QUESTION, limit=100)
        ranking = ids([whole])
        pages, gone = [], []
        for turn, page in enumerate(
            client.pages(written.org, *QUESTION, limit=3, consistency="snapshot", highlight=True)
        ):
            pages.append(page)
            gone.append(disturb(written, ranking, turn))
        left = [article for article in ranking if article not in gone]
        assert ids(pages) == left
        assert len(left) == len(ranking) - 1
        assert [item.place for page in pages for item in page.items] == [ranking.index(article) + 1 for article in left]
        assert [page.gone for page in pages] == [0, 0, 0, 1]
        assert {page.total for page in pages} == {whole.total}
        (snapshot,) = {page.snapshot for page in pages}
        assert snapshot is not None
        (expires_at,) = {page.expires_at for page in pages}
        assert expires_at is not None
        assert timedelta(minutes=14) < expires_at - datetime.now(UTC) < timedelta(minutes=16)
        assert any("<mark>" in (item.excerpt_html or "") for item in pages[0].items)
        assert pages[0].legs == whole.legs
        assert stored(written) == 0
        assert ids(list(client.pages(written.org, *QUESTION, limit=3))) != left


def test_results_stand_still_while_others_write(written: World, runner: asyncio.Runner) -> None:
    async def walk(ranking: Sequence[int]) -> list[int]:
        async with AsyncKBSearch(written.dsn) as client:
            found = []
            async for result in client.results(written.org, *QUESTION, limit=5, consistency="snapshot"):
                found.append(result.article_id)
                if len(found) in (2, 7):
                    disturb(written, ranking, len(found))
            return found

    with KBSearch(written.dsn) as client:
        ranking = ids([client.search(written.org, *QUESTION, limit=100)])
        found = []
        for result in client.results(written.org, *QUESTION, limit=5, consistency="snapshot"):
            found.append(result.article_id)
            if len(found) in (2, 7):
                disturb(written, ranking, len(found))
        assert found == ranking
        ranking = ids([client.search(written.org, *QUESTION, limit=100)])
    assert runner.run(walk(ranking)) == ranking
    assert stored(written) == 0


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 60, 100])
def test_its_pages_are_those_by_cursor_and_by_offset(shared_database: str, limit: int) -> None:
    world = tied_world(shared_database, f"three ways {limit}")
    with KBSearch(world.dsn) as client:

        def items(pages: Iterator[Page]) -> list[tuple[Any, ...]]:
            return [
                tuple((item.place, item.article_id, item.score, item.tied_with, item.excerpt) for item in page.items)
                for page in pages
            ]

        by_cursor = items(client.pages(world.org, *QUESTION, limit=limit))
        assert items(client.pages(world.org, *QUESTION, limit=limit, consistency="snapshot")) == by_cursor
        later = items(client.pages(world.org, *QUESTION, limit=limit, offset=limit, consistency="snapshot"))
        assert later == (by_cursor[1:] or [()])
        by_offset = itertools.count(0, limit)
        assert [
            items(iter([client.search(world.org, *QUESTION, limit=limit, offset=next(by_offset))]))[0]
            for _ in by_cursor
        ] == by_cursor
    assert stored(world) == 0


def test_a_search_that_finds_nothing_gives_one_page_and_leaves_nothing(client: KBSearch, world: World) -> None:
    (page,) = client.pages(world.org, "zebra", consistency="snapshot")
    assert (page.items, page.total, page.end_reached) == ((), 0, True)
    assert page.legs.keyword.reason == "no_known_words"
    assert stored(world) == 0


def given_up_with_break(client: KBSearch, world: World) -> None:
    for page in client.pages(world.org, *QUESTION, limit=2, consistency="snapshot"):
        assert stored(world) == 1
        if page.items[0].place == 3:
            break


def given_up_with_close(client: KBSearch, world: World) -> None:
    pages = client.pages(world.org, *QUESTION, limit=2, consistency="snapshot")
    next(pages)
    assert stored(world) == 1
    pages.close()


def given_up_results(client: KBSearch, world: World) -> None:
    results = client.results(world.org, *QUESTION, limit=2, consistency="snapshot")
    next(results)
    assert stored(world) == 1
    results.close()


def failing_consumer(client: KBSearch, world: World) -> None:
    def consume() -> None:
        for page in client.pages(world.org, *QUESTION, limit=2, consistency="snapshot"):
            assert stored(world) == 1
            raise ZeroDivisionError(page.total)

    with pytest.raises(ZeroDivisionError):
        consume()


def never_begun(client: KBSearch, world: World) -> None:
    client.pages(world.org, *QUESTION, limit=2, consistency="snapshot").close()


def not_walked_beyond_the_last_page(client: KBSearch, world: World) -> None:
    pages = client.pages(world.org, *QUESTION, limit=100, consistency="snapshot")
    assert next(pages).end_reached
    assert stored(world) == 0


def refused_by_the_database(client: KBSearch, world: World) -> None:
    with pytest.raises(LimitError, match="1001"):
        next(client.pages(world.org, *QUESTION, limit=1001, consistency="snapshot"))
    with pytest.raises(LimitError, match="1001"):
        client.search(world.org, *QUESTION, limit=1001, consistency="snapshot")


def taken_away(client: KBSearch, world: World) -> None:
    pages = client.pages(world.org, *QUESTION, limit=2, consistency="snapshot")
    snapshot = next(pages).snapshot
    assert snapshot is not None
    assert client.close_search(world.org, snapshot)
    with pytest.raises(SnapshotError, match="there is no snapshot"):
        next(pages)


def closed_client(client: KBSearch, world: World) -> None:
    """The client can no longer remove it: no error, and it expires."""
    with KBSearch(world.dsn) as closed:
        pages = closed.pages(
            world.org, *QUESTION, limit=2, consistency="snapshot", expires_in=timedelta(milliseconds=1)
        )
        with pytest.raises(SnapshotError):
            list(pages)
        opened = closed.pages(world.org, *QUESTION, limit=2, consistency="snapshot", expires_in=timedelta(minutes=1))
        snapshot = next(opened).snapshot
    opened.close()
    assert snapshot is not None
    assert client.close_search(world.org, snapshot)


def in_the_middle_of_another_call(client: KBSearch, world: World) -> None:
    """As the garbage collector may: it neither waits for ever nor uses the connection."""
    opened = client.pages(world.org, *QUESTION, limit=2, consistency="snapshot")
    snapshot = next(opened).snapshot
    source: Any = client._source
    with source._lend():
        opened.close()
    assert snapshot is not None
    assert client.close_search(world.org, snapshot)


@pytest.mark.parametrize(
    "way",
    [
        given_up_with_break,
        given_up_with_close,
        given_up_results,
        failing_consumer,
        never_begun,
        not_walked_beyond_the_last_page,
        refused_by_the_database,
        taken_away,
        closed_client,
        in_the_middle_of_another_call,
    ],
)
def test_nothing_stored_is_left(client: KBSearch, world: World, way: Callable[[KBSearch, World], None]) -> None:
    way(client, world)
    assert stored(world) == 0
    assert client.search(world.org, "reset").items


def test_nothing_stored_is_left_by_asynchronous_iterations(world: World, runner: asyncio.Runner) -> None:
    async def given_up(client: AsyncKBSearch) -> None:
        async with aclosing(client.pages(world.org, *QUESTION, limit=2, consistency="snapshot")) as pages:
            async for page in pages:
                assert stored(world) == 1
                if page.items[0].place == 3:
                    break
        async with aclosing(client.results(world.org, *QUESTION, limit=2, consistency="snapshot")) as results:
            await anext(results)
            assert stored(world) == 1

    async def failing(client: AsyncKBSearch) -> None:
        with pytest.raises(LimitError):
            await client.search(world.org, *QUESTION, limit=1001, consistency="snapshot")
        pages = client.pages(world.org, *QUESTION, limit=2, consistency="snapshot")
        snapshot = (await anext(pages)).snapshot
        assert snapshot is not None
        await client.close_search(world.org, snapshot)
        with pytest.raises(SnapshotError):
            await anext(pages)

    async def cancelled(client: AsyncKBSearch) -> None:
        opened = asyncio.Event()

        async def walk() -> None:
            async for _ in client.pages(world.org, *QUESTION, limit=1, consistency="snapshot"):
                opened.set()

        task = asyncio.create_task(walk())
        await opened.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def every() -> None:
        async with AsyncKBSearch(world.dsn) as client:
            for way in (given_up, failing, cancelled):
                await way(client)
                assert await asyncio.to_thread(stored, world) == 0, way

    runner.run(every())


def test_a_search_opens_one_that_is_read_and_closed_by_name(client: KBSearch, world: World) -> None:
    whole = client.search(world.org, *QUESTION, limit=100)
    page = client.search(world.org, *QUESTION, limit=5, offset=2, consistency="snapshot")
    assert page.snapshot is not None
    pages = [page]
    while page.next_cursor is not None:
        page = client.fetch_page(world.org, page.snapshot or "", cursor=page.next_cursor, limit=4)
        pages.append(page)
    assert ids(pages) == ids([whole])[2:]
    assert page.end_reached
    assert ids([client.fetch_page(world.org, page.snapshot or "", limit=3, offset=1)]) == ids([whole])[1:4]
    assert client.close_search(world.org, page.snapshot or "")
    assert not client.close_search(world.org, page.snapshot or "")
    with pytest.raises(SnapshotError, match="there is no snapshot") as caught:
        client.fetch_page(world.org, page.snapshot or "")
    assert (caught.value.sqlstate, caught.value.http_status) == ("KBSNP", 410)
    assert caught.value.detail["reason"] == "not_found"


def test_an_opened_search_is_read_by_who_likes(client: KBSearch, world: World) -> None:
    opened = client.open_search(world.org, *QUESTION, kinds=["article"], expires_in=timedelta(hours=2))
    assert isinstance(opened, OpenedSearch)
    assert isinstance(opened.snapshot, str)
    assert timedelta(minutes=119) < opened.expires_at - datetime.now(UTC) < timedelta(minutes=121)
    with KBSearch(world.dsn) as other:
        page = other.fetch_page(world.org, opened.snapshot, limit=100)
        assert (page.total, page.snapshot, page.expires_at) == (opened.total, opened.snapshot, opened.expires_at)
        assert ids([page]) == ids([client.search(world.org, *QUESTION, kinds=["article"], limit=100)])
        with pytest.raises(SnapshotError):
            other.fetch_page(tied_world(world.dsn, "somebody else").org, opened.snapshot)
        assert other.close_search(world.org, opened.snapshot)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"consistency": "strict"}, LimitError, 'consistency must be "cursor" or "snapshot", not \'strict\''),
        ({"consistency": None}, LimitError, "consistency must be"),
        ({"consistency": ["snapshot"]}, LimitError, "consistency must be"),
        ({"expires_in": timedelta(minutes=1)}, LimitError, "expires_in is for stored rankings"),
        ({"consistency": "snapshot", "expires_in": 60}, LimitError, "must be a timedelta"),
        ({"consistency": "snapshot", "expires_in": timedelta(days=2)}, LimitError, "at most 1 day"),
        ({"consistency": "snapshot", "expires_in": timedelta(0)}, LimitError, "more than 0"),
        ({"consistency": "snapshot", "limit": "3"}, LimitError, "limit must be an integer"),
        ({"consistency": "snapshot", "cursor": "x"}, CursorError, "not stored from a cursor on"),
    ],
)
def test_what_does_not_go_together_is_refused(
    client: KBSearch, world: World, options: dict[str, Any], error: type[KBSearchError], says: str
) -> None:
    for call in (client.search, lambda *given, **more: next(client.pages(*given, **more))):
        with pytest.raises(error, match=says) as caught:
            call(world.org, "reset", **options)
        assert caught.value.http_status == 400
    assert stored(world) == 0


def test_a_server_that_may_not_write_says_so(world: World) -> None:
    read_only = make_conninfo(world.dsn, options="-c default_transaction_read_only=on")
    with KBSearch(read_only) as client:
        for call in (client.search, lambda *given, **more: next(client.pages(*given, **more))):
            with pytest.raises(SnapshotError, match="read-only") as caught:
                call(world.org, "reset", consistency="snapshot")
            assert caught.value.detail["reason"] == "read_only"
            assert "cursors" in (caught.value.hint or "")
        with pytest.raises(SnapshotError):
            client.open_search(world.org, "reset")
        assert client.search(world.org, "reset").items
        with KBSearch(world.dsn) as writer:
            opened = writer.open_search(world.org, "reset")
            assert client.fetch_page(world.org, opened.snapshot).items
            writer.close_search(world.org, opened.snapshot)


def test_an_embedder_embeds_the_question_once(world: World) -> None:
    class Toy:
        model, revision, dimensions = "toy", "", 3
        calls = 0

        def embed_queries(self, texts: Sequence[str]) -> Any:
            self.calls += 1
            return [[1, 0, 0] for _ in texts]

    toy = Toy()
    with KBSearch(world.dsn) as plain:
        expected = list(plain.results(world.org, *QUESTION))
    with KBSearch(world.dsn, embedder=toy) as client:
        found = list(client.results(world.org, QUESTION[0], limit=2, consistency="snapshot"))
        assert [item.article_id for item in found] == [item.article_id for item in expected]
        assert toy.calls == 1
        client.close_search(world.org, client.open_search(world.org, QUESTION[0]).snapshot)
        assert toy.calls == 2


@pytest.mark.parametrize("kind", KINDS)
def test_over_every_kind_of_connection(world: World, kind: str) -> None:
    with KBSearch(world.dsn) as reference:
        expected = ids(list(reference.pages(world.org, *QUESTION, limit=5)))
    with KINDS[kind](world.dsn) as connection, KBSearch(connection) as client:
        assert ids(list(client.pages(world.org, *QUESTION, limit=5, consistency="snapshot"))) == expected
        opened = client.open_search(world.org, *QUESTION, expires_in=timedelta(minutes=5), timeout=60)
        page = client.fetch_page(world.org, opened.snapshot, limit=100, timeout=60)
        assert (ids([page]), page.expires_at) == (expected, opened.expires_at)
        assert client.close_search(world.org, opened.snapshot, timeout=60)
        with pytest.raises(SnapshotError):
            client.fetch_page(world.org, opened.snapshot)
    assert stored(world) == 0


@pytest.mark.parametrize("kind", ASYNC_KINDS)
def test_over_every_kind_of_asynchronous_connection(runner: asyncio.Runner, world: World, kind: str) -> None:
    with KBSearch(world.dsn) as reference:
        expected = ids(list(reference.pages(world.org, *QUESTION, limit=5)))

    async def walk() -> None:
        async with ASYNC_KINDS[kind](world.dsn) as connection, AsyncKBSearch(connection) as client:
            pages = [page async for page in client.pages(world.org, *QUESTION, limit=5, consistency="snapshot")]
            assert ids(pages) == expected
            opened = await client.open_search(world.org, *QUESTION, expires_in=timedelta(minutes=5), timeout=60)
            page = await client.fetch_page(world.org, opened.snapshot, limit=100, timeout=60)
            assert (ids([page]), page.expires_at) == (expected, opened.expires_at)
            assert await client.close_search(world.org, opened.snapshot, timeout=60)
            with pytest.raises(SnapshotError):
                await client.fetch_page(world.org, opened.snapshot)

    runner.run(walk())
    assert stored(world) == 0
