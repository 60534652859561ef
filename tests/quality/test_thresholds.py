"""How well real questions are answered: a change of ranking that makes it worse fails here."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import psycopg
import pytest

from kbsearch.evaluate import METRICS, SYSTEMS, Collection, Evaluation, evaluate

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
ASKED = ("vector", "keyword", "rrf", "weighted")
TABLE = {
    "scifact": {"vector": 0.647, "keyword": 0.701, "rrf": 0.717, "weighted": 0.736},
    "cranfield": {"vector": 0.377, "keyword": 0.368, "rrf": 0.412, "weighted": 0.420},
    "stackfaq": {"vector": 0.951, "keyword": 0.763, "rrf": 0.884, "weighted": 0.931},
}
"""nDCG@10 of the same systems in the README of the collections: vectors compared exactly elsewhere, the others by the prototype of kbsearch."""
TOLERANCE = {"vector": 0.001, "keyword": 0.005, "rrf": 0.005, "weighted": 0.005}
"""Of nDCG. The prototype analysed words otherwise."""
LONGER = {("cranfield", "keyword"): 0.007}
"""Calibrated, Cranfield's reference length is 81: its keyword leg gains .0034 over the prototype's 100, at which it has .371."""


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


def test_systems_have_the_figures_of_the_collections_table(evaluation: Evaluation) -> None:
    for system, usual in TOLERANCE.items():
        found = evaluation.systems[system].metrics["nDCG@10"]
        tolerance = LONGER.get((evaluation.collection, system), usual)
        assert found == pytest.approx(TABLE[evaluation.collection][system], abs=tolerance), system


def test_metrics_are_those_of_the_command_line_on_the_saved_runs(evaluation: Evaluation, tmp_path: Path) -> None:
    """ir_measures, as a program of its own, on what was saved: means to the digits that it prints."""
    for name, result in evaluation.systems.items():
        result.run.save(tmp_path)
        command = [sys.executable, "-W", "ignore", "-m", "ir_measures", "-p", "9", "qrels", f"{name}.run", *METRICS]
        printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=200).stdout
        expected = {measure: float(value) for measure, value in map(str.split, printed.splitlines())}
        assert dict(result.metrics) == pytest.approx(expected, abs=1e-8), name
