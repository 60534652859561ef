from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from kbsearch import doctor
from kbsearch.doctor import Finding, Level
from kbsearch.ingest import Document, IngestReport, Source, ingest
from kbsearch.ingest.organizations import organization_id
from tests.doctor.patient import Patient
from tests.ingest.test_pipeline import HashEmbedder

AsRole = Callable[..., object]
SEARCH = "SELECT kbsearch.search_kb_hybrid_page_v1(p_org_id => 1, p_query_text => 'word1x', p_query_embedding => '[1, 2, 3]') ->> 'total'"
UPSERT = (
    "SELECT kbsearch.upsert_kb_article_v1(p_org_id => 1, p_external_ref => 'new', p_space_id => 1, p_chunks => '"
    '[{"content": "new text", "embedding": [1, 2, 3]}]'
    "')"
)
ARBITRATED = SEARCH.replace("[1, 2, 3]'", "[1, 2, 3]', p_profile => 'arbitrate@1'")
LOG = (
    "SELECT kbsearch.log_kb_arbitration_v1(1, "
    "kbsearch.arbitrate_kb_search_v1(p_org_id => 1, p_query_text => 'word1x', p_profile => 'arbitrate@1'), 'word1x')"
)
MAINTAIN = (
    "SELECT kbsearch.compact_kb_postings_v1(1)",
    "SELECT kbsearch.rebuild_kb_index_v1(1)",
    "SELECT kbsearch.calibrate_kb_corpus_v1(1)",
)


def right(patient: Patient, check: str, role: str) -> Finding:
    (finding,) = patient.findings(check, role=role)
    return finding


def grants(finding: Finding) -> list[str]:
    """The GRANTs in what was found, where they are no advice."""
    return [f"GRANT {part.strip()}" for part in finding.found.split("that would take: ")[1].split("GRANT ") if part]


def test_the_grants_for_searching_are_exact(patient: Patient, role: str, as_role: AsRole) -> None:
    finding = right(patient, "rights.search", role)
    assert finding.level is Level.PROBLEM
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role(SEARCH)
    lines = finding.advice.splitlines()
    for line in lines:
        patient.cure(Finding("", Level.PROBLEM, "", "", line))
        if line is not lines[-1]:
            assert right(patient, "rights.search", role).level is Level.PROBLEM
    assert right(patient, "rights.search", role).level is Level.OK
    assert as_role(SEARCH) == "20"
    assert right(patient, "rights.write", role).level is Level.OK
    assert right(patient, "rights.maintain", role).level is Level.OK


@pytest.mark.parametrize(
    "table",
    [
        "organizations",
        "kb_source_kinds",
        "kb_ranking_profiles",
        "kb_builtin_policies",
        "kb_arbitration_policies",
        "kb_postings",
        "kb_corpus_stats",
    ],
)
def test_every_table_that_a_search_reads_is_needed(patient: Patient, role: str, as_role: AsRole, table: str) -> None:
    patient.cure(right(patient, "rights.search", role))
    patient.operate(f"REVOKE SELECT ON kbsearch.{table} FROM {role}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role(ARBITRATED)
    finding = right(patient, "rights.search", role)
    assert finding.advice == f"GRANT SELECT ON kbsearch.{table} TO {role};"
    patient.cure(finding)
    assert as_role(ARBITRATED) == "20"


def test_the_grants_for_writing_are_enough(patient: Patient, role: str, as_role: AsRole) -> None:
    patient.cure(right(patient, "rights.search", role))
    finding = right(patient, "rights.write", role)
    assert f"role {role} may not write articles" in finding.found
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role(UPSERT)
    patient.operate(*grants(finding))
    as_role(UPSERT, "DELETE FROM kbsearch.kb_articles")
    assert right(patient, "rights.write", role).found == f"role {role} may write articles"
    assert right(patient, "rights.organizations", role).found.startswith(f"role {role} may not make organisations")
    assert right(patient, "rights.maintain", role).found.startswith(f"role {role} may not compact")


def test_the_grants_for_making_organisations_are_enough(patient: Patient, role: str, as_role: AsRole) -> None:
    finding = right(patient, "rights.organizations", role)
    assert finding.level is Level.OK
    make = "INSERT INTO kbsearch.organizations (name) VALUES ('mine')"
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role(make)
    patient.operate(*grants(finding))
    as_role(
        make, "UPDATE kbsearch.organizations SET name = 'yours'", "DELETE FROM kbsearch.organizations WHERE id <> 1"
    )
    assert right(patient, "rights.organizations", role).found == f"role {role} may make organisations"


def test_the_grants_for_maintenance_are_enough(patient: Patient, role: str, as_role: AsRole) -> None:
    finding = right(patient, "rights.maintain", role)
    assert finding.level is Level.OK
    patient.operate(*grants(finding))
    as_role(*MAINTAIN)
    assert right(patient, "rights.maintain", role).found == f"role {role} may compact, rebuild and calibrate the index"
    patient.operate(f"REVOKE USAGE ON SEQUENCE kbsearch.kb_segment_seq FROM {role}")
    finding = right(patient, "rights.maintain", role)
    assert finding.level is Level.WARNING
    assert finding.advice == f"GRANT USAGE ON SEQUENCE kbsearch.kb_segment_seq TO {role};"
    patient.cure(finding)
    as_role(*MAINTAIN)


def test_the_grants_for_ingesting_are_enough(patient: Patient, role: str) -> None:
    def ingested(*documents: Document) -> IngestReport:
        with psycopg.connect(patient.admin_dsn, autocommit=True) as connection:
            connection.execute(f"SET ROLE {role}".encode())
            org_id = organization_id(connection, "mine", create=True)
            return ingest(connection, org_id, [Source("s", documents)], embedder=HashEmbedder())

    patient.cure(right(patient, "rights.search", role))
    finding = right(patient, "rights.ingest", role)
    assert finding.found.startswith(f"role {role} may not ingest; that would take: GRANT")
    assert finding.level is Level.OK
    patient.operate(*grants(right(patient, "rights.write", role)))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ingested(Document("a", "A", "text"))
    patient.operate(*grants(right(patient, "rights.ingest", role)))
    report = ingested(Document("a", "A", "text"), Document("b", "B", "more"))
    assert (report.written, report.embedded_chunks, report.calibrated) == (2, 2, True)
    assert right(patient, "rights.ingest", role).found == f"role {role} may ingest"
    patient.operate(f"REVOKE DELETE ON kbsearch.kb_embedding_cache FROM {role}")
    finding = right(patient, "rights.ingest", role)
    assert (finding.level, finding.advice) == (Level.WARNING, f"GRANT DELETE ON kbsearch.kb_embedding_cache TO {role};")
    patient.cure(finding)
    for table in ("kb_embedding_inputs", "kb_embedding_cache", "kb_embedding_counts", "kb_ingest_sources"):
        patient.operate(f"REVOKE INSERT ON kbsearch.{table} FROM {role}")
        finding = right(patient, "rights.ingest", role)
        assert finding.advice == f"GRANT INSERT ON kbsearch.{table} TO {role};"
        patient.cure(finding)


def test_the_grants_for_logging_are_enough_and_looked_at_where_there_is_a_log(
    patient: Patient, role: str, as_role: AsRole
) -> None:
    patient.cure(right(patient, "rights.search", role))
    assert right(patient, "rights.log", role).found == "no organisation keeps a log of arbitrations"
    patient.run("UPDATE kbsearch.organizations SET arbitration_log = 'text'")
    finding = right(patient, "rights.log", role)
    assert finding.level is Level.OK
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role(LOG)
    patient.operate(*grants(finding))
    as_role(LOG)
    assert right(patient, "rights.log", role).found == f"role {role} may log arbitrations"
    patient.operate(f"REVOKE SELECT ON kbsearch.kb_arbitration_log FROM {role}")
    finding = right(patient, "rights.log", role)
    assert finding.level is Level.WARNING
    assert finding.advice == f"GRANT SELECT ON kbsearch.kb_arbitration_log TO {role};"
    patient.cure(finding)
    as_role(LOG)


def test_half_of_the_rights_to_write_is_a_warning(patient: Patient, role: str) -> None:
    patient.cure(right(patient, "rights.search", role))
    patient.operate(f"GRANT INSERT ON kbsearch.kb_articles TO {role}")
    finding = right(patient, "rights.write", role)
    assert finding.level is Level.WARNING
    assert "GRANT DELETE ON" in finding.advice
    patient.cure(finding)
    assert right(patient, "rights.write", role).level is Level.OK


def test_functions_that_not_everybody_may_execute(patient: Patient, role: str, as_role: AsRole) -> None:
    patient.cure(right(patient, "rights.search", role))
    patient.operate("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA kbsearch FROM PUBLIC")
    finding = right(patient, "rights.search", role)
    grant, revoke = finding.advice.splitlines()
    assert grant == f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA kbsearch TO {role};"
    assert revoke.startswith(
        "REVOKE EXECUTE ON FUNCTION kbsearch.kb_articles_guard_v1(), kbsearch.kb_chunks_begin_v1(), "
    )
    assert revoke.endswith(f"() FROM {role};")
    patient.cure(finding)
    assert as_role(SEARCH) == "20"
    assert as_role("SELECT pg_catalog.has_function_privilege('kbsearch.kb_chunks_truncated_v1()', 'EXECUTE')") is False


def test_functions_of_pgvector_that_not_everybody_may_execute(patient: Patient, role: str, as_role: AsRole) -> None:
    patient.cure(right(patient, "rights.search", role))
    patient.operate("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA ext FROM PUBLIC")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role(SEARCH)
    finding = right(patient, "rights.search", role)
    assert finding.advice == f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA ext TO {role};"
    patient.cure(finding)
    assert as_role(SEARCH) == "20"


def test_the_schema_of_pgvector(patient: Patient, role: str, as_role: AsRole) -> None:
    patient.cure(right(patient, "rights.search", role))
    assert as_role(SEARCH) == "20", "a vector as text needs no right on the schema of its type"
    finding = right(patient, "rights.extension", role)
    assert finding.level is Level.WARNING
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role("SELECT '[1]'::ext.vector")
    patient.cure(finding)
    assert as_role("SELECT '[1]'::ext.vector") == "[1]"
    assert right(patient, "rights.extension", role).level is Level.OK


def test_rows_that_row_level_security_hides(patient: Patient, role: str, as_role: AsRole) -> None:
    patient.cure(right(patient, "rights.search", role))
    patient.run("ALTER TABLE kbsearch.kb_postings ENABLE ROW LEVEL SECURITY")
    finding = right(patient, "rights.rows", role)
    assert finding.level is Level.PROBLEM
    assert "kb_postings" in finding.found
    assert as_role(SEARCH.replace("'[1, 2, 3]'", "NULL")) == "0"
    patient.run("CREATE POLICY all_rows ON kbsearch.kb_postings FOR SELECT USING (true)")
    finding = right(patient, "rights.rows", role)
    assert finding.level is Level.OK
    assert "policies decide" in finding.found
    patient.run("DROP POLICY all_rows ON kbsearch.kb_postings")
    patient.cure(right(patient, "rights.rows", role))
    assert right(patient, "rights.rows", role).found == f"no row is hidden from role {role}"


def test_a_role_without_any_right_examines_itself(patient: Patient, role: str) -> None:
    patient.operate(f"ALTER ROLE {role} LOGIN PASSWORD '{role}'")
    stranger = Patient(make_conninfo(patient.admin_dsn, user=role, password=role), patient.admin_dsn)
    findings = stranger.findings()
    assert {one.check for one in findings} == {one.name for one in doctor.choose()} - {"ann.recall"}
    assert [one.check for one in findings if one.level is Level.PROBLEM] == ["rights.search"]
    finding = stranger.one("rights.search", Level.PROBLEM)
    assert f"GRANT USAGE ON SCHEMA kbsearch TO {role};" in finding.advice.splitlines()
    stranger.cure(finding, *stranger.bad("rights.extension"))
    assert [one for one in stranger.findings() if one.level in (Level.WARNING, Level.PROBLEM)] == []


def test_the_owner_sees_all_rows(patient: Patient) -> None:
    patient.run("ALTER TABLE kbsearch.kb_articles ENABLE ROW LEVEL SECURITY")
    assert patient.bad("rights.rows") == []
    patient.run("ALTER TABLE kbsearch.kb_articles FORCE ROW LEVEL SECURITY")
    assert patient.one("rights.rows", Level.PROBLEM).found.endswith("sees no row of kb_articles")


@pytest.mark.parametrize("granted", ["reader", "writer", "admin"])
def test_the_roles_of_grant_have_what_they_are_for(patient: Patient, role: str, granted: str) -> None:
    patient.run(f"SELECT kbsearch.grant_kb_rights_v1('{granted}', '{role}')")
    found = {
        name: right(patient, f"rights.{name}", role)
        for name in ("search", "write", "organizations", "maintain", "ingest")
    }
    assert {finding.level for finding in found.values()} == {Level.OK}
    may = {name: f" may {what}" in found[name].found for name, what in MAY.items()}
    assert may == {
        "search": True,
        "write": granted != "reader",
        "ingest": granted != "reader",
        "organizations": granted == "admin",
        "maintain": granted == "admin",
    }
    assert ("were loaded once" in found["ingest"].found) == (granted == "writer")


MAY = {
    "search": "search",
    "write": "write articles",
    "organizations": "make organisations",
    "maintain": "compact, rebuild",
    "ingest": "ingest",
}


def test_a_table_that_row_level_security_leaves_out(patient: Patient, role: str) -> None:
    assert right(patient, "rights.unsecured", role).found == "row-level security of enable_kb_row_security_v1 is not on"
    patient.run("SELECT kbsearch.enable_kb_row_security_v1('claim', 'app_metadata.org_id')")
    assert right(patient, "rights.unsecured", role).level is Level.OK
    patient.run("CREATE TABLE kbsearch.kb_later (org_id bigint, said text)")
    finding = right(patient, "rights.unsecured", role)
    assert finding.level is Level.PROBLEM
    assert "not for kb_later:" in finding.found
    assert finding.advice == "SELECT kbsearch.enable_kb_row_security_v1('claim'::text, 'app_metadata.org_id'::text);"
    patient.cure(finding)
    assert right(patient, "rights.unsecured", role).level is Level.OK
    for statement in (
        "ALTER TABLE kbsearch.kb_articles NO FORCE ROW LEVEL SECURITY",
        "ALTER TABLE kbsearch.kb_articles DISABLE ROW LEVEL SECURITY",
        "DROP POLICY kb_bound ON kbsearch.kb_articles",
    ):
        patient.run(statement)
        finding = right(patient, "rights.unsecured", role)
        assert "not for kb_articles:" in finding.found
        patient.cure(finding)
        assert right(patient, "rights.unsecured", role).level is Level.OK
