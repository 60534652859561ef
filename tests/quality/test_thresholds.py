"""How well real questions are answered: a change of ranking that makes it worse fails here."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import psycopg
import pytest

from kbsearch.evaluate import SYSTEMS, Collection, Evaluation, evaluate

SHARED = Path(os.environ.get("KBSEARCH_SHARED") or Path(__file__).resolve().parents[3] / "shared") / "data"
"""Collections with relevance judgements, which are no part of the repository: in KBSEARCH_SHARED, or beside the checkout."""

if not SHARED.is_dir():
    pytest.skip(
        f"no collections with relevance judgements in {SHARED} (KBSEARCH_SHARED names another place)",
        allow_module_level=True,
    )

THRESHOLDS = {
    "scifact": {"keyword": 0.70, "weighted": 0.735},
    "cranfield": {"keyword": 0.365, "weighted": 0.415},
    "stackfaq": {"keyword": 0.76, "weighted": 0.93},
}
"""nDCG@10, one chunk a document, with the vectors that the collections bring."""
ASKED = ("keyword", "rrf", "weighted")


@cache
def _evaluation(name: str, dsn: str) -> Evaluation:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return evaluate(connection, Collection.load(SHARED / name), systems={name: SYSTEMS[name] for name in ASKED})


@pytest.fixture(params=sorted(THRESHOLDS))
def evaluation(request: pytest.FixtureRequest, shared_database: str) -> Evaluation:
    return _evaluation(str(request.param), shared_database)


def test_keyword_leg_and_weighted_fusion_reach_their_thresholds(evaluation: Evaluation) -> None:
    found = {name: result.metrics["nDCG@10"] for name, result in evaluation.systems.items()}
    for system, threshold in THRESHOLDS[evaluation.collection].items():
        assert found[system] >= threshold, f"{evaluation.collection}, {system}: {found}"


def test_weighted_fusion_is_better_than_rank_fusion(evaluation: Evaluation) -> None:
    systems = evaluation.systems
    assert systems["weighted"].metrics["nDCG@10"] > systems["rrf"].metrics["nDCG@10"]


def test_every_question_was_asked(evaluation: Evaluation) -> None:
    assert evaluation.refused == {}
    assert evaluation.chunks == evaluation.documents
