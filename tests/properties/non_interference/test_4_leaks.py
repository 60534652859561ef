"""The checks of law 4 notice a leak: each is planted in a database of its own, and they must fail there."""

from __future__ import annotations

import os
from typing import Any

import psycopg
import pytest

from tests.load import Database
from tests.properties.non_interference.world import Hunt
from tools import mutants

ENOUGH = {
    "document frequency over all organisations": ("bulk", "insert", "delete all", "embed"),
    "vector index shared by all organisations": ("bulk", "insert", "embed as asked", "forget vectors"),
    "cache readable across organisations": ("cache", "forget cache"),
    "error that names another organisation": ("close", "remove", "edit"),
    "profile of another organisation": ("profile", "profile of another name"),
    "disagreement of all organisations": ("keep a log", "log"),
}
"""Actions among which there is one that the leak tells of: worlds are few here."""


@pytest.mark.skipif("KBSEARCH_TEST_SQL_OVERLAY" in os.environ, reason="a mutant is installed already")
@pytest.mark.parametrize("leak", mutants.LEAKS, ids=lambda leak: leak.name)
def test_a_planted_leak_is_noticed(leak: mutants.Mutant, databases: Any, template: str) -> None:
    """What one organisation does is seen by another, and the comparison says so."""
    dsn = databases.create(template)
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for text in mutants.apply(leak).values():
                with connection.transaction():
                    connection.execute("SET LOCAL search_path = pg_catalog, kbsearch, ext, pg_temp")
                    connection.execute(text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").encode())
            db = Database(dsn, connection)
            db.prepare()
            with pytest.raises(AssertionError) as caught:
                Hunt(db, ENOUGH[leak.name], shrink=False).run(40)
        assert ", after [" in str(caught.value)
    finally:
        databases.drop(dsn)
