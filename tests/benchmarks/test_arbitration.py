from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
import typer
from typer.testing import CliRunner

from benchmarks.arbitration import __main__ as command
from benchmarks.arbitration import collect as collecting
from benchmarks.arbitration import compare as comparing
from benchmarks.arbitration import tuning
from benchmarks.arbitration.collect import DEPTH, SEARCHED, Asked, answers, collect, fingerprint, missing, training
from benchmarks.arbitration.compare import (
    BASES,
    DifferentError,
    candidates,
    check_figures,
    check_searches,
    compare,
    difference,
    permutation_test,
    systems,
)
from benchmarks.arbitration.policies import BY_HAND, OWN, STEPS, Policy
from benchmarks.arbitration.rankings import NOBODY, Studied, best, ndcg, ranks, step, study
from benchmarks.arbitration.report import Found, markdown, table
from benchmarks.arbitration.tuning import Grid, best_policy, best_weight, floors
from kbsearch.arbitration import CLASSES
from kbsearch.evaluate import Collection, EvaluationDocument, Query, evaluate, measure

WORDS = ("filter", "pump", "valve", "gasket", "motor", "sensor", "hose", "seal")
GRID = Grid((2, 5), (0, 0.5), (0.2, 0.7), (0.4, 0.9), (0.5, 0.7, 1.0))


def track(items: Sequence[int], _description: str) -> Iterable[int]:
    return items


def asked(seed: int, questions: int = 30, documents: int = 40, keyword_gain: float = 0.2) -> Asked:
    """Legs that are right now and then, with ties, with questions that one leg or both alike answer, and one without anything relevant."""
    random = np.random.default_rng(seed)
    gains = (random.random((questions, documents)) < 0.08) * random.integers(1, 4, (questions, documents)).astype(float)
    gains[0] = 0
    near = np.round(random.uniform(-0.1, 0.6, gains.shape) + 0.2 * (gains > 0), 1)
    words = np.round(random.uniform(0, 0.6, gains.shape) + keyword_gain * (gains > 0), 1)
    words[random.random(gains.shape) < 0.7] = np.nan
    words[1:4] = np.nan
    words[4:12] = np.where(near[4:12] >= 0.5, near[4:12], words[4:12] / 2)  # the first articles of both are the same
    return Asked(
        queries=np.array([f"t{number % 7}q{number}" for number in range(questions)]),
        classes=random.choice(["question", "keywords", "quoted"], questions),
        similarity=near,
        keyword=words,
        gains=gains,
        searched=np.empty((0, questions, DEPTH), int),
        policies=np.array(
            json.dumps(
                {
                    "default@1": Policy().parameters(),
                    "reference@1": Policy(5, 0.3, 0.85, "apply_rule", "escalate").parameters(),
                }
            )
        ),
        source=np.array("here"),
        server=np.array("PostgreSQL 0"),
    )


@pytest.fixture(scope="module")
def sets() -> list[Studied]:
    return [study(asked(seed, keyword_gain=gain), track, "made up") for seed, gain in ((8, 0.9), (2, 0))]


def test_ndcg_is_that_of_the_evaluator() -> None:
    given = asked(3)
    tops = best(np.where(np.isnan(given.keyword), NOBODY, given.keyword), DEPTH)
    qrels = {
        str(row): {str(column): int(gain) for column, gain in enumerate(gains) if gain}
        for row, gains in enumerate(given.gains)
    }
    run = {str(row): [str(column) for column in top if column >= 0] for row, top in enumerate(tops)}
    judged = {row: grades for row, grades in qrels.items() if grades}
    scores = ndcg(tops, given.gains)
    assert len(judged) < len(scores)
    assert scores.sum() / len(judged) == pytest.approx(measure(judged, run)["nDCG@10"], abs=1e-9)


def test_ties_share_a_rank_and_are_ordered_by_column() -> None:
    scores = np.array([[0.5, 0.7, 0.5, NOBODY, 0.1]])
    assert ranks(scores)[0, :3].tolist() == [2, 1, 2]
    assert ranks(scores)[0, 4] == 4
    assert np.isnan(ranks(scores)[0, 3])
    assert best(scores, 6).tolist() == [[1, 0, 2, 4, -1, -1]]


def test_a_weight_is_a_multiple_of_a_step() -> None:
    assert (step(0.7), step(0.675), step(1)) == (28, 27, STEPS)
    with pytest.raises(ValueError, match="no multiple"):
        step(0.66)


def test_policies_tried_at_once_score_as_decided_one_by_one(sets: list[Studied]) -> None:
    decisions = [one for studied in sets for one in studied.decisions(Policy().parameters())]
    reached_exactly = {float(one.disagreement or 0) for one in decisions}
    limits = [limit for limit in sorted(reached_exactly) if 0 < limit == round(limit, 6)][-4:]
    grid = replace(GRID, max_disagreement=(0, *limits))
    means, tried = [], []
    for top_k in grid.top_k:
        compared = [tuning._compare(studied, top_k) for studied in sets]
        for policy, found in tuning._policies(sets, compared, grid, top_k):
            for (row, weight), (column, privilege) in product(enumerate(grid.vector_weight), enumerate(grid.privilege)):
                whole = replace(policy, vector_weight=weight, privilege=privilege)
                judged = [studied.judge(whole.parameters()).mean() for studied in sets]
                assert found[:, row, column] == pytest.approx(judged, abs=1e-12), str(whole)
                means.append(judged)
                tried.append(whole)
    mean, reached = np.mean(means, axis=1), (np.array(means) >= floors(sets)).all(axis=1)
    best_of_all = best_policy(sets, grid, track)
    assert best_of_all.tried == len(tried) == len(set(map(str, tried))) == 2 * 2 * 2 * 3 * (3 + 2 * len(limits))
    assert best_of_all.free.mean == pytest.approx(mean.max(), abs=1e-12)
    assert best_of_all.within.mean == pytest.approx(mean[reached].max(), abs=1e-12)
    assert best_of_all.within.mean < best_of_all.free.mean
    assert best_of_all.free.policy is not None
    again = [studied.judge(best_of_all.free.policy.parameters()).mean() for studied in sets]
    assert best_of_all.free.means == pytest.approx(again, abs=1e-12)


def test_the_best_weight_is_the_best_of_all(sets: list[Studied]) -> None:
    found = best_weight(sets)
    means = [np.mean([studied.at(number / STEPS).mean() for studied in sets]) for number in range(STEPS + 1)]
    assert found.free.vector_weight == int(np.argmax(means)) / STEPS
    assert found.tried == STEPS + 1


def test_an_escalated_question_has_no_answer(sets: list[Studied]) -> None:
    policy = Policy(5, 0.3, 0.85, "apply_rule", "escalate").parameters()
    escalated = sets[0].chosen(policy) < 0
    assert escalated.any()
    assert not escalated.all()
    assert (sets[0].judge(policy)[escalated] == 0).all()
    assert (sets[0].answer(policy)[escalated] == -1).all()


def test_halves_are_a_partition_by_sorted_id(sets: list[Studied]) -> None:
    first, second = sets[0].halves()
    order = sorted(sets[0].queries.tolist())
    assert (first.queries.tolist(), second.queries.tolist()) == (order[::2], order[1::2])
    row = sets[0].queries.tolist().index(second.queries[3])
    assert second.at(0.3)[3] == sets[0].at(0.3)[row]


def test_the_permutation_test_knows_chance_from_difference() -> None:
    random = np.random.default_rng(4)
    noise = random.normal(0, 1, 300)
    assert permutation_test(noise - noise.mean()) > 0.9
    assert permutation_test(noise - noise.mean() + 0.5) < 0.001
    assert permutation_test(np.zeros(5)) == 1
    # Four signs that all have to agree, either way: 2 of 16.
    assert permutation_test(np.array([1.0, 1, 1, 1])) == pytest.approx(2 / 16, abs=0.01)
    # Eight questions in two groups are two differences.
    assert permutation_test(np.ones(8), list("aaaabbbb")) == pytest.approx(2 / 4, abs=0.02)


def test_sets_weigh_the_same_in_a_mean() -> None:
    found = difference([np.ones(10), np.zeros(1000)], [np.zeros(10), np.zeros(1000)])
    assert found.value == pytest.approx(0.5)


def test_every_declared_policy_is_usable(sets: list[Studied]) -> None:
    for policy in BY_HAND.values():
        assert (sets[0].chosen(policy.parameters()) >= 0).all()
    assert all(name in CLASSES for policy in BY_HAND.values() for name in policy.class_rules)
    assert Policy().parameters()["max_disagreement"] == 0.7
    assert str(Policy()) == "as default@1"
    assert str(OWN) == (
        "max_disagreement 0.65, similarity_threshold 0.45, severe_rule apply_rule, vector_weight 0.55, privilege 0.7"
    )


def test_default_1_ranks_as_equal_weights(sets: list[Studied]) -> None:
    for studied in sets:
        assert np.array_equal(studied.judge(Policy().parameters()), studied.at(0.5))


def test_the_page_says_what_was_found(sets: list[Studied], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "PERMUTATIONS", 100)
    names = ("scifact", "cranfield", "stackfaq")
    held_out = dict(zip(names, [*sets, sets[0].halves()[1]], strict=True))
    weights, policies = best_weight(sets), best_policy(sets, GRID, track)
    chosen, builtin = candidates(weights, policies), asked(1).builtin()
    found = Found(
        rows=[compare(name, score, held_out) for name, score in systems(chosen, builtin).items()],
        candidates=chosen,
        tuning={"scifact-train": sets[0], "stackfaq": sets[1]},
        held_out=held_out,
        weights=weights,
        policies=policies,
        builtin=builtin,
        searches={name: dict.fromkeys(SEARCHED, 0.5) for name in names},
        server="PostgreSQL 0",
    )
    text = markdown(found)
    assert table(found).row_count == len(found.rows) == len(chosen) + 7
    assert "| weighted@1 | 0." in text
    assert f"of {policies.tried:,} policies" in text
    assert "| P4 | by hand |" in text
    assert "| P1 | highest mean |" in text
    assert "nan" not in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    heads = [number for number, line in enumerate(tables) if set(line) <= set("|-:")]
    for head, end in zip(heads, [*(head - 1 for head in heads[1:]), len(tables)], strict=True):
        assert len({line.count("|") for line in tables[head - 1 : end]}) == 1
    best_row = max((found.row(one.name) for one in chosen), key=lambda row: row.mean.value)
    assert f"The best of them is {best_row.name}: {best_row.mean.weighted.value:+.4f}" in text


def test_other_figures_than_those_of_evaluate_are_refused(sets: list[Studied]) -> None:
    with pytest.raises(DifferentError, match="cranfield: nDCG@10"):
        check_figures("cranfield", sets[0])


# With a server.


def collection(name: str = "small", documents: int = 30, questions: int = 12) -> Collection:
    """Documents of a few words, of which some are empty of text, some equal; vectors of four dimensions, with ties."""
    random = np.random.default_rng(9)

    def text(count: int) -> str:
        return " ".join(random.choice(WORDS, count).tolist())

    def vectors(count: int) -> Any:
        points = random.integers(-1, 3, (count, 4)).astype(np.float32) + np.float32(0.25)
        return points / np.linalg.norm(points, axis=1, keepdims=True)

    queries = tuple(Query(f"q{number}", text(3) if number else "unknown") for number in range(questions))
    return Collection(
        name=name,
        documents=tuple(
            EvaluationDocument(f"d{(number * 17) % documents:02}", text(2), text(6) if number % 5 else "")
            for number in range(documents)
        ),
        queries=queries,
        qrels={
            query.id: {f"d{document:02}": int(random.integers(1, 3)) for document in random.integers(0, documents, 3)}
            for query in queries
        },
        document_vectors=vectors(documents),
        query_vectors=vectors(questions),
    )


@pytest.fixture(scope="module")
def answered(shared_database: str) -> Asked:
    with psycopg.connect(shared_database, autocommit=True) as connection:
        return next(iter(answers(connection, [collection()], track, ["small"])))


def test_rankings_and_decisions_are_the_servers(answered: Asked, shared_database: str) -> None:
    studied = study(answered, track, "small")
    found = check_searches("small", answered, studied)
    assert list(found) == list(SEARCHED)
    assert found["arbitrate@1"] == found["weighted@1"]
    assert (answered.searched[SEARCHED.index("arbitrate_reference@1")] == -1).all(axis=1).any()
    with psycopg.connect(shared_database, autocommit=True) as connection:
        evaluation = evaluate(connection, collection(), systems={name: f"{name}@1" for name in BASES})
    for name, score in BASES.items():
        assert float(score(studied).mean()) == pytest.approx(evaluation.systems[name].metrics["nDCG@10"], abs=1e-9)


def test_another_ranking_than_the_servers_is_refused(answered: Asked) -> None:
    searched = answered.searched.copy()
    searched[1, 4, :2] = searched[1, 4, 1::-1]
    with pytest.raises(DifferentError, match="arbitrate@1: the server ranks 1 of 12 questions otherwise, q4"):
        check_searches("small", replace(answered, searched=searched), study(answered, track, "small"))


def test_collecting_leaves_nothing_in_the_database(connection: psycopg.Connection[Any]) -> None:
    list(answers(connection, [collection()], track, ["small"]))
    for name in ("organizations", "kb_articles", "kb_arbitration_policies", "kb_ranking_profiles"):
        row = connection.execute(f"SELECT count(*) FROM kbsearch.{name}".encode()).fetchone()
        assert row == (0,)


# On disk.


def write(folder: Path, given: Collection) -> None:
    folder.mkdir(parents=True)
    for suffix in ("", "_train"):
        lines = [json.dumps({"id": query.id, "text": query.text}) for query in given.queries]
        (folder / f"queries{suffix}.jsonl").write_text("\n".join(lines))
        judged = [f"{query}\t{one}\t{grade}" for query, grades in given.qrels.items() for one, grade in grades.items()]
        (folder / f"qrels{suffix}.tsv").write_text("\n".join(judged))
    lines = [json.dumps({"id": one.id, "title": one.title, "text": one.text}) for one in given.documents]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    assert given.document_vectors is not None
    assert given.query_vectors is not None
    np.save(folder / "minilm.docs.npy", given.document_vectors)
    np.save(folder / "minilm.queries.npy", given.query_vectors)


class Fixed:
    """Vectors by length."""

    def embed_queries(self, texts: Any) -> Any:
        return np.array([[len(text), 1, 1, 1] for text in texts], np.float32)


def test_the_training_split_has_the_same_documents(tmp_path: Path) -> None:
    write(tmp_path / "scifact", collection())
    given = Collection.load(tmp_path / "scifact")
    found = training(given, tmp_path / "scifact", Fixed())  # type: ignore[arg-type]
    assert found.name == "scifact-train"
    assert found.documents == given.documents
    assert found.query_vectors is not None
    assert found.query_vectors.shape == (12, 4)
    assert found.document_vectors is given.document_vectors


def test_what_is_collected_is_not_collected_again(
    tmp_path: Path, shared_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, collected = tmp_path / "shared", tmp_path / "collected"
    for name in ("scifact", "cranfield", "stackfaq"):
        write(shared / name, collection())
    assert missing(shared) == []
    started: list[str] = []

    class Server:
        def __enter__(self) -> psycopg.Connection[Any]:
            started.append("server")
            self.connection = psycopg.connect(shared_database, autocommit=True)
            return self.connection

        def __exit__(self, *_: object) -> None:
            self.connection.close()

    monkeypatch.setattr(collecting, "_server", Server)
    monkeypatch.setattr(collecting, "LocalEmbedder", Fixed)
    told: list[str] = []

    def stopping(items: Sequence[int], description: str) -> Iterable[int]:
        told.append(description)
        if description == "asking stackfaq":
            raise KeyboardInterrupt
        return items

    with pytest.raises(KeyboardInterrupt):
        collect(shared, collected, stopping)
    assert sorted(path.name for path in collected.iterdir()) == ["cranfield.npz", "scifact-train.npz", "scifact.npz"]

    def telling(items: Sequence[int], description: str) -> Iterable[int]:
        told.append(description)
        return items

    told.clear()
    first = collect(shared, collected, telling)
    assert told == ["asking stackfaq"]
    assert set(first) == {"scifact", "scifact-train", "cranfield", "stackfaq"}
    again = collect(shared, collected, telling)
    assert len(started) == 2
    for name, given in first.items():
        assert np.array_equal(again[name].similarity, given.similarity)
        assert np.array_equal(again[name].keyword, given.keyword, equal_nan=True)
        assert again[name].builtin() == given.builtin()
    assert len(first["scifact"].searched) == len(SEARCHED)
    assert len(first["scifact-train"].searched) == 0

    before = fingerprint(shared / "cranfield")
    (shared / "cranfield" / "queries.jsonl").write_text(
        (shared / "cranfield" / "queries.jsonl").read_text().replace("unknown", "pump")
    )
    assert fingerprint(shared / "cranfield") != before
    told.clear()
    collect(shared, collected, telling)
    assert told == ["asking cranfield"]


def test_missing_collections_are_named(tmp_path: Path) -> None:

    application = typer.Typer()
    application.command()(command.main)
    result = CliRunner().invoke(application, ["--collections", str(tmp_path), "--collected", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert "corpus.jsonl is missing" in result.stderr
    assert "KBSEARCH_SHARED" in result.stderr
