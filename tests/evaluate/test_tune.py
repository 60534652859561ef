"""Tuning from the questions to the stored profile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest

from kbsearch.client import KBSearch
from kbsearch.embed import CallableEmbedder
from kbsearch.errors import KBSearchError
from kbsearch.evaluate import Collection, EvaluationDocument, Query, evaluate
from kbsearch.evaluate.choice import RRF, WEIGHTS, Setting, TuningError
from kbsearch.evaluate.metrics import per_query
from kbsearch.evaluate.profiles import Kept, create_profile, present_profile, sql_of
from kbsearch.evaluate.run import load
from kbsearch.evaluate.tune import (
    DifferentRankingError,
    Plan,
    Question,
    ask,
    tune_collection,
    tune_in_place,
    verify,
)
from kbsearch.models import Chunk

Connection = psycopg.Connection[Any]
COUNT = 40


def collection(name: str = "small", *, vectors_are_right: bool = True) -> Collection:
    """A question for each document. One leg is right and the other misleads: words (or vectors) of a question are most like another document's."""
    right, wrong = np.eye(COUNT, dtype=np.float32), np.roll(np.eye(COUNT, dtype=np.float32), 1, axis=1)
    names = [f"word{number:02}" for number in range(COUNT)]
    said = names[1:] + names[:1] if vectors_are_right else names
    return Collection(
        name=name,
        documents=tuple(EvaluationDocument(f"d{number:02}", "", names[number]) for number in range(COUNT)),
        queries=tuple(Query(f"q{number:02}", said[number]) for number in range(COUNT)),
        qrels={f"q{number:02}": {f"d{number:02}": 1} for number in range(COUNT)},
        document_vectors=np.eye(COUNT, dtype=np.float32),
        query_vectors=(0.8 * right + 0.6 * wrong) if vectors_are_right else (0.6 * right + 0.8 * wrong),
    )


@pytest.fixture
def org(connection: Connection) -> int:
    row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('acme') RETURNING id").fetchone()
    assert row is not None
    return int(row[0])


def profiles(connection: Connection) -> list[tuple[Any, ...]]:
    query = "SELECT org_id, name, version, fusion, vector_weight FROM kbsearch.kb_ranking_profiles ORDER BY 1, 2, 3"
    return connection.execute(query).fetchall()


def organizations(connection: Connection) -> int:
    row = connection.execute("SELECT count(*) FROM kbsearch.organizations").fetchone()
    assert row is not None
    return int(row[0])


def test_a_better_profile_is_written_and_answers_as_computed(connection: Connection, org: int) -> None:
    tuned = tune_collection(connection, collection(), Plan(hold_out=0.25), org_id=org)
    assert tuned.profile == "tuned@1"
    assert tuned.tuning.chosen is not None
    setting = tuned.tuning.chosen.setting
    assert setting.vector_weight > 0.5
    assert (tuned.tuning.base, tuned.tuning.questions) == ("weighted@1", 30)
    assert profiles(connection) == [(org, "tuned", 1, setting.family, setting.vector_weight)]
    assert organizations(connection) == 1
    # What the tuning says of the questions apart is what evaluating says of them.
    assert tuned.tuning.apart is not None
    with connection.transaction(force_rollback=True):
        connection.execute(
            "INSERT INTO kbsearch.kb_builtin_profiles SELECT name, version, fusion, scorer, vector_weight, keyword_weight, rrf_k, "
            "kind_quota, policy, description FROM kbsearch.kb_ranking_profiles"
        )
        by_search = evaluate(connection, collection(), systems={"tuned": "tuned@1", "now": "weighted@1"})
    apart = [f"q{number:02}" for number in range(COUNT) if number % 4 == 3]
    for name, expected in (("tuned", tuned.tuning.apart.mean), ("now", tuned.tuning.apart.base)):
        run = by_search.systems[name].run
        values = per_query(run.qrels, run.rankings)["nDCG@10"]
        assert np.mean([values[query] for query in apart]) == pytest.approx(expected)


def test_where_nothing_is_better_nothing_is_written(connection: Connection, org: int) -> None:
    connection.execute("UPDATE kbsearch.organizations SET ranking_profile = 'vector@1'")
    tuned = tune_collection(connection, collection(), Plan(), org_id=org)
    assert (tuned.profile, tuned.tuning.chosen, tuned.tuning.base) == (None, None, "vector@1")
    assert profiles(connection) == []


def test_without_an_organisation_or_when_told_so_nothing_is_written(connection: Connection, org: int) -> None:
    for options in ({"org_id": None}, {"org_id": org, "write": False}):
        tuned = tune_collection(connection, collection(), Plan(), **options)
        assert tuned.tuning.chosen is not None
        assert tuned.profile is None
    assert profiles(connection) == []


def test_another_collection_on_which_it_is_worse_prevents_it(connection: Connection, org: int) -> None:
    other = collection("other", vectors_are_right=False)
    tuned = tune_collection(connection, collection(), Plan(), also=[other], org_id=org)
    assert (tuned.profile, tuned.tuning.chosen) == (None, None)
    assert "worse on other" in tuned.tuning.reason
    assert profiles(connection) == []
    same = tune_collection(connection, collection(), Plan(), also=[collection("same")], org_id=org)
    assert same.profile == "tuned@1"
    assert same.tuning.elsewhere["same"].difference > 0


def test_tuned_again_from_what_was_tuned_nothing_is_better(connection: Connection, org: int) -> None:
    first = tune_collection(connection, collection(), Plan(name="mine"), org_id=org)
    assert first.profile == "mine@1"
    connection.execute("UPDATE kbsearch.organizations SET ranking_profile = 'mine@1'")
    again = tune_collection(connection, collection(), Plan(name="mine"), org_id=org)
    assert (again.profile, again.tuning.base, again.tuning.best.held_out.difference) == (None, "mine@1", 0)
    unpinned = tune_collection(connection, collection(), Plan(name="mine", base="weighted@1"), org_id=org)
    assert unpinned.profile == "mine@1"  # the same again is no new version
    assert len(profiles(connection)) == 1


def test_an_organisation_is_tuned_as_it_is_by_the_names_of_its_articles(connection: Connection, org: int) -> None:
    given = collection()
    connection.execute(
        "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES ('s', 'one-hot', %s)", [COUNT]
    )
    with KBSearch(connection) as client:
        ids = [
            client.upsert_article(
                org,
                external_ref=None if one.id == "d03" else one.id,
                chunks=[Chunk(one.text, embedding=vector.tolist())],
                space_id=1,
            )
            for one, vector in zip(given.documents, np.eye(COUNT), strict=True)
        ]
    # An article without a name of its own is called by its id, as gold sets have it.
    qrels = {
        query: {(f"#{ids[3]}" if name == "d03" else name): grade for name, grade in grades.items()}
        for query, grades in given.qrels.items()
    }
    questions = Collection("gold", (), given.queries, qrels, None, given.query_vectors)
    dry = tune_in_place(connection, org, questions, Plan(), write=False)
    assert (dry.profile, dry.tuning.asked.queries[3]) == (None, "q03")
    assert profiles(connection) == []
    tuned = tune_in_place(connection, org, questions, Plan())
    assert tuned.profile == "tuned@1"
    assert tuned.tuning.chosen is not None
    assert tuned.tuning.asked.judge(tuned.tuning.chosen.setting)[3] == 1
    assert len(profiles(connection)) == 1


def test_what_the_server_answers_otherwise_is_not_believed(connection: Connection, org: int) -> None:
    given = collection()
    with connection.transaction(force_rollback=True):
        org_id = load(
            connection, given.documents, [[Chunk(one.text)] for one in given.documents], np.eye(COUNT, dtype=np.float32)
        )
        assert given.query_vectors is not None
        questions = [
            Question(one.id, one.text, str(vector.tolist()), given.qrels[one.id])
            for one, vector in zip(given.queries, given.query_vectors, strict=True)
        ]
        asked = ask(connection, org_id, questions, base="weighted@1")
        setting = Setting("weighted", 0.9)
        right = create_profile(connection, org_id, "right", setting)
        verify(connection, org_id, questions, asked, setting, right)
        with pytest.raises(DifferentRankingError, match="question q00"):
            verify(connection, org_id, questions, asked, setting, "keyword@1")


def test_versions_follow_each_other_and_policies_go_with_them(connection: Connection, org: int) -> None:
    by_class = Setting("weighted by class", 0.4, class_weights={"keywords": 0.7, "quoted": 0.1})
    made = [
        create_profile(connection, org, "mine", setting)
        for setting in (
            Setting("weighted", 0.925),
            Setting("weighted", 0.925),
            Setting("rrf", 0.9, 5),
            by_class,
            by_class,
            Setting("weighted by class", 0.4, class_weights={"keywords": 0.7}),
            Setting("weighted", 0.925, scorer="term_count"),
        )
    ]
    assert made == ["mine@1", "mine@1", "mine@2", "mine@3", "mine@3", "mine@4", "mine@5"]
    assert present_profile(connection, org, "mine@1").vector_weight == 0.925
    assert (present_profile(connection, org, "mine@2").fusion, present_profile(connection, org, "mine@2").rrf_k) == (
        "rrf",
        5,
    )
    assert [present_profile(connection, org, one).policy for one in made] == [
        *[None] * 3,
        "mine@1",
        "mine@1",
        "mine@2",
        None,
    ]
    quota = {"faq": 2}
    kept = create_profile(connection, org, "mine", Setting("weighted", 0.925), Kept(quota, "auto", 50))
    assert kept == "mine@6"
    assert present_profile(connection, org, kept).kept == Kept(quota, "auto", 50)
    assert present_profile(connection, org).name == "weighted@1"
    with pytest.raises(TuningError, match="no ranking profile"):
        present_profile(connection, org, "none")


def test_every_weight_that_is_tried_can_be_stored(connection: Connection, org: int) -> None:
    for weight in WEIGHTS:
        create_profile(connection, org, "w", Setting("weighted", weight))
    for k, weight in RRF:
        create_profile(connection, org, "r", Setting("rrf", weight, k))
    assert len(profiles(connection)) == len(WEIGHTS) + len(RRF)


def test_the_sql_that_is_shown_makes_the_same_profile(connection: Connection, org: int) -> None:
    for number, setting in enumerate(
        (
            Setting("weighted", 0.7),
            Setting("rrf", 0.9, 5),
            Setting("weighted by class", 0.4, class_weights={"question": 0.6}),
        )
    ):
        made = create_profile(connection, org, f"made{number}", setting, Kept({"faq": 1}, "exact"))
        connection.execute(
            sql_of(setting, f"shown{number}", Kept({"faq": 1}, "exact")).replace(":org_id", str(org)).encode()
        )
        one, other = (present_profile(connection, org, name) for name in (made, f"shown{number}@1"))
        assert replace(one, name="", policy=None) == replace(other, name="", policy=None)
        assert (one.policy is None) == (other.policy is None)


def test_where_searches_are_approximate_the_exact_rankings_are_tuned(connection: Connection, org: int) -> None:
    """There is no index: a search through it would be refused. The profile keeps how the present one retrieves."""
    connection.execute(
        "SELECT kbsearch.create_kb_ranking_profile_v1(p_org_id => %s, p_name => 'near', p_fusion => 'weighted', p_retrieval => 'ann')",
        [org],
    )
    tuned = tune_collection(connection, collection(), Plan(base="near@1"), org_id=org)
    assert (tuned.profile, tuned.tuning.base) == ("tuned@1", "near@1")
    assert present_profile(connection, org, "tuned@1").kept == Kept(None, "ann", None)
    assert len(profiles(connection)) == 2


def test_what_cannot_be_tuned_is_said(connection: Connection, org: int) -> None:
    with pytest.raises(TuningError, match="no ranking profile 'none@1'"):
        tune_collection(connection, collection(), Plan(base="none@1"), org_id=org)
    with pytest.raises(KBSearchError, match="the name"):
        tune_collection(connection, collection(), Plan(name="Not A Name"), org_id=org)
    assert organizations(connection) == 1


def test_a_question_that_the_search_refuses_counts_0_and_is_named(connection: Connection) -> None:
    given = collection()
    queries = (Query("q00", "x" * 40_000), *given.queries[1:])
    tuned = tune_collection(
        connection,
        Collection("c", given.documents, queries, given.qrels, given.document_vectors, given.query_vectors),
        Plan(),
    )
    asked = tuned.tuning.asked
    assert list(asked.refused) == ["q00"]
    assert (asked.base[0], asked.weighted[0].max(), asked.rrf[0].max()) == (0, 0, 0)
    assert tuned.tuning.chosen is not None


def test_nothing_is_embedded_while_a_transaction_is_open(connection: Connection, org: int) -> None:
    given = collection()
    seen: list[int] = []

    def embed(texts: list[str]) -> Any:
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        seen.append(len(texts))
        return np.eye(COUNT, dtype=np.float32)[[int(text[-2:]) for text in texts]]

    bare = replace(given, document_vectors=None, query_vectors=None)
    embedder = CallableEmbedder(embed, model="eye", dimensions=COUNT)
    tuned = tune_collection(connection, bare, Plan(), also=[replace(bare, name="other")], org_id=org, embedder=embedder)
    assert sum(seen) >= 2 * COUNT
    assert tuned.tuning.questions == COUNT
