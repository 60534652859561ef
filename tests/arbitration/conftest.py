from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.arbitration.calls import Connection
from tests.properties.conftest import db  # noqa: F401 -- the same database and settings as the laws
from tests.sql.corpus import Corpus


@pytest.fixture(scope="session")
def pure(shared_database: str) -> Iterator[Connection]:
    """A connection for functions that read nothing."""
    with psycopg.connect(shared_database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def corpus(pure: Connection) -> Corpus:
    """A fresh organisation in a database that tests share."""
    return Corpus(pure)
