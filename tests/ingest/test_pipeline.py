from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from kbsearch import KBSearch
from kbsearch.embed import Vectors, check_texts
from kbsearch.embed.errors import EmbeddingError, TextsRefusedError
from kbsearch.ingest import Document, IngestReport, Rejected, Source, Splitter, UsageError, ingest, read_paths
from kbsearch.ingest.organizations import organization_id
from kbsearch.ingest.template import model_input
from kbsearch.ingest.vectors import CHUNKS_AT_ONCE
from kbsearch.models import Chunk

Connection = psycopg.Connection[Any]
SMALL = Splitter(40)


class HashEmbedder:
    """Vectors from a digest of the text: the same text, the same vector. Fails after so many texts, if asked to."""

    name, model, dimensions = "hash", "hash", 8

    def __init__(self, revision: str = "1", *, fail_after: int | None = None) -> None:
        self.revision = revision
        self.fail_after = fail_after
        self.inputs: list[str] = []

    @property
    def recipe(self) -> Mapping[str, Any]:
        return {"digest": "sha256"}

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        check_texts(texts)
        for text in texts:
            if self.fail_after is not None and len(self.inputs) >= self.fail_after:
                raise RuntimeError("the embedder failed")
            self.inputs.append(text)
        return np.array([self.vector(text) for text in texts], dtype=np.float32).reshape(len(texts), 8)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return np.array([self.vector(text) for text in texts], dtype=np.float32)

    def vector(self, text: str) -> list[float]:
        digest = hashlib.sha256(f"{self.revision} {text}".encode()).digest()
        return [byte / 255 + 0.01 for byte in digest[:8]]


def documents(count: int, *, words: str = "alpha beta gamma") -> list[Document]:
    return [
        Document(f"d{number:03}", f"Title {number}", f"{words} number{number}\n\n{words} again")
        for number in range(count)
    ]


def run(connection: Connection, entries: Sequence[Document | Rejected], org: str = "o", **options: Any) -> IngestReport:
    source = Source(options.pop("source", "s"), entries, complete=options.pop("complete", True))
    org_id = organization_id(connection, org, create=True)
    return ingest(connection, org_id, [source], **{"splitter": SMALL, **options})


def rows(connection: Connection, query: str, *parameters: object) -> list[tuple[Any, ...]]:
    return connection.execute(query.encode(), parameters).fetchall()


def stored(connection: Connection, org_id: int) -> list[tuple[Any, ...]]:
    """All that an organisation has, ids included, by the names of articles."""
    return rows(
        connection,
        """SELECT a.id, a.external_ref, a.title, a.body, a.kind, a.metadata, a.published, c.chunk_no, c.heading, c.content,
            e.space_id, e.embedding::text
        FROM kbsearch.kb_articles AS a
        LEFT JOIN kbsearch.kb_article_chunks AS c ON c.org_id = a.org_id AND c.article_id = a.id
        LEFT JOIN kbsearch.kb_article_embeddings AS e ON e.org_id = c.org_id AND e.article_id = a.id AND e.chunk_id = c.id
        WHERE a.org_id = %s ORDER BY a.id, c.chunk_no, e.space_id""",
        org_id,
    )


def answers(
    connection: Connection, org_id: int, embedder: HashEmbedder | None, text: str = "alpha number3"
) -> list[tuple[Any, ...]]:
    return [
        (
            result.place,
            result.score,
            result.external_ref,
            result.title,
            result.excerpt,
            result.tied_with,
            dict(result.metadata),
        )
        for result in KBSearch(connection, embedder=embedder).results(org_id, text)
    ]


def test_an_ingest_writes_articles_chunks_and_vectors_and_a_second_one_does_nothing(connection: Connection) -> None:
    embedder = HashEmbedder()
    entries = [
        Document("b", "Bee", "# Bee\n\n" + "buzz " * 30, "page", {"k": 1}, "u", markup="markdown"),
        Document("a", "", "no title"),
        Document("c", "Title only", ""),
        Document("hidden", "Hidden", "unseen", published=False),
    ]
    report = run(connection, entries, embedder=embedder)
    assert (report.read, report.written, report.rejected) == (4, 4, ())
    assert report.chunks == report.embedded_chunks == 8
    assert len(embedder.inputs) == len(set(embedder.inputs)) == 6  # equal ones once
    assert report.space_active
    before = stored(connection, report.org_id)
    assert [row[1] for row in before if row[7] == 0] == ["a", "b", "c", "hidden"]  # ids in order of external_ref
    assert all(row[11] is not None for row in before)
    assert {row[1]: row[6] for row in before} == {"a": True, "b": True, "c": True, "hidden": False}
    assert [answer[2] for answer in answers(connection, report.org_id, None, "buzz title unseen")] != []
    assert "hidden" not in [answer[2] for answer in answers(connection, report.org_id, None, "unseen buzz")]
    again = run(connection, entries, embedder=embedder)
    assert (again.written, again.unchanged, again.chunks, again.calibrated) == (0, 4, 0, False)
    assert len(embedder.inputs) == 6
    assert stored(connection, report.org_id) == before


def test_the_exact_input_of_a_chunk_finds_it_with_similarity_1(connection: Connection) -> None:
    embedder = HashEmbedder()
    report = run(connection, documents(5), embedder=embedder)
    text = model_input("Title 3", SMALL.split(documents(5)[3].text)[0])
    assert text in embedder.inputs
    page = KBSearch(connection, embedder=embedder).search(report.org_id, text, profile="vector@1")
    assert page.items[0].external_ref == "d003"
    assert page.items[0].vector_similarity == 1


@pytest.mark.parametrize(
    "change",
    [
        {"text": "other"},
        {"title": "other"},
        {"kind": "faq"},
        {"metadata": {"a": 2}},
        {"source_uri": "v"},
        {"published": False},
        {"markup": "markdown"},
    ],
)
def test_a_change_of_anything_that_decides_an_article_writes_it_anew(
    connection: Connection, change: dict[str, Any]
) -> None:
    base: dict[str, Any] = {"external_ref": "a", "title": "t", "text": "x", "metadata": {"a": 1}, "source_uri": "u"}
    first = run(connection, [Document(**base), *documents(2)])
    second = run(connection, [Document(**{**base, **change}), *documents(2)])
    assert (first.written, second.written, second.unchanged) == (3, 1, 2)
    assert len(rows(connection, "SELECT id FROM kbsearch.kb_articles")) == 3


def test_another_splitter_splits_anew(connection: Connection) -> None:
    run(connection, documents(2))
    report = run(connection, documents(2), splitter=Splitter(30))
    assert report.written == 2
    assert max(len(content) for (content,) in rows(connection, "SELECT content FROM kbsearch.kb_article_chunks")) <= 30


def test_a_broken_document_is_skipped_and_reported_and_the_rest_is_ingested(connection: Connection) -> None:
    entries: list[Document | Rejected] = [
        *documents(3),
        Document("nul", "t", "a\0b"),
        Document("surrogate", "t", "x", metadata={"k": "\ud800"}),
        Rejected("file.md", "not UTF-8"),
        Document("d001", "again", "the same id"),
        Document("blank", "", "\n"),
    ]
    report = run(connection, entries, embedder=HashEmbedder())
    assert report.written == 3
    assert report.read == 8
    assert [entry.where for entry in report.rejected] == ["nul", "surrogate", "file.md", "d001", "blank"]
    assert [answer[2] for answer in answers(connection, report.org_id, None, "alpha")] == ["d000", "d001", "d002"]
    assert len(rows(connection, "SELECT id FROM kbsearch.kb_articles")) == 3


def test_what_the_database_refuses_is_reported_and_leaves_nothing(connection: Connection) -> None:
    huge = Document("huge", "Huge", "x", metadata={"k": "v"})
    embedder = HashEmbedder()
    embedder.vector = lambda text: [0.0] * 8 if text.startswith("Huge") else [1.0] * 8  # type: ignore[method-assign]
    report = run(connection, [*documents(2), huge], embedder=embedder)
    assert report.written == 2
    assert [entry.where for entry in report.rejected] == ["huge"]
    assert {row[1] for row in stored(connection, report.org_id)} == {"d000", "d001"}
    again = run(connection, documents(2), embedder=embedder)
    assert again.unchanged == 2


def test_blank_chunks_are_not_embedded_and_every_vector_stays_with_its_own_text(connection: Connection) -> None:
    embedder = HashEmbedder()
    report = run(
        connection,
        [Document("a", "T", "first " * 9 + "\n\n\n \n\n" + "second " * 8 + "\n\n \n\n" + "third " * 9)],
        embedder=embedder,
    )
    found = rows(
        connection,
        "SELECT c.heading, c.content, e.embedding::text FROM kbsearch.kb_article_chunks AS c"
        " JOIN kbsearch.kb_article_embeddings AS e ON e.chunk_id = c.id",
    )
    assert len(found) == report.chunks == len(embedder.inputs)
    for heading, content, vector in found:
        assert content.strip()
        expected = embedder.vector(model_input("T", Chunk(content, heading)))
        assert [float(part) for part in vector.strip("[]").split(",")] == pytest.approx(expected)


def test_a_run_that_stopped_is_completed_by_the_next_and_ids_are_as_if_it_had_not_stopped(
    connection: Connection,
) -> None:
    entries = documents(CHUNKS_AT_ONCE)
    whole = run(connection, entries, org="whole", embedder=HashEmbedder())
    with pytest.raises(RuntimeError, match="embedder failed"):
        run(connection, entries, embedder=HashEmbedder(fail_after=CHUNKS_AT_ONCE + 3))
    org_id = organization_id(connection, "o", create=False)
    visible = rows(
        connection, "SELECT external_ref FROM kbsearch.kb_articles WHERE org_id = %s AND published ORDER BY id", org_id
    )
    assert 0 < len(visible) < len(entries)
    lame = rows(
        connection,
        """SELECT c.id FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %s
        AND NOT EXISTS (SELECT 1 FROM kbsearch.kb_article_embeddings AS e WHERE e.org_id = c.org_id AND e.chunk_id = c.id)""",
        org_id,
    )
    assert lame == []
    embedder = HashEmbedder()
    report = run(connection, entries, embedder=embedder)
    assert report.unchanged == len(visible)
    assert report.written == len(entries) - len(visible)
    assert report.calibrated
    assert whole.calibrated
    assert answers(connection, org_id, embedder) == answers(connection, whole.org_id, embedder)


def test_only_the_first_complete_load_calibrates(connection: Connection) -> None:
    first = run(connection, documents(4))
    (length,) = rows(connection, "SELECT reference_length FROM kbsearch.organizations")[0]
    assert first.calibrated
    assert length < 20
    second = run(connection, [Document("long", "Long", "word " * 2000)])
    assert not second.calibrated
    assert rows(connection, "SELECT reference_length FROM kbsearch.organizations") == [(length,)]


def test_a_folder_ingested_from_another_place_gives_the_same_rows(connection: Connection, tmp_path: Path) -> None:
    one = tmp_path / "one"
    for number in range(12):
        path = one / f"{number % 3}" / f"{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Same title\n\nalpha {'beta ' * (number % 2)}", encoding="utf-8")
    two = tmp_path / "deep" / "other name"
    shutil.copytree(one, two)
    embedder = HashEmbedder()
    first = run(connection, list(read_paths(one, kind="article")), org="first", source="one", embedder=embedder)
    second = run(
        connection, list(read_paths(two, kind="article")), org="second", source="other name", embedder=embedder
    )
    assert answers(connection, first.org_id, embedder, "alpha beta") == answers(
        connection, second.org_id, embedder, "alpha beta"
    )
    assert str(tmp_path) not in repr(stored(connection, first.org_id)) + "".join(embedder.inputs)
    moved = run(connection, list(read_paths(two, kind="article")), org="first", source="other name", embedder=embedder)
    assert moved.unchanged == 12


def test_prune_deletes_what_the_same_source_has_no_more_and_nothing_else(connection: Connection) -> None:
    run(connection, documents(4), source="s")
    run(connection, [Document("other", "Other", "x")], source="t")
    KBSearch(connection).upsert_article(1, external_ref="own", title="The application's own", body="x")
    kept = run(connection, documents(2), source="s")
    assert kept.deleted == 0
    report = run(connection, documents(2), source="s", prune=True)
    assert report.deleted == 2
    assert {reference for (reference,) in rows(connection, "SELECT external_ref FROM kbsearch.kb_articles")} == {
        "d000",
        "d001",
        "other",
        "own",
    }


def test_prune_refuses_what_it_cannot_know(connection: Connection) -> None:
    run(connection, documents(3))
    with pytest.raises(UsageError, match="no document"):
        run(connection, [], prune=True)
    with pytest.raises(UsageError, match="single file"):
        run(connection, documents(1), prune=True, complete=False)
    broken = run(connection, [*documents(1), Rejected("d.jsonl:2", "not JSON")], prune=True)
    assert broken.deleted == 0
    assert broken.notes
    unreadable = run(connection, [*documents(1), Rejected("d001", "not UTF-8", "d001")], prune=True)
    assert unreadable.deleted == 1
    assert {reference for (reference,) in rows(connection, "SELECT external_ref FROM kbsearch.kb_articles")} == {
        "d000",
        "d001",
    }


def test_another_model_builds_a_new_space_beside_the_old_and_switches_when_it_is_complete(
    connection: Connection,
) -> None:
    entries = documents(CHUNKS_AT_ONCE)
    old, org = HashEmbedder("1"), "o"
    first = run(connection, entries, embedder=old)
    before = answers(connection, first.org_id, old)
    with pytest.raises(RuntimeError, match="embedder failed"):
        run(connection, entries, embedder=HashEmbedder("2", fail_after=CHUNKS_AT_ONCE + 3))
    assert answers(connection, first.org_id, old) == before
    new = HashEmbedder("2")
    report = run(connection, entries, embedder=new)
    assert (report.written, report.space_active) == (0, True)
    assert report.reembedded + report.unchanged == len(entries)
    assert report.unchanged > 0
    fresh = run(connection, entries, org="fresh", embedder=new)
    assert answers(connection, first.org_id, new) == answers(connection, fresh.org_id, new) != before
    assert organization_id(connection, org, create=False) == first.org_id


def test_a_space_that_lacks_other_sources_is_not_switched_to(connection: Connection) -> None:
    old, new = HashEmbedder("1"), HashEmbedder("2")
    run(connection, documents(2), source="s", embedder=old)
    run(connection, [Document("other", "Other", "x")], source="t", embedder=old)
    half = run(connection, documents(2), source="s", embedder=new)
    assert half.space_active is False
    assert "1 chunks have no vector" in half.notes[0]
    assert run(connection, [Document("other", "Other", "x")], source="t", embedder=new).space_active


def test_vectors_can_be_added_later(connection: Connection) -> None:
    plain = run(connection, documents(3))
    assert (plain.space, plain.space_active) == (None, None)
    embedder = HashEmbedder()
    report = run(connection, documents(3), embedder=embedder)
    assert (report.written, report.reembedded) == (0, 3)
    fresh = run(connection, documents(3), org="fresh", embedder=embedder)
    assert answers(connection, report.org_id, embedder) == answers(connection, fresh.org_id, embedder)


def test_a_long_document_of_distinct_words_is_ingested(connection: Connection) -> None:
    words = " ".join(f"word{number}" for number in range(20_000))
    report = run(connection, [Document("long", "Long", words)], splitter=Splitter())
    assert report.written == 1
    assert [answer[2] for answer in answers(connection, report.org_id, None, "word19999")] == ["long"]


def test_organisations_are_found_by_name_and_ambiguity_is_refused(connection: Connection) -> None:
    with pytest.raises(UsageError, match="no organisation"):
        organization_id(connection, "x", create=False)
    first = organization_id(connection, "x", create=True)
    assert organization_id(connection, "x", create=True) == first
    connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('x')")
    with pytest.raises(UsageError, match="more than one"):
        organization_id(connection, "x", create=True)


def test_a_connection_inside_a_transaction_is_refused(database: str) -> None:
    with psycopg.connect(database) as connection, pytest.raises(UsageError, match="autocommit"):
        ingest(connection, 1, [])


# Languages


def languages(connection: Connection) -> dict[str, str | None]:
    return dict(
        rows(
            connection,
            "SELECT external_ref, kbsearch.name_kb_language_v1(language) FROM kbsearch.kb_articles ORDER BY id",
        )
    )


def test_a_document_s_language_is_its_article_s(connection: Connection) -> None:
    entries = [
        Document("code", "Rückgabe", "Wir erstatten", language="de-AT"),
        Document("name", "Retour", "Nous remboursons", language="french"),
        Document("none", "Returns", "We refund"),
        Document("unknown", "退货", "我们退款", language="zh"),
        Document("nothing", "Mixed", "x", language="mul"),
    ]
    report = run(connection, entries)
    assert languages(connection) == {"code": "german", "name": "french", "none": None, "nothing": None, "unknown": None}
    assert report.notes == ("language 'zh' (1 document) has no text search configuration: the organisation's is used",)
    assert [answer[2] for answer in answers(connection, report.org_id, None, "rückgaben")] == ["code"]
    again = run(connection, entries)
    assert again.unchanged == 5
    changed = run(connection, entries, language="nl")
    assert (changed.written, changed.unchanged) == (2, 3)
    assert languages(connection)["none"] == languages(connection)["nothing"] == "dutch"


def test_an_unknown_language_for_all_is_refused(connection: Connection) -> None:
    with pytest.raises(UsageError, match="'klingon' is neither"):
        run(connection, documents(1), language="klingon")


# Whole at any moment


def test_another_size_of_chunks_never_takes_a_vector_from_searches(connection: Connection) -> None:
    """The space is another one, so vectors of the old chunks go into it first; the new chunks follow when searches use it."""
    embedder, entries = HashEmbedder(), documents(CHUNKS_AT_ONCE)
    first = run(connection, entries, embedder=embedder)

    def searched_without_vector() -> list[tuple[Any, ...]]:
        return rows(
            connection,
            """SELECT c.id FROM kbsearch.kb_article_chunks AS c JOIN kbsearch.organizations AS o ON o.id = c.org_id
            WHERE NOT EXISTS (SELECT FROM kbsearch.kb_article_embeddings AS e
                WHERE e.org_id = c.org_id AND e.chunk_id = c.id AND e.space_id = o.active_space_id)""",
        )

    class Watching(HashEmbedder):
        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            assert searched_without_vector() == []
            return super().embed_passages(texts)

    def chunks_of(connection: Connection, org_id: int) -> list[tuple[Any, ...]]:
        active = rows(connection, "SELECT active_space_id FROM kbsearch.organizations WHERE id = %s", org_id)[0][0]
        return [(row[1], *row[7:]) for row in stored(connection, org_id) if row[10] == active]

    other = Splitter(25)
    with pytest.raises(RuntimeError, match="embedder failed"):
        run(connection, entries, splitter=other, embedder=Watching(fail_after=CHUNKS_AT_ONCE + 3))
    assert searched_without_vector() == []
    report = run(connection, entries, splitter=other, embedder=Watching())
    assert searched_without_vector() == []
    assert report.space_active
    assert report.written == len(entries)
    fresh = run(connection, entries, org="fresh", splitter=other, embedder=embedder)
    # The reference length stays that of the first load, so scores differ; what is stored does not.
    assert chunks_of(connection, first.org_id) == chunks_of(connection, fresh.org_id)
    again = run(connection, entries, splitter=other, embedder=embedder)
    assert (again.written, again.reembedded, again.unchanged) == (0, 0, len(entries))


def test_while_another_source_has_old_vectors_only_old_chunks_stay(connection: Connection) -> None:
    embedder = HashEmbedder()
    run(connection, documents(3), source="s", embedder=embedder)
    run(connection, [Document("other", "Other", "word " * 30)], source="t", embedder=embedder)
    chunks = "SELECT c.id, c.content FROM kbsearch.kb_article_chunks AS c ORDER BY c.id"
    before = rows(connection, chunks)
    half = run(connection, documents(3), source="s", splitter=Splitter(25), embedder=embedder)
    assert (half.space_active, half.reembedded, half.written) == (False, 3, 0)
    assert rows(connection, chunks) == before
    again = run(connection, documents(3), source="s", splitter=Splitter(25), embedder=embedder)
    assert (again.unchanged, again.written, again.reembedded) == (3, 0, 0)
    rest = run(
        connection, [Document("other", "Other", "word " * 30)], source="t", splitter=Splitter(25), embedder=embedder
    )
    assert rest.space_active
    assert rest.written == 1
    assert run(connection, documents(3), source="s", splitter=Splitter(25), embedder=embedder).written == 3


def test_without_an_embedder_chunks_of_unchanged_documents_stay_with_their_vectors(connection: Connection) -> None:
    run(connection, documents(3), embedder=HashEmbedder())
    report = run(connection, documents(3), splitter=None)
    assert (report.unchanged, report.written) == (3, 0)


# Embedders that fail in part


class Picky(HashEmbedder):
    """Refuses texts with `refuse` in them; stops at one with `stop`."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        vectors = super().embed_passages(texts)
        failures = {number: "too odd" for number, text in enumerate(texts) if "refuse" in text}
        stopped = [number for number, text in enumerate(texts) if "stop" in text]
        if stopped:
            failures |= dict.fromkeys(range(stopped[0], len(texts)), "the service is down")
        for number in failures:
            vectors[number] = np.nan
        if stopped:
            raise EmbeddingError("the service is down", failures=failures, vectors=vectors)
        if failures:
            raise TextsRefusedError("some texts", failures=failures, vectors=vectors)
        return vectors


def test_documents_whose_texts_are_refused_are_skipped_and_the_rest_is_written(connection: Connection) -> None:
    entries = [Document("a", "A", "fine"), Document("b", "B", "please refuse"), Document("c", "C", "fine, too")]
    report = run(connection, entries, embedder=Picky())
    assert (report.written, report.embedded_chunks) == (2, 2)
    assert [(entry.where, entry.reason) for entry in report.rejected] == [("b", "a chunk has no vector: too odd")]
    assert [row[1] for row in stored(connection, report.org_id)] == ["a", "c"]


def test_what_was_embedded_before_a_service_failed_is_kept(connection: Connection) -> None:
    entries = [Document("a", "A", "fine"), Document("b", "B", "stop here"), Document("c", "C", "fine, too")]
    with pytest.raises(EmbeddingError, match="down"):
        run(connection, entries, embedder=Picky())
    assert rows(connection, "SELECT external_ref, published FROM kbsearch.kb_articles ORDER BY id") == [
        ("a", True),
        ("b", False),
        ("c", False),
    ]
    embedder = HashEmbedder()
    report = run(connection, entries, embedder=embedder)
    assert (report.unchanged, report.written) == (1, 2)
    assert embedder.inputs == ["B\nstop here", "C\nfine, too"]


def test_an_embedder_that_gives_something_else_is_told(connection: Connection) -> None:
    embedder = HashEmbedder()
    embedder.embed_passages = lambda texts: np.ones((len(texts), 4), dtype=np.float32)  # type: ignore[method-assign]
    with pytest.raises(EmbeddingError, match=r"shape \(1, 4\) for 1 texts of 8 dimensions"):
        run(connection, [Document("a", "A", "x")], embedder=embedder)


# Empty documents


def test_an_empty_document_is_skipped_and_pruned(connection: Connection) -> None:
    run(connection, documents(3))
    emptied: list[Document | Rejected] = [
        *documents(1),
        Rejected("d001", "it is empty", "d001", is_empty=True),
        Document("d002", " ", "\n"),
    ]
    report = run(connection, emptied)
    assert len(report.rejected) == 2
    assert len(rows(connection, "SELECT id FROM kbsearch.kb_articles")) == 3
    assert run(connection, emptied, prune=True).deleted == 2


def test_what_a_stopped_run_reserved_for_a_document_that_is_gone_is_swept_another_day(connection: Connection) -> None:
    with pytest.raises(RuntimeError, match="embedder failed"):
        run(connection, documents(3), embedder=HashEmbedder(fail_after=0))
    fresh = run(connection, documents(2))
    assert not fresh.calibrated  # the third may be another run's, which goes on
    reserved = "SELECT external_ref FROM kbsearch.kb_articles WHERE NOT published"
    assert rows(connection, reserved) == [("d002",)]
    connection.execute("DELETE FROM kbsearch.kb_articles WHERE published")
    own = "INSERT INTO kbsearch.kb_articles (org_id, external_ref, title, published) SELECT id, 'draft', 'Own', false FROM kbsearch.organizations"
    connection.execute(own.encode())
    connection.execute("UPDATE kbsearch.kb_articles SET created_at = now() - interval '2 days'")
    assert run(connection, documents(2)).calibrated
    assert rows(connection, reserved) == [("draft",)]


def test_a_first_load_that_ended_before_its_calibration_is_calibrated_by_the_next_run(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(connection, documents(4), org="whole")
    assert whole.calibrated
    with monkeypatch.context() as patch:
        patch.setattr("kbsearch.ingest.pipeline._CALIBRATE", "SELECT 1 / (%s - %s)")
        with pytest.raises(psycopg.Error):
            run(connection, documents(4))
    again = run(connection, documents(4))
    assert (again.unchanged, again.written, again.calibrated) == (4, 0, True)
    lengths = rows(connection, "SELECT DISTINCT o.reference_length FROM kbsearch.organizations AS o")
    assert len(lengths) == 1
    assert lengths != [(100,)]
    assert rows(connection, "SELECT s.name FROM kbsearch.kb_ingest_sources AS s") == []
    connection.execute("UPDATE kbsearch.organizations SET reference_length = 100")
    assert not run(connection, documents(5)).calibrated


def test_an_empty_first_load_leaves_no_mark(connection: Connection) -> None:
    report = run(connection, [Rejected("a", "broken")])
    assert not report.calibrated
    assert rows(connection, "SELECT s.name FROM kbsearch.kb_ingest_sources AS s") == []
    assert run(connection, documents(3)).calibrated
