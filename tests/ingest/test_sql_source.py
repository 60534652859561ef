from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbsearch.ingest import IngestReport, UsageError, ingest
from kbsearch.ingest.organizations import organization_id
from kbsearch.ingest.pipeline import READ_AT_ONCE
from kbsearch.ingest.sql_query import Query, source_connection
from kbsearch.ingest.sql_source import SqlOptions, SqlSource
from tests.ingest.test_pipeline import SMALL, Connection, HashEmbedder, rows, stored

PAGES = "SELECT id, title, body, changed AS updated_at FROM public.pages"


@pytest.fixture
def shop(bare_database: str) -> Iterator[Connection]:
    """A connection to another database, with a table of pages."""
    with psycopg.connect(bare_database, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE public.pages (id bigint, title text, body text, changed timestamptz DEFAULT '2024-01-01 00:00:00.123456+00')"
        )
        yield connection


@pytest.fixture
def run(connection: Connection, shop: Connection, bare_database: str) -> Callable[..., IngestReport]:
    """Ingests the rows of a query of the other database."""

    def run_(
        query: str = PAGES, *, org: str = "o", prune: bool = False, embedder: Any = None, **options: Any
    ) -> IngestReport:
        org_id = organization_id(connection, org, create=True)
        with source_connection(bare_database) as source:
            feed = SqlSource(Query(source, query), SqlOptions(**{"name": "pages", **options}))
            return ingest(connection, org_id, feed, splitter=SMALL, prune=prune, embedder=embedder)

    return run_


def insert(shop: Connection, *entries: tuple[Any, ...]) -> None:
    with shop.cursor() as cursor:
        cursor.executemany("INSERT INTO public.pages (id, title, body) VALUES (%s, %s, %s)", entries)


def references(connection: Connection) -> list[str]:
    return [name for (name,) in rows(connection, "SELECT external_ref FROM kbsearch.kb_articles ORDER BY id")]


def test_rows_become_articles_whose_ids_follow_their_names(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    insert(
        shop, (10, "Ten", "alpha ten"), (9, "Nine", "alpha nine"), (100, None, "alpha hundred"), (2, "Title only", None)
    )
    embedder = HashEmbedder()
    report = run(embedder=embedder)
    assert (report.read, report.written, report.rejected, report.calibrated) == (4, 4, (), True)
    assert references(connection) == ["10", "100", "2", "9"]
    assert report.embedded_chunks == report.chunks == 4
    again = run(embedder=embedder)
    assert (again.written, again.unchanged) == (0, 4)
    assert len(embedder.inputs) == 4


def test_every_column_has_its_place_in_the_article(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    run(
        "SELECT 'page:' || 7 AS id, 'T' AS title, '# Kopf' || chr(10) || chr(10) || 'Äpfel' AS text, 'faq' AS kind, 'https://x/7' AS source_uri,"
        " jsonb_build_object('price', 1.50, 'tags', ARRAY['a', 'b']) AS metadata, false AS published, 'de-AT' AS language -- all of them",
        format="markdown",
    )
    assert rows(
        connection,
        "SELECT external_ref, title, body, kind, source_uri, metadata, published, kbsearch.name_kb_language_v1(language) FROM kbsearch.kb_articles",
    ) == [("page:7", "T", "# Kopf\n\nÄpfel", "faq", "https://x/7", {"price": 1.5, "tags": ["a", "b"]}, False, "german")]
    assert rows(connection, "SELECT content FROM kbsearch.kb_article_chunks") == [("# Kopf\n\nÄpfel",)]


def test_html_gives_title_and_language_where_the_row_has_none(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    pytest.importorskip("selectolax")
    insert(
        shop,
        (1, None, "<html lang=fr><h1>Titre</h1><nav>x</nav><p>Bonjour"),
        (2, "Given", "<p>just <b>a</b> fragment</p>"),
    )
    assert run(format="html").written == 2
    assert rows(
        connection,
        "SELECT title, body, kbsearch.name_kb_language_v1(language) FROM kbsearch.kb_articles ORDER BY external_ref",
    ) == [("Titre", "# Titre\n\nBonjour", "french"), ("Given", "just a fragment", None)]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT title FROM public.pages", "no column id"),
        ("SELECT id FROM public.pages", "no column title, body or text"),
        ("SELECT id, title, price, colour FROM public.pages, (SELECT 1, 2) AS x (price, colour)", "colour, price"),
        ("SELECT id, title, body, body AS text FROM public.pages", "both a column body and a column text"),
        ("SELECT id, title, title FROM public.pages", "more than one column title"),
        ("SELECT id, ''::bytea AS body FROM public.pages", "bytea"),
        ("SELECT id, title, 1 AS published FROM public.pages", "not of type boolean"),
        ("SELECT id, title FROM public.nowhere", "nowhere"),
        ("SELECT id, title FORM public.pages", "syntax error"),
        ("SELECT id, title FROM public.pages; DROP TABLE public.pages", "syntax error"),
        (
            "SELECT id, title FROM public.pages) AS x; DROP TABLE public.pages; --",
            "cannot insert multiple commands|syntax error|read-only",
        ),
        (
            "SELECT id, title FROM public.pages) AS kb_rows; COMMIT; DELETE FROM public.pages; SELECT * FROM (SELECT 1 AS id, 'x' AS title",
            "cannot insert multiple commands",
        ),
        ("SELECT id, title, (public.meddle())::text AS body FROM public.pages", "read-only"),
    ],
)
def test_a_query_that_cannot_be_used_is_told_and_changes_nothing(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport], query: str, says: str
) -> None:
    insert(shop, (1, "One", "x"))
    shop.execute(
        "CREATE FUNCTION public.meddle() RETURNS int LANGUAGE sql AS 'INSERT INTO public.pages (id) VALUES (2) RETURNING 1'"
    )
    with pytest.raises(UsageError, match=says):
        run(query)
    assert rows(shop, "SELECT count(*) FROM public.pages") == [(1,)]
    assert references(connection) == []


def test_percent_signs_and_comments_of_a_query_are_its_own(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    insert(shop, (1, "100 %", "x"), (2, "Two", "y"))
    assert (
        run(
            "WITH p AS (SELECT * FROM public.pages) SELECT id, title FROM p WHERE title LIKE '%%\\%' OR '{a}' = title;"
        ).written
        == 1
    )
    assert run("SELECT id, title FROM public.pages ORDER BY id DESC LIMIT 1 -- the last").written == 1


def test_bad_rows_are_reported_and_the_rest_is_ingested(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    insert(
        shop,
        (1, "Good", "x"),
        (2, "Twice", "x"),
        (2, "Twice", "y"),
        (3, None, " "),
        (None, "Lost", "x"),
        (4, "Meta", "x"),
    )
    report = run(
        "SELECT id, title, body, CASE id WHEN 4 THEN '[1]' WHEN 1 THEN '{}' END AS metadata FROM public.pages",
        embedder=HashEmbedder(),
    )
    assert (report.read, report.written) == (6, 1)
    assert [(entry.where, entry.external_ref) for entry in report.rejected] == [
        ("row 2", "2"),
        ("row 2", "2"),
        ("row 3", "3"),
        ("row 4", "4"),
        ("a row", None),
    ]
    assert references(connection) == ["1"]
    assert report.calibrated


def test_a_rejected_row_leaves_an_article_of_its_name_alone(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    org_id = organization_id(connection, "o", create=True)
    connection.execute(
        "INSERT INTO kbsearch.kb_articles (org_id, external_ref, title) VALUES (%s, '1', 'The application''s own')",
        [org_id],
    )
    insert(shop, (1, "One", "x"), (1, "One", "y"))
    assert len(run().rejected) == 2
    assert references(connection) == ["1"]


def test_bytes_that_are_no_text_are_a_fault_of_their_row(connection: Connection, databases: Any) -> None:
    name = psycopg.conninfo.conninfo_to_dict(databases.bare())["dbname"]
    ascii_database = psycopg.conninfo.make_conninfo(databases.server_dsn, dbname=f"{name}_ascii")
    try:
        with psycopg.connect(databases.server_dsn, autocommit=True) as server:
            server.execute(f"CREATE DATABASE {name}_ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'".encode())
        with psycopg.connect(ascii_database, autocommit=True, client_encoding="SQL_ASCII") as source:
            source.execute(b"CREATE TABLE public.pages (id text, title text)")
            source.execute(b"INSERT INTO public.pages VALUES ('good', 'x'), ('bad', E'caf\\xe9'), (E'\\xe9', 'x')")
        org_id = organization_id(connection, "o", create=True)
        with source_connection(ascii_database) as source:
            feed = SqlSource(Query(source, "SELECT id, title FROM public.pages"), SqlOptions("pages"))
            report = ingest(connection, org_id, feed)
    finally:
        databases.drop(ascii_database)
        databases.drop(psycopg.conninfo.make_conninfo(databases.server_dsn, dbname=str(name)))
    assert report.written == 1
    assert sorted(entry.where for entry in report.rejected) == ["a row", "row bad"]


# Incremental


def test_only_rows_changed_since_the_last_run_are_read(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    insert(shop, *((number, f"Page {number}", "text") for number in range(50)))
    shop.execute("UPDATE public.pages SET changed = timestamptz '2024-01-01' + id * interval '1 hour'")
    assert run(updated_at="updated_at").written == 50
    quiet = run(updated_at="updated_at")
    assert (quiet.read, quiet.written, quiet.unchanged) == (1, 0, 1)
    shop.execute("UPDATE public.pages SET title = 'New', changed = '2024-02-01' WHERE id = 3")
    insert(shop, (77, "No time", "x"))
    shop.execute("UPDATE public.pages SET changed = NULL WHERE id = 77")
    third = run(updated_at="updated_at")
    assert (third.read, third.written) == (3, 2)
    assert run(updated_at="updated_at", overlap=40 * 24 * 3600.0).read == 51
    assert run().read == 51


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "date", "bigint", "integer"])
def test_rows_with_the_time_of_the_mark_are_never_lost(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport], kind: str
) -> None:
    value = "7" if "int" in kind else "2024-03-01"
    shop.execute(f"ALTER TABLE public.pages ALTER changed DROP DEFAULT, ALTER changed TYPE {kind} USING NULL".encode())
    for number in range(3):
        insert(shop, (number, "Page", "text"))
        shop.execute(f"UPDATE public.pages SET changed = '{value}'".encode())
        report = run(updated_at="updated_at", overlap=0)
        assert report.written == 1
    assert run(updated_at="updated_at", overlap=0).unchanged == 3


def test_a_time_that_is_yet_to_come_hides_nothing(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    insert(shop, (1, "Ahead", "x"), (2, "Never", "x"), (3, "Now", "x"))
    shop.execute("UPDATE public.pages SET changed = '2999-01-01' WHERE id = 1")
    shop.execute("UPDATE public.pages SET changed = 'infinity' WHERE id = 2")
    shop.execute("UPDATE public.pages SET changed = now() WHERE id = 3")
    run(updated_at="updated_at")
    insert(shop, (4, "Later", "x"))
    shop.execute("UPDATE public.pages SET changed = now() WHERE id = 4")
    assert run(updated_at="updated_at").written == 1
    assert references(connection) == ["1", "2", "3", "4"]


def test_a_transaction_that_commits_late_is_found_within_the_overlap(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport], bare_database: str
) -> None:
    insert(shop, (1, "One", "x"))
    shop.execute("UPDATE public.pages SET changed = '2024-01-01 12:00'")
    with psycopg.connect(bare_database) as late:
        late.execute("INSERT INTO public.pages VALUES (2, 'Late', 'x', '2024-01-01 11:58')")
        run(updated_at="updated_at")
    assert run(updated_at="updated_at", overlap=60).written == 0
    assert run(updated_at="updated_at", overlap=120).written == 1


def test_a_row_that_was_rejected_is_read_again_until_it_is_good(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    insert(shop, (1, "Bad", "x"), (2, "Good", "x"))
    shop.execute("UPDATE public.pages SET changed = '2023-01-01' WHERE id = 1")
    bad = PAGES.replace("body", "body, CASE WHEN title = 'Bad' THEN '[]' END AS metadata")
    first = run(bad, updated_at="updated_at")
    second = run(bad, updated_at="updated_at")
    assert ([entry.external_ref for entry in first.rejected], [entry.external_ref for entry in second.rejected]) == (
        ["1"],
        ["1"],
    )
    shop.execute("UPDATE public.pages SET title = 'Better' WHERE id = 1")  # and nobody touches `changed`
    third = run(bad, updated_at="updated_at")
    assert (third.written, third.rejected) == (1, ())
    assert run(bad, updated_at="updated_at").read == 1


def test_a_run_that_stopped_has_not_moved_the_mark(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    insert(shop, *((number, f"Page {number}", "text " * 9) for number in range(200)))
    with pytest.raises(RuntimeError, match="embedder failed"):
        run(updated_at="updated_at", embedder=HashEmbedder(fail_after=150))
    report = run(updated_at="updated_at", embedder=HashEmbedder())
    assert report.read == 200
    assert 0 < report.unchanged < 200
    assert report.unchanged + report.written == 200
    assert report.calibrated


def test_another_query_or_setting_reads_everything_again(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    insert(shop, (1, "Old", "# x"), (2, "New", "x"))
    shop.execute("UPDATE public.pages SET changed = '2023-01-01' WHERE id = 1")
    run(updated_at="updated_at")
    assert run(updated_at="updated_at").read == 1
    assert run(updated_at="updated_at", format="markdown").read == 2
    assert run(updated_at="updated_at", kind="faq").written == 2
    assert run(f"{PAGES} WHERE true", updated_at="updated_at", kind="faq").read == 2
    assert run(updated_at="updated_at", kind="faq", embedder=HashEmbedder()).reembedded == 2
    assert run(updated_at="updated_at", name="other").read == 2
    assert run(updated_at="updated_at", org="other").read == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"updated_at": "title"}, "neither a timestamp"),
        ({"updated_at": "nothing"}, "no column nothing"),
        ({"overlap": -1.0}, "negative"),
        ({"name": "a:b"}, "no name for a source"),
    ],
)
def test_options_that_cannot_be_are_told(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        run(**options)


# Prune


def test_prune_deletes_articles_whose_rows_are_gone_also_when_only_changes_are_read(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    insert(shop, *((number, "Page", "text") for number in range(5)))
    shop.execute("UPDATE public.pages SET changed = timestamptz '2024-01-01' + id * interval '1 hour'")
    run(updated_at="updated_at")
    run("SELECT 'other' AS id, 'Other' AS title", name="other")
    shop.execute("DELETE FROM public.pages WHERE id IN (0, 4)")
    report = run(updated_at="updated_at", prune=True)
    assert (report.read, report.deleted) == (0, 2)
    assert references(connection) == ["1", "2", "3", "other"]
    shop.execute("TRUNCATE public.pages")
    with pytest.raises(UsageError, match="no row"):
        run(updated_at="updated_at", prune=True)
    assert len(references(connection)) == 4


def test_prune_keeps_the_articles_of_rows_that_are_there_and_bad(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    insert(shop, (1, "One", "x"), (2, "Two", "x"))
    run()
    insert(shop, (2, "Two again", "x"))
    assert run(prune=True).deleted == 0
    assert references(connection) == ["1", "2"]


def test_prune_deletes_the_article_of_a_row_that_became_empty(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    insert(shop, (1, "One", "x"), (2, "Two", "x"))
    run(updated_at="updated_at")
    shop.execute("UPDATE public.pages SET title = NULL, body = ' ' WHERE id = 2")
    assert len(run(updated_at="updated_at").rejected) == 1
    assert references(connection) == ["1", "2"]
    assert run(updated_at="updated_at", prune=True).deleted == 1


def test_a_title_is_taken_from_the_first_heading_where_the_row_has_none(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport]
) -> None:
    insert(shop, (1, None, "intro\n\n## Head *line*"), (2, "", "no heading"))
    assert run(format="markdown").written == 2
    assert rows(connection, "SELECT title FROM kbsearch.kb_articles ORDER BY id") == [("Head line",), (None,)]


def test_without_the_extra_html_rows_are_refused_at_once(
    run: Callable[..., IngestReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)
    with pytest.raises(UsageError, match=r"\[html\]"):
        run(format="html")


# Laws


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["insert", "update", "delete", "run", "stop"]),
            st.integers(min_value=0, max_value=5),
            st.integers(min_value=0, max_value=3),
        ),
        max_size=14,
    )
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_changes_and_runs_a_run_gives_what_a_whole_read_gives(
    connection: Connection, shop: Connection, run: Callable[..., IngestReport], steps: list[tuple[str, int, int]]
) -> None:
    """Incremental: rows inserted, changed and deleted between runs, some of them stopped; few distinct times, so that many are equal."""
    names = itertools.count()
    org = f"law {id(steps)} {next(names)}"
    shop.execute("TRUNCATE public.pages")
    clock = 0
    for step, row, ahead in steps:
        clock += ahead
        when = f"2024-01-01 00:00:{clock:02}+00"
        if step == "insert":
            shop.execute(
                "INSERT INTO public.pages SELECT %s, 'Page', %s, %s WHERE NOT EXISTS (SELECT FROM public.pages WHERE id = %s)",
                [row, f"text {clock} {row}", when, row],
            )
        elif step == "update":
            shop.execute(
                "UPDATE public.pages SET body = %s, changed = %s WHERE id = %s", [f"new {clock} {row} " * 9, when, row]
            )
        elif step == "delete":
            shop.execute("DELETE FROM public.pages WHERE id = %s", [row])
        elif step == "run":
            run(org=org, updated_at="updated_at", overlap=0, embedder=HashEmbedder())
        else:
            with contextlib.suppress(RuntimeError):
                run(org=org, updated_at="updated_at", overlap=0, embedder=HashEmbedder(fail_after=row))
    shop.execute(
        "INSERT INTO public.pages SELECT 9, 'Last', 'last', %s WHERE true", [f"2024-01-01 00:00:{clock:02}+00"]
    )
    embedder = HashEmbedder()
    report = run(org=org, updated_at="updated_at", overlap=0, embedder=embedder, prune=True)
    whole = run(org=f"{org} whole", embedder=embedder)
    got, expected = (
        [
            (name, *rest)
            for _, name, *rest in sorted(stored(connection, org_id), key=lambda row: (row[1], row[7] or 0))
            if rest[4]
        ]
        for org_id in (report.org_id, whole.org_id)
    )
    assert got == expected


def test_only_some_rows_are_in_memory_at_a_time(connection: Connection, shop: Connection, bare_database: str) -> None:
    insert(shop, *((number, "Page", "text") for number in range(450)))
    held: list[int] = []

    class Watched(SqlSource):
        given = 0

        def documents(self) -> Iterator[Any]:
            for entry in super().documents():
                self.given += 1
                yield entry

    with source_connection(bare_database) as source:
        feed = Watched(Query(source, PAGES), SqlOptions("pages"))

        def progress(stage: str, done: int, _size: int) -> None:
            if stage == "articles":
                held.append(feed.given - done)
                if feed.given < 450:
                    assert rows(source, "SELECT name, is_scrollable FROM pg_cursors") == [("kb_rows", False)]

        report = ingest(connection, organization_id(connection, "o", create=True), feed, progress=progress)
    assert report.written == 450
    assert len(held) >= 450 / READ_AT_ONCE
    assert max(held) < READ_AT_ONCE
