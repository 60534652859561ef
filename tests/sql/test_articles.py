"""upsert_kb_article_v1, delete_kb_article_v1 and reserve_kb_articles_v1."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.corpus import Corpus, refused


def stored(corpus: Corpus, article_id: int) -> list[tuple[Any, ...]]:
    return corpus.connection.execute(
        "SELECT c.chunk_no, c.heading, c.content, e.embedding::text, encode(e.input_sha256, 'hex') FROM kbsearch.kb_article_chunks AS c"
        " LEFT JOIN kbsearch.kb_article_embeddings AS e ON e.org_id = c.org_id AND e.chunk_id = c.id"
        " WHERE c.org_id = %s AND c.article_id = %s ORDER BY c.chunk_no",
        (corpus.org_id, article_id),
    ).fetchall()


def articles(corpus: Corpus) -> int:
    return int(corpus.value("SELECT count(*) FROM kbsearch.kb_articles WHERE org_id = %s", corpus.org_id))


def test_a_body_is_the_one_chunk(corpus: Corpus) -> None:
    article = corpus.call("upsert_kb_article_v1", title="Refunds", body="within thirty days")
    assert stored(corpus, article) == [(0, None, "within thirty days", None, None)]
    assert corpus.found("refund") == corpus.found("thirty") == [article]


@pytest.mark.parametrize("body", [None, "", "  "])
def test_a_title_alone_is_searchable(corpus: Corpus, body: str | None) -> None:
    article = corpus.call("upsert_kb_article_v1", title="Refunds", **({} if body is None else {"body": body}))
    assert corpus.found("refunds") == [article]


def test_an_empty_article_is_stored_and_not_found(corpus: Corpus) -> None:
    article = corpus.call("upsert_kb_article_v1", external_ref="empty")
    assert stored(corpus, article) == []
    assert articles(corpus) == 1


def test_chunks_with_their_embeddings_replace_what_was_there(corpus: Corpus) -> None:
    digest = "0123456789abcdef" * 4
    article = corpus.call(
        "upsert_kb_article_v1",
        external_ref="a",
        title="T",
        space_id=corpus.space(),
        chunks=[
            {"content": "one", "heading": "H", "embedding": [1, 0.5], "input_sha256": digest},
            {"content": "two", "heading": None, "embedding": None},
            {"content": "three", "embedding": [0, 1e-3]},
        ],
    )
    assert stored(corpus, article) == [
        (0, "H", "one", "[1,0.5]", digest),
        (1, None, "two", None, None),
        (2, None, "three", "[0,0.001]", None),
    ]
    assert (
        corpus.value("SELECT active_space_id FROM kbsearch.organizations WHERE id = %s", corpus.org_id)
        == corpus.space()
    )
    assert corpus.found("two") == [article]
    again = corpus.call(
        "upsert_kb_article_v1", external_ref="a", title="U", chunks=[{"content": "four", "embedding": [0, 1]}]
    )
    assert again == article
    assert stored(corpus, article) == [(0, None, "four", "[0,1]", None)]
    assert corpus.found("one two three") == []
    by_id = corpus.call("upsert_kb_article_v1", article_id=article, chunks=[], published=False)
    assert by_id == article
    assert stored(corpus, article) == []
    assert (
        corpus.value(
            "SELECT external_ref FROM kbsearch.kb_articles WHERE org_id = %s AND id = %s", corpus.org_id, article
        )
        == "a"
    )


def test_all_columns_are_replaced(corpus: Corpus) -> None:
    article = corpus.call(
        "upsert_kb_article_v1",
        external_ref="a",
        title="T",
        body="B",
        kind="policy",
        metadata={"k": [1]},
        source_uri="https://example.com",
        content_sha256="x",
        language="simple",
    )

    def read() -> Any:
        return corpus.connection.execute(
            "SELECT title, body, kind, metadata, source_uri, content_sha256, language::text, published FROM kbsearch.kb_articles"
            " WHERE org_id = %s AND id = %s",
            (corpus.org_id, article),
        ).fetchone()

    assert read() == ("T", "B", "policy", {"k": [1]}, "https://example.com", "x", "simple", True)
    corpus.call("upsert_kb_article_v1", external_ref="a", published=False)
    assert read() == (None, None, "article", {}, None, None, None, False)


def test_without_a_reference_every_call_is_a_new_article(corpus: Corpus) -> None:
    first, second = (corpus.call("upsert_kb_article_v1", title="T") for _ in range(2))
    assert first != second


def test_the_same_reference_in_two_organisations_is_two_articles(corpus: Corpus) -> None:
    other = Corpus(corpus.connection, "another")
    mine = corpus.call("upsert_kb_article_v1", external_ref="a", body="camels")
    theirs = other.call("upsert_kb_article_v1", external_ref="a", body="llamas")
    assert mine != theirs
    assert (corpus.found("camels"), corpus.found("llamas")) == ([mine], [])
    with refused("KBART"):
        corpus.call("upsert_kb_article_v1", article_id=theirs, body="x")


@pytest.mark.parametrize(
    "arguments",
    [
        {"kind": ""},
        {"kind": "*"},
        {"kind": None},
        {"published": None},
        {"metadata": [{}]},
        {"metadata": None},
        {"metadata": '"x"'},
        {"chunks": {"content": "x"}},
        {"chunks": '"x"'},
        {"chunks": "null"},
        {"chunks": ["x"]},
        {"chunks": [None]},
        {"chunks": [{}]},
        {"chunks": [{"content": None}]},
        {"chunks": [{"content": 1}]},
        {"chunks": [{"content": ""}]},
        {"chunks": [{"content": "x", "heading": 1}]},
        {"chunks": [{"content": "x", "embedding": "[1,0]"}]},
        {"chunks": [{"content": "x", "embedding": ["1", "0"]}]},
        {"chunks": [{"content": "x", "embedding": [1, None]}]},
        {"chunks": [{"content": "x", "embedding": [[1, 0]]}]},
        {"chunks": [{"content": "x", "embedding": {"0": 1}}]},
        {"chunks": [{"content": "x", "input_sha256": "abc"}]},
        {"chunks": [{"content": "x", "input_sha256": "G" * 64}]},
        {"article_id": 2**40},
    ],
    ids=repr,
)
def test_an_article_that_makes_no_sense_is_refused_whole(corpus: Corpus, arguments: dict[str, Any]) -> None:
    with refused("KBART"):
        corpus.call(
            "upsert_kb_article_v1", **{"external_ref": "a", "title": "T", "space_id": corpus.space(), **arguments}
        )
    assert articles(corpus) == 0


@pytest.mark.parametrize("embedding", [[], [1e39, 1], [0, 0], [1e300, 0]], ids=repr)
def test_numbers_that_are_no_vector_are_refused_with_a_code_of_ours(corpus: Corpus, embedding: list[float]) -> None:
    sqlstate = "KBDIM" if not embedding else "KBVEC"
    with refused(sqlstate):
        corpus.call(
            "upsert_kb_article_v1",
            title="T",
            space_id=corpus.space(),
            chunks=[{"content": "x", "embedding": embedding}],
        )
    assert articles(corpus) == 0


def test_embeddings_need_a_space_of_their_dimensions(corpus: Corpus) -> None:
    chunks = [{"content": "x", "embedding": [1, 0, 0]}]
    with refused("KBSPC"):
        corpus.call("upsert_kb_article_v1", title="T", chunks=chunks)
    with refused("KBSPC"):
        corpus.call("upsert_kb_article_v1", title="T", chunks=chunks, space_id=2**62)
    with refused("KBDIM") as refusal:
        corpus.call("upsert_kb_article_v1", title="T", chunks=chunks, space_id=corpus.space(2))
    assert (refusal.detail["given"], refusal.detail["expected"]) == (3, 2)
    assert articles(corpus) == 0


def test_a_refused_replacement_leaves_the_article_as_it_was(corpus: Corpus) -> None:
    article = corpus.call(
        "upsert_kb_article_v1",
        external_ref="a",
        space_id=corpus.space(),
        chunks=[{"content": "refunds", "embedding": [1, 0]}],
    )
    before = corpus.search("refunds", [1, 0])
    for chunks in ([{"content": "x", "embedding": [0, 0]}], [{"content": "ok"}, {"content": "ant " * 16_001}]):
        with refused("KBVEC" if len(chunks) == 1 else "KBCHK"):
            corpus.call("upsert_kb_article_v1", external_ref="a", chunks=chunks)
    assert corpus.search("refunds", [1, 0]) == before
    assert before[0]["article_id"] == article


def test_delete_by_id_or_reference(corpus: Corpus) -> None:
    by_id, by_ref = (corpus.call("upsert_kb_article_v1", external_ref=ref, body="refunds") for ref in "ab")
    assert corpus.call("delete_kb_article_v1", article_id=by_id) is True
    assert corpus.call("delete_kb_article_v1", external_ref="b") is True
    assert corpus.call("delete_kb_article_v1", article_id=by_id) is False
    assert corpus.call("delete_kb_article_v1", external_ref="b") is False
    assert corpus.page("refunds")["legs"]["keyword"]["reason"] == "no_known_words"
    assert by_ref not in corpus.found("refunds")
    for arguments in ({}, {"article_id": 1, "external_ref": "a"}):
        with refused("KBART"):
            corpus.call("delete_kb_article_v1", **arguments)


def test_delete_reaches_no_other_organisation(corpus: Corpus) -> None:
    other = Corpus(corpus.connection, "another")
    theirs = other.call("upsert_kb_article_v1", external_ref="a", body="refunds")
    assert corpus.call("delete_kb_article_v1", article_id=theirs) is False
    assert corpus.call("delete_kb_article_v1", external_ref="a") is False
    assert other.found("refunds") == [theirs]


def reserve(corpus: Corpus, references: list[str]) -> list[tuple[Any, ...]]:
    return corpus.connection.execute(
        "SELECT external_ref, article_id, content_sha256 FROM kbsearch.reserve_kb_articles_v1(p_org_id => %s, p_external_refs => %s)",
        (corpus.org_id, references),
    ).fetchall()


def test_ids_are_reserved_in_sorted_order_whatever_the_order_asked(corpus: Corpus) -> None:
    references = ["b", "a", "B", "é", "a/2", "a/10", "\U0001f44d", "a", "Z", ""]
    rows = reserve(corpus, references)
    expected = sorted(set(references), key=lambda reference: reference.encode())
    assert [row[0] for row in rows] == expected
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    assert {row[2] for row in rows} == {None}
    assert reserve(corpus, list(reversed(references))) == rows


def test_what_is_reserved_is_not_found_until_it_is_written(corpus: Corpus) -> None:
    ((_, article, _),) = reserve(corpus, ["a"])
    assert (
        corpus.value("SELECT published FROM kbsearch.kb_articles WHERE org_id = %s AND id = %s", corpus.org_id, article)
        is False
    )
    assert corpus.call("upsert_kb_article_v1", external_ref="a", body="refunds", content_sha256="digest") == article
    assert corpus.found("refunds") == [article]
    assert reserve(corpus, ["a"]) == [("a", article, "digest")]
    assert reserve(corpus, []) == []


@pytest.mark.parametrize("references", [None, ["a", None]])
def test_references_that_are_null_are_refused(corpus: Corpus, references: Any) -> None:
    with refused("KBART"):
        reserve(corpus, references)
    assert articles(corpus) == 0


def test_an_article_and_a_chunk_never_change_their_organisation(corpus: Corpus) -> None:
    other = Corpus(corpus.connection, "another")
    article = corpus.article("refunds", vector=[1, 0])
    for table, key in (
        ("kb_articles", "id"),
        ("kb_article_chunks", "article_id"),
        ("kb_article_embeddings", "article_id"),
    ):
        with refused("KBORG"):
            corpus.run(
                f"UPDATE kbsearch.{table} SET org_id = %s WHERE org_id = %s AND {key} = %s",
                other.org_id,
                corpus.org_id,
                article,
            )
    with refused("KBORG"):
        corpus.run("UPDATE kbsearch.organizations SET id = id + 1000000 WHERE id = %s", corpus.org_id)
    with refused("KBORG"):
        corpus.run("UPDATE kbsearch.kb_article_chunks SET id = id + 1000000 WHERE org_id = %s", corpus.org_id)


def test_references_that_cannot_be_stored_are_refused(corpus: Corpus) -> None:
    first = corpus.call("upsert_kb_article_v1", external_ref="first", title="x")
    second = corpus.call("upsert_kb_article_v1", external_ref="second", title="x")
    for arguments in ({"external_ref": "x" * 2001}, {"external_ref": "first", "article_id": second}):
        with refused("KBART") as refusal:
            corpus.call("upsert_kb_article_v1", title="x", **arguments)
        assert "p_external_ref" in refusal.detail["problem"]
    with refused("KBART"):
        corpus.call("reserve_kb_articles_v1", external_refs=["x" * 2001])
    assert corpus.call("upsert_kb_article_v1", title="x", external_ref="first", article_id=first) == first


def test_an_unknown_space_is_refused_without_embeddings_too(corpus: Corpus) -> None:
    with refused("KBSPC"):
        corpus.call("upsert_kb_article_v1", title="x", space_id=-1)
