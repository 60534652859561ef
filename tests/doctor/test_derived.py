from __future__ import annotations

import psycopg

from kbsearch.doctor import Level
from tests.doctor.patient import Patient


def test_postings_that_are_missing(patient: Patient) -> None:
    lexeme = patient.run("SELECT min(lexeme) FROM kbsearch.kb_postings")
    count = patient.run(f"SELECT sum(sign * entry_count) FROM kbsearch.kb_postings WHERE lexeme = '{lexeme}'")
    patient.run(f"DELETE FROM kbsearch.kb_postings WHERE lexeme = '{lexeme}'")
    finding = patient.one("derived.postings", Level.PROBLEM)
    assert finding.organization == "shop"
    assert finding.details["missing"] == count
    assert finding.details["too_many"] == 0
    assert finding.details["examples"][0]["lexeme"] == lexeme
    assert f"'{lexeme}' in chunk " in finding.found
    patient.cure(finding)
    assert patient.bad("derived") == []


def test_postings_that_are_too_many(patient: Patient) -> None:
    patient.run(
        """INSERT INTO kbsearch.kb_postings (org_id, lexeme, first_chunk_id, segment_id, sign, max_impact, entry_count, entries)
VALUES (1, 'phantom', 1, 77, 1, 5, 1, ARRAY[(1::bigint << 12) | 5]), (1, 'debt', 2, 77, -1, 5, 1, ARRAY[(2::bigint << 12) | 5])"""
    )
    finding = patient.one("derived.postings", Level.PROBLEM)
    assert (finding.details["missing"], finding.details["too_many"]) == (1, 1)
    assert [one["is"] for one in finding.details["examples"]] == [-1, 1]
    patient.cure(finding)
    assert patient.bad("derived") == []


def test_entries_that_cancel_are_none(patient: Patient) -> None:
    patient.run(
        """INSERT INTO kbsearch.kb_postings (org_id, lexeme, first_chunk_id, segment_id, sign, max_impact, entry_count, entries)
SELECT 1, 'gone', 1, 77 * s.sign, s.sign, 5, 1, ARRAY[(1::bigint << 12) | 5] FROM (VALUES (1), (-1)) AS s (sign)"""
    )
    assert patient.bad("derived") == []


def test_an_impact_that_is_wrong(patient: Patient) -> None:
    patient.run(
        "UPDATE kbsearch.kb_postings SET entries[1] = entries[1] # 1 WHERE (lexeme, segment_id) ="
        " (SELECT lexeme, segment_id FROM kbsearch.kb_postings ORDER BY lexeme, segment_id LIMIT 1)"
    )
    finding = patient.one("derived.postings", Level.PROBLEM)
    assert (finding.details["missing"], finding.details["too_many"]) == (1, 1)
    patient.cure(finding)
    assert patient.bad("derived") == []


def test_blocks_of_the_wrong_shape(patient: Patient) -> None:
    patient.run(
        "UPDATE kbsearch.kb_postings SET entry_count = entry_count + 1 WHERE lexeme = (SELECT min(lexeme) FROM kbsearch.kb_postings)"
    )
    finding = patient.one("derived.postings", Level.PROBLEM)
    assert "block" in finding.found
    patient.cure(finding)
    assert patient.bad("derived") == []


def test_another_reference_length_than_the_postings_were_made_with(patient: Patient) -> None:
    patient.without_triggers("UPDATE kbsearch.organizations SET reference_length = 7")
    finding = patient.one("derived.postings", Level.PROBLEM)
    assert finding.details["missing"] > 100
    patient.cure(finding)
    assert patient.bad("derived") == []


def test_statistics_that_are_wrong(patient: Patient) -> None:
    patient.run("UPDATE kbsearch.kb_corpus_stats SET occurrence_count = occurrence_count + 1")
    finding = patient.one("derived.statistics", Level.PROBLEM)
    assert finding.details["is"][1] == finding.details["must"][1] + 1
    patient.cure(finding)
    assert patient.bad("derived") == []
    patient.run("DELETE FROM kbsearch.kb_corpus_stats")
    assert patient.one("derived.statistics", Level.PROBLEM).details["is"] == [0, 0]


def test_rows_of_organisations_that_are_gone(patient: Patient) -> None:
    patient.without_triggers(
        """INSERT INTO kbsearch.kb_postings (org_id, lexeme, first_chunk_id, segment_id, sign, max_impact, entry_count, entries)
SELECT n, 'x', 1, 1, 1, 5, 1, ARRAY[(1::bigint << 12) | 5] FROM generate_series(-1, 9, 5) AS g (n)""",
        "INSERT INTO kbsearch.kb_corpus_stats (org_id, segment_id, chunk_count, occurrence_count) VALUES (9, 1, 1, 1)",
    )
    findings = patient.bad("derived.leftovers")
    assert [one.level for one in findings] == [Level.WARNING] * 2
    assert [one.details for one in findings] == [
        {"table": "kb_postings", "org_ids": [-1, 4, 9]},
        {"table": "kb_corpus_stats", "org_ids": [9]},
    ]
    patient.cure(*findings)
    assert patient.bad("derived") == []
    assert patient.run("SELECT count(*) FROM kbsearch.kb_postings") > 0


def test_copies_of_the_article_that_are_stale(patient: Patient) -> None:
    patient.without_triggers(
        "UPDATE kbsearch.kb_articles SET title = 'another', version = version + 1 WHERE id = 1",
        "UPDATE kbsearch.kb_articles SET published = false WHERE id = 2",
        "UPDATE kbsearch.kb_articles SET language = 'german' WHERE id = 3",
    )
    finding = patient.one("derived.chunks", Level.PROBLEM)
    assert {name: finding.details.get(name) for name in ("version", "title", "language", "publication")} == {
        "version": 2,
        "title": 2,
        "language": 2,
        "publication": 2,
    }
    assert len(finding.details["chunk_ids"]) == 5
    patient.cure(finding)
    assert patient.bad("derived", deep=True) == []


def test_a_language_of_the_organisation_that_the_chunks_did_not_follow(patient: Patient) -> None:
    patient.without_triggers("UPDATE kbsearch.organizations SET language = 'simple'")
    finding = patient.one("derived.chunks", Level.PROBLEM)
    assert finding.details["language"] == 40
    patient.cure(finding)
    assert patient.bad("derived", deep=True) == []


def test_what_deleted_articles_and_chunks_left(patient: Patient) -> None:
    patient.without_triggers(
        "DELETE FROM kbsearch.kb_articles WHERE id = 1",
        "DELETE FROM kbsearch.kb_article_chunks WHERE article_id = 2",
    )
    chunks = patient.one("derived.chunks", Level.PROBLEM)
    assert chunks.details["without_article"] == 2
    embeddings = patient.one("derived.embeddings", Level.PROBLEM)
    assert embeddings.details == {"without_chunk": 2}
    patient.cure(chunks, embeddings)
    assert patient.bad("derived") == []
    assert patient.run("SELECT count(*) FROM kbsearch.kb_article_embeddings") == 36


def test_embeddings_with_another_publication_than_their_chunk(patient: Patient) -> None:
    patient.without_triggers("UPDATE kbsearch.kb_article_embeddings SET searchable = false WHERE article_id = 1")
    finding = patient.one("derived.embeddings", Level.PROBLEM)
    assert finding.details == {"stale": 2}
    patient.cure(finding)
    assert patient.bad("derived") == []


def test_embeddings_of_other_dimensions_than_their_space(patient: Patient) -> None:
    patient.without_triggers("UPDATE kbsearch.kb_article_embeddings SET embedding = '[1, 2]' WHERE article_id = 1")
    assert "different vector dimensions" in patient.one("search.answers", Level.PROBLEM).found
    finding = patient.one("derived.embeddings", Level.PROBLEM)
    assert finding.details == {"misfits": 2}
    patient.cure(finding)
    assert patient.bad("derived", "search.answers") == []


def dictionary(patient: Patient) -> None:
    """Let the organisation be analysed in a configuration of its own, whose dictionary can change."""
    patient.operate(
        "CREATE TEXT SEARCH DICTIONARY ext.plain (TEMPLATE = pg_catalog.simple)",
        "CREATE TEXT SEARCH CONFIGURATION ext.plain (COPY = pg_catalog.simple)",
        "ALTER TEXT SEARCH CONFIGURATION ext.plain ALTER MAPPING REPLACE pg_catalog.simple WITH ext.plain",
        "UPDATE kbsearch.organizations SET language = 'ext.plain'",
        "UPDATE kbsearch.kb_article_chunks SET content = content || ' the end' WHERE article_id = 3",
    )
    assert patient.bad("derived", deep=True) == []


def test_lexemes_of_a_dictionary_that_changed(patient: Patient) -> None:
    dictionary(patient)
    patient.operate("ALTER TEXT SEARCH DICTIONARY ext.plain (StopWords = english)")
    finding = patient.one("derived.lexemes", Level.PROBLEM)
    assert finding.details == {"looked_at": 40, "stale": 2, "chunk_ids": [5, 6]}
    before = patient.run("SELECT jsonb_agg(content ORDER BY id) FROM kbsearch.kb_article_chunks")
    patient.cure(finding)
    assert patient.bad("derived", deep=True) == []
    assert patient.run("SELECT jsonb_agg(content ORDER BY id) FROM kbsearch.kb_article_chunks") == before


def test_a_language_of_an_article_whose_dictionary_changed(patient: Patient) -> None:
    dictionary(patient)
    patient.run(
        "UPDATE kbsearch.organizations SET language = 'english'",
        "UPDATE kbsearch.kb_articles SET language = 'ext.plain' WHERE id = 3",
    )
    assert patient.bad("derived", deep=True) == []
    patient.operate("ALTER TEXT SEARCH DICTIONARY ext.plain (StopWords = english)")
    finding = patient.one("derived.lexemes", Level.PROBLEM)
    patient.cure(finding)
    assert patient.bad("derived", deep=True) == []


def test_a_sample_is_analysed_again_or_all(patient: Patient) -> None:
    patient.organization("large", 300, vectors=False, words=3)
    (finding,) = patient.findings("derived.lexemes", organization="large")
    assert finding.found == "101 chunks analysed again, a sample (--deep: all)"
    first = patient.run("SELECT min(id) FROM kbsearch.kb_article_chunks WHERE org_id = 2")
    patient.without_triggers(
        f"UPDATE kbsearch.kb_article_chunks SET phrase_text = ' bogus ' WHERE id = {first + 1}",
    )
    assert patient.bad("derived.lexemes", organization="large") == [], "beside the sample"
    finding = patient.one("derived.lexemes", Level.PROBLEM, organization="large", deep=True)
    assert finding.details == {"looked_at": 600, "stale": 1, "chunk_ids": [first + 1]}
    patient.cure(finding)
    assert patient.bad("derived", deep=True) == []


def test_a_data_only_restore_with_triggers_disabled(patient: Patient) -> None:
    """Rows come back as they were, without derived ones: what the guide says to run afterwards is what is advised."""
    patient.operate("SET session_replication_role = replica; TRUNCATE kbsearch.kb_postings, kbsearch.kb_corpus_stats")
    findings = patient.bad("derived")
    assert {one.check for one in findings} == {"derived.postings", "derived.statistics"}
    assert {one.advice for one in findings} == {"SELECT kbsearch.rebuild_kb_index_v1(1);"}
    patient.cure(*findings)
    assert patient.bad("derived") == []


def test_a_check_without_the_right_to_look(patient: Patient, role: str) -> None:
    patient.operate(f"ALTER ROLE {role} LOGIN PASSWORD '{role}'", f"GRANT USAGE ON SCHEMA kbsearch TO {role}")
    blind = Patient(psycopg.conninfo.make_conninfo(patient.admin_dsn, user=role, password=role), patient.admin_dsn)
    findings = blind.findings("derived", "data", "search")
    assert {one.level for one in findings if one.check != "data.tables"} == {Level.UNCHECKED}
    assert all("permission denied" in one.found for one in findings if one.check != "data.tables")
    owner = patient.run("SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'kbsearch'")
    assert owner in findings[0].advice
