from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from kbsearch import embedded, migrate
from kbsearch.errors import MigrationError, NotInstalledError
from kbsearch.inventory import inventory

LEFT_OVERS = """SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$|public$)'
UNION ALL
SELECT p.proname FROM pg_proc AS p
LEFT JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
WHERE p.pronamespace = 'public'::regnamespace AND d.objid IS NULL
UNION ALL
SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'public'::regnamespace"""


def psql(dsn: str, script: str, *options: str) -> str:
    """Run a script as someone who pastes it into psql."""
    return subprocess.run(
        [str(embedded.binary("psql")), "-X", "-q", "-v", "ON_ERROR_STOP=1", *options, "-d", dsn],
        input=script,
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    ).stdout


def test_every_sql_file_is_named_by_one_revision_once() -> None:
    root = migrate.sql_root()
    present = {
        file.relative_to(root).as_posix() for part in ("schema", "functions") for file in (root / part).rglob("*.sql")
    }
    named = Counter(migrate.files())
    assert set(named) == present
    assert max(named.values()) == 1


def test_revisions_hold_no_sql() -> None:
    for revision in (migrate.alembic_root() / "versions").glob("*.py"):
        text = revision.read_text(encoding="utf-8")
        assert not any(word in text for word in ("CREATE ", "ALTER ", "DROP ", "SELECT ", "execute("))


def test_the_revisions_directory_does_not_shadow_alembic() -> None:
    assert not (migrate.alembic_root() / "__init__.py").exists()


def test_a_fresh_install_has_no_differences(database: str) -> None:
    assert migrate.current(database) == migrate.head()
    assert migrate.check(database) == []


def test_upgrade_twice_changes_nothing(database: str) -> None:
    with psycopg.connect(database) as connection:
        before = inventory(connection, "kbsearch")
    migrate.upgrade(database)
    with psycopg.connect(database) as connection:
        assert inventory(connection, "kbsearch") == before


def test_check_leaves_no_trace(database: str) -> None:
    with psycopg.connect(database) as connection:
        before = inventory(connection, "kbsearch")
    migrate.check(database)
    with psycopg.connect(database) as connection:
        assert inventory(connection, "kbsearch") == before
        assert connection.execute("SELECT to_regnamespace('kbsearch_installed')").fetchone() == (None,)


@pytest.mark.parametrize(
    ("change", "name", "problem"),
    [
        ("DROP TABLE kbsearch.kb_corpus_stats", "table kbsearch.kb_corpus_stats", "missing"),
        ("CREATE TABLE kbsearch.extra (id bigint)", "table kbsearch.extra", "unexpected"),
        (
            "ALTER TABLE kbsearch.kb_articles ALTER COLUMN published SET DEFAULT false",
            "column kbsearch.kb_articles.published",
            "different",
        ),
        (
            "COMMENT ON TABLE kbsearch.kb_articles IS 'something else'",
            "table kbsearch.kb_articles",
            "different",
        ),
        (
            "UPDATE kbsearch.kb_builtin_profiles SET rrf_k = 61 WHERE name = 'rrf'",
            "profile rrf@1",
            "different",
        ),
        (
            "CREATE FUNCTION kbsearch.extra_v1() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "function kbsearch.extra_v1()",
            "unexpected",
        ),
    ],
)
def test_check_finds_a_planted_difference(database: str, change: str, name: str, problem: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute(change.encode())
    assert (name, problem) in {(found.name, found.problem) for found in migrate.check(database)}


def test_check_finds_a_changed_body_of_every_function(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("SET LOCAL search_path = ''")
        names = [
            row[0]
            for row in connection.execute(
                "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'kbsearch'::regnamespace AND prokind = 'f'"
            )
        ]
        for name in names:
            connection.execute(f"ALTER FUNCTION {name} COST 12345".encode())
    assert {found.name for found in migrate.check(database)} == {f"function {name}" for name in names}


def test_an_index_of_the_host_is_no_difference(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE INDEX mine ON kbsearch.kb_articles (created_at)")
    assert migrate.check(database) == []


def test_check_without_an_installation_says_so(empty_database: str) -> None:
    with pytest.raises(NotInstalledError):
        migrate.check(empty_database)


def test_down_to_base_leaves_nothing(empty_database: str) -> None:
    migrate.upgrade(empty_database)
    migrate.downgrade(empty_database)
    assert migrate.current(empty_database) is None
    with psycopg.connect(empty_database) as connection:
        assert connection.execute(LEFT_OVERS).fetchall() == []


def test_down_to_base_with_data_and_up_again(empty_database: str) -> None:
    migrate.upgrade(empty_database)
    with psycopg.connect(empty_database) as connection:
        connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('a')")
    migrate.downgrade(empty_database)
    migrate.upgrade(empty_database)
    assert migrate.check(empty_database) == []


def test_down_to_base_twice_is_fine(empty_database: str) -> None:
    migrate.downgrade(empty_database)
    assert migrate.current(empty_database) is None


@pytest.mark.parametrize(
    "dependent",
    [
        "CREATE VIEW public.mine AS SELECT id FROM kbsearch.organizations",
        "CREATE TABLE public.mine (org bigint REFERENCES kbsearch.organizations (id))",
    ],
)
def test_down_to_base_drops_nothing_of_the_host(empty_database: str, dependent: str) -> None:
    migrate.upgrade(empty_database)
    with psycopg.connect(empty_database) as connection:
        connection.execute(dependent.encode())
    with pytest.raises(MigrationError, match="mine"):
        migrate.downgrade(empty_database)
    assert migrate.current(empty_database) == migrate.head()


def test_the_script_installs_the_same(empty_database: str, database: str) -> None:
    psql(empty_database, migrate.script())
    with psycopg.connect(empty_database) as pasted, psycopg.connect(database) as upgraded:
        assert inventory(pasted, "kbsearch") == inventory(upgraded, "kbsearch")
    assert migrate.current(empty_database) == migrate.head()
    assert migrate.check(empty_database) == []


def test_the_script_is_one_transaction(empty_database: str) -> None:
    script = migrate.script().replace("COMMIT;", "SELECT 1 / 0;\nCOMMIT;")
    with pytest.raises(subprocess.CalledProcessError):
        psql(empty_database, script)
    assert migrate.current(empty_database) is None
    with psycopg.connect(empty_database) as connection:
        assert connection.execute(LEFT_OVERS).fetchall() == []


def test_the_script_gives_the_search_path_back(empty_database: str) -> None:
    script = f"SET search_path = pg_catalog;\n{migrate.script()}\nSHOW search_path;\n"
    assert psql(empty_database, script, "-At").splitlines()[-1] == "pg_catalog"


def test_the_script_can_be_pasted_with_a_hostile_search_path(empty_database: str) -> None:
    psql(empty_database, f"SET search_path = '';\n{migrate.script()}")
    assert migrate.check(empty_database) == []


def test_the_extension_may_live_in_another_schema(empty_database: str) -> None:
    with psycopg.connect(empty_database) as connection:
        connection.execute('CREATE SCHEMA "Ext schema"')
        connection.execute('CREATE EXTENSION vector SCHEMA "Ext schema"')
    migrate.upgrade(empty_database)
    assert migrate.check(empty_database) == []
    with psycopg.connect(empty_database) as connection:
        place = connection.execute("SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'")
        assert place.fetchone() == ('"Ext schema"',)


def test_a_database_of_another_encoding_is_refused(server_dsn: str) -> None:
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE kbsearch_test_latin1 TEMPLATE template0 ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'"
        )
        try:
            with pytest.raises(MigrationError, match="LATIN1"):
                migrate.upgrade(psycopg.conninfo.make_conninfo(server_dsn, dbname="kbsearch_test_latin1"))
        finally:
            connection.execute("DROP DATABASE kbsearch_test_latin1 WITH (FORCE)")


def test_a_failed_install_leaves_nothing(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    last = migrate.files()[-1]
    text = migrate.file_text
    monkeypatch.setattr(migrate, "file_text", lambda name: text(name) + ("\nSELECT 1 / 0;" if name == last else ""))
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate.upgrade(empty_database)
    with psycopg.connect(empty_database) as connection:
        assert connection.execute(LEFT_OVERS).fetchall() == []


def test_a_hosts_autogenerate_proposes_nothing_of_ours(database: str) -> None:
    for options in ({}, {"include_schemas": True, "include_name": migrate.include_name}):
        with migrate.engine(database).connect() as connection:
            context = MigrationContext.configure(connection, opts=options)
            assert compare_metadata(context, sqlalchemy.MetaData()) == []


def test_the_alembic_command_works_in_a_checkout(empty_database: str) -> None:
    root = Path(__file__).resolve().parents[2]
    if not (root / "pyproject.toml").exists():
        pytest.skip("not a checkout")
    subprocess.run(
        [sys.executable, "-m", "alembic", "-x", f"dsn={empty_database}", "upgrade", "head"],
        cwd=root,
        check=True,
        capture_output=True,
    )
    assert migrate.check(empty_database) == []


def test_migrations_at_the_same_time_wait_for_each_other(empty_database: str) -> None:
    code = "from kbsearch import migrate; import sys; migrate.upgrade(sys.argv[1])"
    running = [subprocess.Popen([sys.executable, "-c", code, empty_database]) for _ in range(3)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(migrate.upgrade, [empty_database] * 2))
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    assert migrate.check(empty_database) == []


def test_the_wheel_brings_its_sql_files(empty_database: str, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = "from kbsearch import migrate; import sys; migrate.upgrade(sys.argv[1]); print(migrate.sql_root(), migrate.alembic_root())"
    found = subprocess.run(
        [sys.executable, "-c", code, empty_database],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert found == [str(tmp_path / "site/kbsearch/_sql"), str(tmp_path / "site/kbsearch/_alembic")]
    assert migrate.check(empty_database) == []
