"""Tuning on real questions: what is chosen holds on questions that it was not chosen on, and where nothing is better nothing is chosen."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest

from kbsearch.evaluate import Collection
from kbsearch.evaluate.choice import Tuning
from kbsearch.evaluate.statistics import ALPHA
from kbsearch.evaluate.tune import Plan, tune_collection

SHARED = Path(os.environ.get("KBSEARCH_SHARED") or Path(__file__).resolve().parents[3] / "shared") / "data"
"""Collections with relevance judgements, which are no part of the repository: in KBSEARCH_SHARED, or beside the checkout."""

if not SHARED.is_dir():
    pytest.skip(
        f"no collections with relevance judgements in {SHARED} (KBSEARCH_SHARED names another place)",
        allow_module_level=True,
    )

pytestmark = pytest.mark.timeout(900)


def _tuned(dsn: str, name: str, hold_out: float) -> Tuning:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return tune_collection(connection, Collection.load(SHARED / name), Plan(hold_out=hold_out)).tuning


def test_tuned_on_one_half_the_other_is_answered_better_which_has_no_paraphrase_of_it(shared_database: str) -> None:
    found = _tuned(shared_database, "stackfaq", 0.5)
    assert found.chosen is not None
    assert (found.questions, found.asked.refused) == (620, {})
    assert found.apart is not None
    assert found.apart.mean > 0.945
    assert found.apart.mean > found.apart.base
    assert found.apart.p <= ALPHA


def test_the_default_stays_where_nothing_is_significantly_better(shared_database: str) -> None:
    """On the training half of what it is tuned on something always looks better; it is chosen only if held-out questions say so."""
    found = _tuned(shared_database, "scifact", 0.0)
    weighted = next(family for family in found.families if family.setting.family == "weighted")
    assert weighted.tuned > weighted.held_out.base
    significant = [family for family in found.families if family.better]
    assert (found.chosen is None) == (significant == [])
    assert found.chosen is None
