from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from kbsearch import doctor, migrate
from kbsearch.doctor import Level
from kbsearch.doctor.base import Check, Examination
from kbsearch.errors import OrganizationError
from tests.conftest import Databases
from tests.doctor.patient import Patient


def test_a_healthy_database_gives_no_finding(patient: Patient) -> None:
    patient.organization("words", vectors=False)
    patient.run("INSERT INTO kbsearch.organizations (name) VALUES ('empty')")
    findings = patient.findings(deep=True)
    assert [one for one in findings if one.level in (Level.WARNING, Level.PROBLEM)] == []
    assert {one.check for one in findings if one.level is Level.UNCHECKED} <= {"settings.transactions"}
    assert {one.check for one in findings} == {one.name for one in doctor.choose()} - {"ann.recall"}


def test_an_installation_without_data_gives_no_finding(empty: Patient) -> None:
    assert [one for one in empty.findings() if one.level in (Level.WARNING, Level.PROBLEM)] == []


def test_nothing_is_written(patient: Patient) -> None:
    def state() -> object:
        return patient.run(
            """SELECT jsonb_build_array(
    (SELECT jsonb_agg(jsonb_build_array(c.relname, pg_relation_size(c.oid)) ORDER BY c.relname) FROM pg_class AS c
        WHERE c.relnamespace = 'kbsearch'::regnamespace),
    (SELECT jsonb_agg(to_jsonb(p) ORDER BY p) FROM kbsearch.kb_postings AS p),
    (SELECT last_value FROM kbsearch.kb_segment_seq)
)"""
        )

    before = state()
    patient.findings(deep=True)
    assert state() == before


def test_every_check_runs_in_a_read_only_transaction_with_an_empty_search_path(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def spy(ex: Examination) -> Iterator[doctor.Finding]:
        seen.append(ex.row("SELECT current_setting('transaction_read_only'), current_setting('search_path')"))
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), ex.connection.transaction():
            ex.connection.execute("DELETE FROM kbsearch.kb_postings")
        return iter(())

    chosen = [Check(one.name, one.expected, one.needs_install, spy) for one in doctor.choose()]
    monkeypatch.setattr(doctor, "choose", lambda _names=None: chosen)
    patient.findings()
    assert len(seen) == len(chosen)
    assert set(seen) == {("on", '""')}


def test_one_organisation_only(patient: Patient) -> None:
    other = patient.organization("other")
    patient.run(f"DELETE FROM kbsearch.kb_postings WHERE org_id = {other}")
    assert [one.organization for one in patient.bad("derived.postings")] == ["other"]
    assert patient.bad("derived.postings", organization="shop") == []


def test_progress_is_told_organisation_by_organisation(patient: Patient) -> None:
    patient.organization("other")
    told: list[tuple[str, int, int]] = []
    patient.findings("derived.postings", progress=lambda *word: told.append(word))
    assert told == [("derived.postings", 0, 2), ("derived.postings", 1, 2), ("derived.postings", 2, 2)]


def test_unknown_names_are_refused(patient: Patient) -> None:
    with pytest.raises(doctor.UnknownCheckError, match="nonsense") as refused:
        patient.findings("nonsense")
    assert "versions, rights" in str(refused.value.hint)
    with pytest.raises(doctor.UnknownRoleError, match="nobody_of_that_name"):
        patient.findings(role="nobody_of_that_name")
    with pytest.raises(OrganizationError, match="nix"):
        patient.findings(organization="nix")


def test_another_schema_is_examined_and_named_in_the_advice(
    empty_database: str, admin: Callable[[str], str], databases: Databases
) -> None:
    patient = Patient(empty_database, admin(empty_database))
    patient.operate("DROP SCHEMA kbsearch", f"CREATE SCHEMA help_search AUTHORIZATION {databases.role}")
    migrate.upgrade(empty_database, schema="help_search")
    patient.run(
        "INSERT INTO help_search.organizations (name) VALUES ('shop')",
        "SELECT help_search.upsert_kb_article_v1(p_org_id => 1, p_body => 'send it back')",
    )
    findings = patient.findings(schema="help_search")
    assert [one for one in findings if one.level in (Level.WARNING, Level.PROBLEM)] == []
    patient.run("DELETE FROM help_search.kb_postings")
    (finding,) = patient.bad("derived.postings", schema="help_search")
    assert finding.advice == "SELECT help_search.rebuild_kb_index_v1(1);"
    patient.run("DELETE FROM help_search.kb_alembic_version")
    (finding,) = patient.bad("versions.kbsearch", schema="help_search")
    assert finding.advice == "kbsearch db upgrade --dsn … --schema help_search"
