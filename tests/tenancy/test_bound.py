"""Row-level security: a caller bound to A sees and writes A's rows; B's and those of nobody are the same to it."""

from __future__ import annotations

import json
import re
from typing import Any

import psycopg
import pytest

from tests.load import Database, arguments, call
from tests.oracle import BUILT_IN, Search
from tests.plans import condition, explained, load, nodes
from tests.tenancy.conftest import NOBODY, QUESTION, A, B, Say, Tenants

CALLERS = ("owner", "reader", "writer", "admin")

TABLES = """SELECT c.relname, a.attname FROM pg_catalog.pg_class AS c
INNER JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND NOT a.attisdropped
    AND a.attname = CASE c.relname WHEN 'organizations' THEN 'id' ELSE 'org_id' END
WHERE c.relnamespace = 'kbsearch'::regnamespace AND c.relkind = 'r' ORDER BY c.relname"""

FUNCTIONS = """SELECT p.proname, p.provolatile::text, p.proargnames[:p.pronargs], p.pronargs - p.pronargdefaults,
    ARRAY(SELECT pg_catalog.format_type(t.oid, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS t (oid, n) ORDER BY t.n), p.proretset
FROM pg_catalog.pg_proc AS p
WHERE p.pronamespace = 'kbsearch'::regnamespace AND 'p_org_id' = ANY (p.proargnames[:p.pronargs]) AND p.provolatile <> 'i' ORDER BY p.proname"""

VALUES: dict[str, Any] = {
    "p_query_text": "lamp stone", "p_query_embedding": "[1,0]", "p_embedding": "[1,0]", "p_limit": 5, "p_offset": 0, "p_kinds": None,
    "p_kind_quota": None, "p_metadata": None, "p_min_score": None, "p_exploratory": False, "p_language": None, "p_highlight": True,
    "p_name": "other", "p_fusion": "keyword", "p_chunks": '[{"content": "lamp", "embedding": [1, 0]}]', "p_articles": "[]",
    "p_external_refs": ["ref-new"], "p_lexemes": ["lamp"], "p_title": "lamp", "p_uses_vector": True, "p_uses_keyword": True,
    "p_weights": [1], "p_term_weights": [1], "p_counts_terms": False, "p_keyword_unit": 1, "p_vector_unit": 1, "p_entries": [4096],
    "p_signs": [1], "p_chunk_count": 1, "p_occurrence_count": 1, "p_operators": "[]", "p_scorer": "bm25",
}  # fmt: skip


def tables(tenants: Tenants) -> dict[str, str]:
    with psycopg.connect(tenants.admin) as connection:
        return dict(connection.execute(TABLES).fetchall())


def test_every_table_with_an_organisation_is_forced_and_bound(tenants: Tenants) -> None:
    with psycopg.connect(tenants.admin) as connection:
        rows = connection.execute(
            "SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity AND EXISTS (SELECT FROM pg_catalog.pg_policy AS p WHERE p.polrelid = c.oid "
            "AND p.polname = 'kb_bound' AND p.polcmd = '*' AND p.polroles = '{0}') "
            "FROM pg_catalog.pg_class AS c WHERE c.relnamespace = 'kbsearch'::regnamespace AND c.relkind = 'r'"
        ).fetchall()
    assert {name for name, bound in rows if bound} == tables(tenants).keys()
    assert len(tables(tenants)) >= 15


@pytest.mark.parametrize("caller", CALLERS)
def test_no_row_of_another_is_seen_or_changed(tenants: Tenants, caller: str, say: Say) -> None:
    """Not read, not updated, not deleted, not moved here; and inserted neither, with the error of an organisation that is not there."""
    seen = set()
    with tenants.connected(caller, A) as connection:
        for table, key in tables(tenants).items():
            answer = say(connection, f"SELECT DISTINCT {key} FROM kbsearch.{table}")
            assert answer in ([(A,)], []) or answer[0] == "42501", table
            seen |= {table} if answer == [(A,)] else set()
            assert say(connection, f"DELETE FROM kbsearch.{table} WHERE {key} = {B}") in (0, *denied(table))
            assert say(connection, f"UPDATE kbsearch.{table} SET {key} = {A} WHERE {key} = {B}") in (0, *denied(table))
    assert {
        "organizations",
        "kb_articles",
        "kb_article_chunks",
        "kb_postings",
        "kb_corpus_stats",
        "kb_search_snapshots",
    } <= seen


def denied(table: str) -> list[Any]:
    return [("42501", f"permission denied for table {table}", None, None, None, None)]


@pytest.mark.parametrize("caller", CALLERS)
def test_inserting_for_another_is_as_for_nobody(tenants: Tenants, caller: str, say: Say) -> None:
    statements = (
        "INSERT INTO kbsearch.organizations (id, name) VALUES (%(org)s, 'x')",
        "INSERT INTO kbsearch.kb_articles (org_id, title) VALUES (%(org)s, 'x')",
        "INSERT INTO kbsearch.kb_articles (org_id, id, external_ref) VALUES (%(org)s, %(p_article_id)s, %(p_external_ref)s)",
        "INSERT INTO kbsearch.kb_articles (org_id, external_ref) VALUES (%(org)s, %(p_external_ref)s) ON CONFLICT DO NOTHING",
        "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content) VALUES (%(org)s, %(p_article_id)s, 'x')",
        """INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, chunk_id, article_id, embedding)
        SELECT %(org)s, %(p_space_id)s, 1, 1, '[1,0]'""",
        "INSERT INTO kbsearch.kb_ingest_sources (org_id, name) VALUES (%(org)s, 'files')",
        "INSERT INTO kbsearch.kb_embedding_inputs (org_id, input_sha256, input) VALUES (%(org)s, sha256('x'), 'x') ON CONFLICT DO NOTHING",
        "INSERT INTO kbsearch.kb_postings VALUES (%(org)s, 'lamp', 1, 1, 1, 1, 1, '{4097}')",
        "INSERT INTO kbsearch.kb_search_snapshots (org_id, expires_at, total, answer, lexemes) VALUES (%(org)s, now(), 0, '{}', '{}')",
    )
    with tenants.connected(caller, A) as connection:
        for statement in statements:
            told = {org: masked(say(connection, statement, {**tenants.given, "org": org}), org) for org in (B, NOBODY)}
            assert told[B] == told[NOBODY], statement
            assert told[B].startswith("('42501'") or told[B].startswith("('KBORG'"), told[B]


def masked(answer: Any, org_id: int) -> str:
    """An answer without the id that was given."""
    return str(answer).replace(str(org_id), "<id>")


def statement_of(name: str, names: list[str], types: list[str], *, rows: bool) -> str:
    named = ", ".join(
        f"{one} => %({one})s::{'ext.vector' if kind == 'vector' else kind}"
        for one, kind in zip(names, types, strict=False)
    )
    return f"SELECT s::text FROM kbsearch.{name}({named}) AS s" if rows else f"SELECT kbsearch.{name}({named})::text"


@pytest.mark.parametrize("caller", CALLERS)
def test_naming_another_is_as_naming_nobody(tenants: Tenants, caller: str, say: Say) -> None:
    """Every function for an organisation, with ids of the other's in all other arguments: the same bytes."""
    with psycopg.connect(tenants.admin) as connection:
        functions = connection.execute(FUNCTIONS).fetchall()
    assert len(functions) > 40
    states = set()
    with tenants.connected(caller, A) as connection:
        for name, _, names, required, types, is_set in functions:
            values = {**dict.fromkeys(names), **VALUES, **tenants.given}
            for count in {required, len(names)}:
                statement = statement_of(name, names[:count], types, rows=is_set)
                told = {}
                for org in (B, NOBODY):
                    answer = say(connection, statement, {**values, "p_org_id": org})
                    told[org] = masked(answer, org)
                    states.add(answer[0] if isinstance(answer, tuple) else "answered")
                assert told[B] == told[NOBODY], name
                mine = say(connection, statement, {**values, "p_org_id": A})
                assert not isinstance(mine, tuple) or str(B) not in str(mine), name
    assert (
        {"KBORG", "answered"}
        <= states
        <= {"KBORG", "answered", "42501", "KBSPC", "KBART", "22023", "KBLIM", "22P02", "23502", "KBCUR"}
    )


@pytest.mark.parametrize("caller", CALLERS)
def test_ids_of_another_are_no_ids_of_mine(tenants: Tenants, caller: str, say: Say) -> None:
    """A asks for A with B's article, cursor, snapshot and profile: as with those of nobody."""
    nothing = {
        "p_article_id": 9999,
        "p_snapshot": "00000000-0000-4000-8000-000000000000",
        "p_profile": "nobody@1",
        "p_policy": "nobody@1",
    }
    with tenants.connected(caller, A) as connection:
        for name, argument, statement in (
            (
                "get_kb_source_v1",
                "p_article_id",
                "SELECT s::text FROM kbsearch.get_kb_source_v1(%(org)s, %(value)s) AS s",
            ),
            (
                "explain_kb_article_v1",
                "p_article_id",
                "SELECT kbsearch.explain_kb_article_v1(%(org)s, 'lamp', p_article_id => %(value)s)::text",
            ),
            ("delete_kb_article_v1", "p_article_id", "SELECT kbsearch.delete_kb_article_v1(%(org)s, %(value)s)"),
            ("fetch_kb_page_v1", "p_snapshot", "SELECT kbsearch.fetch_kb_page_v1(%(org)s, %(value)s)"),
            ("close_kb_search_v1", "p_snapshot", "SELECT kbsearch.close_kb_search_v1(%(org)s, %(value)s)"),
            (
                "search_kb_hybrid_v1",
                "p_profile",
                "SELECT s::text FROM kbsearch.search_kb_hybrid_v1(%(org)s, 'lamp', p_profile => %(value)s) AS s",
            ),
            ("resolve_kb_policy_v1", "p_policy", "SELECT kbsearch.resolve_kb_policy_v1(%(org)s, %(value)s)"),
        ):
            told = [
                str(say(connection, statement, {"org": A, "value": value})).replace(str(value), "<value>")
                for value in (tenants.given[argument], nothing[argument])
            ]
            assert told[0] == told[1], name
        cursor = say(
            connection,
            "SELECT count(s) FROM kbsearch.search_kb_hybrid_v1(%s, 'lamp stone', '[1,0]', p_cursor => %s) AS s",
            [A, tenants.given["p_cursor"]],
        )
        assert cursor[0] == "KBCUR"


@pytest.mark.parametrize("caller", CALLERS)
def test_who_is_bound_to_nothing_sees_nothing(tenants: Tenants, caller: str, say: Say) -> None:
    """Never every tenant's rows: not bound, bound to nobody, to text, and with NULL."""
    for bound in (None, "", NOBODY, "nobody", "1 OR true", "*"):
        with tenants.connected(caller, bound) as connection:
            for table, key in tables(tenants).items():
                answer = say(connection, f"SELECT {key} FROM kbsearch.{table}")
                directory = bound == "*" and table == "organizations" and caller in ("owner", "admin")
                assert directory or answer == [] or answer[0] == "42501", (bound, table)
            if bound != "*":
                assert say(connection, "SELECT s FROM kbsearch.search_kb_hybrid_v1(%s, 'lamp') AS s", [A])[0] == "KBORG"
            assert say(connection, "SELECT s FROM kbsearch.search_kb_hybrid_v1(NULL, 'lamp') AS s")[0] == "KBORG"


def test_null_is_no_organisation(tenants: Tenants, say: Say) -> None:
    """Every function: KBORG, or nothing; never rows, with row-level security or without (as a superuser)."""
    with psycopg.connect(tenants.admin, autocommit=True) as connection:
        connection.execute("SET search_path = ''")
        promises: dict[str, bool] = dict(
            connection.execute(
                "SELECT p.proname, pg_catalog.obj_description(p.oid, 'pg_proc') ~ 'Errors:.*KBORG' FROM pg_catalog.pg_proc AS p "
                "WHERE p.pronamespace = 'kbsearch'::regnamespace"
            ).fetchall()
        )
        assert sum(map(bool, promises.values())) > 20
        for name, _, names, required, types, is_set in connection.execute(FUNCTIONS).fetchall():
            values = {**dict.fromkeys(names), **VALUES, **tenants.given, "p_org_id": None}
            answer = say(connection, statement_of(name, names[:required], types, rows=is_set), values)
            if isinstance(answer, tuple):
                # a step of another function may say less well what is wrong, as long as it says nothing else
                assert answer[0] == "KBORG" or not promises.get(name), (name, answer)
            else:
                told = [value for (value,) in answer]
                assert told in ([], [None], [""], ["false"], ["{}"]) or re.fullmatch(r"0|\(0(,0)*\)", told[0]), (
                    name,
                    told,
                )


@pytest.mark.parametrize("caller", ["owner", "reader"])
def test_answers_are_those_without_row_level_security(tenants: Tenants, caller: str) -> None:
    """Rows, page, explanations, sources: byte-identical to a superuser's, who is bound by no policy."""
    told = []
    with psycopg.connect(tenants.admin, autocommit=True) as everything, tenants.connected(caller, A) as bound:
        everything.execute("SET search_path = ''")
        for connection in (everything, bound):
            answers: list[Any] = []
            for profile in BUILT_IN:
                given = arguments(A, Search(words=QUESTION.words, vector=QUESTION.vector, profile=profile))
                for name in ("search_kb_hybrid_v1", "explain_kb_search_v1"):
                    if profile.name != "arbitrate_reference":
                        answers += connection.execute(
                            f"SELECT s::text FROM {call(name, given)} AS s".encode(), given
                        ).fetchall()
                answers += connection.execute(
                    f"SELECT {call('search_kb_hybrid_page_v1', given)}::text", given
                ).fetchall()
            answers += (
                connection.execute("SELECT s::text FROM kbsearch.list_kb_spaces_v1(%s) AS s", [A]).fetchall()
                if caller != "reader"
                else []
            )
            told.append(answers)
    assert told[0] == told[1]
    assert len(told[0]) > 40


def test_policies_are_read_once_and_rows_by_the_index(tenants: Tenants) -> None:
    """The plan of a search under row-level security finds its rows by the organisation's entries; who is bound is computed once a statement."""
    names = set(tables(tenants))
    once = 0
    with tenants.connected("reader", A) as connection:
        connection.execute("RESET ROLE")
        load(connection)
        connection.execute(psycopg.sql.SQL("SET ROLE {}").format(psycopg.sql.Identifier(tenants.roles["reader"])))
        given = arguments(A, QUESTION, p_limit=5)
        with explained(connection) as plans:
            connection.execute(f"SELECT {call('search_kb_hybrid_page_v1', given)}", given)
    assert len(plans) > 3
    for plan in plans:
        for node in nodes(plan):
            if node.get("Relation Name") in names and "Scan" in node["Node Type"]:
                key = "id = " if node["Relation Name"] == "organizations" else "org_id = "
                assert key in condition(node), (node["Relation Name"], condition(node))
            once += node.get("Parent Relationship") == "InitPlan" and node["Actual Loops"] <= 1
        assert "find_kb_bound_organization_v1" not in json.dumps([node.get("Filter") for node in nodes(plan)])
    assert once > 0


def test_the_load_is_what_the_tests_think(tenants: Tenants) -> None:
    with psycopg.connect(tenants.admin, autocommit=True) as connection:
        for table, key in tables(tenants).items():
            rows: dict[int, int] = dict(
                connection.execute(f"SELECT {key}, count(*) FROM kbsearch.{table} GROUP BY 1".encode()).fetchall()
            )
            assert rows.get(A, 0) > 0 or table.startswith(("kb_gold", "kb_keyword")), table
            assert rows.get(A, 0) == rows.get(B, 0) or table in ("kb_postings", "kb_corpus_stats"), table
        assert (
            Database(tenants.dsn, connection).value(
                "SELECT count(*) FROM kbsearch.kb_articles AS a WHERE NOT a.published"
            )
            >= 2
        )
