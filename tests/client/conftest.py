from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kbsearch import KBSearch
from tests.client.worlds import World, articles_world


@pytest.fixture(scope="module")
def world(shared_database: str, request: pytest.FixtureRequest) -> World:
    """An organisation with 12 articles, of this module alone."""
    return articles_world(shared_database, request.module.__name__)


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[KBSearch]:
    """A client with a connection of its own, which the tests of a module have one after the other."""
    with KBSearch(world.dsn) as opened:
        yield opened


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """An event loop for all the tests of a module."""
    with asyncio.Runner() as opened:
        yield opened
