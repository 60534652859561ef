"""Ways round row-level security by SQL of one's own: triggers, forged settings, conditions that tell, statistics of the planner."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.index.derived import faults
from tests.tenancy.conftest import A, B, Say, Tenants
from tests.tenancy.test_bound import TABLES

CALLERS = ("reader", "writer", "admin")

TRIGGERS = """SELECT p.oid::regprocedure::text FROM pg_catalog.pg_proc AS p
WHERE p.pronamespace = 'kbsearch'::regnamespace AND (p.prorettype = 'trigger'::regtype OR p.prosecdef) ORDER BY 1"""


def trigger_functions(tenants: Tenants) -> list[str]:
    with psycopg.connect(tenants.admin) as connection:
        connection.execute("SET search_path = ''")
        return [name for (name,) in connection.execute(TRIGGERS).fetchall()]


def test_what_runs_as_the_owner_is_for_the_owner_to_execute(tenants: Tenants) -> None:
    """Whoever may execute a trigger function may make a trigger of it, on any table of his own."""
    functions = trigger_functions(tenants)
    assert "kbsearch.kb_chunks_truncated_v1()" in functions
    with psycopg.connect(tenants.admin) as connection:
        for role in ("public", *tenants.roles.values()):
            for function in functions:
                may = connection.execute(
                    "SELECT pg_catalog.has_function_privilege(%s, %s, 'EXECUTE')", [role, function]
                ).fetchone()
                assert may == (False,), (role, function)


@pytest.mark.parametrize("caller", CALLERS)
def test_no_trigger_on_a_table_of_ones_own_reaches_the_derived_tables(tenants: Tenants, caller: str) -> None:
    with psycopg.connect(tenants.admin, autocommit=True) as connection:
        before = connection.execute("SELECT count(*), sum(entry_count) FROM kbsearch.kb_postings").fetchone()
        assert before is not None
        assert before[0] > 0
        connection.execute(
            "DO $$BEGIN EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO PUBLIC', current_database()); END$$"
        )
    shape = "(org_id bigint, id bigint, article_id bigint, lexemes text[], term_counts smallint[], occurrence_count integer, searchable boolean)"
    for function in trigger_functions(tenants):
        for event in ("AFTER TRUNCATE", "AFTER INSERT", "AFTER DELETE"):
            with tenants.connected(caller, A) as connection:
                connection.execute(f"CREATE TEMPORARY TABLE mine {shape}".encode())
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(f"CREATE TRIGGER t {event} ON mine EXECUTE FUNCTION {function}".encode())
    with psycopg.connect(tenants.admin, autocommit=True) as connection:
        after = connection.execute("SELECT count(*), sum(entry_count) FROM kbsearch.kb_postings").fetchone()
    assert after == before


@pytest.mark.parametrize("forged", [f"{B}", f"?{B}"])
@pytest.mark.parametrize("caller", CALLERS)
def test_a_forged_setting_of_the_triggers_binds_nobody(tenants: Tenants, caller: str, forged: str, say: Say) -> None:
    """kbsearch.acting_org_id counts for the owner only, and triggers say themselves whom they act for."""
    with psycopg.connect(tenants.admin) as connection:
        tables: dict[str, str] = dict(connection.execute(TABLES).fetchall())
    with tenants.connected(caller, A) as connection:
        connection.execute("SELECT pg_catalog.set_config('kbsearch.acting_org_id', %s, false)", [forged])
        for table, key in tables.items():
            answer = say(connection, f"SELECT DISTINCT {key} FROM kbsearch.{table}")
            assert answer in ([(A,)], []) or answer[0] == "42501", table
        if caller == "writer":
            made = "SELECT kbsearch.upsert_kb_article_v1(%s, 'forged', 'lamp', 'stone north')"
            (article,) = connection.execute(made.encode(), [A]).fetchone() or (None,)
            connection.execute("UPDATE kbsearch.kb_articles SET title = 'stone' WHERE id = %s", [article])
            connection.execute("SELECT kbsearch.delete_kb_article_v1(%s, %s)", [A, article])
    with psycopg.connect(tenants.admin, autocommit=True) as connection:
        assert faults(connection) == []


@pytest.mark.parametrize("caller", CALLERS)
def test_no_condition_is_asked_of_anothers_rows(tenants: Tenants, caller: str) -> None:
    """A condition that fails with what it was given is asked of one's own rows only: what B's say stands in no error."""
    told = []
    with tenants.connected(caller, A) as connection:
        for condition in (
            "content::integer = 1",
            "content LIKE '%%south%%' AND content::integer = 1",
            "(content || article_id)::integer = 1",
        ):
            for rest in ("", f" AND org_id = {B}", " ORDER BY content::integer"):
                try:
                    connection.execute(
                        f"SELECT id FROM kbsearch.kb_article_chunks WHERE {condition.replace('%%', '%')}{rest}".encode()
                    )
                except psycopg.errors.InvalidTextRepresentation as error:
                    told.append(str(error))
    assert told
    assert not [error for error in told if "south" in error]


@pytest.mark.parametrize("caller", CALLERS)
def test_the_planners_statistics_are_hidden(tenants: Tenants, caller: str) -> None:
    with psycopg.connect(tenants.admin, autocommit=True) as connection:
        connection.execute("ANALYZE")
        tables: set[str] = set(dict(connection.execute(TABLES).fetchall()))
        known = {
            name
            for (name,) in connection.execute(
                "SELECT DISTINCT s.tablename FROM pg_catalog.pg_stats AS s WHERE s.schemaname = 'kbsearch'"
            )
        }
    assert {"kb_articles", "kb_article_chunks", "kb_postings"} <= known & tables
    with tenants.connected(caller, A) as connection:
        seen = {
            name
            for view in ("pg_stats", "pg_stats_ext", "pg_stats_ext_exprs")
            for (name,) in connection.execute(
                f"SELECT DISTINCT s.tablename FROM pg_catalog.{view} AS s WHERE s.schemaname = 'kbsearch'".encode()
            )
        }
    assert seen
    assert not seen & tables
    assert not [name for name in seen if name.startswith("kb_ann")]


def refused(connection: psycopg.Connection[Any], *statements: str) -> tuple[str | None, str]:
    """What a row of statements ends with: SQLSTATE and message; nothing of it stays."""
    try:
        with connection.transaction(force_rollback=True):
            for statement in statements:
                connection.execute(statement.encode())
    except psycopg.DatabaseError as error:
        return error.sqlstate, str(error)
    return None, "it ran"


DEFINERS = """SELECT p.oid::regprocedure::text FROM pg_catalog.pg_proc AS p
WHERE p.pronamespace = 'kbsearch'::regnamespace AND p.prosecdef ORDER BY 1"""

MINE = (
    "CREATE TEMPORARY TABLE mine AS SELECT c.*, 1 AS chunk_id, 0 AS space_id, 0 AS reference_length FROM kbsearch.kb_article_chunks AS c LIMIT 0",
    f"INSERT INTO mine (org_id, id, searchable) VALUES ({B}, {B}, true)",
    # what the functions call their transition tables is a view of the attacker's, where a trigger names none
    "CREATE FUNCTION pg_temp.spy() RETURNS boolean LANGUAGE plpgsql VOLATILE AS 'BEGIN RAISE EXCEPTION ''run as %'', current_user; END'",
    *(f"CREATE TEMPORARY VIEW {name} AS SELECT m.* FROM mine AS m WHERE pg_temp.spy()" for name in ("written", "other", "removed")),
)  # fmt: skip

FIRED = {
    "INSERT": f"INSERT INTO mine (org_id, id) VALUES ({B}, {B})",
    "UPDATE": "UPDATE mine SET language = 'dutch', reference_length = 7",
    "DELETE": "DELETE FROM mine",
    "TRUNCATE": "TRUNCATE mine",
}


@pytest.mark.parametrize("caller", CALLERS)
def test_what_runs_as_the_owner_runs_for_its_own_tables_only(tenants: Tenants, caller: str) -> None:
    """An administrator may give EXECUTE back to everybody: a trigger of the caller's own still runs nothing, whatever it is made for."""
    with psycopg.connect(tenants.admin) as connection:
        connection.execute("SET LOCAL search_path = ''")
        functions = [name for (name,) in connection.execute(DEFINERS).fetchall()]
        assert "kbsearch.kb_chunks_truncated_v1()" in functions
        role = sql.Identifier(tenants.roles[caller])
        connection.execute(
            "DO $$BEGIN EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO PUBLIC', current_database()); END$$"
        )
        connection.execute(sql.SQL("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA kbsearch TO {}").format(role))
        connection.execute(sql.SQL("SET LOCAL ROLE {}").format(role))
        for statement in MINE:
            connection.execute(statement.encode())
        for function in functions:
            for event, fired in FIRED.items():
                for level in ("STATEMENT",) if event == "TRUNCATE" else ("STATEMENT", "ROW"):
                    for time in ("BEFORE", "AFTER"):
                        made = f"CREATE TRIGGER t {time} {event} ON mine FOR EACH {level} EXECUTE FUNCTION {function}"
                        state, message = refused(connection, made, fired)
                        assert state == "KBSEC", (made, message)
        connection.rollback()
