"""At run time as at installation: nothing in a caller's session changes what the functions do."""

from __future__ import annotations

import psycopg
import pytest

from tests.conftest import Databases
from tests.migrations.test_install import HOSTILE
from tests.migrations.test_schema_name import answers


@pytest.fixture(scope="module")
def right(databases: Databases, template: str) -> list[object]:
    dsn = databases.create(template)
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            return list(answers(connection, "kbsearch"))
    finally:
        databases.drop(dsn)


SESSIONS = {name: statements for name, statements in HOSTILE.items() if name != "isolation"}
"""The level of isolation is the caller's decision; some changes are refused under it."""


@pytest.mark.parametrize("statements", SESSIONS.values(), ids=SESSIONS)
def test_a_callers_session_changes_no_answer(database: str, right: list[object], statements: list[str]) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())
        given = list(answers(connection, "kbsearch"))
    for number, (one, other) in enumerate(zip(given, right, strict=True)):
        assert one == other, number
