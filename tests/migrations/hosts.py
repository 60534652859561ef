"""What the tests of this folder share: psql, what a database holds, a host with migrations of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest
from alembic.config import Config

from kbsearch import embedded
from kbsearch.inventory import Inventory, inventory

LEFT_OVERS = """SELECT n.nspname || '.' || coalesce(c.relname, p.proname, t.typname)
FROM pg_namespace AS n
INNER JOIN pg_depend AS d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid AND d.deptype = 'n'
LEFT JOIN pg_class AS c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
LEFT JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
LEFT JOIN pg_type AS t ON d.classid = 'pg_type'::regclass AND t.oid = d.objid
WHERE n.nspname !~ '^(pg_|information_schema$)' AND d.classid <> 'pg_extension'::regclass
    AND NOT EXISTS (SELECT FROM pg_depend AS e WHERE e.classid = d.classid AND e.objid = d.objid AND e.deptype = 'e')
ORDER BY 1"""
"""Every object that is neither PostgreSQL's nor an extension's."""


def psql(dsn: str, script: str, *options: str, stop: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a script as someone who pastes it into psql.

    Args:
        dsn: where.
        script: what.
        options: psql's.
        stop: whether psql stops at the first error, and that is an error here.
    """
    return subprocess.run(
        [str(embedded.binary("psql")), "-X", "-q", "-v", f"ON_ERROR_STOP={int(stop)}", *options, "-d", dsn],
        input=script,
        check=stop,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


def left_overs(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        return [row[0] for row in connection.execute(LEFT_OVERS)]


def installed(dsn: str, schema: str = "kbsearch") -> Inventory:
    with psycopg.connect(dsn) as connection:
        return inventory(connection, schema)


def needs(dsn: str, *extensions: str) -> None:
    """Skip a test where the server does not have extensions of PostgreSQL's own."""
    with psycopg.connect(dsn) as connection:
        have = {row[0] for row in connection.execute("SELECT name FROM pg_available_extensions")}
    if not have.issuperset(extensions):
        pytest.skip(f"the server has not all of {', '.join(extensions)}")


def run(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn) as connection:
        for statement in statements:
            connection.execute(statement.encode())


_SYNC = """
    with sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool).connect() as connection:
        run(connection)
"""
_ASYNC = """
    async def main():
        engine = sqlalchemy.ext.asyncio.create_async_engine(url, poolclass=sqlalchemy.NullPool)
        async with engine.connect() as connection:
            await connection.run_sync(run)
        await engine.dispose()

    asyncio.run(main())
"""
ENVIRONMENTS = {
    "psycopg": ("psycopg", _SYNC),
    "psycopg, a transaction for each revision": ("psycopg", '    OPTIONS["transaction_per_migration"] = True' + _SYNC),
    "psycopg2": ("psycopg2", _SYNC),
    "async psycopg": ("psycopg", _ASYNC),
    "asyncpg": ("asyncpg", _ASYNC),
}
"""How a host's env.py connects: driver and code."""

ENV = """import asyncio

import sqlalchemy
import sqlalchemy.ext.asyncio
from alembic import context

OPTIONS = {{"target_metadata": sqlalchemy.MetaData(), "version_table_schema": {schema!r}}}
url = context.config.get_main_option("sqlalchemy.url")


def run(connection):
    context.configure(connection=connection, **OPTIONS)
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    context.configure(url=url, literal_binds=True, **OPTIONS)
    with context.begin_transaction():
        context.run_migrations()
else:
{connect}
"""

REVISION = """import sqlalchemy
from alembic import op

from kbsearch import migrate

revision = {number!r}
down_revision = {before!r}


def upgrade():
    {up}


def downgrade():
    {down}
"""


def host(
    directory: Path,
    dsn: str,
    environment: str = "psycopg",
    *,
    schema: str = "host",
    names: tuple[str, ...] = ("kbsearch",),
) -> Config:
    """A host's own migrations: a table before, kbsearch under these names in the middle, a table that refers to it after.

    Args:
        directory: where to put them.
        dsn: the database.
        environment: one of ENVIRONMENTS.
        schema: where the host's version table and tables are.
        names: schemas to install kbsearch in.
    """
    driver, connect = ENVIRONMENTS[environment]
    url = sqlalchemy_url(dsn, driver)
    steps = [
        (
            f'op.create_table("before", sqlalchemy.Column("id", sqlalchemy.BigInteger, primary_key=True, autoincrement=False), schema="{schema}")',
            f'op.drop_table("before", schema="{schema}")',
        ),
        (
            "; ".join(f'migrate.install_in_revision(schema="{name}", revision="0001")' for name in names),
            "; ".join(f'migrate.remove_in_revision(schema="{name}")' for name in names),
        ),
        (
            f'op.execute("CREATE TABLE {schema}.after (org bigint REFERENCES {names[0]}.organizations (id))")',
            f'op.drop_table("after", schema="{schema}")',
        ),
    ]
    (directory / "versions").mkdir(parents=True)
    (directory / "env.py").write_text(ENV.format(schema=schema, connect=connect), encoding="utf-8")
    for number, (up, down) in enumerate(steps, 1):
        text = REVISION.format(number=f"h{number}", before=f"h{number - 1}" if number > 1 else None, up=up, down=down)
        (directory / "versions" / f"h{number}.py").write_text(text, encoding="utf-8")
    config = Config()
    config.set_main_option("script_location", str(directory))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    return config


def sqlalchemy_url(dsn: str, driver: str = "psycopg") -> str:
    """A connection string of libpq's as a host writes it for SQLAlchemy."""
    parts = {name: str(value) for name, value in psycopg.conninfo.conninfo_to_dict(dsn).items()}
    if driver == "asyncpg":
        parts = {name: parts[name] for name in ("host", "port", "user", "password") if name in parts} | {
            "database": parts["dbname"]
        }
    return f"postgresql+{driver}://?{urlencode(parts)}"
