"""Runs the revisions: on the connection that kbsearch.migrate hands over, or, for the `alembic` command, on -x dsn=… or KBSEARCH_DSN."""

from __future__ import annotations

import os

from alembic import context
from kbsearch import migrate


def dsn() -> str:
    """Connection string for the `alembic` command."""
    found = context.get_x_argument(as_dictionary=True).get("dsn") or os.environ.get("KBSEARCH_DSN")
    if not found:
        raise SystemExit(
            "Name the database: alembic -x dsn=postgresql://… or KBSEARCH_DSN (or use: kbsearch db upgrade)"
        )
    return found


if context.is_offline_mode():
    migrate.run_offline(context)
elif (given := context.config.attributes.get("connection")) is not None:
    migrate.run_online(context, given)
else:
    with migrate.engine(dsn()).begin() as connection:
        migrate.run_online(context, connection)
