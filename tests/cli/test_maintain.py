"""`kbsearch db maintain`: compacts what needs it and sweeps what has expired, whoever is writing, and no answer moves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner

from kbsearch import migrate
from kbsearch.cli import app
from kbsearch.schema import in_schema
from tests.conftest import Databases
from tests.index.derived import faults

SOONER = ("--loose", "1.5", "--rows", "0")
"""The organisations here are small."""


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["db", "maintain", *SOONER, *arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def maintained(*arguments: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """What was done for each organisation, by its name."""
    return {one["name"]: one for one in json.loads(run(*arguments, "--json", code=code))["organizations"]}


@contextmanager
def lock(dsn: str, *organizations: int, schema: str = "kbsearch") -> Iterator[None]:
    """Hold organisations' lock for maintenance."""
    with psycopg.connect(dsn) as connection:
        for org_id in organizations:
            statement = f"SELECT pg_advisory_xact_lock({schema}.lock_kb_corpus_v1(%s, 'maintenance'))"
            connection.execute(statement.encode(), [org_id])
        yield


def loosen(dsn: str, *names: str, schema: str = "kbsearch") -> dict[str, int]:
    """Organisations with articles that were written one by one while somebody else was merging; their ids by name."""
    made = {}
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name in names:
            statement = in_schema("INSERT INTO kbsearch.organizations (name) VALUES (%s) RETURNING id", schema)
            ((org_id,),) = connection.execute(statement.encode(), [name])
            made[name] = int(org_id)
            write = in_schema("SELECT kbsearch.upsert_kb_article_v1(%s, p_title => %s, p_body => %s)", schema)
            with lock(dsn, org_id, schema=schema):
                for n in range(12):
                    connection.execute(
                        write.encode(), [org_id, f"Returns {n % 3}", "refund within days " * (n % 4 + 1)]
                    )
    return made


def answers(dsn: str, *organizations: int) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        statement = (
            "SELECT s FROM kbsearch.search_kb_hybrid_v1(p_org_id => %s, p_query_text => 'refund returns 2') AS s"
        )
        return [connection.execute(statement, [one]).fetchall() for one in organizations]


def rows(dsn: str, org_id: int) -> int:
    with psycopg.connect(dsn) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM kbsearch.kb_postings WHERE org_id = %s", [org_id])
        return int(count)


def test_what_needs_it_is_compacted_and_no_answer_moves(database: str) -> None:
    ids = loosen(database, "store", "bank")
    before = answers(database, *ids.values())
    found = maintained("--dsn", database)
    for name, one in found.items():
        assert one["state"] == "compacted"
        assert one["rows_before"] > 1.5 * one["rows_after"]
        assert one["rows_after"] == rows(database, ids[name])
        assert one["bytes_before"] > one["bytes_after"] > 0
    assert answers(database, *ids.values()) == before
    with psycopg.connect(database) as connection:
        assert faults(connection) == []
    again = maintained("--dsn", database)
    assert {name: (one["state"], one["rows_before"]) for name, one in again.items()} == {
        name: ("sound", one["rows_after"]) for name, one in found.items()
    }
    assert run("--dsn", database).startswith("2 organisations: 2 sound; ")


def test_what_is_loose_enough_is_for_the_caller_to_say(database: str) -> None:
    loosen(database, "store")
    result = CliRunner().invoke(app, ["db", "maintain", "--dsn", database, "--json"])
    assert json.loads(result.stdout)["organizations"][0]["state"] == "sound", "1,000 rows are not worth it"
    shown = run("--dsn", database)
    assert "Maintained" in shown
    assert "compacted" in shown


def test_a_large_organisation_gets_its_vectors(database: str) -> None:
    ids = loosen(database, "store", "bank")
    run("--dsn", database)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO kbsearch.kb_corpus_stats (org_id, segment_id, chunk_count, occurrence_count) VALUES (%s, 0, 20000, 0)",
            [ids["store"]],
        )
        before = answers(database, *ids.values())
        assert {name: one["state"] for name, one in maintained("--dsn", database).items()} == {
            "store": "compacted",
            "bank": "sound",
        }
        assert connection.execute("SELECT DISTINCT org_id FROM kbsearch.kb_keyword_blocks").fetchall() == [
            (ids["store"],)
        ]
        assert answers(database, *ids.values()) == before
        assert maintained("--dsn", database)["store"]["state"] == "sound"


def test_one_organisation(database: str) -> None:
    loosen(database, "store", "bank")
    assert maintained("--dsn", database, "--org", "bank").keys() == {"bank"}
    assert {name: one["state"] for name, one in maintained("--dsn", database).items()} == {
        "store": "compacted",
        "bank": "sound",
    }
    run("--dsn", database, "--org", "nobody", code=3)


def test_who_is_maintained_by_another_is_passed_over(database: str) -> None:
    ids = loosen(database, "store", "bank")
    with lock(database, ids["store"]):
        found = maintained("--dsn", database)
    assert {name: one["state"] for name, one in found.items()} == {"store": "busy", "bank": "compacted"}
    assert found["store"]["rows_before"] == rows(database, ids["store"])
    assert found["store"]["rows_after"] is None


def test_expired_rankings_are_removed(database: str) -> None:
    (org_id,) = loosen(database, "store").values()
    with psycopg.connect(database, autocommit=True) as connection:
        for _ in range(3):
            connection.execute("SELECT FROM kbsearch.open_kb_search_v1(%s, 'refund')", [org_id])
        connection.execute(
            "UPDATE kbsearch.kb_search_snapshots SET expires_at = now() WHERE id IN (SELECT id FROM kbsearch.kb_search_snapshots LIMIT 2)"
        )
        assert maintained("--dsn", database)["store"]["snapshots"] == 2
        assert connection.execute("SELECT count(*) FROM kbsearch.kb_search_snapshots").fetchone() == (1,)
    assert maintained("--dsn", database)["store"]["snapshots"] == 0


def test_when_the_time_is_up_the_next_run_goes_on(database: str) -> None:
    loosen(database, "store", "bank")
    assert {one["state"] for one in maintained("--dsn", database, "--seconds", "0", code=1).values()} == {"left"}
    assert {one["state"] for one in maintained("--dsn", database, "--seconds", "600").values()} == {"compacted"}


def test_one_that_the_database_refuses_stops_no_other(database: str) -> None:
    ids = loosen(database, "store", "bank")
    with psycopg.connect(database) as connection:
        connection.execute(
            """CREATE FUNCTION kbsearch.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'not this one'; END$$"""
        )
        refusing = (
            "CREATE TRIGGER refuse BEFORE DELETE ON kbsearch.kb_postings FOR EACH ROW WHEN (OLD.org_id = {}) "
            "EXECUTE FUNCTION kbsearch.refuse()"
        )
        connection.execute(sql.SQL(refusing).format(sql.Literal(ids["store"])))
    found = maintained("--dsn", database, code=4)
    assert {name: one["state"] for name, one in found.items()} == {"store": "failed", "bank": "compacted"}
    assert "not this one" in found["store"]["error"]


@pytest.mark.parametrize("source", [None, ("setting", "org_id"), ("claim", "org_id"), ("claim", "app_metadata.org_id")])
@pytest.mark.parametrize("right", ["owner", "admin"])
def test_whatever_binds_the_role(
    database: str, databases: Databases, right: str, source: tuple[str, str] | None
) -> None:
    if not databases.is_superuser:
        pytest.skip("needs a superuser")
    loosen(database, "store", "bank")
    dsn, role = database, f"kb_test_{uuid.uuid4().hex[:8]}"
    admin = databases.admin(database)
    with psycopg.connect(admin, autocommit=True) as superuser:
        superuser.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        try:
            superuser.execute(sql.SQL("GRANT USAGE ON SCHEMA ext TO {}").format(sql.Identifier(role)))
            with psycopg.connect(database, autocommit=True) as owner:
                owner.execute("SELECT kbsearch.grant_kb_rights_v1('reader', %s)", [role])
                refused = make_conninfo(admin, options=f"-c role={role}")
                run("--dsn", refused, code=3)
                owner.execute("SELECT kbsearch.grant_kb_rights_v1('admin', %s)", [role])
                if source is not None:
                    owner.execute("SELECT kbsearch.enable_kb_row_security_v1(%s, %s)", source)
            if right == "admin":
                dsn = make_conninfo(admin, options=f"-c role={role} -c search_path=")
            found = maintained("--dsn", dsn)
            assert {name: one["state"] for name, one in found.items()} == {"store": "compacted", "bank": "compacted"}
            assert faults(superuser) == []
        finally:
            superuser.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(role)))


def test_another_name_of_the_schema(database: str, databases: Databases) -> None:
    admin = databases.admin(database)
    migrate.upgrade(admin, schema="help_search")
    loosen(admin, "store", schema="help_search")
    assert maintained("--dsn", admin, "--schema", "help_search")["store"]["state"] == "compacted"
    assert maintained("--dsn", admin) == {}


def test_without_an_installation_it_says_so(empty_database: str) -> None:
    run("--dsn", empty_database, code=3)


def test_stopped_by_ctrl_c_the_next_run_goes_on(database: str) -> None:
    ids = loosen(database, "store", "bank")
    loose = {name: rows(database, org_id) for name, org_id in ids.items()}
    with psycopg.connect(database) as connection:
        connection.execute("SELECT FROM kbsearch.kb_postings WHERE org_id = %s FOR UPDATE", [ids["bank"]])
        command = [sys.executable, "-m", "kbsearch", "db", "maintain", *SOONER, "--dsn", database, "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + 90
            while rows(database, ids["store"]) == loose["store"]:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            printed, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == 130
    said = json.loads(printed)
    assert said["stopped"]
    assert [(one["name"], one["state"]) for one in said["organizations"]] == [("store", "compacted")]
    assert rows(database, ids["bank"]) == loose["bank"]
    assert maintained("--dsn", database)["bank"]["state"] == "compacted"
