"""Calls that the database makes wait, for as long as a test wants."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import make_conninfo

from tests.client.worlds import World


@contextmanager
def locked_article(world: World) -> Iterator[int]:
    """Give the id of an article that somebody else has locked: to write to it is to wait."""
    with psycopg.connect(world.dsn) as connection:
        row = connection.execute(
            "SELECT articles.id FROM kbsearch.kb_articles AS articles WHERE articles.org_id = %s LIMIT 1 FOR UPDATE",
            [world.org],
        ).fetchone()
        assert row is not None
        yield row[0]
        connection.rollback()


def named(world: World, name: str) -> str:
    """Connection string whose sessions activity() finds by this name."""
    return make_conninfo(world.dsn, application_name=name)


def activity(world: World, name: str) -> list[tuple[str, bool]]:
    """State of each session of this name, and whether it waits for a lock."""
    with psycopg.connect(world.dsn) as connection:
        return connection.execute(
            "SELECT state, wait_event_type IS NOT DISTINCT FROM 'Lock' FROM pg_stat_activity WHERE application_name = %s",
            [name],
        ).fetchall()


def waiting(world: World, name: str) -> int:
    """Number of sessions of this name that wait for a lock."""
    return sum(waits for _, waits in activity(world, name))


def until_waiting(world: World, name: str, sessions: int = 1) -> None:
    """Return when so many sessions wait for a lock."""
    deadline = time.monotonic() + 20
    while waiting(world, name) != sessions:
        assert time.monotonic() < deadline, activity(world, name)
        time.sleep(0.01)


async def until_waiting_async(world: World, name: str, sessions: int = 1) -> None:
    """Return when so many sessions wait for a lock; other tasks go on meanwhile."""
    await asyncio.to_thread(until_waiting, world, name, sessions)
