"""Row-level security and those who write: the derived tables follow whoever writes, and what a role may not is refused."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from typer.testing import CliRunner

from kbsearch import embedded, migrate
from kbsearch.cli import app
from tests.conftest import PREPARATION, Databases
from tests.index.derived import faults
from tests.load import Database
from tests.tenancy.conftest import RIGHTS, A, B, Say, Tenants, load

SEARCH = "SELECT s.article_id FROM kbsearch.search_kb_hybrid_v1(%s, %s) AS s"


@pytest.fixture(autouse=True)
def sound(tenants: Tenants) -> Iterator[None]:
    """Whatever a test wrote: the derived tables are those of a rebuild."""
    yield
    with psycopg.connect(tenants.admin, autocommit=True) as connection:
        connection.execute("SET search_path = ''")
        assert faults(connection) == []


def found(tenants: Tenants, org_id: int, word: str) -> list[int]:
    with tenants.connected("reader", org_id) as connection:
        return [row[0] for row in connection.execute(SEARCH.encode(), [org_id, word]).fetchall()]


@pytest.mark.parametrize("caller", ["owner", "writer", "admin", "superuser"])
def test_what_is_written_is_found(tenants: Tenants, caller: str) -> None:
    """By function and by plain SQL, bound or as a superuser, who is bound to nothing: inserts, changes, vectors, a new language, deletes."""
    with (
        psycopg.connect(tenants.admin, autocommit=True)
        if caller == "superuser"
        else tenants.connected(caller, A) as connection
    ):
        connection.execute("SET search_path = ''")
        db = Database(tenants.dsn, connection)
        space = tenants.given["p_space_id"]
        word = f"kettle{caller}"
        upserted = db.value(
            "SELECT kbsearch.upsert_kb_article_v1(%s, %s, p_body => %s, p_space_id => %s)",
            [A, f"by {caller}", f"{word} alpha", space],
        )
        plain = db.value("INSERT INTO kbsearch.kb_articles (org_id, title) VALUES (%s, %s) RETURNING id", [A, word])
        chunk = db.value(
            "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content) VALUES (%s, %s, 'beta') RETURNING id",
            [A, plain],
        )
        connection.execute(
            "INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, chunk_id, article_id, embedding) VALUES (%s, %s, %s, %s, '[1,0]')",
            [A, space, chunk, plain],
        )
        assert sorted(found(tenants, A, word)) == sorted([upserted, plain])
        connection.execute(
            "UPDATE kbsearch.kb_article_chunks SET content = 'gamma' WHERE org_id = %s AND id = %s", [A, chunk]
        )
        connection.execute(
            "UPDATE kbsearch.kb_articles SET title = 'kettle', language = 'dutch' WHERE org_id = %s AND id = %s",
            [A, plain],
        )
        assert found(tenants, A, word) == [upserted]
        assert plain in found(tenants, A, "gamma")
        connection.execute(
            "UPDATE kbsearch.kb_articles SET published = false WHERE org_id = %s AND id = %s", [A, plain]
        )
        assert plain not in found(tenants, A, "gamma")
        # many rows are written as a segment of their own
        connection.execute(
            "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content) SELECT %s, %s, 'delta' || g FROM generate_series(1, 300) AS g",
            [A, upserted],
        )
        assert found(tenants, A, "delta7") == [upserted]
        connection.execute(
            "DELETE FROM kbsearch.kb_articles WHERE org_id = %s AND id = ANY (%s)", [A, [plain, upserted]]
        )
        assert found(tenants, A, word) == []


def test_a_superuser_writes_for_many_at_once(tenants: Tenants) -> None:
    """Rows of several organisations in one statement, as a bulk load has them."""
    with psycopg.connect(tenants.admin, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO kbsearch.kb_articles (org_id, id, title) VALUES (%s, 77001, 'teapot'), (%s, 77001, 'teapot')",
            [A, B],
        )
        connection.execute(
            "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content) SELECT o, 77001, 'teapot ' || g "
            "FROM unnest(%s::bigint[]) AS o, generate_series(1, 200) AS g",
            [[A, B]],
        )
        assert found(tenants, A, "teapot") == found(tenants, B, "teapot") == [77001]
        connection.execute("DELETE FROM kbsearch.kb_articles WHERE id = 77001")
        assert found(tenants, A, "teapot") == found(tenants, B, "teapot") == []


def test_a_superuser_who_is_bound_writes_nothing_half(tenants: Tenants, say: Say) -> None:
    """Bound to A and free of policies, B's chunk would be stored and not indexed: it is refused."""
    with psycopg.connect(tenants.admin, autocommit=True) as connection:
        connection.execute("SELECT pg_catalog.set_config('kbsearch.org_id', %s, false)", [str(A)])
        statement = "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content) VALUES (%s, %s, 'x')"
        assert say(connection, statement, [B, tenants.given["p_article_id"]])[0] == "KBORG"
        connection.execute(
            "DELETE FROM kbsearch.kb_article_chunks WHERE org_id = %s AND id = %s", [B, tenants.given["p_chunk_id"]]
        )


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_organisations_are_made_and_removed_by_who_is_bound_to_none(tenants: Tenants, caller: str, say: Say) -> None:
    with tenants.connected(caller, "*") as connection:
        connection.execute("INSERT INTO kbsearch.organizations (id, name) VALUES (710003, 'new')")
        assert {A, B, 710003} <= {
            row[0] for row in connection.execute("SELECT id FROM kbsearch.organizations").fetchall()
        }
    with tenants.connected("writer", 710003) as connection:
        connection.execute("SELECT kbsearch.upsert_kb_article_v1(710003, 'one', p_body => 'lamp')")
    assert len(found(tenants, 710003, "lamp")) == 1
    with tenants.connected(caller, "*") as connection:
        connection.execute("UPDATE kbsearch.organizations SET reference_length = 7 WHERE id = 710003")
        connection.execute("DELETE FROM kbsearch.organizations WHERE id = 710003")
    with psycopg.connect(tenants.admin) as connection:
        for table in ("kb_articles", "kb_article_chunks", "kb_postings", "kb_corpus_stats"):
            assert connection.execute(f"SELECT FROM kbsearch.{table} WHERE org_id = 710003".encode()).fetchall() == []
    for right in ("reader", "writer"):
        with tenants.connected(right, "*") as connection:
            assert say(connection, "SELECT id FROM kbsearch.organizations") == []
            assert say(connection, "INSERT INTO kbsearch.organizations (name) VALUES ('x')")[0] == "42501"


def test_an_admin_maintains_what_it_is_bound_to(tenants: Tenants, say: Say) -> None:
    for function in (
        "compact_kb_postings_v1",
        "rebuild_kb_index_v1",
        "calibrate_kb_corpus_v1",
        "reanalyze_kb_chunks_v1",
    ):
        with tenants.connected("admin", A) as connection:
            assert say(connection, f"SELECT kbsearch.{function}(%s)", [A])[0][0] > 0
            assert say(connection, f"SELECT kbsearch.{function}(%s)", [B])[0] == "KBORG"
        with tenants.connected("writer", A) as connection:
            assert say(connection, f"SELECT kbsearch.{function}(%s)", [A])[0] == "42501"


DERIVED = ("kb_postings", "kb_corpus_stats", "kb_keyword_blocks", "kb_keyword_impacts", "kb_keyword_changes")
WRITES = (
    "INSERT INTO kbsearch.{table} DEFAULT VALUES",
    "UPDATE kbsearch.{table} SET org_id = org_id",
    "DELETE FROM kbsearch.{table}",
    "TRUNCATE kbsearch.{table} CASCADE",
)


def test_derived_tables_are_for_triggers(tenants: Tenants, say: Say) -> None:
    """A writer cannot write them, of its own organisation neither; a reader writes no table but stored rankings."""
    for table in DERIVED:
        for statement in WRITES:
            for right in ("reader", "writer"):
                with tenants.connected(right, A) as connection:
                    assert say(connection, statement.format(table=table))[0] == "42501", (right, statement)
    with psycopg.connect(tenants.admin) as connection:
        tables = [
            row[0]
            for row in connection.execute(
                "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'kbsearch'"
            ).fetchall()
        ]
        written = {
            table
            for table in tables
            for privilege in ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
            if connection.execute(
                "SELECT pg_catalog.has_table_privilege(%s, %s, %s)",
                [tenants.roles["reader"], f"kbsearch.{table}", privilege],
            ).fetchone()
            == (True,)
        }
    assert written == {"kb_search_snapshots", "kb_search_snapshot_blocks"}


def test_a_reader_sees_no_cache_no_log_and_no_drafts(tenants: Tenants, say: Say) -> None:
    with tenants.connected("reader", A) as connection:
        for table in (
            "kb_embedding_cache",
            "kb_embedding_inputs",
            "kb_embedding_counts",
            "kb_arbitration_log",
            "kb_ingest_sources",
        ):
            assert say(connection, f"SELECT 1 FROM kbsearch.{table}") == (
                "42501",
                f"permission denied for table {table}",
                None,
                None,
                None,
                None,
            )
        for table, column in (
            ("kb_articles", "published"),
            ("kb_article_chunks", "searchable"),
            ("kb_article_embeddings", "searchable"),
        ):
            assert say(connection, f"SELECT DISTINCT {column} FROM kbsearch.{table}") == [(True,)]
    for right in ("owner", "writer", "admin"):
        with tenants.connected(right, A) as connection:
            assert say(connection, "SELECT count(*) FROM kbsearch.kb_articles WHERE NOT published") == [(1,)]


def test_a_reader_stores_and_reads_rankings(tenants: Tenants) -> None:
    with tenants.connected("reader", A) as connection:
        db = Database(tenants.dsn, connection)
        snapshot = db.value("SELECT s.snapshot FROM kbsearch.open_kb_search_v1(%s, 'lamp stone') AS s", [A])
        assert db.value("SELECT kbsearch.fetch_kb_page_v1(%s, %s)", [A, snapshot])["total"] == 4
        assert db.value("SELECT kbsearch.close_kb_search_v1(%s, %s)", [A, snapshot]) is True


# The other source, and the switch.


@pytest.fixture
def other(databases: Databases, template: str, tenants: Tenants) -> Iterator[Tenants]:
    """The same organisations and roles in a database of the test's own, without row-level security."""
    dsn = databases.create(template)
    made = Tenants(dsn, databases.admin(dsn), tenants.owner, tenants.roles)
    try:
        load(made)
        with psycopg.connect(dsn, autocommit=True) as connection:
            for right, name in made.roles.items():
                connection.execute("SELECT kbsearch.grant_kb_rights_v1(%s, %s)", [right, name])
        with psycopg.connect(made.admin, autocommit=True) as connection:
            for name in made.roles.values():
                connection.execute(sql.SQL("GRANT USAGE ON SCHEMA ext TO {}").format(sql.Identifier(name)))
        yield made
    finally:
        databases.drop(dsn)


@pytest.mark.parametrize(
    ("claim", "claims", "sees"),
    [
        ("org_id", f'{{"org_id": {A}}}', True),
        ("org_id", f'{{"org_id": "{A}"}}', True),
        ("org_id", f'{{"org_id": {B}}}', False),
        ("org_id", '{"org_id": null}', False),
        ("org_id", '{"org_id": [1]}', False),
        ("org_id", "{}", False),
        ("org_id", "[]", False),
        ("org_id", "", False),
        ("app_metadata.tenant", f'{{"app_metadata": {{"tenant": {A}}}}}', True),
        ("app_metadata.tenant", f'{{"tenant": {A}, "app_metadata": 7}}', False),
    ],
)  # fmt: skip
def test_a_claim_binds(other: Tenants, claim: str, claims: str, sees: bool, say: Say) -> None:
    """As PostgREST hands it over; the setting means nothing then."""
    with psycopg.connect(other.dsn, autocommit=True) as connection:
        connection.execute("SELECT kbsearch.enable_kb_row_security_v1('claim', %s)", [claim])
    for caller in ("reader", "owner"):
        with other.connected(caller, claims, "request.jwt.claims") as connection:
            connection.execute("SELECT pg_catalog.set_config('kbsearch.org_id', %s, false)", [str(A)])
            answer = say(connection, "SELECT count(s) FROM kbsearch.search_kb_hybrid_v1(%s, 'lamp stone') AS s", [A])
            assert answer == [(4,)] if sees else answer[0] == "KBORG"


def test_it_is_switched_on_and_off(other: Tenants, say: Say) -> None:
    """By the command; an installation that has it or had it is as a fresh one, and is removed like one."""

    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["db", *arguments, "--dsn", other.dsn], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result.output

    def protected() -> int:
        with psycopg.connect(other.admin) as connection:
            return int(
                connection.execute(
                    "SELECT count(*) FROM pg_catalog.pg_class WHERE relrowsecurity AND relforcerowsecurity"
                ).fetchall()[0][0]
            )

    assert protected() == 0
    assert migrate.check(other.dsn) == []
    run("secure", code=2)
    assert "kbsearch.org_id" in run("secure", "--from", "setting")
    tables = protected()
    assert tables >= 15
    run("secure", "--from", "setting")
    assert protected() == tables
    run("check")
    with other.connected("reader", A) as connection:
        assert say(connection, "SELECT count(s) FROM kbsearch.search_kb_hybrid_v1(%s, 'lamp stone') AS s", [A]) == [
            (4,)
        ]
    # a policy of the host's own stays, and so does what it is for
    with psycopg.connect(other.dsn, autocommit=True) as connection:
        connection.execute("CREATE POLICY ours ON kbsearch.kb_ingest_sources USING (true)")
    assert f"off for {tables - 1} tables" in run("secure", "--off")
    assert protected() == 1
    with psycopg.connect(other.dsn, autocommit=True) as connection:
        connection.execute("DROP POLICY ours ON kbsearch.kb_ingest_sources")
    run("secure", "--from", "claim", "--claim", "app_metadata.org_id")
    run("downgrade", "base", "--yes")
    assert migrate.current(other.dsn) is None


def test_rights_are_granted_by_the_command(other: Tenants, databases: Databases, say: Say) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["db", "grant", *arguments, "--dsn", other.dsn])
        assert result.exit_code == code, result.output
        return result.output

    assert other.roles["reader"] in run(
        "--reader", other.roles["reader"], "--writer", other.roles["writer"], "--admin", other.roles["admin"]
    )
    run(code=2)
    assert "no role" in run("--reader", "nobody_of_this_name", code=3)
    # who may not create roles is told what somebody who may has to run
    assert "CREATE ROLE nobody_of_this_name NOLOGIN" in run("--reader", "nobody_of_this_name", "--create", code=3)
    with psycopg.connect(other.admin, autocommit=True) as connection:
        name = f"{other.roles['reader']}_made"
        connection.execute("SELECT kbsearch.grant_kb_rights_v1('reader', %s, true)", [name])
        connection.execute(sql.SQL("DROP OWNED BY {0}").format(sql.Identifier(name)))
        connection.execute(sql.SQL("DROP ROLE {0}").format(sql.Identifier(name)))
    for right in RIGHTS:
        with other.connected(right, A) as connection:
            for statement in (
                "SELECT kbsearch.enable_kb_row_security_v1()",
                "SELECT kbsearch.disable_kb_row_security_v1()",
                f"SELECT kbsearch.grant_kb_rights_v1('admin', '{other.roles[right]}')",
            ):
                assert say(connection, statement)[0] == "KBSEC"
    with psycopg.connect(other.dsn, autocommit=True) as connection:
        for statement in (
            "SELECT kbsearch.enable_kb_row_security_v1('jwt')",
            "SELECT kbsearch.enable_kb_row_security_v1(NULL)",
            "SELECT kbsearch.enable_kb_row_security_v1('claim', 'a''b')",
            "SELECT kbsearch.enable_kb_row_security_v1('claim', NULL)",
            "SELECT kbsearch.grant_kb_rights_v1('owner', current_user)",
            "SELECT kbsearch.grant_kb_rights_v1('reader', NULL)",
        ):
            assert say(connection, statement)[0] == "KBSEC", statement


def test_a_dump_keeps_it(other: Tenants, databases: Databases, bare_database: str) -> None:
    """A superuser's dump has all rows and the policies; the owner, who is bound, is refused instead of dumping a part."""
    with psycopg.connect(other.dsn, autocommit=True) as connection:
        connection.execute("SELECT kbsearch.enable_kb_row_security_v1()")
    version = databases.admin(other.dsn)
    with psycopg.connect(version) as connection:
        if connection.info.server_version // 10000 != 18:
            pytest.skip("pg_dump writes for its own major version")

    def dump(dsn: str) -> subprocess.CompletedProcess[str]:
        command = [str(embedded.binary("pg_dump")), "--no-owner", "--no-privileges", "-d", dsn]
        return subprocess.run(command, check=False, capture_output=True, text=True, encoding="utf-8")

    assert "row-level security" in dump(other.dsn).stderr
    done = dump(other.admin)
    assert done.returncode == 0, done.stderr
    restored = subprocess.run(
        [str(embedded.binary("psql")), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", bare_database],
        check=False,
        input=done.stdout,
        capture_output=True,
        text=True,
    )
    assert restored.returncode == 0, restored.stderr
    with psycopg.connect(bare_database, autocommit=True) as connection:
        connection.execute("SET search_path = ''")
        assert faults(connection) == []
        policies = "SELECT tablename, policyname, qual, with_check FROM pg_catalog.pg_policies ORDER BY 1, 2"
        with psycopg.connect(other.admin) as source:
            source.execute("SET search_path = ''")
            assert connection.execute(policies).fetchall() == source.execute(policies).fetchall()


def test_another_name_of_the_schema(bare_database: str, databases: Databases) -> None:
    """The setting is called as the schema is."""
    prepare = sql.SQL(PREPARATION).format(role=sql.Identifier(databases.role), schema=sql.Identifier("help_search"))
    with psycopg.connect(bare_database) as connection:
        connection.execute(prepare)
    dsn = databases.application(bare_database)
    migrate.upgrade(dsn, schema="help_search")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SELECT help_search.enable_kb_row_security_v1()")
        connection.execute("SET help_search.org_id = '*'")
        connection.execute("INSERT INTO help_search.organizations (id, name) VALUES (5, 'five')")
        connection.execute("SET help_search.org_id = '5'")
        connection.execute("SELECT help_search.upsert_kb_article_v1(5, 'one', p_body => 'lamp')")
        found = "SELECT count(s) FROM help_search.search_kb_hybrid_v1(5, 'lamp') AS s"
        assert connection.execute(found).fetchone() == (1,)
        connection.execute("SET kbsearch.org_id = '5'")
        connection.execute("SET help_search.org_id = '6'")
        assert connection.execute("SELECT count(*) FROM help_search.kb_postings").fetchone() == (0,)
