"""Statistics of comparisons: against enumeration, known values, and what must hold whatever the numbers."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbsearch.evaluate.statistics import (
    ALPHA,
    Array,
    bootstrap_interval,
    changes,
    compare_metrics,
    detectable_difference,
    holm,
    overlap,
    randomization_test,
)

# Metrics of single questions take few values; so differences are often equal, and often 0.
DIFFERENCES = st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=9)


def array(values: list[float]) -> Array:
    return np.array(values, dtype=np.float64)


def enumerated(values: list[float]) -> float:
    """Share of all ways to swap that give a sum as far from 0."""
    observed = abs(math.fsum(values))
    sums = [
        abs(math.fsum(sign * value for sign, value in zip(signs, values, strict=True)))
        for signs in product((1, -1), repeat=len(values))
    ]
    return sum(one >= observed - 1e-12 for one in sums) / len(sums)


@given(DIFFERENCES)
@example([0.0])
@example([1.0])
@example([1.0] * 9)
@example([0.0, 0.5, -0.5])
@settings(deadline=None)
def test_of_few_questions_every_swap_is_tried(values: list[float]) -> None:
    assert randomization_test(array(values)) == pytest.approx(enumerated(values))


def test_of_many_questions_random_swaps_come_close_to_all_of_them() -> None:
    values = array([0.5, -0.25, 0.25, 0.5, 0.125, 0.5, -0.5, 0.25, 1.0, 0.25, -0.125, 0.5])
    exact = randomization_test(values)
    assert exact == pytest.approx(enumerated(values.tolist()))
    drawn = randomization_test(values, resamples=4000)  # of 4,096 ways
    # Four standard errors of a share of 4,000 draws, on either side of the two-sided p.
    assert drawn == pytest.approx(exact, abs=8 * math.sqrt(exact * (1 - exact) / 4000))
    assert drawn != exact


def test_p_is_never_0_and_a_seed_gives_one_p() -> None:
    values = np.full(400, 0.1)
    assert randomization_test(values) == pytest.approx(2 / 10_000)
    noise = np.random.default_rng(3).normal(0.01, 0.2, 300)
    assert randomization_test(noise) == randomization_test(noise) != randomization_test(noise, seed=1)


@given(DIFFERENCES)
@settings(deadline=None, max_examples=30)
def test_swapping_the_systems_changes_signs_and_no_p(values: list[float]) -> None:
    first = np.zeros(len(values))
    (forth,), _ = compare_metrics({"m": first}, {"m": values}, resamples=200)
    (back,), _ = compare_metrics({"m": values}, {"m": first}, resamples=200)
    assert (forth.difference, forth.p, forth.deviation, forth.detectable) == pytest.approx(
        (-back.difference, back.p, back.deviation, back.detectable), nan_ok=True
    ) or forth.detectable is None
    assert (forth.wins, forth.losses, forth.ties) == (back.losses, back.wins, back.ties)
    assert forth.wins + forth.losses + forth.ties == len(values)


def test_differences_by_chance_are_called_real_no_oftener_than_said() -> None:
    """1,000 comparisons of two systems that differ in nothing but chance; at most alpha and 2 standard errors of them find one."""
    rng = np.random.default_rng(11)
    found = 0
    for _ in range(1000):
        first, second = rng.beta(2, 1, (2, 60))
        compared, _ = compare_metrics(
            {"nDCG@10": first, "RR": first**2}, {"nDCG@10": second, "RR": second**2}, resamples=499
        )
        found += any(one.real for one in compared)
    assert found <= 1000 * (ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / 1000))
    assert found > 0


def test_a_difference_as_large_as_the_detectable_one_is_found_as_often_as_said() -> None:
    rng = np.random.default_rng(5)
    spread = rng.normal(0, 0.2, 100)
    detectable = detectable_difference(spread)
    assert detectable == pytest.approx(2.83 * spread.std(ddof=1) / 10, rel=0.01)
    assert detectable is not None
    deviation = float(spread.std(ddof=1))
    found = sum(randomization_test(rng.normal(detectable, deviation, 100), resamples=499) <= ALPHA for _ in range(400))
    assert found / 400 == pytest.approx(0.8, abs=3 * math.sqrt(0.8 * 0.2 / 400))


def test_an_interval_holds_the_true_mean_as_often_as_said() -> None:
    rng = np.random.default_rng(9)
    held = 0
    for _ in range(300):
        values = rng.choice([-0.5, 0.0, 0.0, 0.25, 0.5], 80)
        interval = bootstrap_interval(values, resamples=499)
        held += interval.low <= 0.05 <= interval.high
    assert held / 300 == pytest.approx(0.95, abs=0.04)


def test_where_nothing_differs_there_is_nothing_to_tell() -> None:
    for values in (np.zeros(5), np.zeros(1)):
        interval = bootstrap_interval(values)
        assert (interval.low, interval.high, len(interval.means)) == (0, 0, 0)
        assert randomization_test(values) == 1
        assert detectable_difference(values) is None
    (one,), _ = compare_metrics({"m": [0.3, 0.4]}, {"m": [0.1 + 0.2, 0.4]})
    assert (one.difference, one.ties, one.real) == (0, 2, False)


def test_one_question_alone_shows_nothing() -> None:
    (one,), intervals = compare_metrics({"m": [0.0]}, {"m": [1.0]})
    assert (one.p, one.real, one.wins, one.detectable, one.deviation) == (1, False, 1, None, 0)
    assert (one.low, one.high) == (1, 1)
    assert len(intervals["m"].means) == 0


def test_holm_has_known_values() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0.0001, 1), min_size=1, max_size=8))
def test_holm_keeps_the_order_and_is_between_p_and_bonferroni(p: list[float]) -> None:
    adjusted = holm(p)
    for raw, one in zip(p, adjusted, strict=True):
        assert raw <= one <= min(1, len(p) * raw)
    by_p = [one for _, one in sorted(zip(p, adjusted, strict=True))]
    assert by_p == sorted(by_p)


def test_a_difference_within_that_of_two_builds_is_none() -> None:
    first, second = np.zeros(50), np.full(50, 0.02)
    second[::2] = 0.04
    for same, real in ((0.0, True), (0.029, True), (0.03, False), (0.5, False)):
        (one,), _ = compare_metrics({"m": first}, {"m": second}, same={"m": same, "other": 1.0})
        assert (one.significant, one.real, one.is_better, one.is_worse) == (True, real, real, False)
    (worse,), _ = compare_metrics({"m": second}, {"m": first})
    assert (worse.is_better, worse.is_worse) == (False, True)


def test_significance_is_that_of_all_metrics_together() -> None:
    """p is 2/2^6 = .03125 for each: one metric alone shows it, two do not."""
    values = [0.1, 0.2, 0.1, 0.3, 0.1, 0.2]
    zeros = [0.0] * 6
    (alone,), _ = compare_metrics({"a": zeros}, {"a": values})
    assert alone.p == pytest.approx(0.03125)
    assert alone.real
    together, _ = compare_metrics({"a": zeros, "b": zeros}, {"a": values, "b": values})
    assert [one.p_adjusted for one in together] == pytest.approx([0.0625, 0.0625])
    assert not any(one.real for one in together)


def test_what_is_not_paired_is_refused() -> None:
    for first, second in (
        ({"a": [0.0]}, {"b": [0.0]}),
        ({"a": [0.0]}, {"a": [0.0, 1.0]}),
        ({}, {}),
        ({"a": []}, {"a": []}),
    ):
        with pytest.raises(ValueError, match="not measured"):
            compare_metrics(first, second)


def test_what_is_rounding_is_no_difference() -> None:
    assert changes(array([0.3, 0.0]), array([0.1 + 0.2, 1e-9])).tolist() == [0.0, 1e-9]


def test_overlap_of_rankings_has_known_values() -> None:
    assert overlap(["a", "b"], ["a", "b"]) == 1
    assert overlap([], []) == 1
    assert overlap(["a"], []) == overlap(["a", "b"], ["c", "d"]) == 0
    # Depth 1: 0, depth 2: 1; extrapolated at p = .9: .1 * (0 + .9 * 1) / .9 * .9 + .81 …, equation 32 by hand.
    assert overlap(["a", "b"], ["b", "a"]) == pytest.approx((1 - 0.9) / 0.9 * (0.81) + 0.81)
    assert overlap(["x", "a", "b"], ["x", "a", "c"]) > overlap(["a", "b", "x"], ["c", "b", "x"])
