from __future__ import annotations

import pytest

from kbsearch.doctor import Level, ann
from tests.doctor.patient import Patient


def named(patient: Patient, org_id: int = 1) -> str:
    return str(patient.run(f"SELECT kbsearch.create_kb_ann_index_v1({org_id})"))


def test_an_index_in_use_is_well(patient: Patient) -> None:
    named(patient)
    patient.run("UPDATE kbsearch.organizations SET retrieval = 'ann', ann_window = 5 WHERE id = 1")
    bad = [one for one in patient.bad() if one.level is not Level.UNCHECKED]
    assert [one.found for one in bad] == []
    assert [one.found for one in patient.findings("ann")] == ["1 of at most 200", "1 organisation"]


def test_searches_that_are_refused_for_want_of_an_index(patient: Patient) -> None:
    patient.run("UPDATE kbsearch.organizations SET retrieval = 'ann' WHERE id = 1")
    finding = patient.one("ann.used", Level.PROBLEM)
    assert finding.organization == "shop"
    assert "kbsearch ann create --org shop" in finding.advice
    named(patient)
    assert patient.bad("ann.used") == []


def test_auto_without_an_index_matters_in_a_large_organisation_only(patient: Patient) -> None:
    patient.run("UPDATE kbsearch.organizations SET retrieval = 'auto' WHERE id = 1")
    assert patient.bad("ann.used") == []
    patient.run(
        "INSERT INTO kbsearch.kb_corpus_stats (org_id, segment_id, chunk_count, occurrence_count) VALUES (1, 0, 20001, 0)"
    )
    assert patient.one("ann.used", Level.WARNING).organization == "shop"


def test_an_index_of_an_organisation_that_is_gone(patient: Patient) -> None:
    other = patient.organization("other")
    name = named(patient, other)
    assert patient.bad("ann", "objects.indexes") == []
    patient.run(f"DELETE FROM kbsearch.organizations WHERE id = {other}")
    finding = patient.one("ann.indexes", Level.WARNING)
    assert finding.details == {"index": name}
    patient.cure(finding)
    assert patient.bad("ann") == []


def test_an_index_of_a_space_that_was_dropped(patient: Patient) -> None:
    space = patient.space("second")
    patient.embed(1, space)
    patient.run(f"SELECT kbsearch.create_kb_ann_index_v1(1, {space})")
    assert patient.bad("ann") == []
    patient.run(f"SELECT kbsearch.drop_kb_space_v1(1, {space})")
    finding = patient.one("ann.indexes", Level.WARNING)
    patient.cure(finding)
    assert patient.bad("ann") == []


def test_a_build_that_was_broken_off(patient: Patient) -> None:
    name = named(patient)
    patient.operate(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'kbsearch.{name}'::regclass")
    finding = patient.one("ann.indexes", Level.WARNING)
    assert "kbsearch ann create --org shop" in finding.advice
    assert patient.bad("objects.indexes") == []


def test_recall_is_measured_if_asked_for(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert patient.findings("ann.recall") == []
    (finding,) = patient.findings("ann.recall", recall=True)
    assert finding.found == "no organisation has an index for approximate search"
    named(patient)
    patient.run("UPDATE kbsearch.organizations SET ann_window = 15 WHERE id = 1")
    (finding,) = patient.findings("ann.recall", recall=True)
    assert finding.level is Level.OK
    assert finding.details["recall"] >= 0.99
    assert finding.details["questions"] > 10
    # a window of two holds at most four of ten
    patient.run("UPDATE kbsearch.organizations SET ann_window = 2 WHERE id = 1")
    finding = patient.one("ann.recall", Level.WARNING, recall=True)
    assert 0 < finding.details["recall"] <= 0.4
    monkeypatch.setattr(ann, "LEAST_RECALL", 0.0)
    assert patient.bad("ann.recall", recall=True) == []
