"""Beside a host's own alembic migrations, and in them."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata, produce_migrations
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import ops

from alembic import command
from kbsearch import migrate
from tests.conftest import Databases
from tests.migrations.hosts import ENVIRONMENTS, host, installed, left_overs, psql, run, sqlalchemy_url


@pytest.fixture
def host_database(empty_database: str, databases: Databases) -> str:
    """Connection string of a database in which the application has a schema `host`, too, and one for a second kbsearch."""
    for name in ("host", "help_search"):
        run(databases.admin(empty_database), f"CREATE SCHEMA {name} AUTHORIZATION {databases.role}")
    return empty_database


def revisions(dsn: str, table: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        return [row[0] for row in connection.execute(f"SELECT version_num FROM {table}".encode())]


def offline(config: Config, action: Callable[..., None], revision: str) -> str:
    """What alembic prints with --sql."""
    output = io.StringIO()
    config.output_buffer = output
    with redirect_stdout(io.StringIO()):
        action(config, revision, sql=True)
    return output.getvalue()


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_hosts_revision_installs_and_removes(
    tmp_path: Path, host_database: str, shared_database: str, environment: str
) -> None:
    config = host(tmp_path / "host", host_database, environment)
    command.upgrade(config, "head")
    assert revisions(host_database, "host.alembic_version") == ["h3"]
    assert migrate.current(host_database) == migrate.head()
    assert installed(host_database) == installed(shared_database)
    assert migrate.check(host_database) == []
    # Whoever comes with our own command finds it done.
    migrate.upgrade(host_database)
    command.downgrade(config, "h1")
    assert migrate.current(host_database) is None
    assert left_overs(host_database) == ["host.alembic_version", "host.before"]
    command.upgrade(config, "head")
    assert migrate.check(host_database) == []
    command.downgrade(config, "base")
    assert left_overs(host_database) == ["host.alembic_version"]


def test_a_hosts_revision_by_script(tmp_path: Path, host_database: str, shared_database: str) -> None:
    config = host(tmp_path / "host", host_database)
    up, down = offline(config, command.upgrade, "head"), offline(config, command.downgrade, "h3:base")
    for _ in range(2):
        psql(host_database, up)
        assert revisions(host_database, "host.alembic_version") == ["h3"]
        assert migrate.current(host_database) == migrate.head()
        assert installed(host_database) == installed(shared_database)
        assert migrate.check(host_database) == []
        migrate.upgrade(host_database)
        psql(host_database, down)
        run(host_database, "DROP TABLE IF EXISTS host.alembic_version")
        assert left_overs(host_database) == []
    # Some revisions by script, the others online.
    psql(host_database, offline(config, command.upgrade, "h2"))
    command.upgrade(config, "head")
    command.downgrade(config, "h1")
    assert migrate.current(host_database) is None


def test_a_hosts_revision_that_fails_leaves_nothing_of_ours(tmp_path: Path, host_database: str) -> None:
    config = host(tmp_path / "host", host_database)
    last = tmp_path / "host" / "versions" / "h3.py"
    last.write_text(last.read_text(encoding="utf-8").replace("CREATE TABLE", "CREATE NONSENSE"), encoding="utf-8")
    with pytest.raises(sqlalchemy.exc.ProgrammingError):
        command.upgrade(config, "head")
    assert left_overs(host_database) == []


@pytest.mark.parametrize("way", ["online", "script"])
def test_two_names_in_a_hosts_revision(tmp_path: Path, host_database: str, way: str) -> None:
    config = host(tmp_path / "host", host_database, names=("help_search", "kbsearch"))
    if way == "online":
        command.upgrade(config, "head")
    else:
        psql(host_database, offline(config, command.upgrade, "head"))
    for schema in ("help_search", "kbsearch"):
        assert migrate.current(host_database, schema=schema) == migrate.head()
        assert migrate.check(host_database, schema=schema) == []
    command.downgrade(config, "base")
    assert [name for name in left_overs(host_database) if "alembic_version" not in name] == []


def test_what_the_command_installed_a_hosts_revision_takes_over(tmp_path: Path, host_database: str) -> None:
    config = host(tmp_path / "host", host_database)
    migrate.upgrade(host_database)
    run(host_database, "INSERT INTO kbsearch.organizations (name) VALUES ('stays')")
    command.upgrade(config, "head")
    with psycopg.connect(host_database) as connection:
        assert connection.execute("SELECT name FROM kbsearch.organizations").fetchall() == [("stays",)]


@pytest.mark.parametrize("schema", ["host", "kbsearch"])
def test_a_hosts_version_table_is_its_own(tmp_path: Path, host_database: str, schema: str) -> None:
    """Also in our schema: the two tables have two names."""
    config = host(tmp_path / "host", host_database, schema=schema, names=("help_search",))
    (tmp_path / "host" / "versions" / "h1.py").write_text(
        "revision = 'h1'\ndown_revision = None\n\n\ndef upgrade():\n    pass\n\n\ndef downgrade():\n    pass\n",
        encoding="utf-8",
    )
    command.upgrade(config, "h1")
    migrate.upgrade(host_database)
    assert revisions(host_database, f"{schema}.alembic_version") == ["h1"]
    assert migrate.current(host_database) == migrate.head()
    assert migrate.check(host_database) == []
    migrate.downgrade(host_database)
    assert revisions(host_database, f"{schema}.alembic_version") == ["h1"]


# Autogenerate.


def autogenerated(dsn: str, metadata: sqlalchemy.MetaData, options: dict[str, object]) -> list[object]:
    url = sqlalchemy_url(psycopg.conninfo.make_conninfo(dsn, options="-c search_path=host"))
    with sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool).connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        found: list[object] = compare_metadata(context, metadata)
        operations = produce_migrations(context, metadata)
        assert isinstance(operations.upgrade_ops, ops.UpgradeOps)
        assert operations.upgrade_ops.is_empty() == (found == [])
        return found


def a_host(*, refers: bool) -> sqlalchemy.MetaData:
    metadata = sqlalchemy.MetaData()
    columns = [sqlalchemy.Column("id", sqlalchemy.BigInteger, primary_key=True)]
    if refers:
        sqlalchemy.Table(
            "organizations",
            metadata,
            sqlalchemy.Column("id", sqlalchemy.BigInteger, primary_key=True),
            schema="kbsearch",
        )
        columns.append(sqlalchemy.Column("org", sqlalchemy.ForeignKey("kbsearch.organizations.id")))
    sqlalchemy.Table("theirs", metadata, *columns)
    return metadata


@pytest.mark.filterwarnings("ignore:Did not recognize type")
def test_autogenerate_leaves_us_alone(host_database: str) -> None:
    migrate.upgrade(host_database)
    migrate.upgrade(host_database, schema="help_search")
    run(
        host_database,
        "CREATE TABLE host.theirs (id bigint PRIMARY KEY)",
        "CREATE INDEX mine ON kbsearch.kb_articles (created_at)",
    )
    # As most hosts are: one schema.
    assert autogenerated(host_database, a_host(refers=False), {}) == []

    # All schemas.
    def both(name: str | None, kind: str, parents: dict[str, str | None]) -> bool:
        return migrate.include_name(name, kind, parents) and migrate.include_name(
            name, kind, parents, schema="help_search"
        )

    everything = {"include_schemas": True}
    assert autogenerated(host_database, a_host(refers=False), {**everything, "include_name": both}) == []
    # Without our help it would propose to drop what is ours: the test can fail.
    dropped = autogenerated(host_database, a_host(refers=False), {**everything, "include_name": migrate.include_name})
    assert any("help_search" in str(found) for found in dropped)
    assert not any("kbsearch" in str(found) for found in dropped)
    only = partial(migrate.include_name, schema="help_search")
    assert any(
        "kbsearch" in str(found)
        for found in autogenerated(host_database, a_host(refers=False), {**everything, "include_name": only})
    )


@pytest.mark.filterwarnings("ignore:Did not recognize type")
def test_autogenerate_for_a_host_that_refers_to_our_tables(host_database: str) -> None:
    migrate.upgrade(host_database)
    run(
        host_database,
        "CREATE TABLE host.theirs (id bigint PRIMARY KEY, org bigint REFERENCES kbsearch.organizations (id))",
    )
    options = {
        "include_schemas": True,
        "include_name": migrate.include_name,
        "include_object": migrate.include_object,
    }
    found = autogenerated(host_database, a_host(refers=True), options)
    assert found == []
    without = autogenerated(host_database, a_host(refers=True), {**options, "include_object": None})
    assert "add_table" in str(without)
