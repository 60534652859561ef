"""Runs the application's migrations; one of them installs kbsearch."""

import os
from functools import partial

from sqlalchemy import create_engine, make_url, pool

from alembic import context
from kbsearch import migrate
from notes.models import Base

configure = partial(
    context.configure,
    target_metadata=Base.metadata,
    # Where a host looks at all schemas, autogenerate must be told which is none of its business. (A host that keeps to its own
    # schema, the default, needs neither of these two lines.)
    include_schemas=True,
    include_name=migrate.include_name,
)


def run() -> None:
    """Run the migrations: on the database or, with --sql, as a script."""
    if context.is_offline_mode():
        configure(dialect_name="postgresql", literal_binds=True)
        with context.begin_transaction():
            context.run_migrations()
        return
    url = make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+psycopg")
    with create_engine(url, poolclass=pool.NullPool).connect() as connection:
        configure(connection=connection)
        with context.begin_transaction():
            context.run_migrations()


run()
