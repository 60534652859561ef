from __future__ import annotations

import pytest

from kbsearch.doctor import Level, search
from tests.doctor.patient import Patient


def test_a_search_of_its_own_words_is_measured(patient: Patient) -> None:
    patient.organization("words", vectors=False)
    findings = patient.findings("search")
    assert [(one.check, one.level, one.organization) for one in findings] == [
        ("search.answers", Level.OK, "shop"),
        ("search.answers", Level.OK, "words"),
        ("search.plan", Level.OK, None),
    ]
    shop, words, plan = findings
    assert shop.details["total"] == 20
    assert 0 < shop.details["seconds"] < 5
    assert " and a vector in " in shop.found
    assert " and a vector" not in words.found
    assert words.details["total"] > 0
    assert plan.found == "2 organisations searched, no scan of a whole table, no rows of others"


def test_an_organisation_whose_index_finds_nothing(patient: Patient) -> None:
    org_id = patient.organization("words", vectors=False)
    patient.run(f"DELETE FROM kbsearch.kb_postings WHERE org_id = {org_id}")
    finding = patient.one("search.answers", Level.PROBLEM)
    assert finding.organization == "words"
    assert finding.found.startswith("nothing found for 'word")
    patient.cure(finding)
    assert patient.bad("search", "derived") == []


def test_a_policy_that_gives_no_answer_is_no_fault_of_the_index(patient: Patient) -> None:
    patient.run(
        "SELECT kbsearch.create_kb_arbitration_policy_v1(p_org_id => 1, p_name => 'strict', p_max_disagreement => 0, p_severe_rule => 'escalate')",
        "SELECT kbsearch.create_kb_ranking_profile_v1(1, 'strict', 'arbitrate', p_policy => 'strict@1')",
        "UPDATE kbsearch.organizations SET ranking_profile = 'strict@1' WHERE id = 1",
    )
    page = "SELECT kbsearch.search_kb_hybrid_page_v1(1, 'word1x word5x', '[1, 2, 3]') ->> 'verdict'"
    assert patient.run(page) == "escalated"
    assert [one.level for one in patient.findings("search")] == [Level.OK, Level.OK]


def test_a_search_that_takes_long_beside_the_timeout(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "TIMEOUT_FACTOR", 10**6)
    assert patient.bad("search.answers") == [], "no timeout"
    name = patient.run("SELECT current_database()")
    patient.operate(f"ALTER DATABASE {name} SET statement_timeout = '10s'")
    finding = patient.one("search.answers", Level.WARNING)
    assert finding.found.endswith("statement_timeout is 10000 ms")


def test_a_function_that_lost_its_settings(patient: Patient) -> None:
    patient.organization("large", 300)
    patient.operate("VACUUM ANALYZE")
    assert patient.bad("search.plan") == []
    for function in patient.run(
        "SELECT array_agg(oid::regprocedure::text) FROM pg_proc WHERE pronamespace = 'kbsearch'::regnamespace"
        " AND proname IN ('search_kb_hybrid_page_v1', 'prepare_kb_search_v1', 'rank_kb_articles_v1')"
    ):
        patient.run(f"ALTER FUNCTION {function} RESET enable_seqscan")
    findings = patient.bad("search.plan")
    assert {one.level for one in findings} == {Level.PROBLEM}
    assert "kb_article_embeddings" in findings[0].found
    assert findings[0].details["scans"]["kb_article_embeddings"] > 0
    assert "rank_kb_articles_v1" in str(patient.one("versions.objects", Level.PROBLEM).details)


def test_an_index_by_which_others_rows_are_read(patient: Patient) -> None:
    patient.organization("large", 400)
    patient.operate(
        "CREATE INDEX mine ON kbsearch.kb_article_embeddings (space_id, searchable)",
        "DROP INDEX kbsearch.kb_article_embeddings_scan",
        "ALTER TABLE kbsearch.kb_article_embeddings DROP CONSTRAINT kb_article_embeddings_pkey",
        "VACUUM ANALYZE",
    )
    finding = patient.one("search.plan", Level.PROBLEM)
    assert finding.organization == "shop"
    assert finding.details["rows_read"]["kb_article_embeddings"] > 1000
    assert "(40 of its own)" in finding.found
    assert "mine" in patient.one("objects.indexes", Level.WARNING).found


def test_the_largest_and_the_smallest_organisations_are_searched_or_all(patient: Patient) -> None:
    for number in range(12):
        patient.organization(f"number {number}", number + 1, vectors=False)
    patient.run("INSERT INTO kbsearch.organizations (name) VALUES ('empty')")
    searched = [one.organization for one in patient.findings("search.answers")]
    assert searched == [*(f"number {number}" for number in (0, 1, 2, 3, 4, 8, 9, 10, 11)), "shop"]
    assert len(patient.findings("search.answers", deep=True)) == 13


@pytest.mark.parametrize(
    "content", ['"-never ""', "日本語のテスト", "the of and", "🙂 ok", "--- -x \"quoted\" 'it''s'"]
)
def test_a_question_is_made_of_any_text(empty: Patient, content: str) -> None:
    empty.run(
        "INSERT INTO kbsearch.organizations (name) VALUES ('odd')",
        "INSERT INTO kbsearch.kb_articles (org_id, title) VALUES (1, 'returns')",
    )
    escaped = content.replace("''", "'").replace("'", "''")
    empty.run(f"INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content) VALUES (1, 1, '{escaped}')")
    assert empty.bad("search") == []
