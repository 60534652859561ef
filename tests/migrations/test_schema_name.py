"""kbsearch under other names, and two of them in one database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from kbsearch import migrate
from kbsearch.errors import MigrationError
from kbsearch.inventory import read
from kbsearch.schema import check_schema, in_schema
from kbsearch.session import Session
from tests.conftest import Databases
from tests.migrations.hosts import left_overs, psql, run

NAMES = ["help_search", "a", "_", "p", "v_row", "new_kbsearch", "name", "schema", "x" * 63, "kb9"]


@pytest.fixture
def two(empty_database: str, databases: Databases) -> str:
    """Connection string of a database with a second schema made by the DBA."""
    run(databases.admin(empty_database), f"CREATE SCHEMA help_search AUTHORIZATION {databases.role}")
    return empty_database


def named(dsn: str, schema: str) -> dict[str, str]:
    """The inventory, written as if the schema had the default name."""
    with psycopg.connect(dsn) as connection:
        return dict(read(Session(connection), schema, as_schema="kbsearch"))


@pytest.mark.parametrize("name", NAMES)
def test_any_good_name_will_do(empty_database: str, shared_database: str, databases: Databases, name: str) -> None:
    run(databases.admin(empty_database), f"CREATE SCHEMA {name} AUTHORIZATION {databases.role}")
    assert check_schema(name) == name
    migrate.upgrade(empty_database, schema=name)
    assert migrate.current(empty_database, schema=name) == migrate.head()
    assert migrate.current(empty_database) is None
    assert migrate.check(empty_database, schema=name) == []
    with psycopg.connect(empty_database) as connection:
        connection.execute(f"INSERT INTO {name}.organizations (name) VALUES ('a')".encode())
        connection.execute(
            f"SELECT {name}.upsert_kb_article_v1(p_org_id => 1, p_title => 'pie', p_chunks => '[{{\"content\": \"pie\"}}]')".encode()
        )
        row = connection.execute(f"SELECT title FROM {name}.search_kb_hybrid_v1(1, 'pie')".encode()).fetchone()
        assert row == ("pie",)
    migrate.downgrade(empty_database, schema=name)
    assert left_overs(empty_database) == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Kbsearch",
        "9a",
        "a-b",
        "a b",
        "a.b",
        'a"',
        "ä",
        "x" * 64,
        "a\n",
        "pg_temp",
        "pg_mine",
        "information_schema",
        "hnsw",
        "plpgsql",
        "new",
        None,
        5,
    ],
)
def test_a_bad_name_is_refused_before_anything_is_asked(name: str) -> None:
    dead = "host=/nonexistent dbname=x"
    calls: list[Callable[[], object]] = [
        lambda: check_schema(name),
        lambda: in_schema("SELECT 1", name),
        lambda: migrate.upgrade(dead, schema=name),
        lambda: migrate.downgrade(dead, schema=name),
        lambda: migrate.current(dead, schema=name),
        lambda: migrate.check(dead, schema=name),
        lambda: migrate.script(schema=name),
        lambda: migrate.removal_script(schema=name),
    ]
    for call in calls:
        with pytest.raises(MigrationError, match="the schema name") as refusal:
            call()
        assert "lower-case letters" in str(refusal.value.hint)


def test_words_that_need_quotes_are_refused(shared_database: str) -> None:
    """Every word of the server's that is not free in all places where the SQL names the schema."""
    with psycopg.connect(shared_database) as connection:
        words = connection.execute("SELECT word FROM pg_get_keywords() WHERE catcode <> 'U'").fetchall()
    assert len(words) > 100
    for (word,) in words:
        with pytest.raises(MigrationError):
            check_schema(word)


def test_nothing_says_kbsearch_under_another_name(two: str) -> None:
    migrate.upgrade(two, schema="help_search")
    with psycopg.connect(two) as connection:
        found = []
        for query in (
            "SELECT p.proname, pg_get_functiondef(p.oid) FROM pg_proc AS p WHERE p.pronamespace = 'help_search'::regnamespace",
            "SELECT classoid::regclass, description FROM pg_description WHERE classoid <> 'pg_description'::regclass",
            "SELECT relname, reloptions::text FROM pg_class",
            "SELECT adrelid::regclass, pg_get_expr(adbin, adrelid) FROM pg_attrdef",
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint",
            "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger",
            "SELECT indexname, indexdef FROM pg_indexes",
            "SELECT viewname, definition FROM pg_views WHERE schemaname = 'help_search'",
            "SELECT attname, attrelid::regclass FROM pg_attribute",
            "SELECT typname, typdefault FROM pg_type",
        ):
            found += [row for row in connection.execute(query.encode()) if "kbsearch" in str(row).lower()]
        tables = connection.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'help_search'::regnamespace AND relkind = 'r'"
        ).fetchall()
        for (table,) in tables:
            found += [
                row for row in connection.execute(f"SELECT t::text FROM {table} AS t".encode()) if "kbsearch" in row[0]
            ]
    # The schema that the DBA made is not ours.
    assert found == []


def test_two_names_are_the_same_but_for_the_name(two: str, shared_database: str) -> None:
    migrate.upgrade(two)
    psql(two, migrate.script(schema="help_search"))
    assert named(two, "help_search") == named(two, "kbsearch") == named(shared_database, "kbsearch")
    assert migrate.check(two) == migrate.check(two, schema="help_search") == []


def test_one_can_go_while_the_other_stays(two: str) -> None:
    migrate.upgrade(two)
    migrate.upgrade(two, schema="help_search")
    run(two, "INSERT INTO help_search.organizations (name) VALUES ('stays')")
    migrate.downgrade(two)
    assert migrate.current(two) is None
    assert migrate.check(two, schema="help_search") == []
    with psycopg.connect(two) as connection:
        assert connection.execute("SELECT name FROM help_search.organizations").fetchall() == [("stays",)]
    migrate.upgrade(two)
    psql(two, migrate.removal_script(schema="help_search"))
    assert migrate.check(two) == []


ARTICLES = [
    ("returns", "Returns", "Send it back within 30 days. We refund shipping.", [0.6, 0.8]),
    ("shipping", "Shipping", "We ship within two days. Shipping is free.", [0.0, 1.0]),
    ("again", "Returns", "Send it back within 30 days. We refund shipping.", [0.6, 0.8]),
    ("gift", "Gift cards", "A gift card has no date.", [1.0, 0.0]),
]


def answers(connection: psycopg.Connection[Any], schema: str) -> Iterator[object]:
    """The same data, the same questions, in the schema of this name: rows with their cursors, pages, errors."""

    def ask(statement: str) -> object:
        try:
            with connection.transaction():
                return connection.execute(in_schema(statement, schema).encode()).fetchall()
        except psycopg.DatabaseError as error:
            diagnosis = error.diag
            return error.sqlstate, diagnosis.message_primary, diagnosis.message_detail

    yield ask("INSERT INTO kbsearch.organizations (name) VALUES ('a') RETURNING id")
    yield ask(
        "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES ('toy', 'toy', 2) RETURNING id"
    )
    for reference, title, text, vector in ARTICLES:
        yield ask(
            f"SELECT kbsearch.upsert_kb_article_v1(p_org_id => 1, p_external_ref => '{reference}', p_title => '{title}', p_space_id => 1,"
            f""" p_chunks => '[{{"content": "{text}", "embedding": {vector}}}]')"""
        )
    for words in ("shipping", "refund shipping -gift", '"send it back"', "", "nothing-there", "days"):
        search = f"p_org_id => 1, p_query_text => '{words}', p_query_embedding => '[0.6, 0.8]'"
        yield ask(f"SELECT * FROM kbsearch.search_kb_hybrid_v1({search})")
        for profile in ("rrf@1", "keyword@1", "nonsense@1"):
            yield ask(f"SELECT * FROM kbsearch.search_kb_hybrid_v1({search}, p_limit => 2, p_profile => '{profile}')")
        yield ask(f"SELECT kbsearch.search_kb_hybrid_page_v1({search}, p_limit => 2)")
    cursor = connection.execute(
        in_schema("SELECT cursor FROM kbsearch.search_kb_hybrid_v1(1, 'shipping', p_limit => 1)", schema).encode()
    ).fetchone()
    assert cursor is not None
    yield cursor
    yield ask(f"SELECT * FROM kbsearch.search_kb_hybrid_v1(1, 'shipping', p_cursor => '{cursor[0]}')")
    yield ask("SELECT kbsearch.rebuild_kb_index_v1(1)")
    yield ask("UPDATE kbsearch.organizations SET language = 'german' WHERE id = 1 RETURNING id")
    yield ask("SELECT * FROM kbsearch.search_kb_hybrid_v1(1, 'shipping')")


def test_same_data_same_rows_and_cursors(two: str) -> None:
    migrate.upgrade(two)
    migrate.upgrade(two, schema="help_search")
    with psycopg.connect(two, autocommit=True) as connection:
        ours, theirs = list(answers(connection, "kbsearch")), list(answers(connection, "help_search"))
    assert ours == theirs
    assert sum(isinstance(answer, list) and len(answer) > 0 for answer in ours) > 20


def test_a_cursor_of_one_is_good_in_the_other_and_locks_are_not_shared(two: str) -> None:
    """The same functions on the same data; but a transaction that holds an organisation of one does not hold up the other."""
    migrate.upgrade(two)
    migrate.upgrade(two, schema="help_search")
    with psycopg.connect(two) as first, psycopg.connect(two, autocommit=True) as second:
        for schema in ("kbsearch", "help_search"):
            second.execute(f"INSERT INTO {schema}.organizations (name) VALUES ('a')".encode())
            second.execute(
                f"SELECT {schema}.upsert_kb_article_v1(1, 'a', p_title => 'pie', p_chunks => '[{{\"content\": \"pie\"}}]')".encode()
            )
        first.execute("SELECT kbsearch.rebuild_kb_index_v1(1)")
        second.execute("SET lock_timeout = '2s'")
        second.execute("SELECT help_search.rebuild_kb_index_v1(1)")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            second.execute("SELECT kbsearch.rebuild_kb_index_v1(1)")
