"""A first load is no slower for what the planner does not know yet: tables that were empty a moment ago and that nobody has analysed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from kbsearch.ingest import Splitter, prepare, statistics
from kbsearch.ingest.statistics import TABLES
from tests.ingest.test_pipeline import Connection, HashEmbedder, documents, rows, run

MANY = 4_000
ARTICLE = """SELECT kbsearch.upsert_kb_article_v1(1, %(ref)s, 'title', p_space_id => 1,
p_chunks => jsonb_build_array(jsonb_build_object('content', 'lamp', 'embedding', %(vector)s::jsonb)))"""
READ = """SELECT sum(s.idx_tup_read), sum(io.idx_blks_hit + io.idx_blks_read)
FROM pg_catalog.pg_stat_user_indexes AS s INNER JOIN pg_catalog.pg_statio_user_indexes AS io USING (indexrelid)
WHERE s.schemaname = 'kbsearch' AND s.relname IN ('kb_articles', 'kb_article_chunks', 'kb_article_embeddings')"""


def test_a_write_by_a_session_that_knew_the_tables_empty_reads_no_other_articles(database: str) -> None:
    """Plans that a session made for empty tables stay until somebody analyses them: they must be good for full ones."""
    with psycopg.connect(database, autocommit=True) as writer, psycopg.connect(database, autocommit=True) as loader:
        for connection in (writer, loader):
            connection.execute("SET search_path = ''")

        def write(references: list[str]) -> None:
            for reference in references:
                writer.execute(ARTICLE, {"ref": reference, "vector": json.dumps([1, 0])})

        def read() -> tuple[int, int]:
            writer.execute("SELECT pg_catalog.pg_stat_force_next_flush()")
            entries, pages = loader.execute(READ).fetchall()[0]
            return int(entries), int(pages)

        loader.execute("INSERT INTO kbsearch.organizations (id, name) VALUES (1, 'one')")
        loader.execute(
            "INSERT INTO kbsearch.kb_embedding_spaces (id, name, model, dimensions) VALUES (1, 'one', 'one', 2)"
        )
        # what is written by functions lies behind all else in every index
        loader.execute("SELECT pg_catalog.setval('kbsearch.kb_articles_id_seq', 1000000)")
        first = [f"first {number}" for number in range(8)]
        write(first)
        write(first)
        loader.execute(
            "INSERT INTO kbsearch.kb_articles (org_id, id, external_ref) SELECT 1, g, 'many ' || g FROM generate_series(1, %s) AS g",
            [MANY],
        )
        loader.execute(
            "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content) SELECT 1, g, 'stone' FROM generate_series(1, %s) AS g",
            [MANY],
        )
        loader.execute("SELECT pg_catalog.pg_stat_force_next_flush()")
        before = read()
        references = [f"new {number}" for number in range(10)]
        # new ones, then the same again
        write(references)
        write(references)
        after = read()
    entries, pages = ((then - now) / 20 for then, now in zip(after, before, strict=True))
    assert entries < 20, f"{entries} index entries are read for an article, of {MANY}"
    assert pages < 35, f"{pages} pages of indexes are read for an article"


LOADED = 1_000
LARGE = Splitter(4000)
WORDS = " ".join(f"{first}{second}" for first in ("lamp", "stone", "cloud", "milk") for second in range(25))
ANALYSED = """SELECT s.relname::text, s.analyze_count FROM pg_catalog.pg_stat_user_tables AS s
WHERE s.schemaname = 'kbsearch' AND s.analyze_count > 0 ORDER BY 1"""


def left_alone(connection: Connection) -> None:
    """Autovacuum would analyse, too, if a test took so long that it came by."""
    for name in TABLES:
        connection.execute(f"ALTER TABLE kbsearch.{name} SET (autovacuum_enabled = off)".encode())


def analysed(connection: Connection) -> dict[str, int]:
    return dict(rows(connection, ANALYSED))


def test_a_first_load_has_what_it_fills_analysed(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no batch reads what the ones before have written: each table as it grows, and never one that is small or empty."""
    monkeypatch.setattr(prepare, "COMMITTED_AT_ONCE", 16)
    monkeypatch.setattr(prepare, "COMMITTED_AT_MOST", 16)
    monkeypatch.setattr(statistics, "PAGES", 10)
    given: dict[str, Any] = {"embedder": HashEmbedder(), "splitter": LARGE}
    with psycopg.connect(database, autocommit=True) as connection:
        left_alone(connection)
        assert run(connection, documents(20), org="small", **given).written == 20
        assert analysed(connection) == {}
        assert run(connection, documents(LOADED), **given).written == LOADED
        connection.execute("SELECT pg_catalog.pg_stat_force_next_flush()")
        entries = rows(connection, "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'kb_articles'")
        assert entries[0][0] / LOADED < 60
        run(connection, documents(LOADED), **given)
        found = analysed(connection)
        assert {"kb_articles", "kb_article_chunks", "kb_article_embeddings"} <= set(found) <= set(TABLES)
        assert max(found.values()) <= 3
        # what is known stays known until there is ten times as much
        run(connection, documents(LOADED), **given)
        assert analysed(connection) == found


def test_who_may_not_analyse_loads_all_the_same(database: str, admin: Callable[[str], str]) -> None:
    """Nothing is tried, and the server has nothing to say; where the right is given (PostgreSQL 17), it is used."""
    role = sql.Identifier(f"kb_test_{uuid.uuid4().hex[:8]}")
    said: list[str] = []
    with psycopg.connect(admin(database), autocommit=True) as boss:
        if not rows(boss, "SELECT FROM pg_roles WHERE rolname = current_user AND rolsuper"):
            pytest.skip("needs a superuser")
        boss.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(role))
        try:
            boss.execute(sql.SQL("GRANT USAGE ON SCHEMA ext TO {}").format(role))
            boss.execute("SELECT kbsearch.grant_kb_rights_v1('admin', %s)", [role.as_string(boss).strip('"')])
            left_alone(boss)
            for name in ("o", "p"):
                boss.execute("INSERT INTO kbsearch.organizations (name) VALUES (%s)", [name])
            with psycopg.connect(admin(database), autocommit=True) as connection:
                connection.add_notice_handler(lambda one: said.append(str(one.message_primary)))
                connection.execute(sql.SQL("SET ROLE {}").format(role))
                assert run(connection, documents(LOADED, words=WORDS), splitter=LARGE).written == LOADED
                assert analysed(boss) == {}
                assert said == []
                if connection.info.server_version >= 170000:
                    boss.execute(sql.SQL("GRANT MAINTAIN ON kbsearch.kb_article_chunks TO {}").format(role))
                    assert run(connection, documents(10, words=WORDS), org="p", splitter=LARGE).written == 10
                    assert analysed(boss) == {"kb_article_chunks": 1}
                    assert said == []
        finally:
            boss.execute(sql.SQL("DROP OWNED BY {}").format(role))
            boss.execute(sql.SQL("DROP ROLE {}").format(role))


def test_a_table_that_cannot_be_analysed_now_ends_nothing(database: str) -> None:
    """Somebody vacuums it, say: it is left out."""
    with psycopg.connect(database, autocommit=True) as connection, psycopg.connect(database) as vacuum:
        left_alone(connection)
        vacuum.execute("LOCK TABLE kbsearch.kb_article_chunks IN SHARE UPDATE EXCLUSIVE MODE")
        assert run(connection, documents(LOADED, words=WORDS), splitter=LARGE).written == LOADED
        found = analysed(connection)
        assert "kb_postings" in found
        assert "kb_article_chunks" not in found
