from __future__ import annotations

import pytest

from kbsearch.doctor import Level, data
from tests.doctor.patient import Patient


def test_chunks_without_a_vector(patient: Patient) -> None:
    patient.run("DELETE FROM kbsearch.kb_article_embeddings WHERE article_id IN (4, 5)")
    finding = patient.one("data.vectors", Level.WARNING)
    assert finding.organization == "shop"
    assert finding.details == {"space_id": 1, "without": 4, "article_ids": [4, 5]}
    patient.run(
        """INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, chunk_id, article_id, embedding)
SELECT c.org_id, 1, c.id, c.article_id, '[1, 2, 3]' FROM kbsearch.kb_article_chunks AS c WHERE c.article_id IN (4, 5)"""
    )
    assert patient.bad("data") == []


def test_blank_and_unpublished_chunks_need_no_vector(patient: Patient) -> None:
    patient.run(
        "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content) VALUES (1, 1, E'\\u00a0 \\n'), (1, 1, '')",
        "UPDATE kbsearch.kb_articles SET published = false WHERE id = 4",
        "DELETE FROM kbsearch.kb_article_embeddings WHERE article_id = 4",
    )
    assert patient.bad("data") == []


def test_an_active_space_without_vectors(patient: Patient) -> None:
    other = patient.space("other")
    patient.run(f"UPDATE kbsearch.organizations SET active_space_id = {other}")
    finding = patient.one("data.vectors", Level.PROBLEM)
    assert finding.details == {"space_id": other, "without": 40}
    patient.cure(patient.one("data.spaces", Level.WARNING))
    patient.embed(1, other)
    assert patient.bad("data") == []


def test_vectors_without_a_direction(patient: Patient) -> None:
    patient.run("UPDATE kbsearch.kb_article_embeddings SET embedding = '[0, 0, 0]' WHERE article_id = 6")
    finding = patient.one("data.vectors", Level.WARNING)
    assert finding.details == {"space_id": 1, "without_direction": 2, "article_ids": [6]}
    query = finding.advice.splitlines()[1]
    chunk_id = patient.run(query)
    assert chunk_id == patient.run("SELECT min(id) FROM kbsearch.kb_article_chunks WHERE article_id = 6")
    patient.run("UPDATE kbsearch.kb_article_embeddings SET embedding = '[0, 0, 1]' WHERE article_id = 6")
    assert patient.bad("data") == []


def test_vectors_of_another_space_than_the_active(patient: Patient) -> None:
    other = patient.space("other")
    patient.embed(1, other)
    finding = patient.one("data.spaces", Level.WARNING)
    assert finding.found == f"40 vectors in space {other} (other), which is not the active one (1)"
    patient.cure(finding)
    assert patient.bad("data") == []


def test_vectors_and_no_active_space(patient: Patient) -> None:
    patient.run("UPDATE kbsearch.organizations SET active_space_id = NULL")
    finding = patient.one("data.spaces", Level.PROBLEM)
    assert finding.advice == "UPDATE kbsearch.organizations SET active_space_id = 1 WHERE id = 1;"
    patient.cure(finding)
    assert patient.bad("data") == []


def test_articles_that_nothing_finds(patient: Patient) -> None:
    patient.run(
        "INSERT INTO kbsearch.kb_articles (org_id, id, title) VALUES (1, 101, 'no chunks'), (1, 102, NULL), (1, 103, NULL)",
        "INSERT INTO kbsearch.kb_articles (org_id, id, published) VALUES (1, 104, false)",
        "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content) VALUES (1, 102, ''), (1, 103, 'the of and'), (1, 103, ' ')",
    )
    finding = patient.one("data.articles", Level.WARNING)
    assert finding.details == {"without_chunks": 1, "without_words": 2, "article_ids": [101, 102, 103]}
    patient.run(
        "DELETE FROM kbsearch.kb_articles WHERE id IN (101, 102)",
        """INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, chunk_id, article_id, embedding)
SELECT c.org_id, 1, c.id, c.article_id, '[1, 2, 3]' FROM kbsearch.kb_article_chunks AS c WHERE c.article_id = 103""",
    )
    assert patient.bad("data") == [], "stop words with a vector are found by it"


@pytest.mark.parametrize("content", ["repeat('x', 220000)", "repeat('many words ', 7000)"])
def test_chunks_near_a_limit(patient: Patient, content: str) -> None:
    patient.run(f"UPDATE kbsearch.kb_article_chunks SET content = {content} WHERE id = 9")
    finding = patient.one("data.limits", Level.WARNING)
    assert finding.details["chunk_ids"] == [9]
    patient.run("UPDATE kbsearch.kb_article_chunks SET content = 'split' WHERE id = 9")
    assert patient.bad("data") == []


def test_postings_that_were_never_merged(patient: Patient) -> None:
    patient.run(
        "SET default_transaction_isolation = 'repeatable read'",
        *["UPDATE kbsearch.kb_article_chunks SET content = md5(content) || ' ' || content WHERE id = 1"] * 2,
        *[
            f"UPDATE kbsearch.kb_article_chunks SET content = (SELECT string_agg('edit' || n * {step}, ' ') FROM generate_series(1, 40) AS g (n))"
            " WHERE id = 1"
            for step in range(1, 45)
        ],
    )
    finding = patient.one("data.postings", Level.WARNING)
    assert finding.details["rows"] > 4 * finding.details["fewest"] + 1000
    patient.cure(finding)
    assert patient.bad("data", "derived") == []
    assert patient.run("SELECT count(*) FROM kbsearch.kb_postings") == finding.details["fewest"]


def test_a_reference_length_far_from_the_chunks(patient: Patient) -> None:
    org_id = patient.organization("short", 60, vectors=False, words=5)
    finding = patient.one("data.reference_length", Level.WARNING)
    assert finding.organization == "short"
    calibrated = finding.details["calibrated"]
    patient.cure(finding)
    assert patient.run(f"SELECT reference_length FROM kbsearch.organizations WHERE id = {org_id}") == calibrated
    assert patient.bad("data", "derived") == []


def test_a_small_organisation_need_not_be_calibrated(patient: Patient) -> None:
    patient.organization("short", 20, vectors=False, words=5)
    assert patient.bad("data.reference_length") == []


def test_a_language_that_was_dropped(patient: Patient) -> None:
    patient.operate("CREATE TEXT SEARCH CONFIGURATION ext.mine (COPY = pg_catalog.simple)")
    patient.organization("other")
    patient.operate(
        "UPDATE kbsearch.organizations SET language = 'ext.mine' WHERE name = 'other'",
        "UPDATE kbsearch.kb_articles SET language = 'ext.mine' WHERE id IN (1, 2)",
        "DROP TEXT SEARCH CONFIGURATION ext.mine",
    )
    findings = patient.bad("data.languages")
    assert [(one.level, one.organization, one.details["table"]) for one in findings] == [
        (Level.PROBLEM, "shop", "kb_articles"),
        (Level.PROBLEM, "other", "organizations"),
    ]
    patient.cure(*findings)
    assert patient.bad("data", "derived") == []


def test_dead_rows(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "DEAD_ROWS", 10)
    patient.run("ALTER TABLE kbsearch.kb_articles SET (autovacuum_enabled = off)")
    patient.run("UPDATE kbsearch.kb_articles SET body = 'x'", "SELECT pg_stat_force_next_flush()")
    findings = {one.details["table"]: one for one in patient.bad("data.tables")}
    assert findings["kb_articles"].details["dead"] == 20
    assert findings["kb_articles"].advice == "VACUUM (ANALYZE) kbsearch.kb_articles;"
    patient.cure(*findings.values())
    patient.run("SELECT pg_stat_force_next_flush()")
    assert patient.bad("data.tables") == []


def test_a_large_table_that_vacuum_never_saw(empty: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "LARGE_TABLE", 30)
    empty.organization("shop")
    empty.run(
        "UPDATE kbsearch.kb_article_chunks SET heading = heading WHERE false", "SELECT pg_stat_force_next_flush()"
    )
    findings = {one.details["table"]: one for one in empty.bad("data.tables")}
    assert findings["kb_article_chunks"].found == "kb_article_chunks: 40 rows, never vacuumed or analysed"
    empty.cure(*findings.values())
    assert empty.bad("data.tables") == []
