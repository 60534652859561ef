"""What the plans of a search must be, whatever the size of the organisation: read from what the server says of every statement in the function."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.ann.crowd import Crowd
from tests.plans import condition, load, logged, nodes, passed

TABLES = """SELECT c.relname FROM pg_catalog.pg_class AS c
INNER JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'org_id' AND NOT a.attisdropped
WHERE c.relnamespace = 'kbsearch'::regnamespace AND c.relkind = 'r'"""

SEARCH = """SELECT kbsearch.search_kb_hybrid_page_v1(
    p_org_id => %s, p_query_text => %s, p_query_embedding => %s::text::ext.vector, p_profile => %s)"""

Node = dict[str, Any]


def check_windows(crowd: Crowd, dsn: str, profile: str) -> None:
    """The walk goes through the organisation's partial index and ends long before it has seen all of it."""
    index = f"kb_ann_{crowd.org_id}_{crowd.space_id}"
    scans = check_scans(crowd, dsn, crowd.org_id, profile, index)
    (walk,) = (scan for scan in scans if scan.get("Index Name") == index)
    assert walk["Node Type"] == "Index Scan"
    assert "<=>" in walk["Order By"]
    assert passed(walk) < crowd.count("kb_article_embeddings", crowd.org_id) / 10


def check_exact(crowd: Crowd, dsn: str, org_id: int, profile: str = "weighted@1") -> None:
    """No index of windows is used; the organisation's vectors are all compared."""
    scans = check_scans(crowd, dsn, org_id, profile, None)
    assert not [scan for scan in scans if str(scan.get("Index Name", "")).startswith("kb_ann_")]
    compared = [passed(scan) for scan in scans if scan["Relation Name"] == "kb_article_embeddings"]
    assert max(compared) == crowd.count("kb_article_embeddings", org_id)


def check_scans(crowd: Crowd, dsn: str, org_id: int, profile: str, index: str | None) -> list[Node]:
    """Scans of the tables that organisations share: none from end to end, each by the organisation's entries in an index, or by its own index, and
    of no more rows than it has. Nothing is compiled, though compiling is offered at no cost.
    """
    (question,) = crowd.questions(1)
    with psycopg.connect(dsn, autocommit=True) as connection:
        try:
            load(connection)
        except psycopg.errors.UndefinedFile:
            pytest.skip("the server has no auto_explain")
        for setting in ("jit = on", "jit_above_cost = 0", "auto_explain.log_settings = on"):
            connection.execute(f"SET {setting}".encode())
        row = connection.execute("SELECT s.boot_val FROM pg_catalog.pg_settings AS s WHERE s.name = 'jit'").fetchone()
        default = row[0] if row else None
        tables = {name for (name,) in connection.execute(TABLES).fetchall()}
        with logged(connection) as found:
            connection.execute(SEARCH, [org_id, question.text, question.vector, profile])
    inner = [one for one in found if "search_kb_hybrid_page_v1(" not in one["Query Text"]]
    assert len(inner) >= 5
    # what is said are the settings that differ from the default; a server may have no compiler, so that it compiles nothing
    assert {one.get("Settings", {}).get("jit", default) for one in inner} == {"off"}
    assert not [one["Query Text"] for one in inner if "JIT" in one]
    every = [node for one in inner for node in nodes(one["Plan"])]
    assert [node for node in every if node["Node Type"] == "Seq Scan"] == []
    scans = [node for node in every if node.get("Relation Name") in tables]
    assert {"kb_articles", "kb_article_embeddings"} <= {scan["Relation Name"] for scan in scans}
    for scan in scans:
        what = f"{scan['Node Type']} of {scan['Relation Name']}: {condition(scan)}"
        assert "org_id = " in condition(scan) or (index is not None and scan.get("Index Name") == index), what
        assert passed(scan) <= crowd.count(scan["Relation Name"], org_id), what
    return scans
