from __future__ import annotations

import psycopg
import pytest

from kbsearch.doctor import Level, embeddings
from kbsearch.ingest import Document, Source, Splitter, ingest
from tests.doctor.patient import Patient
from tests.ingest.test_pipeline import HashEmbedder


def ingested(
    patient: Patient, *documents: Document, org_id: int = 1, guarded: bool = True, revision: str = "1"
) -> HashEmbedder:
    """Documents of an organisation, with vectors."""
    embedder = HashEmbedder(revision)
    with psycopg.connect(patient.dsn, autocommit=True) as connection:
        splitter = Splitter.of(embedder, guarded=guarded)
        report = ingest(connection, org_id, [Source("s", documents)], embedder=embedder, splitter=splitter)
    assert report.rejected == ()
    return embedder


@pytest.fixture
def store(empty: Patient) -> Patient:
    """A database with an organisation that was ingested."""
    empty.run("INSERT INTO kbsearch.organizations (name) VALUES ('shop')")
    ingested(empty, *(Document(f"d{number}", f"Title {number}", f"text {number}") for number in range(3)))
    return empty


def test_nothing_is_wrong_with_what_was_ingested(store: Patient) -> None:
    assert store.bad("embeddings", "data") == []
    (cache,) = store.findings("embeddings.cache")
    assert cache.found == "0% of 3 texts were there; 3 vectors"
    ingested(
        store, Document("more", "Title 1", "text 1", metadata={"a": 1}), Document("d0", "Title 0", "text 0", "page")
    )
    (cache,) = store.findings("embeddings.cache")
    assert cache.found == "40% of 5 texts were there; 3 vectors"
    assert cache.details == {"hits": 2, "misses": 3, "vectors": 3}


def test_vectors_of_an_older_text(store: Patient) -> None:
    store.run("UPDATE kbsearch.kb_article_chunks SET content = 'other' WHERE content = 'text 1'")
    finding = store.one("embeddings.stale", Level.PROBLEM)
    assert (finding.organization, finding.details) == ("shop", {"space_id": 1, "stale": 1, "article_ids": [2]})
    other = store.space("other", 8)
    store.embed(1, other, 8)
    store.run(f"UPDATE kbsearch.organizations SET active_space_id = {other}")
    assert store.one("embeddings.stale", Level.WARNING).details["space_id"] == 1
    store.run("UPDATE kbsearch.kb_articles SET published = false WHERE id = 2")
    assert store.bad("embeddings.stale") == []


def test_a_text_under_another_digest_and_a_vector_of_other_dimensions(store: Patient) -> None:
    store.run("UPDATE kbsearch.kb_embedding_inputs SET input = 'forged' WHERE input ~ 'text 1'")
    finding = store.one("embeddings.inputs", Level.PROBLEM)
    assert finding.details == {"looked_at": 3, "wrong": 1, "misfits": 0}
    store.cure(finding)
    assert store.bad("embeddings.inputs") == []
    store.run(
        "UPDATE kbsearch.kb_embedding_cache SET embedding = '[1, 2]' WHERE ctid = (SELECT min(k.ctid) FROM kbsearch.kb_embedding_cache AS k)"
    )
    finding = store.one("embeddings.inputs", Level.PROBLEM)
    assert finding.details["misfits"] == 1
    store.cure(finding)
    assert store.bad("embeddings.inputs") == []


def test_names_of_a_machine_in_what_a_model_was_given(store: Patient) -> None:
    leak = Document("leak", "Leak", "made in /home/jane/build")
    ingested(store, leak, guarded=False)
    assert store.bad("embeddings.machine_names") == []  # the recipe allows it
    store.run(
        """INSERT INTO kbsearch.kb_embedding_cache (org_id, input_sha256, space_id, role, embedding)
SELECT k.org_id, k.input_sha256, 1, 'passage', k.embedding FROM kbsearch.kb_embedding_cache AS k
JOIN kbsearch.kb_embedding_inputs AS i ON i.input_sha256 = k.input_sha256 WHERE i.input ~ 'jane'"""
    )
    finding = store.one("embeddings.machine_names", Level.WARNING)
    assert "'/home/jane/build' (an absolute path)" in finding.found
    assert store.run(finding.advice.splitlines()[0]) == "Leak\nmade in /home/jane/build"


def test_articles_that_say_the_same(store: Patient) -> None:
    ingested(store, Document("again", "Title 1", "text 1"), Document("hidden", "Title 2", "text 2", published=False))
    finding = store.one("embeddings.duplicates", Level.WARNING)
    assert (finding.organization, finding.details["texts"], finding.details["articles"]) == ("shop", 1, 2)
    assert finding.details["article_ids"][0] == 2
    store.run("DELETE FROM kbsearch.kb_articles WHERE id = 2")
    assert store.bad("embeddings.duplicates") == []


def test_spaces_that_nobody_uses(store: Patient) -> None:
    store.space("forgotten")
    store.space("left")
    finding = store.one("embeddings.spaces", Level.WARNING)
    assert finding.found == "2 spaces that nobody uses: forgotten (2), left (3)"
    store.cure(finding)
    assert store.bad("embeddings.spaces") == []
    assert store.run("SELECT count(*) FROM kbsearch.kb_embedding_spaces") == 1


def test_a_cache_of_what_is_gone(store: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "UNUSED_VECTORS", 2)
    store.run("DELETE FROM kbsearch.kb_articles WHERE id IN (1, 2)")
    finding = store.one("embeddings.cache", Level.WARNING)
    assert finding.details == {"vectors": 3, "unused": 2}
    store.cure(finding)
    assert store.bad("embeddings.cache") == []
    assert store.run("SELECT count(*) FROM kbsearch.kb_embedding_inputs") == 1
    assert store.run("SELECT count(*) FROM kbsearch.kb_embedding_cache") == 1


def test_only_the_organisation_that_is_asked_for(store: Patient) -> None:
    other = store.run("INSERT INTO kbsearch.organizations (name) VALUES ('other') RETURNING id")
    ingested(store, Document("a", "A", "a"), org_id=other)
    store.run("UPDATE kbsearch.kb_article_chunks SET content = 'new' WHERE content = 'a'")
    assert store.bad("embeddings.stale", organization="shop") == []
    assert store.one("embeddings.stale", Level.PROBLEM, organization="other").organization == "other"
    (cache,) = store.findings("embeddings.cache", organization="other")
    assert cache.details["misses"] == 1


def test_a_space_beside_the_active_one_is_cured_by_dropping_it(store: Patient) -> None:
    other = store.space("other", 8)
    store.embed(1, other, 8)
    finding = store.one("data.spaces", Level.WARNING)
    store.cure(finding)
    assert store.bad("data.spaces") == []
    assert store.run("SELECT count(*) FROM kbsearch.kb_article_embeddings") == 3
