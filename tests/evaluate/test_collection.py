from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kbsearch.evaluate import Collection, CollectionError, measure, prose, sentences

CORPUS = '{"id": "b", "title": "B", "text": "x"}\n{"id": "empty", "title": "", "text": " "}\n{"id": "a", "text": "y"}\n'
QUERIES = '{"id": "1", "text": "q"}\n{"id": "unjudged", "text": "q"}\n{"id": "2", "text": "r"}\n'


def folder(path: Path, **files: str) -> Path:
    contents = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels.tsv": "1\ta\t1\n2\tb\t2\n", **files}
    for name, content in contents.items():
        (path / name).write_text(content, encoding="utf-8")
    return path


def test_documents_without_text_and_unjudged_queries_are_left_out_with_their_vectors(tmp_path: Path) -> None:
    np.save(tmp_path / "minilm.docs.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    np.save(tmp_path / "minilm.queries.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    collection = Collection.load(folder(tmp_path))
    assert [document.id for document in collection.documents] == ["b", "a"]
    assert collection.skipped == ("empty",)
    assert [query.id for query in collection.queries] == ["1", "2"]
    assert collection.document_vectors is not None
    assert collection.query_vectors is not None
    assert collection.document_vectors.tolist() == collection.query_vectors.tolist() == [[0, 1], [4, 5]]
    assert collection.qrels == {"1": {"a": 1}, "2": {"b": 2}}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"corpus.jsonl": "{"}, "corpus.jsonl:1"),
        ({"corpus.jsonl": CORPUS + CORPUS}, "same id"),
        ({"corpus.jsonl": '{"id": "a"}'}, "no document with text"),
        ({"queries.jsonl": '{"id": "1"}'}, "queries.jsonl:1: text is missing"),
        ({"qrels.tsv": "1\ta\t1\n1 a 1\n"}, "qrels.tsv:2"),
        ({"qrels.tsv": "1 a 1\n1\ta\t1\n"}, "qrels.tsv:1"),
        ({"qrels.tsv": "1\ta\t1\n1\ta\tx\n"}, "qrels.tsv:2: the grade 'x'"),
        ({"qrels.tsv": "9\ta\t1\n1\ta\t1\n"}, "9 the first"),
    ],
)
def test_a_broken_collection_is_refused_with_the_place(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(CollectionError, match=message):
        Collection.load(folder(tmp_path, **files))


def test_vectors_of_another_number_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "minilm.docs.npy", np.zeros((2, 2), dtype=np.float32))
    with pytest.raises(CollectionError, match="there are 3 texts"):
        Collection.load(folder(tmp_path))


def test_a_header_of_qrels_is_passed_over(tmp_path: Path) -> None:
    collection = Collection.load(folder(tmp_path, **{"qrels.tsv": "query-id\tcorpus-id\tscore\n1\ta\t1\n"}))
    assert collection.qrels == {"1": {"a": 1}}


def test_metrics_follow_the_places_not_the_document_ids() -> None:
    qrels = {"1": {"a": 1}}
    assert measure(qrels, {"1": ["z", "a"]})["RR"] == 0.5
    assert measure(qrels, {"1": ["a", "z"]})["RR"] == 1


def test_metrics_have_known_values_and_an_unanswered_query_counts_0() -> None:
    qrels = {"1": {"a": 1, "b": 2, "c": 0}, "2": {"a": 1}}
    found = measure(qrels, {"1": ["b", "c", "a"], "2": []})
    # Linear gain: (2 + 1/log2(4)) / (2 + 1/log2(3)), and 0 for the second.
    assert found["nDCG@10"] == pytest.approx((2.5 / (2 + 1 / np.log2(3))) / 2)
    assert found["R@100"] == found["R@10"] == found["RR"] == 0.5
    assert measure(qrels, {"1": ["b", "c", "a"]}) == found


def test_sentences_end_at_marks_but_not_at_abbreviations() -> None:
    text = "We saw e.g. mice. Dr. Smith et al. did (Fig. 3). New one! Is it? yes . and lower case . P = 0.5 is the end"
    assert sentences(text) == [
        "We saw e.g. mice.",
        "Dr. Smith et al. did (Fig. 3).",
        "New one!",
        "Is it? yes .",
        "and lower case .",
        "P = 0.5 is the end",
    ]
    assert sentences(" ... ") == []


def test_prose_has_no_operators_and_keeps_its_words() -> None:
    assert prose('the "did you mean" box -- not -this, but e-mail and 3-4').split() == [
        *("the", "did", "you", "mean", "box", "--", "not", "this,", "but", "e-mail", "and", "3-4")
    ]


def test_beir_folders_are_read_as_they_are_published(tmp_path: Path) -> None:
    folder(
        tmp_path,
        **{"corpus.jsonl": CORPUS.replace('"id"', '"_id"'), "queries.jsonl": QUERIES.replace('"id"', '"_id"')},
    )
    (tmp_path / "qrels.tsv").unlink()
    (tmp_path / "qrels").mkdir()
    header = "query-id\tcorpus-id\tscore\n"
    (tmp_path / "qrels" / "dev.tsv").write_text(header + "unjudged\ta\t1\n", encoding="utf-8")
    assert Collection.load(tmp_path).qrels == {"unjudged": {"a": 1}}
    (tmp_path / "qrels" / "test.tsv").write_text(header + "1\ta\t1\n2\tb\t2\nelsewhere\tb\t1\n", encoding="utf-8")
    collection = Collection.load(tmp_path)
    assert collection.qrels == {"1": {"a": 1}, "2": {"b": 2}}
    assert [query.id for query in collection.queries] == ["1", "2"]
    assert [document.id for document in collection.documents] == ["b", "a"]


TOPICS = """<top>
<num> Number: 301
<title> International Organized
 Crime

<desc> Description:
Identify organizations.
</top>
<top><num>302</num><title></title><desc> Description: Is polio under control?</desc></top>
"""
DOCUMENTS = """<DOC>
<DOCNO> FT911-1 </DOCNO>
<HEADLINE> FT / Crime &amp; Co </HEADLINE>
<TEXT>
Some <F P=102>text</F>.
</TEXT>
</DOC>
<DOC><DOCNO>FT911-2</DOCNO><TEXT>Polio.</TEXT><TEXT>More.</TEXT></DOC>
"""


@pytest.mark.parametrize("suffix", ["", ".txt"])
def test_trec_folders_are_read(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"topics{suffix}").write_text(TOPICS, encoding="utf-8")
    (tmp_path / f"qrels{suffix}").write_text("301 0 FT911-1 1\n302 0 FT911-2 -1\n303 0 FT911-2 1\n", encoding="utf-8")
    if suffix:
        (tmp_path / "documents.xml").write_text(DOCUMENTS, encoding="utf-8")
    else:
        (tmp_path / "documents" / "ft").mkdir(parents=True)
        (tmp_path / "documents" / "ft" / "ft911").write_text(DOCUMENTS, encoding="utf-8")
    collection = Collection.load(tmp_path)
    assert [(query.id, query.text) for query in collection.queries] == [
        ("301", "International Organized Crime"),
        ("302", "Is polio under control?"),
    ]
    assert collection.qrels == {"301": {"FT911-1": 1}, "302": {"FT911-2": -1}}
    first, second = collection.documents
    assert (first.id, first.title, first.text.split()) == ("FT911-1", "FT / Crime & Co", ["Some", "text", "."])
    assert (second.id, second.title, second.text) == ("FT911-2", "", "Polio.\nMore.")


def test_topics_may_be_lines_and_documents_json(tmp_path: Path) -> None:
    (tmp_path / "topics.tsv").write_text("1\tfirst question\n2\tsecond\n", encoding="utf-8")
    (tmp_path / "qrels.txt").write_text("1 Q0 a 1\n", encoding="utf-8")
    (tmp_path / "corpus.jsonl").write_text(CORPUS, encoding="utf-8")
    collection = Collection.load(tmp_path)
    assert [(query.id, query.text) for query in collection.queries] == [("1", "first question")]


def trec(path: Path, **files: str) -> Path:
    for name, text in {"topics": TOPICS, "qrels": "301 0 FT911-1 1\n", "documents": DOCUMENTS, **files}.items():
        (path / name).write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"topics": "no topic at all"}, "topics:1: neither"),
        ({"topics": "<top><num>1</top>"}, "topic 1 has no number, or neither"),
        ({"topics": "1\ta\n1\tb\n"}, "two queries .* '1'"),
        ({"qrels": "301 0 FT911-1\n"}, "qrels:1: not query id, iteration"),
        ({"qrels": "301 0 FT911-1 x\n"}, "grade 'x'"),
        ({"qrels": "301 0 a 1\n301 0 a 2\n"}, "qrels:2: .* grade 1 already"),
        ({"documents": "text"}, "no <DOC>"),
        ({"documents": "<DOC>x</DOC>"}, "document 1 has no DOCNO"),
        ({"documents": DOCUMENTS + DOCUMENTS}, "same id 'FT911-1'"),
        ({"qrels.txt": ""}, "both qrels and qrels.txt"),
    ],
)
def test_a_broken_trec_folder_is_refused_with_the_place(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(CollectionError, match=message):
        Collection.load(trec(tmp_path, **files))


def test_what_has_no_layout_is_told_all_of_them(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match=r"corpus\.jsonl.*BEIR.*TREC"):
        Collection.load(tmp_path)
    trec(tmp_path)
    (tmp_path / "documents").unlink()
    with pytest.raises(CollectionError, match="no file documents"):
        Collection.load(tmp_path)
