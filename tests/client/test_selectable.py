"""as_selectable: a search as part of an application's own statements."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

import kbsearch
from kbsearch import (
    CursorError,
    DimensionError,
    KBSearch,
    LimitError,
    MigrationError,
    QueryTextError,
    Result,
    VectorError,
    as_selectable,
    migrate,
)
from kbsearch.errors import translate
from tests.client.worlds import World, async_engine, engine, tied_world

POSTGRESQL = postgresql.dialect()  # type: ignore[no-untyped-call]
NAMES = [field.name for field in dataclasses.fields(Result)]


class Base(DeclarativeBase):
    pass


class Ticket(Base):
    """A table of the host's that knows articles."""

    __tablename__ = "host_tickets"
    __table_args__ = ({"schema": "kbsearch"},)
    id: Mapped[int] = mapped_column(primary_key=True)
    article_id: Mapped[int] = mapped_column(sa.BigInteger)
    subject: Mapped[str]
    comments: Mapped[list[Comment]] = relationship()


class Comment(Base):
    __tablename__ = "host_comments"
    __table_args__ = ({"schema": "kbsearch"},)
    id: Mapped[int] = mapped_column(primary_key=True)
    ticket_id: Mapped[int] = mapped_column(sa.ForeignKey(Ticket.id))


@pytest.fixture(scope="module")
def world(shared_database: str) -> Iterator[World]:
    """Sixty articles, and tickets of the host's about every third of the best."""
    made = tied_world(shared_database, "selectable")
    host = engine(shared_database)
    Base.metadata.create_all(host)
    with Session(host) as session, KBSearch(session) as client:
        for item in client.results(made.org, "reset invoice", [1, 0, 0]):
            if item.place % 3 == 0:
                session.add(
                    Ticket(article_id=item.article_id, subject=f"about {item.article_id}", comments=[Comment()])
                )
        session.commit()
    yield made
    Base.metadata.drop_all(host)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"limit": 7, "offset": 3},
        {"limit": 100, "kinds": ["faq", "it's"], "kind_quota": {"faq": 2}},
        {"metadata": {"group": 1}, "min_score": 0.25},
        {"metadata": [{"group": 0}], "profile": "rrf@1", "exploratory": True},
        {"language": "german", "highlight": True},
        {"kinds": ["nothing of it"]},
    ],
)
@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg", "psycopg async", "printed"])
def test_the_rows_are_the_clients_results(
    runner: asyncio.Runner, world: World, options: dict[str, Any], driver: str
) -> None:
    # SQLAlchemy 2.0 doubles a backslash that it prints without knowing the server.
    question = "Häuser % :reset 'invoice'" + ("" if driver == "printed" else "\\")
    statement = sa.select(as_selectable(world.org, question, [1, 0, 0], **options))
    with KBSearch(world.dsn) as client:
        expected = [dataclasses.asdict(item) for item in client.search(world.org, question, [1, 0, 0], **options).items]

    async def rows_async(name: str) -> list[Any]:
        async with async_engine(world.dsn, name).connect() as connection:
            return [dict(row) for row in (await connection.execute(statement)).mappings()]

    if driver == "printed":
        printed = statement.compile(dialect=POSTGRESQL, compile_kwargs={"literal_binds": True})
        with engine(world.dsn).connect() as connection:
            # The dialect's paramstyle doubles percent signs; a statement without parameters is run as it is.
            text = str(printed).replace("%%", "%")
            rows = [
                dict(row) for row in connection.execution_options(no_parameters=True).exec_driver_sql(text).mappings()
            ]
    elif driver in ("asyncpg", "psycopg async"):
        rows = runner.run(rows_async(driver.partition(" ")[0]))
    else:
        with engine(world.dsn, driver).connect() as connection:
            rows = [dict(row) for row in connection.execute(statement).mappings()]
    assert sorted(rows, key=lambda row: row["place"]) == expected
    assert (len(rows) > 0) == ("nothing of it" not in options.get("kinds", ()))


@pytest.mark.parametrize("value", [[1, 0, 0], (1.0, 0, 0), np.array([1, 0, 0], dtype=np.float16)])
def test_every_form_of_embedding_is_taken(world: World, value: Any) -> None:
    with Session(engine(world.dsn)) as session:
        found = as_selectable(world.org, None, value, limit=3)
        assert session.scalars(sa.select(found.c.vector_similarity)).all() == [1, 1, 1]


def host_statement(world: World) -> Any:
    found = as_selectable(world.org, "reset invoice", [1, 0, 0], limit=20)
    return (
        sa.select(Ticket, found.c.score, found.c.excerpt, sa.func.count(Comment.id))
        .join(found, found.c.article_id == Ticket.article_id)
        .join(Ticket.comments)
        .where(found.c.kind != "note")
        .group_by(Ticket.id, found.c.score, found.c.excerpt, found.c.place)
        .order_by(found.c.place)
    )


def expected_tickets(world: World) -> list[tuple[str, float, str | None, int]]:
    with KBSearch(world.dsn) as client:
        items = client.search(world.org, "reset invoice", [1, 0, 0], limit=20).items
    return [
        (f"about {item.article_id}", item.score, item.excerpt, 1)
        for item in items
        if item.place % 3 == 0 and item.kind != "note"
    ]


def test_it_joins_with_an_applications_own_tables(world: World) -> None:
    with Session(engine(world.dsn)) as session:
        rows = [(ticket.subject, *rest) for ticket, *rest in session.execute(host_statement(world))]
    assert rows == expected_tickets(world)
    assert rows


def test_it_joins_asynchronously(runner: asyncio.Runner, world: World) -> None:
    async def rows(driver: str) -> list[Any]:
        async with AsyncSession(async_engine(world.dsn, driver)) as session:
            return [(ticket.subject, *rest) for ticket, *rest in await session.execute(host_statement(world))]

    for driver in ("psycopg", "asyncpg"):
        assert runner.run(rows(driver)) == expected_tickets(world)


def test_an_outer_join_keeps_what_was_not_found_and_two_searches_fit_in_a_statement(world: World) -> None:
    first = as_selectable(world.org, "reset", limit=5, name="first")
    second = as_selectable(world.org, None, [0, 1, 0], limit=5, name="second")
    statement = (
        sa.select(Ticket.article_id, first.c.place, second.c.place)
        .outerjoin(first, first.c.article_id == Ticket.article_id)
        .outerjoin(second, second.c.article_id == Ticket.article_id)
        .order_by(Ticket.article_id)
    )
    with Session(engine(world.dsn)) as session:
        rows = session.execute(statement).all()
        tickets = session.scalars(sa.select(Ticket.article_id)).all()
    with KBSearch(world.dsn) as client:
        places = [
            {item.article_id: item.place for item in client.search(world.org, text, embedding, limit=5).items}
            for text, embedding in (("reset", None), (None, [0, 1, 0]))
        ]
    assert [tuple(row) for row in rows] == [
        (article, places[0].get(article), places[1].get(article)) for article in sorted(tickets)
    ]


def test_searches_of_one_form_share_one_compiled_statement(world: World) -> None:
    cache: dict[Any, Any] = {}
    with engine(world.dsn).connect().execution_options(compiled_cache=cache) as connection:
        for text, embedding, options in (
            ("reset", None, {}),
            ("refund", [1, 0, 0], {"limit": 3, "kinds": ["faq"], "metadata": {"group": 1}}),
            (None, [0, 1, 0], {"min_score": 0.1, "kind_quota": {"*": 2}, "language": "german"}),
        ):
            found = as_selectable(world.org, text, embedding, **options)  # type: ignore[arg-type]
            rows = connection.execute(sa.select(found.c.article_id).order_by(found.c.place)).scalars().all()
            with KBSearch(world.dsn) as client:
                page = client.search(world.org, text, embedding, **options)  # type: ignore[arg-type]
            assert rows == [item.article_id for item in page.items]
            assert rows
    assert len(cache) == 1


def test_values_are_parameters_and_no_cast_names_a_type() -> None:
    statement = sa.select(as_selectable(7, "it's", [1, 0, 0], kinds=["faq"], metadata={"a": 1}))
    compiled = statement.compile(dialect=POSTGRESQL)
    assert "it's" not in str(compiled)
    assert "::" not in str(compiled)
    assert "CAST" not in str(compiled)
    assert {repr(value) for value in compiled.params.values()} >= {
        repr(value) for value in (7, "it's", "[1.0,0.0,0.0]", '{"a": 1}')
    }
    assert "::vector" not in str(statement.compile(dialect=POSTGRESQL, compile_kwargs={"literal_binds": True}))
    assert str(statement).startswith("SELECT anon_1.place")
    assert "kbsearch.search_kb_hybrid_v1(p_org_id => " in str(statement)


def test_all_arguments_are_named_as_the_functions(world: World) -> None:
    with psycopg.connect(world.dsn) as connection:
        row = connection.execute(
            "SELECT (array_agg(a.name ORDER BY a.n) FILTER (WHERE a.mode = 'i')), (array_agg(a.name ORDER BY a.n) FILTER (WHERE a.mode = 't')) "
            "FROM pg_proc AS p, unnest(p.proargnames, p.proargmodes) WITH ORDINALITY AS a (name, mode, n) "
            "WHERE p.pronamespace = 'kbsearch'::regnamespace AND p.proname = 'search_kb_hybrid_v1'"
        ).fetchone()
    assert row is not None
    found = as_selectable(1, "a")
    assert re.findall(r"(p_\w+) =>", str(sa.select(found))) == row[0]
    assert found.c.keys() == row[1] == NAMES


def test_a_search_in_another_schema(bare_database: str) -> None:
    migrate.upgrade(bare_database, schema="help_search")
    with engine(bare_database).begin() as connection:
        connection.execute(sa.text("INSERT INTO help_search.organizations (name) VALUES ('renamed')"))
        KBSearch(connection, schema="help_search").upsert_article(1, title="reset", body="reset")
        found = as_selectable(1, "reset", schema="help_search")
        assert connection.execute(sa.select(found.c.title)).scalars().all() == ["reset"]
    with pytest.raises(MigrationError):
        as_selectable(1, "reset", schema="no schema")


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda: as_selectable(1, "a\0"), QueryTextError),
        (lambda: as_selectable(1, "a", ["x"]), VectorError),  # type: ignore[arg-type]
        (lambda: as_selectable(1, "a", limit="3"), LimitError),  # type: ignore[arg-type]
        (lambda: as_selectable(1, "a", limt=3), TypeError),  # type: ignore[call-arg]
    ],
)
def test_arguments_are_checked_when_it_is_made(ask: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        ask()


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg"])
def test_what_the_function_refuses_is_translated(runner: asyncio.Runner, world: World, driver: str) -> None:
    async def execute_async(statement: Any) -> None:
        async with async_engine(world.dsn, driver).connect() as connection:
            await connection.execute(statement)

    def execute(statement: Any) -> None:
        if driver == "asyncpg":
            runner.run(execute_async(statement))
        with engine(world.dsn, driver).connect() as connection:
            connection.execute(statement)

    for found, error in (
        (as_selectable(world.org, "reset", cursor="nonsense"), CursorError),
        (as_selectable(world.org, "reset", [1, 2]), DimensionError),
    ):
        with pytest.raises(sa.exc.DBAPIError) as caught:
            execute(sa.select(found))
        ours = translate(caught.value)
        assert type(ours) is error
        assert isinstance(ours, error)
        assert (ours.sqlstate, bool(ours.detail), bool(ours.hint)) == (error.default_sqlstate, True, True)
        assert str(ours)
        assert "SELECT" not in str(ours)


def test_it_is_a_table_valued_alias_of_sqlalchemys() -> None:
    assert isinstance(as_selectable(1, "a"), sa.TableValuedAlias)
    assert kbsearch.SearchSelectable is sa.TableValuedAlias
    with pytest.raises(AttributeError, match="nothing"):
        kbsearch.nothing  # type: ignore[attr-defined]  # noqa: B018
