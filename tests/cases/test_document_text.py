"""Whatever documents are made of: it is stored whole or refused whole, and it is found by what people type."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from kbsearch import KBSearch
from kbsearch.errors import ArticleError
from kbsearch.ingest import Document, Source, Splitter, ingest, read_jsonl
from kbsearch.models import Chunk
from tests.sql.corpus import Corpus, refused


class LengthEmbedder:
    """Embeds a text as its length and its first character; keeps what it was given."""

    name, model, revision, dimensions = "length", "length", "1", 2
    recipe: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.given: list[str] = []

    def embed_passages(self, texts: Sequence[str]) -> Any:
        assert all(text.strip() for text in texts), "a blank text was embedded"
        self.given += texts
        return np.array([self.vector(text) for text in texts], dtype=np.float32).reshape(len(texts), 2)

    embed_queries = embed_passages

    @staticmethod
    def vector(text: str) -> list[float]:
        return [float(len(text)), float(ord(text[0]))]


@pytest.mark.parametrize("title", [None, "", " ", "!!!"])
@pytest.mark.parametrize("embedding", [None, [1, 0]], ids=["words", "words and vector"])
@pytest.mark.parametrize("profile", ["weighted@1", "rrf@1"])
def test_an_article_without_a_title_is_found_by_its_body(
    corpus: Corpus, title: str | None, embedding: list[int] | None, profile: str
) -> None:
    wanted = corpus.article("all refunds", title=title, vector=[0, 1])
    (row,) = corpus.search("refunds", embedding, profile=profile)
    assert row["article_id"] == wanted
    assert row["score"] is not None
    assert row["score"] > 0
    assert row["title"] == title


def test_a_chunk_without_any_word_has_no_null_score(corpus: Corpus) -> None:
    empty = corpus.article("", title=None, vector=[1, 0])
    (row,) = corpus.search("refunds", [1, 0])
    assert (row["article_id"], row["score"], row["keyword_score"]) == (empty, 1.0, None)


def test_a_hundred_thousand_distinct_words_are_one_article(corpus: Corpus) -> None:
    words = [f"w{number:06d}" for number in range(100_000)]
    chunks = [Chunk(" ".join(words[start : start + 5000])) for start in range(0, 100_000, 5000)]
    article = KBSearch(corpus.connection).upsert_article(corpus.org_id, title="Large", chunks=chunks)
    for word in (words[0], words[54_321], words[-1]):
        assert corpus.found(word) == [article]


def test_a_hundred_thousand_distinct_words_are_one_document(corpus: Corpus) -> None:
    text = "\n\n".join(" ".join(f"w{paragraph:03d}x{n}" for n in range(100)) for paragraph in range(1000))
    report = ingest(
        corpus.connection,
        corpus.org_id,
        [Source("test", [Document("large", "Large", text)])],
        splitter=Splitter(20_000),
    )
    assert (report.written, report.rejected) == (1, ())
    assert len(corpus.found("w999x99")) == 1


@pytest.mark.parametrize(
    "content",
    [" ".join(f"w{n}" for n in range(100_000)), "the " * 70_000, "a" * 262_145, "\u6587" * 100_000, "ant " * 16_001],
    ids=["800 kB of words", "stop words", "one long word", "CJK", "words over the limit"],
)
def test_a_chunk_over_the_limit_is_refused_and_nothing_is_half_written(corpus: Corpus, content: str) -> None:
    with refused("KBCHK") as refusal:
        corpus.call("upsert_kb_article_v1", title="Large", chunks=[{"content": "good"}, {"content": content}])
    assert {"maximum_bytes", "maximum_words"} & set(refusal.detail)
    article = corpus.article("good before")
    with refused("KBCHK"):
        corpus.run(
            "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content) VALUES (%s, %s, 'good'), (%s, %s, %s)",
            corpus.org_id,
            article,
            corpus.org_id,
            article,
            content,
        )
    assert corpus.found("good") == [article]
    assert corpus.value("SELECT count(*) FROM kbsearch.kb_article_chunks WHERE org_id = %s", corpus.org_id) == 1


@pytest.mark.parametrize(
    "content", ["ant " * 16_000, "a" * 262_144, "x" + " -" * 130_000, "\x01" * 1000 + " ant", "a-" * 10_000]
)
def test_a_chunk_at_the_limit_is_stored(corpus: Corpus, content: str) -> None:
    corpus.article(content)


def test_a_title_beyond_its_limit_is_refused(corpus: Corpus) -> None:
    """A title is copied onto each chunk and each row of an answer; changing to one that is too long changes nothing."""
    article = corpus.article("good", title="short")
    change = "UPDATE kbsearch.kb_articles SET title = repeat('x', %s) WHERE org_id = %s AND id = %s"
    with pytest.raises(psycopg.errors.CheckViolation):
        corpus.run(change, 8193, corpus.org_id, article)
    assert corpus.found("short") == [article]
    corpus.run(change, 8192, corpus.org_id, article)
    assert corpus.found("good") == [article]
    assert corpus.found("short") == []


def test_four_hundred_thousand_characters_without_a_space(corpus: Corpus) -> None:
    text = "".join(chr(0x4E00 + (n * 7919) % 20_000) for n in range(400_000))
    chunks = [{"content": text[start : start + 10_000]} for start in range(0, 400_000, 10_000)]
    article = corpus.call("upsert_kb_article_v1", title="\u5927", chunks=chunks)
    for start in (0, 204_321, 399_990):
        assert corpus.found(text[start : start + 4]) == [article]


def test_a_document_without_a_space_is_split_and_found(corpus: Corpus) -> None:
    text = "".join(chr(0x4E00 + (n * 7919) % 20_000) for n in range(10_000))
    report = ingest(corpus.connection, corpus.org_id, [Source("test", [Document("large", "\u5927", text)])])
    assert (report.written, report.rejected) == (1, ())
    assert report.chunks > 10
    assert len(corpus.found(text[-4:])) == 1


@pytest.mark.parametrize(
    ("content", "question"),
    [
        ("日本語のテスト", "テスト"),
        ("日本語のテスト", "日本"),
        ("日本語のテスト", "日"),
        ("这是一个测试", "测试"),
        ("这是一个测试", "测"),
        ("번역을 부탁해", "번역"),
        ("ภาษาไทย", "ไทย"),
        ("ｶﾀｶﾅ", "カタカナ"),
        ("版本2.0发布", "发布"),
        ("A级产品", "产品"),
        ("CVE-2026-2332", "2332"),
        ("CVE-2026-2332", "cve-2026-2332"),
        ("CVE\u20112026\u20112332", "CVE-2026-2332"),
        ("Poseidon P-8A", "p-8"),
        ("Poseidon P-8A", "p-8a"),
        ("certified to ISO-9001", "9001"),
        ("certified to ISO-9001", "iso 9001"),
        ("the DS-7604NI recorder", "DS-7604"),
        ("the DS-7604NI recorder", "7604"),
        ("thyroid/metabolic panel", "thyroid"),
        ("thyroid/metabolic panel", "metabolic"),
        ("foo bar", "foo/bar"),
        ("foo/bar", "foo bar"),
        ("snake_case_name", "case"),
        ("kb.articles.title", "articles"),
        ("user@example.com", "example.com"),
        ("PostgreSQL16", "postgresql16"),
        ("v1.2.3-rc1", "1.2.3"),
        ("C++ guide", "c++"),
        ("C# guide", "c#"),
        (unicodedata.normalize("NFD", "le café noir"), unicodedata.normalize("NFC", "café")),
        (unicodedata.normalize("NFC", "le café noir"), unicodedata.normalize("NFD", "café")),
        ("la política", "politica"),
        ("la politica", "política"),
        ("Đorđe", "dorde"),
        ("Größe", "grosse"),
        ("ΑΘΗΝΑ", "αθήνα"),
        ("\u041c\u041e\u0421\u041a\u0412\u0410", "\u043c\u043e\u0441\u043a\u0432\u0430"),
        ("İstanbul", "istanbul"),
        ("co\u00adoperate", "cooperate"),
        ("zero\u200bwidth", "zerowidth"),
        ("don\u2019t panic", "panic"),
        ("ﬁnance office", "finance"),
    ],
)
def test_a_document_is_found_by_what_people_type(corpus: Corpus, content: str, question: str) -> None:
    wanted = corpus.article(content)
    by_title = corpus.article("", title=content)
    corpus.article("llamas eat grass")
    assert set(corpus.found(question)) == {wanted, by_title}


@pytest.mark.parametrize(
    ("whole", "part", "question"),
    [
        ("CVE-2026-2332", "room 2332", "CVE-2026-2332"),
        ("Poseidon P-8A", "Poseidon P-8", "p-8a"),
        ("ISO-9001", "9001 nights", "ISO-9001"),
        ("DS-7604NI", "DS-7604", "DS-7604NI"),
        ("DS-7604", "DS-7604NI", "DS-7604"),
        ("foo/bar", "foo", "foo/bar"),
    ],
)
def test_a_whole_identifier_ranks_above_a_part(corpus: Corpus, whole: str, part: str, question: str) -> None:
    second = corpus.article(part)
    first = corpus.article(whole)
    for _ in range(5):
        corpus.article("llamas eat grass")
    found = corpus.found(question)
    assert found[0] == first
    assert set(found) <= {first, second}


def test_c_plus_plus_is_not_c_sharp(corpus: Corpus) -> None:
    ids = {name: corpus.article("how to begin", title=f"{name} guide") for name in ("C", "C#", "C++")}
    for name in ("C++", "C#"):
        assert corpus.found(name)[0] == ids[name]
        assert corpus.found(f"{name} guide")[0] == ids[name]


def test_case_does_not_depend_on_the_locale(corpus: Corpus) -> None:
    assert corpus.value("SELECT kbsearch.fold_kb_text_v1('ÀÉÎÕÜ ΣΟΦΌΣ ЖЁ İI')") == "aeiou σοφοσ же ii"


FAULTY = {
    "NUL in the text": {"id": "b", "title": "Bad", "text": "x\0y"},
    "NUL in the title": {"id": "b", "title": "B\0d", "text": "text"},
    "NUL in metadata": {"id": "b", "title": "Bad", "text": "text", "metadata": {"k": ["v\0"]}},
    "NUL in a key of metadata": {"id": "b", "title": "Bad", "text": "text", "metadata": {"k\0": 1}},
    "half a surrogate pair in the text": {"id": "b", "title": "Bad", "text": "x\ud800y"},
    "half a surrogate pair in metadata": {"id": "b", "title": "Bad", "text": "text", "metadata": {"k": "\udfff"}},
    "NUL in the id": {"id": "b\0", "title": "Bad", "text": "text"},
}


@pytest.mark.parametrize("faulty", FAULTY.values(), ids=FAULTY)
def test_one_document_that_cannot_be_stored_is_reported_and_the_rest_is_ingested(
    corpus: Corpus, tmp_path: Path, faulty: dict[str, Any]
) -> None:
    file = tmp_path / "documents.jsonl"
    documents = [
        {"id": "a", "title": "First", "text": "good refunds"},
        faulty,
        {"id": "c", "title": "Last", "text": "good returns"},
    ]
    file.write_text("\n".join(json.dumps(document) for document in documents), encoding="utf-8")
    report = ingest(corpus.connection, corpus.org_id, [Source("test", read_jsonl(file, kind="article"))])
    assert report.written == 2
    assert len(report.rejected) == 1
    assert len(corpus.found("good")) == 2
    assert corpus.value("SELECT count(*) FROM kbsearch.kb_articles WHERE org_id = %s", corpus.org_id) == 2


@pytest.mark.parametrize("text", ["x\0y", "x\ud800y"], ids=["NUL", "half a surrogate pair"])
@pytest.mark.parametrize("where", ["title", "body", "chunk", "metadata", "external_ref"])
def test_the_client_refuses_it_before_the_driver_does(corpus: Corpus, where: str, text: str) -> None:
    arguments: dict[str, Any] = {where: text}
    if where == "chunk":
        arguments = {"chunks": [Chunk(text)]}
    elif where == "metadata":
        arguments = {"metadata": {"k": text}}
    with pytest.raises(ArticleError) as refusal:
        KBSearch(corpus.connection).upsert_article(corpus.org_id, **arguments)
    assert refusal.value.sqlstate == "KBART"


def test_text_with_other_control_characters_is_stored(corpus: Corpus) -> None:
    wanted = corpus.article("".join(map(chr, range(1, 32))) + "refunds\x7f\x85")
    assert corpus.found("refunds") == [wanted]


BLANKS = ("", " ", "\n\n", "\u3000", "\u00a0", "\t")


@pytest.mark.parametrize("blank", BLANKS, ids=repr)
def test_blank_chunks_are_refused_by_sql(corpus: Corpus, blank: str) -> None:
    with refused("KBART") as refusal:
        corpus.call("upsert_kb_article_v1", title="x", chunks=[{"content": "a"}, {"content": blank}])
    assert "chunk 2" in refusal.message


def test_every_vector_stays_with_its_own_text_where_a_document_has_blank_parts(corpus: Corpus) -> None:
    embedder = LengthEmbedder()
    text = "alpha alpha alpha\n\n \n\n\u3000\n\n\n\nbeta beta beta beta\n\n\t\n\ngamma"
    documents = [Document("blank", "", " \n\n "), Document("d", "", text), Document("only title", "Title", "\n\n")]
    report = ingest(
        corpus.connection, corpus.org_id, [Source("test", documents)], embedder=embedder, splitter=Splitter(20)
    )
    assert [rejected.where for rejected in report.rejected] == ["blank"]
    rows = corpus.connection.execute(
        "SELECT c.content, e.embedding::real[] FROM kbsearch.kb_article_chunks AS c"
        " INNER JOIN kbsearch.kb_articles AS a ON a.org_id = c.org_id AND a.id = c.article_id"
        " LEFT JOIN kbsearch.kb_article_embeddings AS e ON e.org_id = c.org_id AND e.chunk_id = c.id"
        " WHERE c.org_id = %s AND a.external_ref = 'd' ORDER BY c.chunk_no",
        (corpus.org_id,),
    ).fetchall()
    assert len(rows) >= 3
    for content, embedding in rows:
        assert content.strip()
        assert embedding == LengthEmbedder.vector(next(given for given in embedder.given if given.endswith(content)))
