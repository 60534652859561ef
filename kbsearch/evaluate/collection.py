"""A collection on disk, in one of three layouts, which the names of its files tell apart.

- kbsearch's own: `corpus.jsonl` and `queries.jsonl` with `id`, `qrels.tsv` (query id, document id, grade, separated by tabs) and, if there are any,
  vectors of both.
- BEIR's: the same with `_id`, and judgements with a header in `qrels/test.tsv`, or in the only file there.
- TREC's: `topics` (`<top>` elements, or lines of id, tab, text), `qrels` (query id, iteration, document id, grade) and `documents` (`<DOC>` elements,
  in one file or a folder of files). The three names may have a suffix (`topics.txt`); documents may be in a `corpus.jsonl` as well.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from kbsearch.embed.base import Vectors

DOCUMENT_VECTORS, QUERY_VECTORS = "minilm.docs.npy", "minilm.queries.npy"

# A mark that ends a sentence, its closing quotes and brackets, then white space.
_BOUNDARY = re.compile(r"(?P<mark>[.!?]+)[\"')\]]*\s+")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_OPERATOR = re.compile(r'["“”„«»]|(?<!\S)-+(?=\w)')
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:[A-Za-z]|e\.g|i\.e|et al|etc|vs|cf|ca|approx|resp|Fig|Figs|Eq|Ref|No|Dr|Mr|Mrs|Ms|Prof|St)$"
)


Layout: TypeAlias = Literal["kbsearch", "BEIR", "TREC"]


class CollectionError(ValueError):
    """The folder is no collection, or its files do not fit together."""


@dataclass(frozen=True, slots=True)
class EvaluationDocument:
    """A document of a collection."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """A question of a collection."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents, questions and judgements.

    Attributes:
        name: the folder's name.
        documents: those that have any text, in the order of the file.
        queries: those that have a judgement, in the order of the file.
        qrels: grade by query id and document id; above 0 is relevant.
        document_vectors: float32, a row a document; None when the folder has none.
        query_vectors: float32, a row a query; None when the folder has none.
        skipped: ids of the documents without any text.
    """

    name: str
    documents: tuple[EvaluationDocument, ...]
    queries: tuple[Query, ...]
    qrels: Mapping[str, Mapping[str, int]]
    document_vectors: Vectors | None = None
    query_vectors: Vectors | None = None
    skipped: tuple[str, ...] = ()

    @classmethod
    def load(cls, folder: Path) -> Collection:
        """Read a collection.

        Raises:
            CollectionError: the folder has none of the layouts, a file is missing, a line cannot be read, or vectors and texts differ in number.
        """
        questions = Questions.load(folder)
        documents = _documents(folder, questions.layout)
        document_vectors = _vectors(folder / DOCUMENT_VECTORS, len(documents))
        query_vectors = _vectors(folder / QUERY_VECTORS, len(questions.queries))
        if twice := _repeated(document.id for document in documents):
            raise CollectionError(f"two documents of {folder.name} have the same id {twice!r}")
        kept = [place for place, document in enumerate(documents) if document.title.strip() or document.text.strip()]
        judged = [place for place, query in enumerate(questions.queries) if query.id in questions.qrels]
        if not kept or not judged:
            raise CollectionError(f"{folder.name} has no document with text, or no query with a judgement")
        return cls(
            name=folder.resolve().name,
            documents=tuple(documents[place] for place in kept),
            queries=tuple(questions.queries[place] for place in judged),
            qrels=questions.qrels,
            document_vectors=None if document_vectors is None else document_vectors[kept],
            query_vectors=None if query_vectors is None else query_vectors[judged],
            skipped=tuple(
                document.id for document in documents if not (document.title.strip() or document.text.strip())
            ),
        )


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions and judgements of a collection, without its documents.

    Attributes:
        layout: kbsearch, BEIR or TREC.
        queries: all of them, in the order of the file.
        qrels: grade by query id and document id; above 0 is relevant.
    """

    layout: Layout
    queries: tuple[Query, ...]
    qrels: Mapping[str, Mapping[str, int]]

    @classmethod
    def load(cls, folder: Path) -> Questions:
        """Read questions and judgements of a folder; the documents may be missing.

        Raises:
            CollectionError: the folder has none of the layouts, a file is missing, or a line cannot be read.
        """
        layout = find_layout(folder)
        queries = _topics(_file(folder, "topics")) if layout == "TREC" else _queries(folder / "queries.jsonl")
        if twice := _repeated(query.id for query in queries):
            raise CollectionError(f"two queries of {folder.name} have the same id {twice!r}")
        path = {
            "kbsearch": lambda: folder / "qrels.tsv",
            "BEIR": lambda: _beir_qrels(folder / "qrels"),
            "TREC": lambda: _file(folder, "qrels"),
        }[layout]()
        qrels = _trec_qrels(path) if layout == "TREC" else _qrels(path)
        unasked = sorted(set(qrels) - {query.id for query in queries})
        if unasked and layout == "kbsearch":
            raise CollectionError(
                f"{path.name} judges queries that queries.jsonl has not, {unasked[0]} the first of them"
            )
        # The others publish all topics' judgements with some of the topics, and the reverse.
        asked = {query.id for query in queries}
        return cls(layout, tuple(queries), {query: grades for query, grades in qrels.items() if query in asked})


def find_layout(folder: Path) -> Layout:
    """The layout of a folder, by the names of its files.

    Raises:
        CollectionError: it has none of them.
    """
    if not folder.is_dir():
        raise CollectionError(f"{folder} is no folder")
    if any(path.name.split(".")[0] == "topics" for path in folder.iterdir()):
        return "TREC"
    if (folder / "qrels").is_dir():
        return "BEIR"
    if any((folder / name).exists() for name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv")):
        return "kbsearch"
    raise CollectionError(
        f"{folder.name} is no collection: it has neither corpus.jsonl, queries.jsonl and qrels.tsv (or a folder qrels, as BEIR has it)"
        " nor topics, qrels and documents (TREC)"
    )


def sentences(text: str) -> list[str]:
    """The sentences of a text, in order, none of them blank; known abbreviations and initials end none.

    For English prose. A mark that stands alone between spaces ends a sentence whatever follows; any other ends one only when the next
    character is no small letter.
    """
    found: list[str] = []
    start = 0
    for match in _BOUNDARY.finditer(text):
        before, after = text[start : match.start()], text[match.end() : match.end() + 1]
        alone = before[-1:].isspace()
        if alone or (not after.islower() and not (match["mark"] == "." and _ABBREVIATION.search(before))):
            found.append(text[start : match.end()].strip())
            start = match.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if re.search(r"\w", sentence)]


def prose(question: str) -> str:
    """A question without operators of the query syntax: quotation marks and hyphens before a word become spaces."""
    return _OPERATOR.sub(" ", question)


def _documents(folder: Path, layout: Layout) -> list[EvaluationDocument]:
    corpus = folder / "corpus.jsonl"
    if layout == "TREC" and not corpus.exists():
        path = _file(folder, "documents")
        files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        return [document for file in files for document in _trec_documents(file)]
    return [
        EvaluationDocument(_text(entry, "id", where), _optional(entry, "title", where), _optional(entry, "text", where))
        for where, entry in _lines(corpus)
    ]


def _queries(path: Path) -> list[Query]:
    return [Query(_text(entry, "id", where), _text(entry, "text", where)) for where, entry in _lines(path)]


def _file(folder: Path, name: str) -> Path:
    """The file or folder of this name, with any suffix."""
    found = sorted(path for path in folder.iterdir() if path.name.split(".")[0] == name)
    if not found:
        raise CollectionError(f"{folder.name} has topics, as TREC has them, but no file {name}")
    if len(found) > 1:
        raise CollectionError(f"{folder.name} has both {found[0].name} and {found[1].name}: which are the {name}?")
    return found[0]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CollectionError(f"cannot read {path.name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CollectionError(f"{path.name} is not UTF-8") from error


def _lines(path: Path) -> list[tuple[str, dict[str, Any]]]:
    entries: list[tuple[str, dict[str, Any]]] = []
    for number, line in enumerate(_read(path).split("\n"), 1):
        if line.strip():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError as error:
                raise CollectionError(f"{path.name}:{number}: {error}") from error
            if not isinstance(entry, dict):
                raise CollectionError(f"{path.name}:{number}: not a JSON object")
            entries.append((f"{path.name}:{number}", entry))
    return entries


def _text(entry: Mapping[str, Any], name: str, where: str) -> str:
    value = entry.get(name, entry.get("_id") if name == "id" else None)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise CollectionError(f"{where}: {name} is missing")
    return value


def _optional(entry: Mapping[str, Any], name: str, where: str) -> str:
    value = entry.get(name) or ""
    if not isinstance(value, str):
        raise CollectionError(f"{where}: {name} is no text")
    return value


def _repeated(ids: Iterator[str]) -> str | None:
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            return one
        seen.add(one)
    return None


def _beir_qrels(folder: Path) -> Path:
    found = sorted(folder.glob("*.tsv"))
    if (test := folder / "test.tsv") in found:
        return test
    if len(found) == 1:
        return found[0]
    raise CollectionError(
        f"the folder qrels has no test.tsv, and {'several other files' if found else 'no other .tsv'}"
    )


def _qrels(path: Path) -> dict[str, dict[str, int]]:
    """Judgements: query id, document id and grade, separated by tabs; a first line that is a header is passed over."""
    qrels: dict[str, dict[str, int]] = {}
    for number, line in enumerate(_read(path).splitlines(), 1):
        columns = line.split("\t")
        if len(columns) == 3 and (_WHOLE.fullmatch(columns[2]) or number > 1):  # noqa: PLR2004
            _judge(qrels, columns[0], columns[1], columns[2], f"{path.name}:{number}")
        elif line.strip() and len(columns) != 3:  # noqa: PLR2004
            raise CollectionError(f"{path.name}:{number}: not query id, document id and grade, separated by tabs")
    return qrels


def _trec_qrels(path: Path) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for number, line in enumerate(_read(path).splitlines(), 1):
        columns = line.split()
        if not columns:
            continue
        if len(columns) != 4:  # noqa: PLR2004
            raise CollectionError(
                f"{path.name}:{number}: not query id, iteration, document id and grade, separated by spaces"
            )
        _judge(qrels, columns[0], columns[2], columns[3], f"{path.name}:{number}")
    return qrels


def _judge(qrels: dict[str, dict[str, int]], query: str, document: str, grade: str, where: str) -> None:
    if not _WHOLE.fullmatch(grade):
        raise CollectionError(f"{where}: the grade {grade!r} is no whole number")
    known = qrels.setdefault(query, {}).setdefault(document, int(grade))
    if known != int(grade):
        raise CollectionError(f"{where}: query {query} and document {document} have had the grade {known} already")


def _topics(path: Path) -> list[Query]:
    text = _read(path)
    topics = re.findall(r"<top>(.*?)</top>", text, re.DOTALL | re.IGNORECASE)
    if not topics and "<top" not in text.lower():
        rows = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        queries = []
        for number, line in rows:
            query, tab, asked = line.partition("\t")
            if not tab or not query.strip() or not asked.strip():
                raise CollectionError(f"{path.name}:{number}: neither <top> elements nor id, tab and text")
            queries.append(Query(query.strip(), asked.strip()))
        return queries
    queries = []
    for place, topic in enumerate(topics, 1):
        named = re.sub(r"^\s*number:", "", _field(topic, "num") or "", flags=re.IGNORECASE).strip()
        asked = re.sub(r"^\s*(topic|description):", "", _field(topic, "title") or "", flags=re.IGNORECASE).strip()
        asked = asked or re.sub(r"^\s*description:", "", _field(topic, "desc") or "", flags=re.IGNORECASE).strip()
        if not named or not asked:
            raise CollectionError(f"{path.name}: topic {place} has no number, or neither title nor description")
        queries.append(Query(named, " ".join(asked.split())))
    return queries


def _trec_documents(path: Path) -> list[EvaluationDocument]:
    found = []
    for place, element in enumerate(re.findall(r"<DOC>(.*?)</DOC>", _read(path), re.DOTALL | re.IGNORECASE), 1):
        number = (_field(element, "docno") or "").strip()
        if not number:
            raise CollectionError(f"{path.name}: document {place} has no DOCNO")
        title = next(filter(None, (_field(element, name) for name in ("title", "headline", "head", "ti"))), "")
        texts = re.findall(r"<TEXT>(.*?)</TEXT>", element, re.DOTALL | re.IGNORECASE)
        found.append(EvaluationDocument(number, _plain(title), _plain("\n".join(texts))))
    if not found:
        raise CollectionError(f"{path.name} has no <DOC> element")
    return found


def _field(element: str, name: str) -> str | None:
    """What follows a tag, up to the next tag: topics do not close theirs."""
    found = re.search(rf"<{name}>(.*?)(?=<\s*/?\w+[^>]*>|$)", element, re.DOTALL | re.IGNORECASE)
    return found[1] if found else None


def _plain(text: str) -> str:
    return html.unescape(re.sub(r"</?\w[^>]*>", " ", text)).strip()


def _vectors(path: Path, rows: int) -> Vectors | None:
    if not path.exists():
        return None
    try:
        vectors = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise CollectionError(f"cannot read {path.name}: {error}") from error
    if vectors.ndim != 2 or vectors.shape[0] != rows:  # noqa: PLR2004  (rows and columns)
        raise CollectionError(f"{path.name} has shape {vectors.shape}, and there are {rows} texts")
    return np.asarray(vectors, dtype=np.float32)
