"""The SQL of docs/how-to/keep-a-table-in-sync.md keeps a host's table in sync, whatever is done to the table and whoever does it."""

from __future__ import annotations

import re
import shlex
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from typer.testing import CliRunner

from kbsearch import KBSearch
from kbsearch.cli import app
from kbsearch.ingest import embed_missing
from kbsearch.ingest.organizations import organization_id
from tests.ingest.test_pipeline import Connection, HashEmbedder, rows

PAGE = (Path(__file__).resolve().parents[2] / "docs/how-to/keep-a-table-in-sync.md").read_text(encoding="utf-8")
TABLE, RECIPE = re.findall(r"^```sql.*?\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
EMBED, QUERY = re.findall(r"^```sh.*?\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def prepare(admin_dsn: str, dsn: str, before: str = "") -> None:
    """The host's schema and table, then the recipe, both run by the application's role."""
    role = sql.Identifier(str(conninfo_to_dict(dsn)["user"]))
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA shop AUTHORIZATION {}").format(role))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(TABLE.encode())
        if before:
            connection.execute(before.encode())
        connection.execute(RECIPE.encode())


@pytest.fixture
def shop(connection: Connection, database: str, admin: Callable[[str], str]) -> Connection:
    prepare(admin(database), database)
    return connection


@pytest.fixture
def editor(shop: Connection, database: str, admin: Callable[[str], str]) -> Iterator[Connection]:
    """A connection of a role that may write pages and nothing else, with a search path full of traps."""
    name, password = f"editor_{uuid.uuid4().hex[:12]}", uuid.uuid4().hex
    role = sql.Identifier(name)
    with psycopg.connect(admin(database), autocommit=True) as connection:
        row = connection.execute(
            "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        if row is None or not row[0]:
            pytest.skip("the role of KBSEARCH_TEST_DSN may not create roles")
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(password)))
        connection.execute(sql.SQL("CREATE SCHEMA trap AUTHORIZATION {}").format(role))
    shop.execute(sql.SQL("GRANT USAGE ON SCHEMA shop TO {}").format(role))
    shop.execute(sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON shop.pages TO {}").format(role))
    try:
        with psycopg.connect(make_conninfo(database, user=name, password=password), autocommit=True) as connection:
            connection.execute("CREATE TEMP TABLE written (id bigint, title text, body text, is_public boolean)")
            connection.execute("CREATE TEMP TABLE removed AS TABLE written")
            connection.execute("CREATE TEMP TABLE kb_articles AS TABLE written")
            connection.execute("CREATE TEMP TABLE organizations (id bigint, name text)")
            connection.execute(
                "CREATE FUNCTION trap.btrim(text, text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $x$trapped$x$; END'"
            )
            connection.execute(
                "CREATE FUNCTION trap.starts_with(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'"
            )
            connection.execute("SET search_path = trap, pg_temp, pg_catalog")
            yield connection
    finally:
        with psycopg.connect(admin(database), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(role))
            connection.execute(sql.SQL("DROP ROLE {}").format(role))


def indexed(connection: Connection) -> list[tuple[Any, ...]]:
    return rows(
        connection,
        """SELECT a.external_ref, a.title, a.body, a.published,
            (SELECT string_agg(c.content, ' ' ORDER BY c.chunk_no) FROM kbsearch.kb_article_chunks AS c WHERE c.article_id = a.id),
            (SELECT bool_and(c.title = a.title) FROM kbsearch.kb_article_chunks AS c WHERE c.article_id = a.id)
        FROM kbsearch.kb_articles AS a WHERE a.external_ref LIKE 'page:%%' ORDER BY a.external_ref COLLATE "C" """,
    )


def expected(connection: Connection) -> list[tuple[Any, ...]]:
    return [
        (reference, title, body, published, body.strip(), True)
        for reference, title, body, published in rows(
            connection,
            "SELECT 'page:' || id, title, body, is_public FROM shop.pages ORDER BY ('page:' || id) COLLATE \"C\"",
        )
    ]


def found(connection: Connection, question: str) -> list[str | None]:
    return [
        result.external_ref
        for result in KBSearch(connection).results(organization_id(connection, "store", create=False), question)
    ]


def test_rows_that_are_there_are_indexed_with_the_recipe(
    database: str, admin: Callable[[str], str], connection: Connection
) -> None:
    prepare(
        admin(database),
        database,
        "INSERT INTO shop.pages SELECT n, 'Page ' || n, 'alpha ' || n FROM generate_series(1, 20) AS n",
    )
    assert len(indexed(connection)) == 20
    assert indexed(connection) == expected(connection)
    ids = rows(connection, "SELECT external_ref FROM kbsearch.kb_articles ORDER BY id")
    assert ids == [(f"page:{number}",) for number in range(1, 21)]


def test_many_rows_of_a_statement_are_inserted_updated_and_deleted(shop: Connection) -> None:
    shop.execute("INSERT INTO shop.pages SELECT n, 'Page ' || n, 'alpha number' || n FROM generate_series(1, 50) AS n")
    assert found(shop, "number7") == ["page:7"]
    shop.execute("UPDATE shop.pages SET title = 'Zebra ' || id WHERE id <= 30")
    assert len(found(shop, "zebra")) == 30
    assert indexed(shop) == expected(shop)
    shop.execute("UPDATE shop.pages SET body = 'gamma' WHERE id > 45")
    shop.execute("DELETE FROM shop.pages WHERE id BETWEEN 10 AND 20")
    assert indexed(shop) == expected(shop)
    with shop.cursor() as cursor, cursor.copy("COPY shop.pages (id, title, body) FROM STDIN") as copy:
        for number in range(100, 110):
            copy.write_row((number, "Copied", "delta"))
    assert len(found(shop, "delta")) == 10
    shop.execute(
        "INSERT INTO shop.pages (id, title) VALUES (100, 'Again'), (200, 'New') ON CONFLICT (id) DO UPDATE SET title = excluded.title"
    )
    assert indexed(shop) == expected(shop)
    shop.execute("UPDATE shop.pages SET id = id + 1000 WHERE id >= 100")
    assert indexed(shop) == expected(shop)
    shop.execute("TRUNCATE shop.pages")
    assert indexed(shop) == []


def test_what_the_application_wrote_itself_is_left_alone(shop: Connection) -> None:
    org_id = organization_id(shop, "store", create=False)
    other = organization_id(shop, "other", create=True)
    for organisation, reference in ((org_id, "own"), (other, "page:1")):
        KBSearch(shop).upsert_article(organisation, external_ref=reference, title="Own")
    shop.execute("INSERT INTO shop.pages VALUES (1, 'One')")
    shop.execute("DELETE FROM shop.pages")
    shop.execute("TRUNCATE shop.pages")
    assert rows(shop, "SELECT org_id, external_ref FROM kbsearch.kb_articles ORDER BY id") == [
        (org_id, "own"),
        (other, "page:1"),
    ]


def test_a_write_that_is_rolled_back_has_not_been(shop: Connection, database: str) -> None:
    shop.execute("INSERT INTO shop.pages VALUES (1, 'One', 'alpha')")
    before = indexed(shop)
    with psycopg.connect(database) as other:
        other.execute("INSERT INTO shop.pages VALUES (2, 'Two', 'beta')")
        other.execute("DELETE FROM shop.pages WHERE id = 1")
        other.rollback()
    assert indexed(shop) == before


def test_a_role_without_rights_and_with_a_hostile_search_path_keeps_it_in_sync(
    shop: Connection, editor: Connection
) -> None:
    editor.execute("INSERT INTO shop.pages VALUES (1, 'One', 'alpha'), (2, 'Two', 'beta'), (3, '', ' padded ')")
    assert indexed(shop) == expected(shop)
    editor.execute("UPDATE shop.pages SET title = 'Changed' WHERE id = 1")
    editor.execute("UPDATE shop.pages SET is_public = false WHERE id = 2")
    editor.execute("DELETE FROM shop.pages WHERE id = 3")
    assert indexed(shop) == expected(shop)
    assert found(shop, "beta") == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        editor.execute("SELECT count(*) FROM kbsearch.kb_articles")
    editor.execute("TRUNCATE shop.pages")
    assert indexed(shop) == []


def test_vectors_come_later_and_stay_while_title_and_body_do(shop: Connection, database: str) -> None:
    shop.execute(
        "INSERT INTO shop.pages SELECT n, 'Page ' || n, repeat('alpha ' || n || ' ', 300) FROM generate_series(1, 4) AS n"
    )
    assert found(shop, "alpha") != []
    command = [*shlex.split(EMBED)[1:], "--embedder", "tests.ingest.test_pipeline:HashEmbedder", "--dsn", database]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output

    def lacking() -> list[tuple[Any, ...]]:
        return rows(
            shop,
            """SELECT DISTINCT a.external_ref FROM kbsearch.kb_article_chunks AS c JOIN kbsearch.kb_articles AS a ON a.id = c.article_id
            WHERE NOT EXISTS (SELECT FROM kbsearch.kb_article_embeddings AS e WHERE e.chunk_id = c.id)""",
        )

    assert lacking() == []
    shop.execute("UPDATE shop.pages SET changed_at = now(), title = title")
    shop.execute("UPDATE shop.pages SET is_public = false WHERE id = 1")
    assert lacking() == []
    shop.execute("UPDATE shop.pages SET title = 'New' WHERE id = 2")
    assert lacking() == [("page:2",)]
    report = embed_missing(shop, organization_id(shop, "store", create=False), HashEmbedder())
    assert report.embedded == report.missing > 1
    assert lacking() == []


@pytest.mark.parametrize(
    "body",
    ["", " \n\t ", "x", "漢" * 5000, "word " * 60_000, "a" * 300_000, "a" + " " * 300_000 + "b", '<>&\\ " {}$$ %s'],
)
def test_any_body_is_stored_in_chunks_that_hold_all_its_words(shop: Connection, body: str) -> None:
    shop.execute("INSERT INTO shop.pages VALUES (1, 'Title', %s)", [body])
    chunks = [content for (content,) in rows(shop, "SELECT content FROM kbsearch.kb_article_chunks ORDER BY chunk_no")]
    assert re.sub(r"\s", "", "".join(chunks)) == re.sub(r"\s", "", body)
    assert max(map(len, chunks)) <= 1100
    assert found(shop, "title") == ["page:1"]


def test_the_query_of_the_page_finds_the_table_in_sync_and_mends_what_triggers_missed(
    shop: Connection, database: str
) -> None:
    shop.execute("INSERT INTO shop.pages SELECT n, 'Page ' || n, 'alpha ' || n FROM generate_series(1, 5) AS n")
    shop.execute("ALTER TABLE shop.pages DISABLE TRIGGER USER")
    shop.execute("DELETE FROM shop.pages WHERE id = 1")
    shop.execute("UPDATE shop.pages SET body = 'omega' WHERE id = 2")
    shop.execute("ALTER TABLE shop.pages ENABLE TRIGGER USER")
    command = [*shlex.split(QUERY)[1:], "--no-embed", "--dsn", database]
    for _ in range(2):
        result = CliRunner().invoke(app, command, catch_exceptions=False)
        assert result.exit_code == 0, result.output
    assert found(shop, "omega") == ["page:2"]
    assert [row[:4] for row in indexed(shop)] == [row[:4] for row in expected(shop)]


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "title", "body", "public", "renumber", "delete", "truncate", "rollback"]),
        st.integers(min_value=1, max_value=4),
        st.sampled_from(["", "alpha", "beta gamma", "alpha " * 300]),
    ),
    max_size=12,
)
STATEMENTS = {
    "insert": "INSERT INTO shop.pages SELECT n, 'T', %(text)s FROM generate_series(%(id)s::int, %(id)s + 1) AS n ON CONFLICT DO NOTHING",
    "title": "UPDATE shop.pages SET title = 'Title ' || %(text)s WHERE id >= %(id)s",
    "body": "UPDATE shop.pages SET body = %(text)s || id WHERE id <> %(id)s",
    "public": "UPDATE shop.pages SET is_public = NOT is_public WHERE id %% 2 = %(id)s %% 2",
    "renumber": "UPDATE shop.pages SET id = id + 10, title = title || %(text)s::text WHERE id = %(id)s",
    "delete": "DELETE FROM shop.pages WHERE id = %(id)s OR body = %(text)s",
    "truncate": "TRUNCATE shop.pages",
}


@given(ACTIONS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_statements_the_index_is_the_table(shop: Connection, actions: list[tuple[str, int, str]]) -> None:
    shop.execute("TRUNCATE shop.pages")
    for action, number, text in actions:
        if action == "rollback":
            with shop.transaction(force_rollback=True):
                shop.execute("UPDATE shop.pages SET title = 'never', body = 'never'")
        else:
            try:
                shop.execute(STATEMENTS[action].encode(), {"id": number, "text": text})
            except psycopg.errors.UniqueViolation:
                continue
        assert [row[:4] for row in indexed(shop)] == [row[:4] for row in expected(shop)]
    assert [(row[0], re.sub(r"\s", "", row[4] or ""), row[5]) for row in indexed(shop)] == [
        (row[0], re.sub(r"\s", "", row[2]), True) for row in expected(shop)
    ]
