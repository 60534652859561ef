"""Runs the revisions for the command `alembic`, on -x dsn=… or KBSEARCH_DSN, in the schema -x schema=… or KBSEARCH_SCHEMA."""

from __future__ import annotations

import os

from alembic import context
from kbsearch import migrate
from kbsearch.schema import DEFAULT

ARGUMENTS = context.get_x_argument(as_dictionary=True)


def schema() -> str:
    """Name of the schema."""
    return ARGUMENTS.get("schema") or os.environ.get("KBSEARCH_SCHEMA") or DEFAULT


def dsn() -> str:
    """Connection string for the `alembic` command."""
    found = ARGUMENTS.get("dsn") or os.environ.get("KBSEARCH_DSN")
    if not found:
        raise SystemExit(
            "Name the database: alembic -x dsn=postgresql://… or KBSEARCH_DSN (or use: kbsearch db upgrade)"
        )
    return found


if context.is_offline_mode():
    migrate.run_offline(context, schema())
else:
    with migrate.engine(dsn()).begin() as connection:
        migrate.run_online(context, connection, schema())
