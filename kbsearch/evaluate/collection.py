"""A collection on disk: corpus.jsonl, queries.jsonl, qrels.tsv and, if there are any, vectors of both."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kbsearch.embed.base import Vectors

DOCUMENT_VECTORS, QUERY_VECTORS = "minilm.docs.npy", "minilm.queries.npy"

# A mark that ends a sentence, its closing quotes and brackets, then white space.
_BOUNDARY = re.compile(r"(?P<mark>[.!?]+)[\"')\]]*\s+")
_OPERATOR = re.compile(r'["“”„«»]|(?<!\S)-+(?=\w)')
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:[A-Za-z]|e\.g|i\.e|et al|etc|vs|cf|ca|approx|resp|Fig|Figs|Eq|Ref|No|Dr|Mr|Mrs|Ms|Prof|St)$"
)


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
            CollectionError: a file is missing, a line cannot be read, or vectors and texts differ in number.
        """
        if not folder.is_dir():
            raise CollectionError(f"{folder} is no folder")
        documents = [
            EvaluationDocument(_text(entry, "id", where), entry.get("title") or "", entry.get("text") or "")
            for where, entry in _lines(folder / "corpus.jsonl")
        ]
        queries = [
            Query(_text(entry, "id", where), _text(entry, "text", where))
            for where, entry in _lines(folder / "queries.jsonl")
        ]
        qrels = _qrels(folder / "qrels.tsv")
        document_vectors = _vectors(folder / DOCUMENT_VECTORS, len(documents))
        query_vectors = _vectors(folder / QUERY_VECTORS, len(queries))
        if len({document.id for document in documents}) < len(documents):
            raise CollectionError("two documents of corpus.jsonl have the same id")
        kept = [place for place, document in enumerate(documents) if document.title.strip() or document.text.strip()]
        judged = [place for place, query in enumerate(queries) if query.id in qrels]
        if not kept or not judged:
            raise CollectionError(f"{folder.name} has no document with text, or no query with a judgement")
        unasked = sorted(set(qrels) - {query.id for query in queries})
        if unasked:
            raise CollectionError(
                f"qrels.tsv judges queries that queries.jsonl has not, {unasked[0]} the first of them"
            )
        return cls(
            name=folder.resolve().name,
            documents=tuple(documents[place] for place in kept),
            queries=tuple(queries[place] for place in judged),
            qrels=qrels,
            document_vectors=None if document_vectors is None else document_vectors[kept],
            query_vectors=None if query_vectors is None else query_vectors[judged],
            skipped=tuple(
                document.id for document in documents if not (document.title.strip() or document.text.strip())
            ),
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


def _lines(path: Path) -> list[tuple[str, dict[str, Any]]]:
    entries: list[tuple[str, dict[str, Any]]] = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if line.strip():
                entry = json.loads(line)
                if not isinstance(entry, dict):
                    raise CollectionError(f"{path.name}:{number}: not a JSON object")
                entries.append((f"{path.name}:{number}", entry))
    except OSError as error:
        raise CollectionError(f"cannot read {path.name}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise CollectionError(f"{path.name}:{number}: {error}") from error
    except UnicodeDecodeError as error:
        raise CollectionError(f"{path.name} is not UTF-8") from error
    return entries


def _text(entry: Mapping[str, Any], name: str, where: str) -> str:
    value = entry.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise CollectionError(f"{where}: {name} is missing")
    return value


def _qrels(path: Path) -> dict[str, dict[str, int]]:
    """Judgements: query id, document id and grade, separated by tabs; a first line that is a header is passed over."""
    qrels: dict[str, dict[str, int]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CollectionError(f"cannot read {path.name}: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            query, document, grade = line.split("\t")
            qrels.setdefault(query, {})[document] = int(grade)
        except ValueError:
            if number > 1 and line.strip():
                raise CollectionError(
                    f"{path.name}:{number}: not query id, document id and grade, separated by tabs"
                ) from None
            qrels.clear()
    return qrels


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
