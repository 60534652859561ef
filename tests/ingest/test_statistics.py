"""A first load is no slower for what the planner does not know yet: tables that were empty a moment ago and that nobody has analysed."""

from __future__ import annotations

import json

import psycopg

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
