"""Ask an organisation's legs about questions with judgements, choose a setting, check it against the server, and make a profile of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import psycopg

from kbsearch.embed.base import Embedder
from kbsearch.errors import EscalatedError, KBSearchError, translate
from kbsearch.evaluate.choice import (
    FOLDS,
    RRF,
    WEIGHTS,
    Asked,
    Setting,
    Tuning,
    decide,
    measure_difference,
    split_apart,
)
from kbsearch.evaluate.collection import Collection, prose
from kbsearch.evaluate.legs import DEPTH, Ids, ndcg, read_legs
from kbsearch.evaluate.profiles import NAME, NOTHING, Kept, copy_exact, create_profile, present_profile
from kbsearch.evaluate.run import Prepared, Split, load, prepare, vectors_of_queries
from kbsearch.schema import DEFAULT, in_schema

Connection: TypeAlias = psycopg.Connection[Any]
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is, and its size."""

_SEARCH = """SELECT found.article_id
FROM kbsearch.search_kb_hybrid_v1(
    p_org_id => %s, p_query_text => %s, p_query_embedding => %s, p_limit => %s, p_profile => %s, p_kind_quota => '{}') AS found
ORDER BY found.place"""
_IDS = """SELECT a.name, a.id
FROM (SELECT coalesce(external_ref, '#' || id) AS name, id FROM kbsearch.kb_articles WHERE org_id = %s) AS a
WHERE a.name = ANY (%s)"""


class DifferentRankingError(RuntimeError):
    """The server ranks otherwise than what the choice was made on; nothing is written."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to be asked: its id, its text as it is searched for, its vector as text, and its judgements by article's name."""

    id: str
    text: str
    vector: str | None
    grades: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """How to tune.

    Attributes:
        base: the profile to be better than; None: the organisation's present one.
        name: what a new profile is called.
        folds: parts that the questions are divided into.
        hold_out: share of the questions that is not looked at, and told at the end, 0 … below 1.
    """

    base: str | None = None
    name: str = NAME
    folds: int = FOLDS
    hold_out: float = 0.0


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was found, the profile that was written (None: none), and what a profile takes over from the present one."""

    tuning: Tuning
    profile: str | None
    kept: Kept = NOTHING


def tune_collection(
    connection: Connection,
    collection: Collection,
    plan: Plan,
    *,
    also: Sequence[Collection] = (),
    org_id: int | None = None,
    write: bool = True,
    split: Split = "none",
    embedder: Embedder | None = None,
    syntax: bool = False,
    progress: Progress = lambda _what, _done, _size: None,
    schema: str = DEFAULT,
) -> Tuned:
    """Tune on a collection, which is loaded for that and removed again.

    Args:
        connection: in autocommit mode, to a database with kbsearch.
        collection: documents, questions and judgements.
        plan: how.
        also: other collections; nothing is chosen that is significantly worse on one of them.
        org_id: organisation that a better profile is written into; its profiles are known while tuning. None: nothing is written.
        write: whether a better profile is written.
        split: how documents become chunks.
        embedder: needed for whatever a collection brings no vectors for.
        syntax: whether quotation marks and leading hyphens of the questions are operators.
        progress: told how far it is.
        schema: that kbsearch is installed in.

    Raises:
        TuningError: too few questions, or no such profile.
        DifferentRankingError: the server ranks otherwise than computed.
        ValueError: vectors are missing and there is no embedder.
        KBSearchError: the database refused something.
    """
    prepared, questions = _prepare(collection, split, embedder, syntax, progress)
    try:
        with connection.transaction(force_rollback=True):
            loaded = _load(connection, prepared, org_id, schema)
            base = plan.base or _pinned(connection, loaded if org_id is None else org_id, schema)
            tuned = _tune(connection, loaded, questions, replace(plan, base=base), progress, schema)
        tuning = tuned.tuning
        for other in also if tuning.chosen else ():
            prepared, questions = _prepare(other, split, embedder, syntax, progress)
            with connection.transaction(force_rollback=True):
                loaded = _load(connection, prepared, org_id, schema)
                scorer = present_profile(connection, loaded, base, schema).scorer
                asked = _ask_exactly(connection, loaded, questions, tuning.base, scorer, progress, schema)
            tuning = tuning.measured(other.name, asked)
        profile = None
        if tuning.chosen and org_id is not None and write:
            profile = create_profile(connection, org_id, plan.name, tuning.chosen.setting, tuned.kept, schema)
    except psycopg.DatabaseError as error:
        raise translate(error, schema) from error
    return Tuned(tuning, profile, tuned.kept)


def tune_in_place(
    connection: Connection,
    org_id: int,
    questions: Collection,
    plan: Plan,
    *,
    write: bool = True,
    embedder: Embedder | None = None,
    syntax: bool = True,
    progress: Progress = lambda _what, _done, _size: None,
    schema: str = DEFAULT,
) -> Tuned:
    """Tune on an organisation as it is, from the data of one moment.

    Args:
        connection: in autocommit mode.
        org_id: the organisation.
        questions: queries and judgements by the articles' names; documents are not needed.
        plan: how.
        write: whether a better profile is written.
        embedder: of the organisation's active space; needed where the questions bring no vectors.
        syntax: whether quotation marks and leading hyphens are operators, as in a search.
        progress: told how far it is.
        schema: that kbsearch is installed in.

    Raises:
        TuningError: too few questions, or no such profile.
        DifferentRankingError: the server ranks otherwise than computed.
        ValueError: vectors are missing and there is no embedder.
        KBSearchError: the database refused something.
    """
    asked = _questions(questions, embedder, syntax, progress)
    try:
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            base = plan.base or _pinned(connection, org_id, schema)
            tuned = _tune(connection, org_id, asked, replace(plan, base=base), progress, schema)
            if tuned.tuning.chosen is None or not write:
                return tuned
            setting = tuned.tuning.chosen.setting
            return replace(tuned, profile=create_profile(connection, org_id, plan.name, setting, tuned.kept, schema))
    except psycopg.DatabaseError as error:
        raise translate(error, schema) from error


def _tune(
    connection: Connection, org_id: int, questions: Sequence[Question], plan: Plan, progress: Progress, schema: str
) -> Tuned:
    present = present_profile(connection, org_id, plan.base, schema)
    with connection.transaction(force_rollback=True):
        asked = _ask_exactly(connection, org_id, questions, present.name, present.scorer, progress, schema)
        chosen_on, apart = split_apart(asked, plan.hold_out)
        tuning = decide(chosen_on, present.name, scorer=present.scorer, folds=plan.folds)
        setting = tuning.best.setting
        if tuning.chosen is not None:
            profile = create_profile(connection, org_id, plan.name, setting, Kept(retrieval="exact"), schema)
            verify(connection, org_id, questions, asked, setting, profile, progress, schema)
    if apart.queries:
        tuning = replace(tuning, apart=measure_difference(apart.judge(setting), apart.base, apart.groups))
    return Tuned(tuning, None, present.kept)


def _ask_exactly(
    connection: Connection,
    org_id: int,
    questions: Sequence[Question],
    base: str,
    scorer: str,
    progress: Progress,
    schema: str,
) -> Asked:
    """Ask with a copy of the present profile that compares all chunks, as the legs are read. For a transaction that is rolled back."""
    copied = copy_exact(connection, org_id, base, f"copied_{uuid.uuid4().hex}", schema)
    return ask(connection, org_id, questions, base=copied, scorer=scorer, progress=progress, schema=schema)


def ask(
    connection: Connection,
    org_id: int,
    questions: Sequence[Question],
    *,
    base: str,
    scorer: str = "bm25",
    progress: Progress = lambda _what, _done, _size: None,
    schema: str = DEFAULT,
) -> Asked:
    """Read both legs of every question, rank by every setting, and search by the present profile.

    Quotas by kind are left out: they cut what weights have ranked. A question that a search refuses counts 0 everywhere, one that the present
    profile escalates counts 0 for it.

    Args:
        connection: in a transaction, to a database with kbsearch.
        org_id: whose articles are judged.
        questions: with judgements.
        base: the present profile, name@version.
        scorer: of the keyword leg.
        progress: told how far it is.
        schema: that kbsearch is installed in.
    """
    count = len(questions)
    weighted, ranked = np.zeros((count, len(WEIGHTS))), np.zeros((count, len(RRF)))
    weighted_tops = np.full((count, len(WEIGHTS), DEPTH), -1)
    rrf_tops = np.full((count, len(RRF), DEPTH), -1)
    present = np.zeros(count)
    classes: list[str] = []
    refused: dict[str, str] = {}
    names = sorted({name for question in questions for name in question.grades})
    ids = dict(connection.execute(in_schema(_IDS, schema).encode(), (org_id, names)).fetchall())
    for row, question in enumerate(questions):
        grades = {ids[name]: grade for name, grade in question.grades.items() if name in ids}
        ideal = list(question.grades.values())
        classes.append("empty")
        try:
            with connection.transaction():
                legs = read_legs(connection, org_id, question.text, question.vector, scorer, schema)
            classes[row] = legs.query_class
            weighted_tops[row], rrf_tops[row] = legs.best(legs.weighted(WEIGHTS)), legs.best(legs.rrf(RRF))
            weighted[row], ranked[row] = ndcg(weighted_tops[row], grades, ideal), ndcg(rrf_tops[row], grades, ideal)
            with connection.transaction():
                tops = search(connection, org_id, question, base, schema)
            present[row] = ndcg(tops[None, :], grades, ideal)[0]
        except psycopg.DatabaseError as error:
            fault = translate(error, schema)
            if not isinstance(fault, KBSearchError):
                raise
            if not isinstance(fault, EscalatedError):
                refused[question.id] = str(fault)
        progress("ask", row + 1, count)
    relevant = [tuple(sorted(name for name, grade in question.grades.items() if grade > 0)) for question in questions]
    numbers = {one: number for number, one in enumerate(sorted(set(relevant)))}
    return Asked(
        queries=tuple(question.id for question in questions),
        classes=tuple(classes),
        groups=np.array([numbers[one] for one in relevant], dtype=np.int64),
        base=present,
        weighted=weighted,
        rrf=ranked,
        weighted_tops=weighted_tops,
        rrf_tops=rrf_tops,
        refused=refused,
    )


def search(connection: Connection, org_id: int, question: Question, profile: str, schema: str = DEFAULT) -> Ids:
    """The ids of the first ten articles of a search without quotas, -1 where there are no more."""
    values = (org_id, question.text, question.vector, DEPTH, profile)
    found = [article for (article,) in connection.execute(in_schema(_SEARCH, schema).encode(), values)]
    return np.array(found + [-1] * (DEPTH - len(found)), dtype=np.int64)


def verify(
    connection: Connection,
    org_id: int,
    questions: Sequence[Question],
    asked: Asked,
    setting: Setting,
    profile: str,
    progress: Progress = lambda _what, _done, _size: None,
    schema: str = DEFAULT,
) -> None:
    """Search by a profile, and compare the first ten articles of each question with those that the setting was chosen by.

    Raises:
        DifferentRankingError: they are others.
    """
    expected = dict(zip(asked.queries, asked.tops(setting), strict=True))
    wanted = [question for question in questions if question.id in expected and question.id not in asked.refused]
    for done, question in enumerate(wanted, 1):
        found = search(connection, org_id, question, profile, schema)
        if not np.array_equal(found, expected[question.id]):
            raise DifferentRankingError(
                f"the server answers question {question.id} by the articles {found.tolist()}, and {expected[question.id].tolist()} were computed "
                f"for {setting}; nothing is written"
            )
        progress("verify", done, len(wanted))


_PINNED = "SELECT ranking_profile FROM kbsearch.organizations WHERE id = %s"
_COPIED = (
    """INSERT INTO kbsearch.kb_arbitration_policies (
    org_id, name, version, top_k, penalty, max_disagreement, similarity_threshold, moderate_rule, severe_rule, advisory_leg, calibrated,
    vector_weight, keyword_weight, privilege, class_rules, description)
SELECT %s, name, version, top_k, penalty, max_disagreement, similarity_threshold, moderate_rule, severe_rule, advisory_leg, calibrated,
    vector_weight, keyword_weight, privilege, class_rules, description
FROM kbsearch.kb_arbitration_policies WHERE org_id = %s""",
    """INSERT INTO kbsearch.kb_ranking_profiles (
    org_id, name, version, fusion, scorer, vector_weight, keyword_weight, rrf_k, kind_quota, policy, retrieval,
    ann_window, description)
SELECT %s, name, version, fusion, scorer, vector_weight, keyword_weight, rrf_k, kind_quota, policy, retrieval, ann_window, description
FROM kbsearch.kb_ranking_profiles WHERE org_id = %s""",
)


def _pinned(connection: Connection, org_id: int, schema: str) -> str:
    row = connection.execute(in_schema(_PINNED, schema).encode(), [org_id]).fetchone()
    return "weighted@1" if row is None else str(row[0])


def _prepare(
    collection: Collection, split: Split, embedder: Embedder | None, syntax: bool, progress: Progress
) -> tuple[Prepared, list[Question]]:
    """All that takes an embedder's time; no transaction is open meanwhile."""
    return prepare(collection, split, embedder, progress), _questions(collection, embedder, syntax, progress)


def _load(connection: Connection, prepared: Prepared, org_id: int | None, schema: str) -> int:
    """Load a collection into an organisation of its own, with the profiles of another one, and return its id."""
    loaded = load(connection, prepared.documents, prepared.chunks, prepared.vectors, schema)
    if org_id is not None:
        for statement in _COPIED:
            connection.execute(in_schema(statement, schema).encode(), (loaded, org_id))
    return loaded


def _questions(collection: Collection, embedder: Embedder | None, syntax: bool, progress: Progress) -> list[Question]:
    vectors = vectors_of_queries(collection, embedder, progress)
    return [
        Question(
            query.id,
            query.text if syntax else prose(query.text),
            str(vector.tolist()),
            collection.qrels.get(query.id, {}),
        )
        for query, vector in zip(collection.queries, vectors, strict=True)
    ]
