"""Going back to nothing: nothing of ours is left, and nothing of others is dropped."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from kbsearch import migrate
from kbsearch.errors import MigrationError
from tests.migrations.hosts import left_overs, needs, psql, run


def test_down_to_base_leaves_nothing(empty_database: str) -> None:
    migrate.upgrade(empty_database)
    migrate.downgrade(empty_database)
    assert migrate.current(empty_database) is None
    assert left_overs(empty_database) == []
    # A DBA made the schema; we may not make it again.
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("SELECT to_regnamespace('kbsearch') IS NOT NULL").fetchone() == (True,)


def test_a_schema_that_can_be_made_again_goes_too(bare_database: str) -> None:
    migrate.upgrade(bare_database)
    migrate.downgrade(bare_database)
    assert left_overs(bare_database) == []
    with psycopg.connect(bare_database) as connection:
        assert connection.execute("SELECT to_regnamespace('kbsearch')").fetchone() == (None,)
        assert connection.execute("SELECT count(*) FROM pg_extension WHERE extname = 'vector'").fetchone() == (1,)


@pytest.mark.parametrize(
    "extra",
    [
        "CREATE TABLE kbsearch.mine (id bigint)",
        "CREATE FUNCTION kbsearch.mine() RETURNS int LANGUAGE sql RETURN 1",
        "CREATE TYPE kbsearch.mine AS ENUM ('a')",
        "CREATE EXTENSION pg_trgm SCHEMA kbsearch",
    ],
)
def test_a_schema_with_anything_else_in_it_stays(bare_database: str, extra: str) -> None:
    if "EXTENSION" in extra:
        needs(bare_database, "pg_trgm")
    migrate.upgrade(bare_database)
    run(bare_database, extra)
    migrate.downgrade(bare_database)
    assert left_overs(bare_database) == ([] if "EXTENSION" in extra else ["kbsearch.mine"])
    with psycopg.connect(bare_database) as connection:
        assert connection.execute("SELECT to_regnamespace('kbsearch') IS NOT NULL").fetchone() == (True,)
        if "EXTENSION" in extra:
            assert connection.execute("SELECT kbsearch.similarity('a', 'a')").fetchone() == (1.0,)


def test_public_is_never_dropped(empty_database: str, admin: Callable[[str], str]) -> None:
    dsn = admin(empty_database)
    migrate.upgrade(dsn, schema="public")
    assert migrate.check(dsn, schema="public") == []
    migrate.downgrade(dsn, schema="public")
    assert left_overs(dsn) == []
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT obj_description('public'::regnamespace, 'pg_namespace')").fetchone() == (
            "standard public schema",
        )


def test_down_to_base_with_data_and_up_again(empty_database: str) -> None:
    migrate.upgrade(empty_database)
    run(
        empty_database,
        "INSERT INTO kbsearch.organizations (name) VALUES ('a')",
        "CREATE INDEX mine ON kbsearch.kb_articles (created_at)",
        "CREATE POLICY mine ON kbsearch.kb_articles USING (org_id = 1)",
        "SELECT kbsearch.upsert_kb_article_v1(p_org_id => 1, p_external_ref => 'a', p_title => 'A')",
    )
    migrate.downgrade(empty_database)
    migrate.upgrade(empty_database)
    assert migrate.check(empty_database) == []
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("SELECT count(*) FROM kbsearch.organizations").fetchone() == (0,)


def test_down_to_base_twice_is_fine(empty_database: str) -> None:
    migrate.downgrade(empty_database)
    assert migrate.current(empty_database) is None


@pytest.mark.parametrize("way", ["function", "script"])
@pytest.mark.parametrize(
    ("dependent", "named"),
    [
        ("CREATE VIEW host.mine AS SELECT id FROM kbsearch.organizations", "view host.mine"),
        ("CREATE MATERIALIZED VIEW host.mine AS SELECT id FROM kbsearch.organizations", "materialized view host.mine"),
        (
            "CREATE TABLE host.mine (org bigint REFERENCES kbsearch.organizations (id))",
            "constraint .* on table host.mine",
        ),
        ("CREATE TABLE host.mine (plan kbsearch.kb_search_plan)", "column plan of table host.mine"),
        (
            "CREATE TABLE host.mine (id text DEFAULT kbsearch.hash_kb_text_v1('a'))",
            "default value for column id of table host.mine",
        ),
        (
            "CREATE FUNCTION host.mine() RETURNS text LANGUAGE sql RETURN kbsearch.hash_kb_text_v1('a')",
            r"function host.mine\(\)",
        ),
        (
            "CREATE TABLE host.mine (id bigint); CREATE POLICY mine ON host.mine USING (kbsearch.hash_kb_text_v1('a') = 'a')",
            "policy mine on table host.mine",
        ),
        ("CREATE VIEW kbsearch.mine AS SELECT id FROM kbsearch.organizations", "view kbsearch.mine"),
        ("CREATE TABLE host.mine () INHERITS (kbsearch.kb_corpus_stats)", "table host.mine"),
    ],
)
def test_down_to_base_drops_nothing_of_the_host(
    empty_database: str, admin: Callable[[str], str], dependent: str, named: str, way: str
) -> None:
    """Whatever of the host's depends on ours is named, and both stay."""
    migrate.upgrade(empty_database)
    with psycopg.connect(empty_database) as connection:
        role = connection.execute("SELECT quote_ident(current_user)").fetchone()
        assert role is not None
    run(admin(empty_database), f"CREATE SCHEMA IF NOT EXISTS host AUTHORIZATION {role[0]}")
    run(empty_database, dependent)
    before = left_overs(empty_database)
    if way == "function":
        with pytest.raises(MigrationError, match=f"what is not of kbsearch depends on it: .*{named}") as refusal:
            migrate.downgrade(empty_database)
        assert "Drop that first" in str(refusal.value.hint)
    else:
        done = psql(empty_database, migrate.removal_script(), stop=False)
        assert done.stderr.count("ERROR:") == 1
        assert "mine" in done.stderr
    assert left_overs(empty_database) == before
    assert migrate.current(empty_database) == migrate.head()
    assert migrate.check(empty_database) == [] or "kbsearch.mine" in dependent


def test_a_newer_revision_is_no_downgrade(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = [*migrate.revisions(), migrate.Revision("0002", ())]
    monkeypatch.setattr(migrate, "revisions", lambda: known)
    with pytest.raises(MigrationError, match="revision 0002 is newer than the installed 0001") as refusal:
        migrate.downgrade(database, "0002")
    assert "kbsearch db upgrade 0002" in str(refusal.value.hint)


def test_steps_between_revisions(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later revision is gone back from on its own, online and by script; what is there already is not run again."""
    files = {
        "functions/text/one_v1.sql": "CREATE FUNCTION kbsearch.one_v1() RETURNS int\nLANGUAGE sql RETURN 1;",
        "schema/0099_extra.sql": """CREATE TABLE kbsearch.extra (id bigint);
CREATE VIEW kbsearch.seen AS SELECT e.id, kbsearch.one_v1() FROM kbsearch.extra AS e;""",
    }
    text = migrate.file_text
    known = [*migrate.revisions(), migrate.Revision("0002", tuple(files))]
    monkeypatch.setattr(migrate, "revisions", lambda: known)
    monkeypatch.setattr(migrate, "file_text", lambda name: files.get(name) or text(name))
    added = ["kbsearch.extra", "kbsearch.one_v1", "kbsearch.seen"]
    migrate.upgrade(empty_database, "0001")
    first = left_overs(empty_database)
    run(empty_database, "INSERT INTO kbsearch.organizations (name) VALUES ('stays')")
    for up, down in (
        (lambda: migrate.upgrade(empty_database), lambda: migrate.downgrade(empty_database, "0001")),
        (lambda: migrate.upgrade(empty_database, "+1"), lambda: migrate.downgrade(empty_database, "-1")),
        (
            lambda: psql(empty_database, migrate.script()),
            lambda: psql(empty_database, migrate.removal_script("0001")),
        ),
    ):
        up()
        assert migrate.current(empty_database) == "0002"
        assert left_overs(empty_database) == sorted([*first, *added])
        assert migrate.check(empty_database) == []
        migrate.upgrade(empty_database, "0001")  # older than what is there: nothing to do
        assert migrate.current(empty_database) == "0002"
        down()
        assert migrate.current(empty_database) == "0001"
        assert left_overs(empty_database) == first
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("SELECT name FROM kbsearch.organizations").fetchall() == [("stays",)]
    psql(empty_database, migrate.script())
    psql(empty_database, migrate.removal_script())
    assert left_overs(empty_database) == []
