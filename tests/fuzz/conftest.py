from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.conftest import Databases
from tests.fuzz.judge import Fuzzer, Tally
from tests.fuzz.world import build
from tools.docs_sql import read_functions


@pytest.fixture(scope="module")
def fuzzer(databases: Databases, template: str) -> Iterator[Fuzzer]:
    dsn = databases.create(template)
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            world = build(connection)
            functions = read_functions(connection)
        opened = Fuzzer(dsn, world, functions, Tally())
        yield opened
        opened.close()
    finally:
        databases.drop(dsn)
