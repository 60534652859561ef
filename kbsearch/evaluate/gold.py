"""Gold sets in the database: questions of an organisation's users, and which of its articles answer them.

An article is named by its external_ref; one without is `#` and its id. The same names are the document ids of rankings and of exported folders.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from kbsearch.evaluate.collection import Collection, CollectionError, Query, Questions
from kbsearch.schema import DEFAULT, in_schema

Connection = psycopg.Connection[Any]

_NAME = "coalesce(a.external_ref, '#' || a.id)"
_SETS = """SELECT s.name, s.description,
    (SELECT count(*) FROM kbsearch.kb_gold_questions AS q WHERE q.org_id = s.org_id AND q.set_name = s.name),
    (SELECT count(*) FROM kbsearch.kb_gold_judgements AS j WHERE j.org_id = s.org_id AND j.set_name = s.name)
FROM kbsearch.kb_gold_sets AS s
WHERE s.org_id = %(org_id)s AND (%(name)s::pg_catalog.text IS NULL OR s.name = %(name)s::pg_catalog.text)
ORDER BY s.name COLLATE pg_catalog."C" """
_QUESTIONS = f"""SELECT q.ref, q.question, {_NAME}, a.title, a.published, j.article_id, j.grade
FROM kbsearch.kb_gold_questions AS q
LEFT JOIN kbsearch.kb_gold_judgements AS j ON j.org_id = q.org_id AND j.set_name = q.set_name AND j.question_ref = q.ref
LEFT JOIN kbsearch.kb_articles AS a ON a.org_id = j.org_id AND a.id = j.article_id
WHERE q.org_id = %(org_id)s AND q.set_name = %(name)s
ORDER BY q.created_at, q.ref COLLATE pg_catalog."C", j.grade DESC, {_NAME} COLLATE pg_catalog."C" """
_ARTICLES_BY_ID = """SELECT a.id
FROM kbsearch.kb_articles AS a
WHERE a.org_id = %(org_id)s AND a.id = %(article_id)s"""
_ARTICLES_BY_NAME = f"""SELECT {_NAME}, a.id
FROM kbsearch.kb_articles AS a
WHERE a.org_id = %(org_id)s AND (a.external_ref = ANY (%(names)s) OR a.external_ref IS NULL AND a.id = ANY (%(ids)s))"""
_MAKE_SET = "INSERT INTO kbsearch.kb_gold_sets (org_id, name) VALUES (%(org_id)s, %(name)s) ON CONFLICT DO NOTHING"
_FIND_QUESTION = """SELECT q.ref
FROM kbsearch.kb_gold_questions AS q
WHERE q.org_id = %(org_id)s AND q.set_name = %(name)s AND (q.question = %(question)s OR q.ref = %(ref)s)
ORDER BY q.ref = %(ref)s DESC, q.ref COLLATE pg_catalog."C"
LIMIT 1"""
_ADD_QUESTION = """INSERT INTO kbsearch.kb_gold_questions AS q (org_id, set_name, ref, question)
VALUES (%(org_id)s, %(name)s, %(ref)s, %(question)s)
ON CONFLICT (org_id, set_name, ref) DO UPDATE SET question = q.question
RETURNING q.question"""
_JUDGE = """INSERT INTO kbsearch.kb_gold_judgements (org_id, set_name, question_ref, article_id, grade)
VALUES (%(org_id)s, %(name)s, %(ref)s, %(article_id)s, %(grade)s)
ON CONFLICT (org_id, set_name, question_ref, article_id) DO UPDATE SET grade = excluded.grade"""
_REMOVE_SET = "DELETE FROM kbsearch.kb_gold_sets AS s WHERE s.org_id = %(org_id)s AND s.name = %(name)s"
_REMOVE_QUESTION = "DELETE FROM kbsearch.kb_gold_questions AS q WHERE q.org_id = %(org_id)s AND q.set_name = %(name)s AND q.ref = %(ref)s"
_REMOVE_JUDGEMENT = """DELETE FROM kbsearch.kb_gold_judgements AS j
WHERE j.org_id = %(org_id)s AND j.set_name = %(name)s AND j.question_ref = %(ref)s AND j.article_id = %(article_id)s"""
_CORPUS = f"""SELECT {_NAME}, a.title, coalesce(a.body, (
    SELECT pg_catalog.string_agg(c.content, E'\\n\\n' ORDER BY c.chunk_no, c.id)
    FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = a.org_id AND c.article_id = a.id))
FROM kbsearch.kb_articles AS a
WHERE a.org_id = %(org_id)s AND a.published
ORDER BY {_NAME} COLLATE pg_catalog."C" """


class GoldError(ValueError):
    """A gold set cannot be read or changed like that."""


@dataclass(frozen=True, slots=True)
class GoldSet:
    """A gold set: its name, and how much there is in it."""

    name: str
    description: str
    questions: int
    judgements: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """How well an article answers a question: grade 0 does not, 1 and more does. name is the article's external_ref, or # and its id."""

    article_id: int
    name: str
    title: str | None
    published: bool
    grade: int


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question of a gold set, with the best judgements first."""

    ref: str
    question: str
    judgements: tuple[Judgement, ...]


def gold_sets(connection: Connection, org_id: int, schema: str = DEFAULT) -> list[GoldSet]:
    """The gold sets of an organisation, by name."""
    rows = connection.execute(in_schema(_SETS, schema).encode(), {"org_id": org_id, "name": None})
    return [GoldSet(*row) for row in rows]


def gold_questions(connection: Connection, org_id: int, name: str, schema: str = DEFAULT) -> list[GoldQuestion]:
    """The questions of a gold set, in the order in which they were added.

    Raises:
        GoldError: the organisation has no such gold set.
    """
    keys = {"org_id": org_id, "name": name}
    if connection.execute(in_schema(_SETS, schema).encode(), keys).fetchone() is None:
        there = ", ".join(one.name for one in gold_sets(connection, org_id, schema))
        raise GoldError(f"there is no gold set {name!r}" + (f": there are {there}" if there else ", nor any other"))
    found: dict[str, tuple[str, list[Judgement]]] = {}
    for ref, question, article, title, published, article_id, grade in connection.execute(
        in_schema(_QUESTIONS, schema).encode(), keys
    ):
        judgements = found.setdefault(ref, (question, []))[1]
        if article_id is not None:
            judgements.append(Judgement(article_id, article, title, published, grade))
    return [GoldQuestion(ref, question, tuple(judged)) for ref, (question, judged) in found.items()]


def add_judgements(
    connection: Connection,
    org_id: int,
    name: str,
    question: str,
    grades: Mapping[int, int],
    *,
    schema: str = DEFAULT,
) -> str:
    """Judge articles for a question, and return the question's ref. Gold set and question are made where they are missing; a grade replaces another.

    Args:
        connection: writes all or nothing.
        org_id: the organisation.
        name: of the gold set.
        question: as a user asks it; leading and trailing white space means nothing. Its ref, or its text, may be that of one that is there.
        grades: by article id; 0 or more.
        schema: that kbsearch is installed in.

    Raises:
        GoldError: a grade is negative, there is no such article, or the question is blank.
    """
    question = question.strip()
    if not question:
        raise GoldError("the question is blank")
    _check_grades(grades)
    with connection.transaction():
        for article_id in grades:
            keys = {"org_id": org_id, "article_id": article_id}
            if connection.execute(in_schema(_ARTICLES_BY_ID, schema).encode(), keys).fetchone() is None:
                raise GoldError(f"the organisation has no article {article_id}")
        values = {"org_id": org_id, "name": name, "question": question, "ref": question}
        connection.execute(in_schema(_MAKE_SET, schema).encode(), values)
        row = connection.execute(in_schema(_FIND_QUESTION, schema).encode(), values).fetchone()
        values["ref"] = row[0] if row else hashlib.sha256(question.encode()).hexdigest()[:12]
        if row is None:
            connection.execute(in_schema(_ADD_QUESTION, schema).encode(), values)
        _judge(connection, org_id, name, str(values["ref"]), grades, schema)
    return str(values["ref"])


def articles_named(connection: Connection, org_id: int, names: Sequence[str], schema: str = DEFAULT) -> dict[str, int]:
    """Ids of articles by their names (external_ref, or # and the id where there is none); names that no article has are left out."""
    ids = [int(name[1:]) for name in names if name[:1] == "#" and name[1:].isdecimal() and len(name) < 18]  # noqa: PLR2004  (of a bigint)
    rows = connection.execute(
        in_schema(_ARTICLES_BY_NAME, schema).encode(), {"org_id": org_id, "names": list(names), "ids": ids}
    )
    return {str(name): int(article_id) for name, article_id in rows}


def remove(
    connection: Connection,
    org_id: int,
    name: str,
    *,
    question: str | None = None,
    article_id: int | None = None,
    schema: str = DEFAULT,
) -> None:
    """Remove a gold set; with a question (its text or ref) only that; with an article, too, only its judgement.

    Raises:
        GoldError: there is nothing like that.
    """
    with connection.transaction():
        found = gold_questions(connection, org_id, name, schema)
        if question is None:
            connection.execute(in_schema(_REMOVE_SET, schema).encode(), {"org_id": org_id, "name": name})
            return
        refs = [one.ref for one in found if question in (one.ref, one.question)]
        if not refs:
            raise GoldError(f"the gold set {name} has no question {question!r}")
        statement = _REMOVE_QUESTION if article_id is None else _REMOVE_JUDGEMENT
        keys = {"org_id": org_id, "name": name, "ref": refs[0], "article_id": article_id}
        if connection.execute(in_schema(statement, schema).encode(), keys).rowcount == 0:
            raise GoldError(f"the article {article_id} is not judged for the question {refs[0]}")


def questions(connection: Connection, org_id: int, name: str, schema: str = DEFAULT) -> tuple[Collection, int]:
    """A gold set to be asked (kbsearch.evaluate.evaluate_in_place), without documents; and how many questions have no judgement, which are left out.

    Raises:
        GoldError: there is no such gold set, or nothing is judged in it.
    """
    found = gold_questions(connection, org_id, name, schema)
    judged = [one for one in found if one.judgements]
    if not judged:
        raise GoldError(f"nothing is judged in the gold set {name}")
    collection = Collection(
        name=name,
        documents=(),
        queries=tuple(Query(one.ref, one.question) for one in judged),
        qrels={one.ref: {entry.name: entry.grade for entry in one.judgements} for one in judged},
    )
    return collection, len(found) - len(judged)


def export_gold(connection: Connection, org_id: int, name: str, folder: Path, schema: str = DEFAULT) -> None:
    """Write a gold set as a collection's folder: its questions and judgements, and all published articles as documents.

    Raises:
        GoldError: there is no such gold set, the folder is there and not empty or cannot be written, or a name has a tab or a line break in it.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise GoldError(f"{folder} exists and is no empty folder")
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        found = gold_questions(connection, org_id, name, schema)
        corpus = connection.execute(in_schema(_CORPUS, schema).encode(), {"org_id": org_id}).fetchall()
    judged = [(one.ref, entry.name, entry.grade) for one in found for entry in one.judgements]
    for ref, article, _ in judged:
        if len(f"{ref}{article}".splitlines()) > 1 or "\t" in ref + article:
            raise GoldError(f"a tab or a line break in {article!r} or {ref!r} has no place in qrels.tsv")
    files = {
        "corpus.jsonl": [
            json.dumps({"id": ref, "title": title or "", "text": text or ""}, ensure_ascii=False)
            for ref, title, text in corpus
        ],
        "queries.jsonl": [json.dumps({"id": one.ref, "text": one.question}, ensure_ascii=False) for one in found],
        "qrels.tsv": ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in judged)],
    }
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            for file, lines in files.items():
                (unfinished / file).write_bytes("".join(f"{line}\n" for line in lines).encode())
            unfinished.chmod(0o755)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise GoldError(f"cannot write {folder}: {error.strerror}") from error


def import_gold(
    connection: Connection,
    org_id: int,
    name: str,
    folder: Path,
    *,
    skip_missing: bool = False,
    schema: str = DEFAULT,
) -> tuple[int, int, int]:
    """Add the questions and judgements of a collection's folder, in any layout, to a gold set; a grade replaces another, all or nothing.

    Documents are the articles of these names; the folder's own documents are not read. A negative grade, as TREC has them, becomes 0.

    Args:
        connection: writes all or nothing.
        org_id: the organisation.
        name: of the gold set, which is made if it is missing.
        folder: of the collection.
        skip_missing: leave judgements of documents out that are no articles.
        schema: that kbsearch is installed in.

    Returns:
        How many questions and judgements there were, and how many judgements were left out.

    Raises:
        GoldError: a judged document is no article, or a question of the set has the same ref and another text.
        CollectionError: the folder cannot be read.
    """
    read = Questions.load(folder)
    if not read.queries:
        raise CollectionError(f"{folder.name} has no query")
    names = sorted({document for grades in read.qrels.values() for document in grades})
    done = skipped = 0
    with connection.transaction():
        known = articles_named(connection, org_id, names, schema)
        missing = [document for document in names if document not in known]
        if missing and not skip_missing:
            raise GoldError(
                f"{len(missing)} judged documents are no articles of the organisation, {missing[0]!r} the first of them: "
                "ingest them, or leave them out (--skip-missing)"
            )
        connection.execute(in_schema(_MAKE_SET, schema).encode(), {"org_id": org_id, "name": name})
        for query in read.queries:
            values = {"org_id": org_id, "name": name, "ref": query.id, "question": query.text.strip()}
            row = connection.execute(in_schema(_ADD_QUESTION, schema).encode(), values).fetchone()
            if row is None or row[0] != values["question"]:
                raise GoldError(f"the question {query.id} of the gold set {name} has another text")
            judged = read.qrels.get(query.id, {})
            grades = {known[document]: max(0, grade) for document, grade in judged.items() if document in known}
            _judge(connection, org_id, name, query.id, grades, schema)
            done, skipped = done + len(grades), skipped + len(judged) - len(grades)
    return len(read.queries), done, skipped


def _judge(connection: Connection, org_id: int, name: str, ref: str, grades: Mapping[int, int], schema: str) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            in_schema(_JUDGE, schema).encode(),
            [
                {"org_id": org_id, "name": name, "ref": ref, "article_id": article_id, "grade": grade}
                for article_id, grade in grades.items()
            ],
        )


def _check_grades(grades: Mapping[int, int]) -> None:
    for grade in grades.values():
        if not 0 <= grade < 2**31:
            raise GoldError(f"the grade {grade} is no whole number of 0 or more")
