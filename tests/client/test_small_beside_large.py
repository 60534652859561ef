"""However often a connection has answered a large organisation, a small one is answered from its own rows: no generic plan flips."""

from __future__ import annotations

from collections.abc import Callable
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from kbsearch import KBSearch
from tests.client.worlds import new_world
from tests.plans import explained, load, nodes

LARGE, SMALL = 6_000, 50
ROWS: LiteralString = """WITH article AS (INSERT INTO kbsearch.kb_articles (org_id, title)
    SELECT %(org)s, 'lamp ' || g FROM generate_series(1, %(articles)s) AS g RETURNING id),
chunk AS (INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content)
    SELECT %(org)s, a.id, 'lamp stone ' || a.id %% 7 FROM article AS a RETURNING id, article_id)
INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, article_id, chunk_id, embedding)
SELECT %(org)s, %(space)s, c.article_id, c.id, CAST(format('[1,%%s,0]', c.id %% 5) AS ext.vector) FROM chunk AS c"""
TABLES = ("kb_articles", "kb_article_chunks", "kb_article_embeddings", "kb_postings")


@pytest.mark.parametrize("prepare", [None, True])
def test_a_small_organisation_is_answered_from_its_own_rows(
    database: str, superuser: Callable[[str], str], prepare: bool | None
) -> None:
    worlds = [new_world(database, name, active=True) for name in ("large", "small")]
    with psycopg.connect(database, autocommit=True) as connection:
        for world, articles in zip(worlds, (LARGE, SMALL), strict=True):
            connection.execute(ROWS, {"org": world.org, "space": world.space, "articles": articles})
        connection.execute("ANALYZE")
        large, small = (world.org for world in worlds)
        expected = KBSearch(connection).search(small, "lamp stone", [1, 2, 0])
    assert expected.total == SMALL
    with psycopg.connect(superuser(database), autocommit=True) as connection:
        # Plans are shown to a superuser; asked is as the application.
        load(connection)
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(str(conninfo_to_dict(database)["user"]))))
        client = KBSearch(connection, prepare=prepare)
        for _ in range(7):  # after the fifth run of a prepared statement its plan may be a generic one
            assert client.search(large, "lamp stone", [1, 2, 0]).total == LARGE
        for _ in range(2):
            with explained(connection) as plans:
                assert client.search(small, "lamp stone", [1, 2, 0]) == expected
            scans = [node for plan in plans for node in nodes(plan) if node.get("Relation Name") in TABLES]
            assert {scan["Relation Name"] for scan in scans} == {*TABLES}
            assert [scan for scan in scans if scan["Node Type"] == "Seq Scan"] == []
            read = {
                (scan["Relation Name"], scan["Node Type"]): scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0)
                for scan in scans
            }
            assert {scan: rows for scan, rows in read.items() if rows > SMALL} == {}
