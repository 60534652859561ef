from __future__ import annotations

import pytest

from kbsearch.doctor import Level
from tests.doctor.patient import Patient

WRITE = (
    "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, chunk_no, content) VALUES (1, 1, 7, 'unseen words')"
)


def test_triggers_that_are_switched_off(patient: Patient) -> None:
    patient.run(
        "ALTER TABLE kbsearch.kb_article_chunks DISABLE TRIGGER USER",
        WRITE.replace("chunk_no", "article_version, chunk_no").replace("1, 1, 7", "1, 1, 1, 7"),
    )
    finding = patient.one("objects.triggers", Level.PROBLEM)
    assert "switched off on kb_article_chunks: kb_00_begin, kb_10_describe" in finding.found
    assert patient.bad("derived.chunks")
    patient.cure(finding)
    assert patient.bad("objects.triggers", "derived") == []


def test_triggers_of_foreign_keys_that_are_switched_off(patient: Patient) -> None:
    patient.operate(
        "ALTER TABLE kbsearch.kb_articles DISABLE TRIGGER ALL", "ALTER TABLE kbsearch.kb_articles ENABLE TRIGGER USER"
    )
    finding = patient.one("objects.triggers", Level.PROBLEM)
    assert finding.found == "triggers switched off on kb_articles: those of foreign keys"
    patient.run("UPDATE kbsearch.kb_articles SET title = 'another' WHERE id = 1")
    assert patient.bad("derived.chunks")
    patient.cure(finding)
    assert patient.bad("objects.triggers", "derived") == []


def test_triggers_for_replication_only(patient: Patient) -> None:
    patient.run("ALTER TABLE kbsearch.kb_article_embeddings ENABLE REPLICA TRIGGER kb_10_check")
    finding = patient.one("objects.triggers", Level.PROBLEM)
    assert finding.found == "triggers switched on for replication only on kb_article_embeddings: kb_10_check"
    patient.cure(finding)
    assert patient.bad("objects.triggers") == []


def test_a_trigger_that_is_missing(patient: Patient) -> None:
    patient.run("DROP TRIGGER kb_20_inserted ON kbsearch.kb_article_chunks", WRITE)
    finding = patient.one("objects.triggers", Level.PROBLEM)
    assert finding.found == "1 trigger missing: kb_20_inserted on kb_article_chunks"
    assert "kbsearch db sql" in finding.advice
    assert patient.bad("derived.postings")
    patient.cure(finding)
    assert patient.bad("derived") == []


def test_an_invalid_index(patient: Patient) -> None:
    patient.operate(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'kbsearch.kb_article_embeddings_scan'::regclass"
    )
    finding = patient.one("objects.indexes", Level.PROBLEM)
    assert finding.advice == "REINDEX INDEX CONCURRENTLY kbsearch.kb_article_embeddings_scan;"
    patient.cure(finding)
    assert patient.bad("objects.indexes") == []


def test_an_index_that_a_failed_rebuild_left(patient: Patient) -> None:
    patient.operate(
        "CREATE INDEX kb_article_embeddings_scan_ccnew ON kbsearch.kb_article_embeddings (org_id, space_id)",
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'kbsearch.kb_article_embeddings_scan_ccnew'::regclass",
    )
    finding = patient.one("objects.indexes", Level.PROBLEM)
    assert finding.advice == "DROP INDEX CONCURRENTLY kbsearch.kb_article_embeddings_scan_ccnew;"
    patient.cure(finding)
    assert patient.bad("objects.indexes") == []


@pytest.mark.parametrize(
    ("index", "found"),
    [
        ("kb_article_embeddings USING hnsw ((embedding::ext.vector(3)) ext.vector_cosine_ops)", "(hnsw) is never read"),
        ("kb_article_embeddings (space_id)", "does not begin with org_id"),
        ("kb_article_chunks (lower(content))", "does not begin with org_id"),
        ("kb_postings (lexeme)", "does not begin with org_id"),
    ],
)
def test_an_index_that_is_in_the_way(patient: Patient, index: str, found: str) -> None:
    patient.operate(f"CREATE INDEX mine ON kbsearch.{index}")
    finding = patient.one("objects.indexes", Level.WARNING)
    assert found in finding.found
    patient.cure(finding)
    assert patient.bad("objects.indexes") == []


def test_an_index_of_the_host_that_does_no_harm(patient: Patient) -> None:
    patient.run(
        "CREATE INDEX mine ON kbsearch.kb_articles (external_ref)",
        "CREATE INDEX too ON kbsearch.kb_article_chunks (org_id, heading)",
    )
    assert patient.bad("objects.indexes") == []


def test_an_unlogged_table(patient: Patient) -> None:
    patient.run("ALTER TABLE kbsearch.kb_postings SET UNLOGGED")
    finding = patient.one("objects.persistence", Level.PROBLEM)
    assert finding.advice == "ALTER TABLE kbsearch.kb_postings SET LOGGED;"
    patient.cure(finding)
    assert patient.bad("objects.persistence") == []


def test_a_constraint_that_was_not_validated(patient: Patient) -> None:
    patient.run("ALTER TABLE kbsearch.kb_articles ADD CONSTRAINT mine CHECK (title <> 'x') NOT VALID")
    finding = patient.one("objects.constraints", Level.WARNING)
    assert finding.advice == "ALTER TABLE kbsearch.kb_articles VALIDATE CONSTRAINT mine;"
    patient.cure(finding)
    assert patient.bad("objects.constraints") == []


def test_a_constraint_that_is_not_enforced(patient: Patient) -> None:
    if patient.run("SELECT current_setting('server_version_num')::integer < 180000"):
        pytest.skip("constraints are always enforced before PostgreSQL 18")
    name = patient.run(
        "SELECT conname FROM pg_constraint WHERE conrelid = 'kbsearch.kb_article_embeddings'::regclass AND contype = 'f' AND conname ~ 'space'"
    )
    patient.run(f"ALTER TABLE kbsearch.kb_article_embeddings ALTER CONSTRAINT {name} NOT ENFORCED")
    finding = patient.one("objects.constraints", Level.PROBLEM)
    assert finding.found == f"constraint {name} on kb_article_embeddings is not enforced"
    patient.cure(finding)
    assert patient.bad("objects.constraints") == []
