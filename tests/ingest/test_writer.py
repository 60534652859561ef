"""Articles written together and articles written one by one are the same, and one that is refused keeps none of the others back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbsearch.ingest import Document, prepare, writer
from kbsearch.ingest.organizations import organization_id
from tests.index.derived import faults
from tests.ingest.test_pipeline import Connection, HashEmbedder, documents, rows, run

STORED = """SELECT a.external_ref, a.title, a.body, a.kind, a.language::text, a.published, a.metadata, a.source_uri,
    split_part(a.content_sha256, ':', 1), c.chunk_no, c.heading, c.content, c.lexemes, c.term_counts,
    e.embedding::text, e.input_sha256, e.chunk_digest
FROM kbsearch.kb_articles AS a
LEFT JOIN kbsearch.kb_article_chunks AS c ON c.org_id = a.org_id AND c.article_id = a.id
LEFT JOIN kbsearch.kb_article_embeddings AS e ON e.org_id = c.org_id AND e.article_id = a.id AND e.chunk_id = c.id
WHERE a.org_id = %s ORDER BY a.external_ref COLLATE "C", c.chunk_no"""


def stored(connection: Connection, org_id: int) -> list[tuple[Any, ...]]:
    return rows(connection, STORED, org_id)


DOCUMENTS = st.lists(
    st.builds(
        Document,
        st.sampled_from(["a", "b", "c d", "é", "漢"]),
        st.sampled_from(["", "Title", 'quoted "x" \\ {y}', "Ünïcode 漢"]),
        st.sampled_from(
            ["x", "alpha beta\n\ngamma", "word " * 40, "tab\tand \u2028 line", "<b>&amp;</b>", "\x01\x7f control"]
        ),
        st.sampled_from(["article", "faq", "own kind"]),
        st.sampled_from([{}, {"a": [1, 2.5, None, {"b": "é"}]}, {"big": 10**30}]),
        st.sampled_from([None, "https://example.org/?a=1&b=2"]),
        st.booleans(),
        st.sampled_from(["text", "markdown"]),
        st.sampled_from([None, "german", "simple"]),
        st.sampled_from([None, "x/y.md"]),
    ),
    max_size=6,
    unique_by=lambda document: document.external_ref,
)


@given(first=DOCUMENTS, second=DOCUMENTS, embeds=st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_written_together_or_one_by_one_they_are_the_same(
    connection: Connection, first: Sequence[Document], second: Sequence[Document], embeds: bool
) -> None:
    connection.execute("DELETE FROM kbsearch.organizations")
    embedder = HashEmbedder() if embeds else None
    found = []
    together = writer.Writer._write_together

    def alone(self: writer.Writer, group: Sequence[prepare.Ready]) -> Exception | None:
        return writer.IncompleteError() if len(group) > 1 else together(self, group)

    for org in ("together", "alone", "upserted"):
        with pytest.MonkeyPatch.context() as patch:
            if org == "alone":
                patch.setattr(writer.Writer, "_write_together", alone)
            elif org == "upserted":
                patch.setattr(
                    writer.Writer, "_write_together", lambda _self, group: writer.IncompleteError() if group else None
                )
            reports = [run(connection, entries, org=org, embedder=embedder) for entries in (first, second)]
        found.append(
            (
                stored(connection, reports[0].org_id),
                [(one.written, one.chunks, one.embedded_chunks, one.unchanged, one.rejected) for one in reports],
            )
        )
    assert found[0] == found[1] == found[2]
    assert faults(connection) == []


def test_one_that_the_database_refuses_keeps_no_other_back(connection: Connection) -> None:
    odd = Document("d001a", "Odd", "x", metadata={"number": "1e999999"}, kind="k" * 3)
    huge = Document("d001b", "Huge " * 60_000, "x")
    report = run(connection, [*documents(4), odd, huge], embedder=HashEmbedder())
    assert (report.written, [entry.where for entry in report.rejected]) == (5, ["d001b"])
    assert len({row[0] for row in stored(connection, report.org_id) if row[5]}) == 5
    assert faults(connection) == []


def test_an_article_that_was_deleted_or_a_cache_that_was_cleared_meanwhile_is_made_up_for(
    connection: Connection, database: str
) -> None:
    class Meddled(HashEmbedder):
        def embed_passages(self, texts: Any) -> Any:
            with psycopg.connect(database, autocommit=True) as other:
                other.execute("DELETE FROM kbsearch.kb_articles WHERE external_ref = 'd001'")
            return super().embed_passages(texts)

    report = run(connection, documents(3), embedder=Meddled())
    assert (report.written, report.rejected) == (3, ())
    assert len(stored(connection, report.org_id)) == 6
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kbsearch.ingest.cache.Cache.store", lambda *_arguments: None)
        other = run(connection, documents(3), org="other", embedder=HashEmbedder())
    assert (other.written, other.embedded_chunks) == (3, 6)
    assert [row[14] for row in stored(connection, other.org_id)] == [
        row[14] for row in stored(connection, report.org_id)
    ]


@pytest.mark.parametrize("count", [1, 3])
def test_what_was_embedded_before_an_embedder_failed_is_committed(connection: Connection, count: int) -> None:
    entries = documents(count * prepare.EMBEDDED_AT_ONCE // 2 + 10)
    with pytest.raises(RuntimeError, match="embedder failed"):
        run(connection, entries, embedder=HashEmbedder(fail_after=count * prepare.EMBEDDED_AT_ONCE + 3))
    done = rows(connection, "SELECT count(*) FROM kbsearch.kb_articles AS a WHERE a.content_sha256 IS NOT NULL")
    assert done == [(count * prepare.EMBEDDED_AT_ONCE // 2,)]
    assert run(connection, entries, embedder=HashEmbedder()).written == 10


@pytest.mark.parametrize(
    ("arguments", "sqlstate"),
    [
        (("NULL", "'[]'", "NULL"), "KBORG"),
        (("999", "'[]'", "NULL"), "KBORG"),
        (("1", "NULL", "NULL"), "KBART"),
        (("1", "'{}'", "NULL"), "KBART"),
        (("1", "'[]'", "999"), "KBSPC"),
        (("1", '\'[{"external_ref": "a", "language": "klingon"}]\'', "NULL"), "KBLNG"),
        (("1", "'[]'", "NULL", "'{1}'"), "KBART"),
        (("1", "'[]'", "NULL", "'{NULL}'"), "KBART"),
        (("1", "'[]'", "NULL", "'{{1},{2}}'"), "KBART"),
    ],
)
def test_bad_arguments_are_refused(connection: Connection, arguments: tuple[str, ...], sqlstate: str) -> None:
    organization_id(connection, "o", create=True)
    with pytest.raises(psycopg.DatabaseError) as refused:
        connection.execute(f"SELECT kbsearch.write_kb_articles_v1({', '.join(arguments)})".encode())
    assert refused.value.sqlstate == sqlstate
    assert refused.value.diag.message_hint
    assert isinstance(json.loads(str(refused.value.diag.message_detail)), dict)


def test_more_is_committed_together_while_that_is_quick() -> None:
    pace, sizes = prepare.Pace(), []
    for seconds in (0.1, 0.1, 0.1, 3.0, 0.1, 60.0, 60.0, 60.0):
        pace.took(seconds)
        sizes.append(pace.chunks)
    assert sizes == [1024, 2048, 2048, 1024, 2048, 1024, 512, 512]
