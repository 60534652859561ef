"""Comparisons on real questions: chance is not called a difference, and a real improvement is."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path

import numpy as np
import psycopg
import pytest

from kbsearch.evaluate import Collection, SavedRun, evaluate
from kbsearch.evaluate.compare import compare
from kbsearch.evaluate.metrics import per_query
from kbsearch.evaluate.statistics import ALPHA, compare_metrics

SHARED = Path(os.environ.get("KBSEARCH_SHARED") or Path(__file__).resolve().parents[3] / "shared") / "data"
"""Collections with relevance judgements, which are no part of the repository: in KBSEARCH_SHARED, or beside the checkout."""

if not SHARED.is_dir():
    pytest.skip(
        f"no collections with relevance judgements in {SHARED} (KBSEARCH_SHARED names another place)",
        allow_module_level=True,
    )

pytestmark = pytest.mark.timeout(900)

SYSTEMS = {
    "weighted": "weighted@1",
    "again": "again@1",
    "rrf": "rrf@1",
    "keyword": "keyword@1",
    "term_count": "term_count@1",
}
_AGAIN = """INSERT INTO kbsearch.kb_builtin_profiles (name, version, fusion, scorer, vector_weight, keyword_weight)
SELECT 'again', 1, fusion, scorer, vector_weight, keyword_weight FROM kbsearch.kb_builtin_profiles WHERE name = 'weighted'"""


@cache
def _runs(dsn: str) -> dict[str, SavedRun]:
    with psycopg.connect(dsn, autocommit=True) as connection, connection.transaction(force_rollback=True):
        connection.execute(_AGAIN)
        found = evaluate(connection, Collection.load(SHARED / "scifact"), systems=SYSTEMS)
    assert found.refused == {}
    return {name: result.run for name, result in found.systems.items()}


@pytest.fixture
def runs(shared_database: str) -> dict[str, SavedRun]:
    return _runs(shared_database)


def test_labels_swapped_at_random_are_called_different_no_oftener_than_said(runs: dict[str, SavedRun]) -> None:
    """`weighted` and `rrf` with their names swapped by coin for each question, 1,000 times: at most alpha and 2 standard errors find a difference."""
    measured = [per_query(runs[name].qrels, runs[name].rankings) for name in ("weighted", "rrf")]
    queries = sorted(runs["weighted"].qrels)
    table = {
        metric: np.array([[values[metric][query] for query in queries] for values in measured])
        for metric in ("nDCG@10", "R@10", "RR")
    }
    # As they are, they do differ; without that the test could not fail.
    assert compare_metrics(*({metric: values[one] for metric, values in table.items()} for one in (1, 0)))[0][
        0
    ].is_better
    drawn = np.random.default_rng(17)
    different = 0
    for _ in range(1000):
        coin = drawn.integers(0, 2, len(queries))
        swapped = [
            {metric: values[side, np.arange(len(queries))] for metric, values in table.items()}
            for side in (coin, 1 - coin)
        ]
        found, _ = compare_metrics(*swapped, resamples=499)
        different += any(metric.real for metric in found)
    assert different / 1000 <= ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / 1000)
    assert different > 0


def test_two_identical_profiles_differ_in_no_question(runs: dict[str, SavedRun]) -> None:
    found = compare(runs["weighted"], runs["again"])
    assert found.undeclared == ()
    assert {field.name for field in found.fields} >= {"system.name", "system.profile"}
    assert (found.verdict, found.identical, found.questions, found.changed) == ("no difference", 300, 300, ())


def test_bm25_is_called_better_than_counting_words(runs: dict[str, SavedRun]) -> None:
    found = compare(runs["term_count"], runs["keyword"])
    assert found.undeclared == ()
    assert found.verdict == "better"
    assert all(metric.is_better for metric in found.metrics)
    assert compare(runs["keyword"], runs["term_count"]).is_worse
