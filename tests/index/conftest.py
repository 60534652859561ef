"""Here every organisation gets the vectors of large ones, so that whatever is tested is tested with them, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

_COMPACT = "kbsearch.compact_kb_postings_v1(bigint)"


@pytest.fixture(scope="session")
def template(databases: Any, template: str) -> Iterator[str]:
    """Name of a database, to be cloned, whose organisations get keyword blocks from compact_kb_postings_v1 with their first chunk."""
    dsn = databases.create(template)
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute("SELECT pg_get_functiondef(%s::regprocedure)", [_COMPACT]).fetchone()
        assert row is not None
        assert "(p_org_id, 20000)" in row[0]
        connection.execute(row[0].replace("(p_org_id, 20000)", "(p_org_id, 1)").encode())
    yield str(conninfo_to_dict(dsn)["dbname"])
    databases.drop(dsn)
