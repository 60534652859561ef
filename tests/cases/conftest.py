from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.sql.corpus import Corpus


@pytest.fixture
def corpus(shared_database: str) -> Iterator[Corpus]:
    """A fresh organisation in a database that tests share."""
    with psycopg.connect(shared_database, autocommit=True) as connection:
        yield Corpus(connection)
