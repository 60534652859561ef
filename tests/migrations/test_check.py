"""`kbsearch db check`: finds what was changed by hand and nothing else, whatever rights the role has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from kbsearch import migrate
from kbsearch.errors import MigrationError, NotInstalledError
from kbsearch.inventory import Inventory, read
from kbsearch.session import Session, opened
from tests.conftest import Databases
from tests.migrations.hosts import installed, run

MODES = ("temporary", "beside")


@pytest.fixture(scope="module", params=MODES)
def checked(request: pytest.FixtureRequest, databases: Databases, template: str) -> Iterator[str]:
    """Connection string of a database in which check() has the rights to do it one way and no other; its tests change nothing for good."""
    dsn = databases.create(template)
    try:
        if request.param == "beside":
            only_beside(dsn, databases)
        yield dsn
    finally:
        databases.drop(dsn)


def only_beside(dsn: str, databases: Databases) -> None:
    """Let the application make schemas in a database, and no temporary objects."""
    with psycopg.connect(databases.admin(dsn)) as connection:
        name = {"name": sql.Identifier(connection.info.dbname), "role": sql.Identifier(databases.role)}
        connection.execute(sql.SQL("REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC").format(**name))
        connection.execute(sql.SQL("GRANT CREATE ON DATABASE {name} TO {role}").format(**name))


@pytest.fixture(scope="module")
def fresh(checked: str) -> Inventory:
    """What a fresh install beside the one that is checked has."""
    with opened(checked, rollback=True) as session:
        return migrate.fresh_inventory(session, "kbsearch")


@pytest.fixture
def installed_once(fresh: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets check() compare with a fresh install that was made once, as nothing that a test changes in the schema decides what a fresh one has."""
    monkeypatch.setattr(migrate, "fresh_inventory", lambda _session, _schema: fresh)


@contextmanager
def changed(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection whose changes are undone at the end."""
    with psycopg.connect(dsn) as connection, connection.transaction(force_rollback=True):
        yield connection


def test_a_fresh_install_has_no_differences(checked: str) -> None:
    assert migrate.current(checked) == migrate.head()
    assert migrate.check(checked) == []


def test_the_temporary_install_is_the_same_in_every_respect(
    empty_database: str, databases: Databases, released: Inventory
) -> None:
    """Not only no differences: the inventories are equal, with as many entries as the released one."""
    with psycopg.connect(databases.admin(empty_database)) as connection, connection.transaction(force_rollback=True):
        connection.execute("CREATE TEMPORARY TABLE probe ()")
        row = connection.execute("SELECT pg_my_temp_schema()::regnamespace::text").fetchone()
        assert row is not None
        connection.execute("DROP TABLE probe")
        session = Session(connection)
        migrate._install(session, row[0])
        temporary = read(session, row[0], as_schema="kbsearch")
        migrate._install(session, "kb_beside")
        beside = read(session, "kb_beside", as_schema="kbsearch")
    assert dict(temporary) == dict(beside) == dict(released)
    assert len(released) > 300
    assert not [text for item in released.items() for text in item if "pg_temp_" in text]


@pytest.fixture(scope="module")
def released(shared_database: str) -> Inventory:
    return installed(shared_database)


def test_check_leaves_no_trace(checked: str) -> None:
    before = installed(checked)
    schemas = "SELECT array_agg(nspname ORDER BY nspname) FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp'"
    with psycopg.connect(checked, autocommit=True) as connection:
        names, path = connection.execute(schemas).fetchone(), connection.execute("SHOW search_path").fetchone()
        assert migrate.check(connection) == []
        assert connection.execute(schemas).fetchone() == names
        assert connection.execute("SELECT count(*) FROM pg_class WHERE relpersistence = 't'").fetchone() == (0,)
        assert connection.execute("SHOW search_path").fetchone() == path
        assert connection.execute("SHOW lock_timeout").fetchone() == ("0",)
    assert installed(checked) == before


def test_check_waits_for_no_writer(checked: str) -> None:
    with changed(checked) as writer:
        writer.execute("INSERT INTO kbsearch.organizations (name) VALUES ('a')")
        writer.execute("LOCK TABLE kbsearch.kb_articles, kbsearch.kb_article_chunks IN EXCLUSIVE MODE")
        assert migrate.check(checked) == []


DRIFT = [
    ("DROP TABLE kbsearch.kb_corpus_stats", "table kbsearch.kb_corpus_stats", "missing"),
    ("DROP INDEX kbsearch.organizations_active_space", "index kbsearch.organizations_active_space", "missing"),
    (
        "DROP TRIGGER kb_10_guard ON kbsearch.kb_articles",
        "trigger kbsearch.kb_articles kb_10_guard",
        "missing",
    ),
    ("CREATE TABLE kbsearch.extra (id bigint)", "table kbsearch.extra", "unexpected"),
    ("ALTER TABLE kbsearch.kb_articles ADD COLUMN extra text", "column kbsearch.kb_articles.extra", "unexpected"),
    (
        "ALTER TABLE kbsearch.kb_articles ALTER COLUMN published SET DEFAULT false",
        "column kbsearch.kb_articles.published",
        "different",
    ),
    (
        "ALTER TABLE kbsearch.kb_articles ALTER COLUMN kind DROP NOT NULL",
        "column kbsearch.kb_articles.kind",
        "different",
    ),
    ("COMMENT ON TABLE kbsearch.kb_articles IS 'something else'", "table kbsearch.kb_articles", "different"),
    (
        "COMMENT ON COLUMN kbsearch.kb_articles.kind IS 'something else'",
        "column kbsearch.kb_articles.kind",
        "different",
    ),
    ("COMMENT ON TYPE kbsearch.kb_search_plan IS NULL", "type kbsearch.kb_search_plan", "different"),
    ("COMMENT ON SEQUENCE kbsearch.kb_segment_seq IS NULL", "sequence kbsearch.kb_segment_seq", "different"),
    ("ALTER SEQUENCE kbsearch.kb_segment_seq INCREMENT 2", "sequence kbsearch.kb_segment_seq", "different"),
    (
        "ALTER TABLE kbsearch.kb_articles DISABLE TRIGGER kb_10_guard",
        "trigger kbsearch.kb_articles kb_10_guard",
        "different",
    ),
    (
        "ALTER TABLE kbsearch.kb_articles ENABLE ALWAYS TRIGGER kb_10_guard",
        "trigger kbsearch.kb_articles kb_10_guard",
        "different",
    ),
    (
        "ALTER TABLE kbsearch.kb_article_embeddings ALTER COLUMN embedding SET STORAGE EXTENDED",
        "column kbsearch.kb_article_embeddings.embedding",
        "different",
    ),
    ("ALTER TABLE kbsearch.kb_postings SET UNLOGGED", "table kbsearch.kb_postings", "different"),
    (
        "CREATE RULE mine AS ON DELETE TO kbsearch.kb_articles DO INSTEAD NOTHING",
        "rule kbsearch.kb_articles mine",
        "unexpected",
    ),
    (
        """ALTER TABLE kbsearch.kb_builtin_profiles DISABLE TRIGGER USER;
        UPDATE kbsearch.kb_builtin_profiles SET rrf_k = 61 WHERE name = 'rrf';
        ALTER TABLE kbsearch.kb_builtin_profiles ENABLE TRIGGER USER""",
        "profile rrf@1",
        "different",
    ),
    (
        """ALTER TABLE kbsearch.kb_builtin_policies DISABLE TRIGGER USER;
        UPDATE kbsearch.kb_builtin_policies SET top_k = 6 WHERE name = 'reference';
        ALTER TABLE kbsearch.kb_builtin_policies ENABLE TRIGGER USER""",
        "policy reference@1",
        "different",
    ),
    (
        "CREATE FUNCTION kbsearch.extra_v1() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "function kbsearch.extra_v1()",
        "unexpected",
    ),
    ("DELETE FROM kbsearch.kb_alembic_version", "revision", "different"),
    ("DROP TABLE kbsearch.kb_alembic_version", "revision", "different"),
]


@pytest.mark.parametrize(("change", "name", "problem"), DRIFT, ids=[f"{name} {problem}" for _, name, problem in DRIFT])
def test_check_finds_a_planted_difference(
    checked: str, installed_once: None, change: str, name: str, problem: str
) -> None:
    with changed(checked) as connection:
        connection.execute(change.encode())
        assert (name, problem) in {(found.name, found.problem) for found in migrate.check(connection)}


def test_check_finds_foreign_keys_whose_triggers_are_off(database: str, superuser: Callable[[str], str]) -> None:
    run(superuser(database), "ALTER TABLE kbsearch.kb_article_chunks DISABLE TRIGGER ALL")
    found = {found.name for found in migrate.check(database)}
    assert any(name.startswith("constraint kbsearch.kb_article_chunks ") for name in found)


def test_check_finds_a_changed_body_of_every_function(checked: str) -> None:
    """Of PL/pgSQL a name that lost its schema, of SQL another setting or cost; no function is forgotten, and none is named that was not changed."""
    with changed(checked) as connection:
        functions = connection.execute(
            "SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid), l.lanname FROM pg_proc AS p "
            "INNER JOIN pg_language AS l ON l.oid = p.prolang WHERE p.pronamespace = 'kbsearch'::regnamespace"
        ).fetchall()
        connection.execute("SET LOCAL check_function_bodies = off")
        for name, definition, language in functions:
            head, quote, body = definition.partition("AS $function$")
            if language == "plpgsql" and "kbsearch." in body:
                text = head + quote + body.replace("kbsearch.", "", 1)
            elif language == "plpgsql":
                text = definition.replace("BEGIN", "BEGIN NULL;", 1)
            elif "\n SET " in definition:
                text = definition.replace("\n SET ", "\n SET statement_timeout TO '7s'\n SET ", 1)
            else:
                text = definition.replace("LANGUAGE sql", "LANGUAGE sql COST 7", 1)
            assert text != definition, name
            connection.execute(text.encode())
        found = [one.name.partition("(")[0] for one in migrate.check(connection)]
    assert sorted(found) == sorted("function " + name.partition("(")[0] for name, _, _ in functions)


def test_a_search_path_that_lets_temporary_objects_in_is_a_difference(checked: str) -> None:
    with changed(checked) as connection:
        row = connection.execute("SELECT 'kbsearch.kb_articles_guard_v1'::regproc::regprocedure::text").fetchone()
        assert row is not None
        connection.execute(f"ALTER FUNCTION {row[0]} SET search_path = pg_catalog, pg_temp, kbsearch".encode())
        assert [found.name for found in migrate.check(connection)] == [f"function {row[0]}"]


def test_a_fresh_install_does_not_follow_what_was_changed(checked: str, fresh: Inventory) -> None:
    """Which is why one may do for many tests."""
    with changed(checked) as connection:
        for statement in [change for change, _, _ in DRIFT if "kb_alembic_version" not in change] + HARMLESS:
            with connection.transaction(force_rollback="DROP" in statement):
                connection.execute(statement.encode().replace(b"INDEX mine", b"INDEX IF NOT EXISTS mine"))
        assert dict(migrate.fresh_inventory(Session(connection), "kbsearch")) == dict(fresh)


HARMLESS = [
    "CREATE INDEX mine ON kbsearch.kb_articles (created_at)",
    "CREATE INDEX mine ON kbsearch.kb_articles (created_at) WHERE published",
    "CREATE UNIQUE INDEX mine ON kbsearch.organizations (name)",
    "GRANT SELECT ON ALL TABLES IN SCHEMA kbsearch TO PUBLIC; GRANT USAGE ON SCHEMA kbsearch TO PUBLIC",
    "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA kbsearch FROM PUBLIC",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA kbsearch GRANT SELECT ON TABLES TO PUBLIC",
    "CREATE POLICY mine ON kbsearch.kb_articles USING (org_id = 1); ALTER TABLE kbsearch.kb_articles ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE kbsearch.kb_articles FORCE ROW LEVEL SECURITY",
    "ALTER TABLE kbsearch.kb_articles SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01)",
    "ALTER TABLE kbsearch.kb_article_chunks RESET (toast_tuple_target)",
    "ALTER TABLE kbsearch.kb_articles ALTER COLUMN body SET STORAGE EXTERNAL, ALTER COLUMN body SET STATISTICS 500",
    "ALTER TABLE kbsearch.kb_articles ALTER COLUMN title SET COMPRESSION pglz",
    "ALTER TABLE kbsearch.kb_articles REPLICA IDENTITY FULL",
    "ALTER TABLE kbsearch.kb_articles CLUSTER ON kb_articles_pkey",
    # They have names from PostgreSQL 18 on, other ones after a restore of an older server's dump.
    "DO 'BEGIN ALTER TABLE kbsearch.kb_articles RENAME CONSTRAINT kb_articles_kind_not_null TO other; EXCEPTION WHEN undefined_object THEN END'",
    "CREATE STATISTICS kbsearch.mine ON org_id, kind FROM kbsearch.kb_articles",
    "CREATE TABLE kbsearch.alembic_version (version_num varchar(32) PRIMARY KEY)",
    "INSERT INTO kbsearch.organizations (name) VALUES ('a')",
]


@pytest.mark.parametrize("change", HARMLESS, ids=[change[:60] for change in HARMLESS])
def test_what_a_host_adds_is_no_difference(checked: str, installed_once: None, change: str) -> None:
    with changed(checked) as connection:
        connection.execute(change.encode())
        assert migrate.check(connection) == []


def test_without_any_right_to_install_it_says_so(database: str, databases: Databases) -> None:
    if not databases.has_role:
        pytest.skip("the server's role may not create roles")
    with psycopg.connect(databases.admin(database)) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC").format(name))
    with pytest.raises(MigrationError, match="neither temporary objects nor schemas") as refusal:
        migrate.check(database)
    run(databases.admin(database), str(refusal.value.hint).split(";")[0])
    assert migrate.check(database) == []


def test_a_role_that_may_only_read_can_check(database: str, superuser: Callable[[str], str]) -> None:
    """Definitions are for everybody to read; it needs the extension and temporary objects."""
    admin = superuser(database)
    run(
        admin,
        "CREATE ROLE kbsearch_test_reader LOGIN PASSWORD 'x'",
        "GRANT USAGE ON SCHEMA ext, kbsearch TO kbsearch_test_reader",
        "GRANT SELECT ON kbsearch.kb_alembic_version, kbsearch.kb_builtin_profiles, kbsearch.kb_builtin_policies TO kbsearch_test_reader",
    )
    try:
        reader = psycopg.conninfo.make_conninfo(database, user="kbsearch_test_reader", password="x")  # noqa: S106
        assert migrate.check(reader) == []
    finally:
        run(admin, "DROP OWNED BY kbsearch_test_reader", "DROP ROLE kbsearch_test_reader")


def test_check_without_an_installation_says_so(empty_database: str, bare_database: str) -> None:
    for dsn in (empty_database, bare_database):
        with pytest.raises(NotInstalledError) as refusal:
            migrate.check(dsn)
        assert refusal.value.hint == "Run: kbsearch db upgrade"
    with pytest.raises(NotInstalledError, match="help_search") as refusal:
        migrate.check(empty_database, schema="help_search")
    assert refusal.value.hint == "Run: kbsearch db upgrade --schema help_search"
