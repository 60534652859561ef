"""What a role may not, of what an ingest does: the rest is done, and the report says what is left for whom."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

from tests.ingest.test_pipeline import documents, rows, run


def test_a_writer_completes_a_first_load(database: str, admin: Callable[[str], str]) -> None:
    """All but the calibration, which is an admin's: the next run has nothing left to do, and says nothing."""
    role = sql.Identifier(f"kb_test_{uuid.uuid4().hex[:8]}")
    with psycopg.connect(admin(database), autocommit=True) as boss:
        if not rows(boss, "SELECT FROM pg_roles WHERE rolname = current_user AND rolsuper"):
            pytest.skip("needs a superuser")
        boss.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(role))
        try:
            boss.execute(sql.SQL("GRANT USAGE ON SCHEMA ext TO {}").format(role))
            boss.execute("SELECT kbsearch.grant_kb_rights_v1('writer', %s)", [role.as_string(boss).strip('"')])
            ((org_id,),) = rows(boss, "INSERT INTO kbsearch.organizations (name) VALUES ('o') RETURNING id")
            with psycopg.connect(admin(database), autocommit=True) as connection:
                connection.execute(sql.SQL("SET ROLE {}").format(role))
                first = run(connection, documents(5))
                assert (first.written, first.calibrated) == (5, False)
                assert [note for note in first.notes if f"calibrate_kb_corpus_v1({org_id})" in note]
                again = run(connection, documents(5))
                assert (again.unchanged, again.calibrated, again.notes) == (5, False, ())
            assert rows(boss, "SELECT reference_length FROM kbsearch.organizations") == [(100,)]
            boss.execute("SELECT kbsearch.calibrate_kb_corpus_v1(%s)", [org_id])
            assert rows(boss, "SELECT reference_length FROM kbsearch.organizations") != [(100,)]
        finally:
            boss.execute(sql.SQL("DROP OWNED BY {}").format(role))
            boss.execute(sql.SQL("DROP ROLE {}").format(role))
