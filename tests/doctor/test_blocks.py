"""The vectors of large organisations' frequent words: whether they are right, there and recent."""

from __future__ import annotations

import pytest

from kbsearch.doctor import Level
from tests.doctor.patient import Patient

LARGE = (
    "INSERT INTO kbsearch.kb_corpus_stats (org_id, segment_id, chunk_count, occurrence_count) VALUES (1, 0, 20000, 0)"
)
"""The organisation is taken for a large one."""


def enlarge(patient: Patient) -> None:
    """Vectors of what is there."""
    patient.run(
        "SELECT kbsearch.begin_kb_keyword_blocks_v1(1, 1)", "SELECT kbsearch.build_kb_keyword_blocks_v1(1, '{}')"
    )


@pytest.mark.parametrize(
    "fault",
    [
        "UPDATE kbsearch.kb_keyword_blocks SET chunk_ids = chunk_ids[2:] || 99::bigint",
        "UPDATE kbsearch.kb_keyword_impacts SET lexeme = lexeme || 'x'",
    ],
    ids=["chunks", "words"],
)
def test_what_vectors_have_wrong_is_found(patient: Patient, fault: str) -> None:
    enlarge(patient)
    assert patient.bad("derived") == []
    patient.run(fault)
    finding = patient.one("derived.blocks", Level.PROBLEM)
    patient.cure(finding)
    assert patient.bad("derived") == []


def test_a_chunk_that_was_written_unnoticed(patient: Patient) -> None:
    enlarge(patient)
    patient.run("DELETE FROM kbsearch.kb_keyword_changes")
    patient.run("UPDATE kbsearch.kb_article_chunks SET content = 'quite other words' WHERE id = 1")
    assert patient.bad("derived") == []
    patient.run("DELETE FROM kbsearch.kb_keyword_changes")
    finding = patient.one("derived.blocks", Level.PROBLEM)
    patient.cure(finding)
    assert patient.bad("derived") == []


def test_large_organisations_want_vectors(patient: Patient) -> None:
    assert patient.bad("data.blocks") == []
    patient.run(LARGE)
    finding = patient.one("data.blocks", Level.WARNING)
    assert "no vectors" in finding.found
    patient.run("SELECT kbsearch.compact_kb_postings_v1(1)")
    assert patient.run("SELECT count(*) FROM kbsearch.kb_keyword_blocks") == 1
    assert patient.bad("data.blocks") == []


def test_many_changes_are_told(patient: Patient) -> None:
    enlarge(patient)
    note = "INSERT INTO kbsearch.kb_keyword_changes SELECT 1, 1, {0}, ARRAY(SELECT generate_series(1, {0}))"
    patient.run(note.format(500))
    assert patient.bad("data.blocks") == []
    patient.run("DELETE FROM kbsearch.kb_keyword_changes", note.format(501))
    finding = patient.one("data.blocks", Level.WARNING)
    assert finding.details == {"changed": 501}
