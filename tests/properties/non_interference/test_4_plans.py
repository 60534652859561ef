"""Law 4, of what is read: in exact mode no plan of a search touches a row of another organisation, however many there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests.load import Database, arguments, call
from tests.oracle import BUILT_IN, Article, Chunk, Profile, Search
from tests.plans import condition, explained, load, nodes, passed
from tests.strategies import Organisation, numbered

_TABLES = """SELECT c.relname FROM pg_catalog.pg_class AS c
INNER JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'org_id' AND NOT a.attisdropped
WHERE c.relnamespace = 'kbsearch'::regnamespace AND c.relkind = 'r'"""

BULK: LiteralString = """WITH article AS (INSERT INTO kbsearch.kb_articles (org_id, id, title)
    SELECT %(org)s, 1000 + g, 'lamp' FROM generate_series(1, 400) AS g RETURNING id),
chunk AS (INSERT INTO kbsearch.kb_article_chunks (org_id, id, article_id, content)
    SELECT %(org)s, 10 * a.id + g, a.id, 'lamp stone cloud ' || g FROM article AS a, generate_series(1, 5) AS g RETURNING id, article_id)
INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, article_id, chunk_id, embedding)
SELECT %(org)s, %(space)s, c.article_id, c.id, '[1,2]' FROM chunk AS c"""


def test_rows_of_another_organisation_are_not_read(
    databases: Any, template: str, superuser: Callable[[str], str]
) -> None:
    """Each scan finds its rows by the organisation's entries in an index, and reads no more than the organisation has."""
    dsn = databases.create(template)
    try:
        with psycopg.connect(superuser(dsn), autocommit=True) as connection:
            # loaded as a superuser, asked as the application
            load(connection)
            connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(str(conninfo_to_dict(dsn)["user"]))))
            connection.execute("SET search_path = ''")
            db = Database(dsn, connection)
            db.prepare()
            shapes = [
                Article(
                    0, (Chunk(0, "lamp stone", vector=(1, 0)), Chunk(0, "cloud milk lamp", vector=(3, 4))), title=word
                )
                for word in ("lamp", "stone", "cloud")
                for _ in range(4)
            ]
            org_id = db.load(Organisation(numbered(shapes, 1, 1, seed=1)))
            other = db.load(Organisation(numbered(shapes, 1, 1, seed=1)))
            tables = {name for (name,) in connection.execute(_TABLES).fetchall()} | {"organizations"}
            db.connection.execute("ANALYZE")
            db.connection.execute(BULK, {"org": other, "space": db.spaces[2][0]})
            db.connection.execute("ANALYZE")
            owned = {name: _count(db, name, org_id) for name in tables}
            assert _count(db, "kb_article_embeddings", other) > 2000 > 50 * owned["kb_articles"]
            for number, profile in enumerate((one for one in BUILT_IN if one.name != "arbitrate_reference"), 1):
                read = _read(db, org_id, profile, tables)
                assert {"organizations", "kb_articles", "kb_article_chunks"} <= read.keys()
                own = {**owned, "kb_search_snapshots": number, "kb_search_snapshot_blocks": number}
                assert {name: most for name, most in read.items() if most > own[name]} == {}, profile.name
    finally:
        databases.drop(dsn)


def _count(db: Database, table: str, org_id: int) -> int:
    key = "id" if table == "organizations" else "org_id"
    return int(
        db.connection.execute(f"SELECT count(*) FROM kbsearch.{table} WHERE {key} = %s".encode(), [org_id]).fetchall()[
            0
        ][0]
    )


def _read(db: Database, org_id: int, profile: Profile, tables: set[str]) -> dict[str, int]:
    """The most rows that a scan read of each table, all found by the organisation's entries."""
    search = Search(words=("lamp", "stone"), vector=(1, 0), profile=profile)
    given = arguments(org_id, search, p_limit=5)
    whole = {name: value for name, value in given.items() if name != "p_limit"}
    read: dict[str, int] = {}
    for statement in (
        f"SELECT count(s) FROM {call('search_kb_hybrid_v1', given)} AS s",
        f"SELECT {call('search_kb_hybrid_page_v1', given)}",
        f"SELECT count(s) FROM {call('explain_kb_search_v1', given)} AS s",
        f"SELECT count(s) FROM {call('explain_kb_candidates_v1', whole)} AS s",
        f"SELECT count(s) FROM {call('open_kb_search_v1', whole)} AS s",
        "SELECT kbsearch.fetch_kb_page_v1(%(p_org_id)s, %(snapshot)s)",
    ):
        stored = db.connection.execute(
            "SELECT max(s.id::text)::uuid FROM kbsearch.kb_search_snapshots AS s WHERE s.org_id = %(p_org_id)s", given
        )
        given["snapshot"] = (stored.fetchone() or (None,))[0]
        with explained(db.connection) as plans:
            db.connection.execute(statement, given)
        assert len(plans) > 1
        for plan in plans:
            for node in nodes(plan):
                if node.get("Relation Name") in tables and "Scan" in node["Node Type"]:
                    key = "id = " if node["Relation Name"] == "organizations" else "org_id = "
                    assert key in condition(node), f"{node['Node Type']} of {node['Relation Name']}: {condition(node)}"
                    read[node["Relation Name"]] = max(read.get(node["Relation Name"], 0), passed(node))
    return read
