from __future__ import annotations

from typing import Any

import psycopg
import pytest

from kbsearch import KBSearch
from kbsearch.embed.errors import EmbeddingError
from kbsearch.ingest import Document, Splitter, UsageError, embed_missing
from kbsearch.ingest.notes import Note
from kbsearch.ingest.organizations import organization_id
from kbsearch.ingest.vectors import CHUNKS_AT_ONCE
from kbsearch.models import Chunk
from tests.ingest.test_pipeline import Connection, HashEmbedder, Picky, answers, documents, rows, run, stored

LACKING = """SELECT count(*) FROM kbsearch.kb_article_chunks AS c JOIN kbsearch.organizations AS o ON o.id = c.org_id
WHERE c.org_id = %s AND NOT EXISTS (SELECT FROM kbsearch.kb_article_embeddings AS e
    WHERE e.org_id = c.org_id AND e.chunk_id = c.id AND e.space_id = o.active_space_id)"""


def plain(connection: Connection, count: int, *, org: str = "o") -> int:
    """Articles as plain SQL or a trigger writes them."""
    org_id = organization_id(connection, org, create=True)
    client = KBSearch(connection)
    for number in range(count):
        client.upsert_article(
            org_id,
            external_ref=f"p{number:03}",
            title=f"Title {number}",
            chunks=[Chunk(f"alpha number{number}", "Head"), Chunk("beta")],
        )
    return org_id


def test_chunks_without_a_vector_get_one_and_a_second_run_does_nothing(connection: Connection) -> None:
    org_id = plain(connection, 3)
    embedder = HashEmbedder()
    report = embed_missing(connection, org_id, embedder)
    assert (report.missing, report.embedded, report.rejected, report.space_active) == (6, 6, (), True)
    assert embedder.inputs[:2] == ["Title 0\nHead\nalpha number0", "Title 0\nbeta"]
    assert rows(connection, LACKING, org_id) == [(0,)]
    page = KBSearch(connection, embedder=embedder).search(org_id, "Title 2\nHead\nalpha number2", profile="vector@1")
    assert (page.items[0].external_ref, page.items[0].vector_similarity) == ("p002", 1)
    again = embed_missing(connection, org_id, embedder)
    assert (again.missing, again.embedded) == (0, 0)
    assert len(embedder.inputs) == 6


def test_articles_of_ingest_and_of_plain_sql_share_the_space(connection: Connection) -> None:
    embedder = HashEmbedder()
    first = run(connection, documents(2), embedder=embedder, splitter=None)
    plain(connection, 2)
    report = embed_missing(connection, first.org_id, embedder)
    assert (report.space, report.embedded) == (first.space, 4)
    assert len(rows(connection, "SELECT id FROM kbsearch.kb_embedding_spaces")) == 1
    sized = run(connection, documents(2), org="sized", embedder=embedder, splitter=Splitter(30))
    plain(connection, 2, org="sized")
    assert embed_missing(connection, sized.org_id, embedder).space == sized.space


def test_what_was_ingested_without_vectors_is_embedded_and_then_unchanged(connection: Connection) -> None:
    entries = documents(5)
    report = run(connection, entries, splitter=None)
    embedder = HashEmbedder()
    assert embed_missing(connection, report.org_id, embedder).embedded == 5
    fresh = run(connection, entries, org="fresh", embedder=embedder, splitter=None)
    assert answers(connection, report.org_id, embedder) == answers(connection, fresh.org_id, embedder)
    inputs = len(embedder.inputs)
    again = run(connection, entries, embedder=embedder, splitter=None)
    assert (again.unchanged, again.reembedded, len(embedder.inputs)) == (5, 0, inputs)


def test_a_run_that_stopped_is_completed(connection: Connection) -> None:
    org_id = plain(connection, CHUNKS_AT_ONCE)
    with pytest.raises(RuntimeError, match="embedder failed"):
        embed_missing(connection, org_id, HashEmbedder(fail_after=CHUNKS_AT_ONCE + 3))
    assert rows(connection, LACKING, org_id) == [(CHUNKS_AT_ONCE,)]
    told: list[tuple[str, int, int]] = []
    report = embed_missing(connection, org_id, HashEmbedder(), progress=lambda *step: told.append(step))
    assert report.embedded == CHUNKS_AT_ONCE
    assert told[-1] == ("embed", CHUNKS_AT_ONCE, CHUNKS_AT_ONCE)
    assert rows(connection, LACKING, org_id) == [(0,)]


def test_another_model_is_built_beside_and_switched_to_when_it_is_whole(connection: Connection) -> None:
    old, new = HashEmbedder("1"), HashEmbedder("2")
    org_id = plain(connection, CHUNKS_AT_ONCE)
    embed_missing(connection, org_id, old)
    before = answers(connection, org_id, old)
    with pytest.raises(RuntimeError, match="embedder failed"):
        embed_missing(connection, org_id, HashEmbedder("2", fail_after=CHUNKS_AT_ONCE + 3))
    assert answers(connection, org_id, old) == before
    report = embed_missing(connection, org_id, new)
    assert (report.missing, report.space_active) == (CHUNKS_AT_ONCE, True)
    fresh = plain(connection, CHUNKS_AT_ONCE, org="fresh")
    embed_missing(connection, fresh, new)
    assert answers(connection, org_id, new) == answers(connection, fresh, new) != before


def test_a_space_of_the_same_model_and_another_recipe_is_not_written_to(connection: Connection) -> None:
    org_id = plain(connection, 1)
    (space,) = rows(
        connection,
        "INSERT INTO kbsearch.kb_embedding_spaces (name, model, revision, dimensions) VALUES ('own', 'hash', '1', 8) RETURNING id",
    )
    connection.execute("UPDATE kbsearch.organizations SET active_space_id = %s WHERE id = %s", [space[0], org_id])
    report = embed_missing(connection, org_id, HashEmbedder())
    assert report.space != "own"
    assert report.space_active
    assert rows(connection, "SELECT count(*) FROM kbsearch.kb_article_embeddings WHERE space_id = %s", space[0]) == [
        (0,)
    ]


def test_refused_chunks_are_told_by_article_and_stay_without_a_vector(connection: Connection) -> None:
    org_id = plain(connection, 2)
    KBSearch(connection).upsert_article(
        org_id, external_ref="odd", title="Odd", chunks=[Chunk("fine"), Chunk("refuse me")]
    )
    report = embed_missing(connection, org_id, Picky())
    assert (report.missing, report.embedded, report.changed) == (6, 5, 0)
    assert [(entry.where, entry.reason, entry.external_ref) for entry in report.rejected] == [
        ("odd, chunk 1", "too odd", "odd")
    ]
    assert rows(connection, LACKING, org_id) == [(1,)]


def test_what_a_failing_service_gave_is_kept(connection: Connection) -> None:
    org_id = plain(connection, 1)
    KBSearch(connection).upsert_article(org_id, external_ref="z", title="Z", chunks=[Chunk("stop"), Chunk("never")])
    with pytest.raises(EmbeddingError, match="down"):
        embed_missing(connection, org_id, Picky())
    assert rows(connection, LACKING, org_id) == [(2,)]


def test_a_chunk_that_changes_while_it_is_embedded_gets_no_vector_of_its_old_text(
    connection: Connection, database: str
) -> None:
    org_id = plain(connection, 3)

    class Slow(HashEmbedder):
        def embed_passages(self, texts: Any) -> Any:
            with psycopg.connect(database, autocommit=True) as other:
                other.execute(
                    "UPDATE kbsearch.kb_article_chunks SET content = 'changed' WHERE content = 'alpha number0'"
                )
                other.execute("UPDATE kbsearch.kb_articles SET title = 'Changed' WHERE external_ref = 'p001'")
                other.execute("DELETE FROM kbsearch.kb_article_chunks WHERE content = 'alpha number2'")
            return super().embed_passages(texts)

    report = embed_missing(connection, org_id, Slow())
    assert (report.missing, report.embedded, report.changed) == (6, 2, 4)
    embedder = HashEmbedder()
    assert embed_missing(connection, org_id, embedder).embedded == 3
    assert sorted(embedder.inputs) == ["Changed\nHead\nalpha number1", "Changed\nbeta", "Title 0\nHead\nchanged"]


def test_unpublished_articles_are_embedded_and_empty_ones_passed_over(connection: Connection) -> None:
    org_id = organization_id(connection, "o", create=True)
    client = KBSearch(connection)
    client.upsert_article(org_id, external_ref="hidden", title="Hidden", body="x", published=False)
    client.upsert_article(org_id, external_ref="title", title="Only a title", body="")
    connection.execute("INSERT INTO kbsearch.kb_articles (org_id, external_ref) VALUES (%s, 'nothing')", [org_id])
    connection.execute(
        "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id) SELECT org_id, id FROM kbsearch.kb_articles WHERE external_ref = 'nothing'"
    )
    embedder = HashEmbedder()
    report = embed_missing(connection, org_id, embedder)
    assert (report.missing, report.embedded, report.rejected) == (2, 2, ())
    assert embedder.inputs == ["Hidden\nx", "Only a title"]


def test_other_organisations_are_left_alone(connection: Connection) -> None:
    mine, other = plain(connection, 2), plain(connection, 2, org="other")
    embed_missing(connection, mine, HashEmbedder())
    assert all(row[11] is None for row in stored(connection, other))


def test_without_chunks_or_outside_autocommit_it_is_refused(connection: Connection, database: str) -> None:
    org_id = organization_id(connection, "o", create=True)
    with pytest.raises(UsageError, match="no chunk"):
        embed_missing(connection, org_id, HashEmbedder())
    assert rows(connection, "SELECT id FROM kbsearch.kb_embedding_spaces") == []
    with psycopg.connect(database) as inside, pytest.raises(UsageError, match="autocommit"):
        embed_missing(inside, org_id, HashEmbedder())


def test_notes_are_read_as_they_are_written_and_others_are_not_taken_for_them() -> None:
    note = Note("c", "k", "7", "a source")
    assert Note.parse(str(note)) == note
    for text in (None, "", "abc", "a:b:c", "sha256:abc"):
        assert Note.parse(text) is None


def test_documents_of_other_names_keep_their_vectors(connection: Connection) -> None:
    embedder = HashEmbedder()
    run(connection, [Document("a", "A", "x")], embedder=embedder)
    report = embed_missing(connection, organization_id(connection, "o", create=False), embedder)
    assert (report.missing, report.embedded) == (0, 0)


class Zero(HashEmbedder):
    """Gives no direction to texts with `zero` in them."""

    def vector(self, text: str) -> list[float]:
        return [0.0] * 8 if "zero" in text else super().vector(text)


def test_a_vector_without_a_direction_is_refused_wherever_it_would_be_stored(connection: Connection) -> None:
    org_id = plain(connection, 1)
    KBSearch(connection).upsert_article(org_id, external_ref="z", title="Z", chunks=[Chunk("zero"), Chunk("fine")])
    report = embed_missing(connection, org_id, Zero())
    assert (report.embedded, [entry.where for entry in report.rejected]) == (3, ["z, chunk 0"])
    assert "no direction" in report.rejected[0].reason
    run(connection, [Document("d", "D", "zero")], org="later")
    later = run(connection, [Document("d", "D", "zero")], org="later", embedder=Zero())
    assert [entry.where for entry in later.rejected] == ["d"]
    assert rows(connection, "SELECT count(*) FROM kbsearch.kb_article_embeddings WHERE NOT has_direction") == [(0,)]
    assert rows(connection, "SELECT count(*) FROM kbsearch.kb_articles WHERE external_ref = 'd' AND published") == [
        (1,)
    ]
