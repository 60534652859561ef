"""Installing: as which role, in what database, beside what, with which settings of the caller's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
import sqlalchemy
import sqlalchemy.ext.asyncio
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from kbsearch import blocks, embedded, migrate
from kbsearch.errors import MigrationError
from kbsearch.inventory import inventory
from tests.conftest import PREPARATION, Databases
from tests.migrations.hosts import installed, left_overs, needs, psql, run, sqlalchemy_url
from tests.migrations.test_schema_name import answers


@pytest.fixture
def unprepared(databases: Databases, bare_database: str) -> str:
    """The application's connection string for a database that no DBA has prepared."""
    if not databases.has_role:
        pytest.skip("the server's role may not create roles")
    return databases.application(bare_database)


# Who installs, where.


def test_the_tests_have_no_rights(databases: Databases, database: str) -> None:
    if not databases.has_role:
        pytest.skip("the server's role may not create roles")
    with psycopg.connect(database) as connection:
        assert connection.execute(
            "SELECT rolsuper, rolcreatedb, rolcreaterole, rolbypassrls FROM pg_roles WHERE rolname = current_user"
        ).fetchone() == (False, False, False, False)
        assert connection.execute("SHOW search_path").fetchone() == ('""',)
        assert connection.execute("SELECT has_database_privilege(current_database(), 'CREATE')").fetchone() == (False,)
        assert connection.execute(
            "SELECT array_agg(e.extname::text || ' in ' || e.extnamespace::regnamespace ORDER BY e.extname) FROM pg_extension AS e"
        ).fetchone() == (["plpgsql in pg_catalog", "vector in ext"],)
        assert connection.execute(
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'kbsearch'::regnamespace AND relowner <> current_user::regrole"
        ).fetchone() == (0,)


def test_the_ordinary_installation_gives_the_same(bare_database: str, database: str) -> None:
    """A superuser, PostgreSQL's search path, nothing prepared: the extension goes to public."""
    migrate.upgrade(bare_database)
    assert migrate.current(bare_database) == migrate.head()
    assert migrate.check(bare_database) == []
    with psycopg.connect(bare_database) as connection:
        assert connection.execute(
            "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'"
        ).fetchone() == ("public",)
    ordinary = {
        name.replace("public.", "ext."): text.replace("public.", "ext.")
        for name, text in installed(bare_database).items()
    }
    assert ordinary == dict(installed(database))


@pytest.mark.parametrize("place", ["ext", "public", "extensions", '"Ext schema"', "kbsearch"])
def test_the_extension_may_live_in_any_schema(
    unprepared: str, bare_database: str, databases: Databases, place: str
) -> None:
    role = databases.role
    run(
        bare_database,
        f"CREATE SCHEMA IF NOT EXISTS {place}",
        f"CREATE SCHEMA IF NOT EXISTS kbsearch AUTHORIZATION {role}",
        f"ALTER SCHEMA kbsearch OWNER TO {role}",
        f"CREATE EXTENSION vector SCHEMA {place}",
        f"GRANT USAGE ON SCHEMA {place} TO {role}",
    )
    migrate.upgrade(unprepared)
    assert migrate.check(unprepared) == []
    migrate.downgrade(unprepared)
    assert left_overs(unprepared) == []
    with psycopg.connect(unprepared) as connection:
        found = connection.execute("SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'")
        assert found.fetchone() == (place,)
        assert connection.execute("SELECT to_regnamespace('kbsearch') IS NOT NULL").fetchone() == (True,)


def test_a_role_that_may_create_schemas_makes_ours_itself(
    unprepared: str, bare_database: str, databases: Databases
) -> None:
    run(
        bare_database,
        "CREATE EXTENSION vector",
        f"DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO {databases.role}', current_database()); END $$",
    )
    migrate.upgrade(unprepared)
    assert migrate.check(unprepared) == []
    migrate.downgrade(unprepared)
    with psycopg.connect(unprepared) as connection:
        assert connection.execute("SELECT to_regnamespace('kbsearch')").fetchone() == (None,)


def test_without_public_the_extension_goes_to_our_schema(bare_database: str) -> None:
    run(bare_database, "DROP SCHEMA public")
    migrate.upgrade(bare_database)
    assert migrate.check(bare_database) == []
    migrate.downgrade(bare_database)
    assert left_overs(bare_database) == []
    migrate.upgrade(bare_database)
    assert migrate.check(bare_database) == []


@pytest.mark.parametrize(
    ("left_out", "problem"),
    [
        ({1}, "there is no schema kbsearch, and the role .* may not create it"),
        ({2}, "the extension vector is not installed in this database, and the role .* may not install it"),
        ({3}, "the role .* may not use the schema ext, in which the extension vector is"),
        ({4}, "the role .* may not create objects in the schema kbsearch"),
        ({2, 3}, "the extension vector is not installed"),
        ({1, 2, 3, 4}, "there is no schema kbsearch.*the extension vector is not installed"),
    ],
)
def test_what_a_dba_has_to_run_is_in_the_error(
    unprepared: str, bare_database: str, databases: Databases, left_out: set[int], problem: str
) -> None:
    """Whatever of the preparation is missing: the hint's statements, run by the DBA, are enough."""
    role = databases.role
    steps = {
        1: "CREATE SCHEMA kbsearch",
        2: "CREATE SCHEMA ext; CREATE EXTENSION vector SCHEMA ext",
        3: f"GRANT USAGE ON SCHEMA ext TO {role}",
        4: f"GRANT USAGE, CREATE ON SCHEMA kbsearch TO {role}",
    }
    needs = {4: 1, 3: 2}
    done = {
        number: step for number, step in steps.items() if number not in left_out and needs.get(number) not in left_out
    }
    run(bare_database, *done.values())
    with pytest.raises(MigrationError, match=problem) as refusal:
        migrate.upgrade(unprepared)
    hint = str(refusal.value.hint)
    assert hint.startswith("A DBA (a superuser, or the provider's administrator) runs in the database ")
    assert not any(name in left_overs(bare_database) for name in ("kb_articles", "kb_alembic_version"))
    run(bare_database, hint.split(": ", 1)[1])
    migrate.upgrade(unprepared)
    assert migrate.check(unprepared) == []


def test_an_old_pgvector_is_refused(empty_database: str, superuser: Callable[[str], str]) -> None:
    for version, fine in {"0.7.4": False, "0.8.0": True, "0.10.1": True, "1.0": True, "0": False}.items():
        with psycopg.connect(superuser(empty_database)) as connection:
            connection.execute("UPDATE pg_extension SET extversion = %s WHERE extname = 'vector'", [version])
        if fine:
            migrate.upgrade(empty_database)
            migrate.downgrade(empty_database)
        else:
            with pytest.raises(MigrationError, match=f"vector has version {version}; kbsearch needs 0.8") as refusal:
                migrate.upgrade(empty_database)
            assert "ALTER EXTENSION vector UPDATE" in str(refusal.value.hint)


def test_an_old_server_and_one_without_pgvector_are_refused(
    empty_database: str, bare_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = blocks.PREPARE
    monkeypatch.setattr(blocks, "PREPARE", plain.replace(" < 150000", " < 990000"))
    with pytest.raises(MigrationError, match=r"the server is PostgreSQL \d+\.\d+.*; kbsearch needs 15 or newer"):
        migrate.upgrade(empty_database)
    monkeypatch.setattr(blocks, "PREPARE", plain.replace("a.name = 'vector'", "a.name = 'absent'"))
    with pytest.raises(MigrationError, match="the server does not have pgvector") as refusal:
        migrate.upgrade(bare_database)
    assert "postgresql-NN-pgvector" in str(refusal.value.hint)


def test_a_database_of_another_encoding_is_refused(server_dsn: str) -> None:
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE kbsearch_test_latin1 TEMPLATE template0 ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'"
        )
        try:
            with pytest.raises(MigrationError, match="LATIN1; kbsearch needs UTF8"):
                migrate.upgrade(make_conninfo(server_dsn, dbname="kbsearch_test_latin1"))
        finally:
            connection.execute("DROP DATABASE kbsearch_test_latin1 WITH (FORCE)")


def test_a_read_only_connection_is_refused(empty_database: str) -> None:
    with pytest.raises(MigrationError, match="read-only") as refusal:
        migrate.upgrade(make_conninfo(empty_database, options="-c default_transaction_read_only=on"))
    assert "default_transaction_read_only" in str(refusal.value.hint)


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("CREATE TABLE kbsearch.orders (id bigint)", "table kbsearch.orders"),
        ("CREATE TABLE kbsearch.organizations (id bigint)", "table kbsearch.organizations"),
        ("CREATE FUNCTION kbsearch.f() RETURNS int LANGUAGE sql RETURN 1", r"function kbsearch.f\(\)"),
        ("CREATE TYPE kbsearch.mood AS ENUM ('a')", "type kbsearch.mood"),
        ("CREATE SEQUENCE kbsearch.s", "sequence kbsearch.s"),
        ("CREATE VIEW kbsearch.v AS SELECT 1 AS one", "view kbsearch.v"),
        ("CREATE TEXT SEARCH CONFIGURATION kbsearch.c (COPY = simple)", "text search configuration kbsearch.c"),
        (
            "DO $$ BEGIN FOR n IN 1..9 LOOP EXECUTE format('CREATE SEQUENCE kbsearch.s%s', n); END LOOP; END $$",
            "and 4 more",
        ),
    ],
)
def test_a_schema_that_holds_anything_else_is_refused(empty_database: str, statement: str, name: str) -> None:
    run(empty_database, statement)
    before = left_overs(empty_database)
    with pytest.raises(MigrationError, match=f"the schema kbsearch holds what is not of kbsearch: .*{name}") as refusal:
        migrate.upgrade(empty_database)
    assert "a schema of its own" in str(refusal.value.hint)
    assert left_overs(empty_database) == before


def test_objects_of_extensions_and_a_hosts_alembic_version_may_be_in_the_schema(
    empty_database: str, admin: Callable[[str], str]
) -> None:
    needs(empty_database, "pg_trgm", "citext")
    run(admin(empty_database), "CREATE EXTENSION pg_trgm SCHEMA kbsearch", "CREATE EXTENSION citext SCHEMA kbsearch")
    run(empty_database, "CREATE TABLE kbsearch.alembic_version (version_num varchar(32) PRIMARY KEY)")
    run(empty_database, "INSERT INTO kbsearch.alembic_version VALUES ('theirs')")
    migrate.upgrade(empty_database)
    assert migrate.current(empty_database) == migrate.head()
    assert migrate.check(empty_database) == []
    migrate.downgrade(empty_database)
    assert left_overs(empty_database) == ["kbsearch.alembic_version"]
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("SELECT version_num FROM kbsearch.alembic_version").fetchall() == [("theirs",)]
        assert connection.execute("SELECT kbsearch.similarity('a', 'a')").fetchone() == (1.0,)


def test_a_dbas_comment_on_the_schema_stays(empty_database: str, databases: Databases) -> None:
    if not databases.has_role:
        pytest.skip("the server's role may not create roles")
    comment = "SELECT obj_description('kbsearch'::regnamespace, 'pg_namespace')"
    with psycopg.connect(empty_database, autocommit=True) as connection:
        migrate.upgrade(empty_database)
        assert connection.execute(comment).fetchone() == ("Hybrid search. Made and changed by its migrations only.",)
        migrate.downgrade(empty_database)
        assert connection.execute(comment).fetchone() == (None,)
        connection.execute("COMMENT ON SCHEMA kbsearch IS 'ticket 17'")
        migrate.upgrade(empty_database)
        migrate.downgrade(empty_database)
        assert connection.execute(comment).fetchone() == ("ticket 17",)


def asked_again(connection: psycopg.Connection[Any]) -> list[object]:
    """Rows and pages, with their cursors, of what answers() has loaded."""
    connection.execute("SET search_path = ''")
    search = "p_org_id => 1, p_query_text => %s, p_query_embedding => '[0.6, 0.8]', p_highlight => true"
    return [
        connection.execute(f"SELECT {what}({search})".encode(), [words]).fetchall()
        for words in ("shipping", "refund shipping -gift", "days")
        for what in ("* FROM kbsearch.search_kb_hybrid_v1", "kbsearch.search_kb_hybrid_page_v1")
    ]


@pytest.mark.skipif("KBSEARCH_TEST_DSN" in os.environ, reason="pg_dump writes for its own major version")
def test_a_dump_that_is_restored_is_an_installation(
    database: str, bare_database: str, admin: Callable[[str], str]
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        assert sum(isinstance(answer, list) and len(answer) > 0 for answer in answers(connection, "kbsearch")) > 20
        before = asked_again(connection)
    dump = subprocess.run(
        [str(embedded.binary("pg_dump")), "--no-owner", "--no-privileges", "-d", admin(database)],
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    ).stdout
    psql(bare_database, dump)
    assert migrate.current(bare_database) == migrate.head()
    assert migrate.check(bare_database) == []
    with psycopg.connect(bare_database, autocommit=True) as connection:
        assert asked_again(connection) == before
        # And it is written to as before: an id is not given twice.
        connection.execute("SELECT kbsearch.upsert_kb_article_v1(p_org_id => 1, p_title => 'new', p_body => 'quoll')")
        assert len(connection.execute("SELECT FROM kbsearch.search_kb_hybrid_v1(1, 'quoll')").fetchall()) == 1


# What the caller's session is like.

CATALOGS = (
    "pg_class",
    "pg_namespace",
    "pg_extension",
    "pg_proc",
    "pg_type",
    "pg_depend",
    "pg_attribute",
    "pg_attrdef",
    "pg_constraint",
    "pg_index",
    "pg_trigger",
    "pg_roles",
    "pg_settings",
    "pg_available_extensions",
    "pg_ts_config",
    "pg_description",
    "pg_operator",
    "pg_database",
)
OURS = (
    "organizations",
    "kb_articles",
    "kb_article_chunks",
    "kb_postings",
    "kb_embedding_spaces",
    "kb_alembic_version",
    "alembic_version",
)
TYPES = ("text", "vector", "bigint", "int4", "int8", "jsonb", "oid", "name", "bool", "regconfig", "kb_search_plan")
HOSTILE = {
    "empty search path": ["SET search_path = ''"],
    "search path of nothing": ["SET search_path = 'nowhere', '$user'"],
    "our schema first": ["SET search_path = kbsearch, public"],
    "strings": ["SET standard_conforming_strings = off", "SET escape_string_warning = on", "SET backslash_quote = on"],
    "no body checks": ["SET check_function_bodies = off"],
    "all body checks": ["SET plpgsql.extra_errors = 'all'", "SET plpgsql.extra_warnings = 'all'"],
    "formats": [
        "SET DateStyle = 'German'",
        "SET IntervalStyle = 'iso_8601'",
        "SET TimeZone = 'Asia/Kolkata'",
        "SET extra_float_digits = -5",
        "SET bytea_output = 'escape'",
        "SET quote_all_identifiers = on",
        "SET xmloption = document",
        "SET client_encoding = 'LATIN1'",
        "SET lc_numeric = 'C'",
    ],
    "meaning of SQL": ["SET transform_null_equals = on", "SET array_nulls = off", "SET row_security = off"],
    "text search": ["SET default_text_search_config = 'pg_catalog.german'"],
    "isolation": ["SET default_transaction_isolation = 'serializable'", "SET default_transaction_deferrable = on"],
    "messages": ["SET client_min_messages = 'debug5'"],
    "tables named like the catalog's": [f"CREATE TEMPORARY TABLE {name} (oid oid, name text)" for name in CATALOGS],
    "tables named like ours": [f"CREATE TEMPORARY TABLE {name} (id text)" for name in OURS],
    "types": [f"CREATE TYPE pg_temp.{name} AS (a int)" for name in TYPES],
    "functions": [
        "CREATE FUNCTION pg_temp.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT 1 / 0'",
        "CREATE FUNCTION pg_temp.cardinality(bigint[]) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 7'",
        "CREATE FUNCTION pg_temp.vector_norm(ext.vector) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT 7.0'",
        "CREATE FUNCTION pg_temp.hash_kb_text_v1(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT 7'",
    ],
    "operators": [
        "CREATE FUNCTION pg_temp.never(text, text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT false'",
        "CREATE OPERATOR pg_temp.= (LEFTARG = text, RIGHTARG = text, FUNCTION = pg_temp.never)",
        "CREATE OPERATOR pg_temp.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = pg_temp.never)",
    ],
}


@pytest.fixture(scope="module")
def released(shared_database: str) -> dict[str, str]:
    return dict(installed(shared_database))


def settings(connection: psycopg.Connection[Any]) -> dict[str, str]:
    return dict(connection.execute("SELECT name, setting FROM pg_catalog.pg_settings").fetchall())


@pytest.mark.parametrize("statements", HOSTILE.values(), ids=HOSTILE)
def test_a_callers_session_changes_nothing_in_what_is_installed(
    empty_database: str, databases: Databases, released: dict[str, str], statements: list[str]
) -> None:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())
        before = settings(connection)
        with connection.transaction():
            migrate.upgrade(connection)
            # Nothing of ours is left, in the transaction that goes on as well.
            inside = settings(connection)
            kept = {*blocks.SETTINGS, "search_path"} & before.keys()
            assert {name: inside[name] for name in kept} == {name: before[name] for name in kept}
        after = settings(connection)
        assert {name: after[name] for name in before} == before
        assert dict(inventory(connection, "kbsearch")) == released
        if databases.has_role and any("TEMPORARY" in statement or "pg_temp" in statement for statement in statements):
            with pytest.raises(MigrationError, match="the session has temporary objects") as refusal:
                migrate.check(connection)
            assert "another connection" in str(refusal.value.hint)
        else:
            assert migrate.check(connection) == []
        with connection.transaction():
            migrate.downgrade(connection)
            assert settings(connection)["search_path"] == before["search_path"]
    assert left_overs(empty_database) == []


@pytest.mark.parametrize(
    "statements",
    [["SET session_replication_role = replica"], ["SET default_tablespace = 'kbsearch_test_elsewhere'"]],
    ids=["triggers off", "a tablespace that is not there"],
)
def test_an_administrators_session_changes_nothing_either(
    empty_database: str, superuser: Callable[[str], str], released: dict[str, str], statements: list[str]
) -> None:
    with psycopg.connect(superuser(empty_database), autocommit=True) as connection:
        for statement in statements:
            try:
                connection.execute(statement.encode())
            except psycopg.errors.InvalidParameterValue:
                # SET looks whether it is there; a role's settings do not
                connection.execute(
                    sql.SQL("ALTER DATABASE {} SET default_tablespace = 'kbsearch_test_elsewhere'").format(
                        sql.Identifier(connection.info.dbname)
                    )
                )
        migrate.upgrade(connection)
        assert dict(inventory(connection, "kbsearch")) == released
        assert connection.execute(
            "SELECT count(*) FROM pg_trigger WHERE tgenabled <> 'O' AND tgname ~ '^kb_'"
        ).fetchone() == (0,)


PLANTED = [
    "CREATE FUNCTION public.cardinality(bigint[]) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 7'",
    "CREATE FUNCTION public.cardinality(text[]) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 7'",
    "CREATE FUNCTION public.unnest(text[]) RETURNS SETOF text LANGUAGE sql IMMUTABLE AS 'SELECT NULL'",
]
"""What somebody plants who may create functions in public: a better match than PostgreSQL's own, which take any array."""


def test_what_is_planted_beside_the_extension_is_refused(bare_database: str, superuser: object) -> None:
    run(bare_database, "CREATE EXTENSION vector SCHEMA public", *PLANTED)
    with pytest.raises(MigrationError, match=r"uses function public\.(cardinality|unnest)\(.*\)") as refusal:
        migrate.upgrade(bare_database)
    assert "ALTER EXTENSION vector SET SCHEMA" in str(refusal.value.hint)
    assert left_overs(bare_database) == ["public.cardinality", "public.cardinality", "public.unnest"]
    # As the hint says: a schema of its own for the extension, and all is as it should be.
    run(bare_database, "CREATE SCHEMA ext", "ALTER EXTENSION vector SET SCHEMA ext")
    migrate.upgrade(bare_database)
    assert migrate.check(bare_database) == []


def test_what_others_own_in_the_extensions_schema_does_no_harm_as_such(bare_database: str) -> None:
    others = ("citext", "hstore", "pg_trgm", "btree_gist", "ltree")
    needs(bare_database, *others)
    run(
        bare_database,
        "CREATE EXTENSION vector SCHEMA public",
        *(f"CREATE EXTENSION {name} SCHEMA public" for name in others),
        "CREATE TABLE public.organizations (id text)",
        "CREATE FUNCTION public.hash_kb_text_v1(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT 7'",
    )
    migrate.upgrade(bare_database)
    assert migrate.check(bare_database) == []


# What is handed over.


def test_upgrade_twice_changes_nothing(database: str) -> None:
    before = installed(database)
    migrate.upgrade(database)
    assert installed(database) == before


def test_a_given_connection_decides_about_its_transaction(empty_database: str) -> None:
    with psycopg.connect(empty_database, row_factory=dict_row) as connection:
        connection.execute("CREATE TEMPORARY TABLE mine ()")
        migrate.upgrade(connection)
        assert migrate.current(connection) == migrate.head()
        connection.rollback()
    assert migrate.current(empty_database) is None
    with psycopg.connect(empty_database) as connection:
        migrate.upgrade(connection)
    assert migrate.check(empty_database) == []


def test_engines_and_connections_of_sqlalchemy(empty_database: str) -> None:
    engine = sqlalchemy.create_engine(sqlalchemy_url(empty_database))
    try:
        migrate.upgrade(engine)
        assert migrate.check(engine) == []
        migrate.downgrade(engine)
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text("SELECT 1"))
            migrate.upgrade(connection)
            assert migrate.current(connection) == migrate.head()
            connection.rollback()
            assert migrate.current(connection) is None
        with engine.connect() as connection:
            migrate.upgrade(connection)
            assert "no_parameters" not in connection.get_execution_options()
        assert migrate.check(empty_database) == []
    finally:
        engine.dispose()


async def _upgrade(url: str) -> None:
    engine = sqlalchemy.ext.asyncio.create_async_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(migrate.upgrade)
        assert await connection.run_sync(migrate.check) == []
    await engine.dispose()


def test_an_asynchronous_connection_of_sqlalchemy(empty_database: str) -> None:
    import asyncio  # noqa: PLC0415

    asyncio.run(_upgrade(sqlalchemy_url(empty_database)))
    assert migrate.current(empty_database) == migrate.head()


def test_a_connection_that_commits_each_statement_is_refused(empty_database: str) -> None:
    engine = sqlalchemy.create_engine(sqlalchemy_url(empty_database), isolation_level="AUTOCOMMIT")
    with pytest.raises(MigrationError, match="commits after each statement") as refusal:
        migrate.upgrade(engine)
    assert "AUTOCOMMIT" in str(refusal.value.hint)
    engine.dispose()
    # In psycopg, a transaction can be had of any connection.
    with psycopg.connect(empty_database, autocommit=True) as connection:
        migrate.upgrade(connection)
    assert migrate.check(empty_database) == []


@pytest.mark.parametrize("target", [None, 5, b"dbname=x"])
def test_what_is_no_database_is_refused(target: object) -> None:
    with pytest.raises(MigrationError, match="is no database to migrate") as refusal:
        migrate.upgrade(target)  # type: ignore[arg-type]
    assert "run_sync" in str(refusal.value.hint)


def test_a_role_that_may_not_read_the_revision(
    database: str, databases: Databases, superuser: Callable[[str], str]
) -> None:
    with psycopg.connect(superuser(database), autocommit=True) as connection:
        connection.execute("CREATE ROLE kbsearch_test_stranger LOGIN PASSWORD 'x'")
    try:
        stranger = make_conninfo(database, user="kbsearch_test_stranger", password="x")  # noqa: S106
        with pytest.raises(MigrationError, match=r"may not read kbsearch\.kb_alembic_version") as refusal:
            migrate.current(stranger)
        run(superuser(database), str(refusal.value.hint))
        assert migrate.current(stranger) == migrate.head()
        migrate.upgrade(stranger)  # nothing to do, so no right is needed
    finally:
        run(superuser(database), "DROP OWNED BY kbsearch_test_stranger", "DROP ROLE kbsearch_test_stranger")


def test_an_installation_of_a_newer_version_is_left_alone(database: str) -> None:
    run(database, "UPDATE kbsearch.kb_alembic_version SET version_num = '9999'")
    for call in (migrate.upgrade, migrate.downgrade):
        with pytest.raises(MigrationError, match="revision 9999, which this version of kbsearch does not know"):
            call(database)


def test_a_failed_install_leaves_nothing(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    last = migrate.files()[-1]
    text = migrate.file_text
    monkeypatch.setattr(migrate, "file_text", lambda name: text(name) + ("\nSELECT 1 / 0;" if name == last else ""))
    with pytest.raises(psycopg.errors.DivisionByZero) as failure:
        migrate.upgrade(empty_database)
    assert f"in sql/{last}" in failure.value.__notes__
    assert left_overs(empty_database) == []


def test_migrations_at_the_same_time_wait_for_each_other(empty_database: str) -> None:
    code = "from kbsearch import migrate; import sys; migrate.upgrade(sys.argv[1])"
    running = [subprocess.Popen([sys.executable, "-c", code, empty_database]) for _ in range(3)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(migrate.upgrade, [empty_database] * 2))
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    assert migrate.check(empty_database) == []


def test_the_preparation_is_what_the_documentation_says(databases: Databases) -> None:
    assert [line.split()[0] for line in PREPARATION.split(";\n")] == ["CREATE", "CREATE", "GRANT", "CREATE", "REVOKE"]
