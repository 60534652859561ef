"""Whether two systems differ on the questions they were both asked, or whether chance would do the same.

Everything is paired: a difference is one question's metric under the second system less that under the first. Tests and intervals are scipy's;
their random draws come from a fixed seed, so the same values give the same digits.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kbsearch.arbitration import rank_biased_overlap

ALPHA = 0.05
"""How often chance alone may pass for a difference, over all metrics of a comparison together."""
POWER = 0.8
"""How often a difference of the smallest size that is called detectable would be found."""
RESAMPLES = 9_999
"""Random relabellings of a test, and resamples of an interval."""
SEED = 20_101
CONFIDENCE = 0.95
CHANGED = 1e-12
"""Differences of metrics below this are rounding, and count as none."""

Array: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A bootstrap interval of the mean difference, and the means that it was read from (one a resample; empty where nothing differs)."""

    low: float
    high: float
    means: Array


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric of two systems, over the same questions.

    Attributes:
        metric: its name.
        first: mean of the first system.
        second: mean of the second.
        difference: second - first.
        low: lower end of the bootstrap interval of the difference.
        high: its upper end.
        p: two-sided p of the paired randomisation test.
        p_adjusted: the same, adjusted for the number of metrics (Holm).
        wins: questions that the second system answers better.
        losses: those that it answers worse.
        ties: the others.
        deviation: standard deviation of the questions' differences.
        detectable: smallest difference that these questions would show (`detectable_difference`); None where all differ alike (by nothing, for
            instance), or there is one question.
        same: how far the metric moves when one configuration is built twice; a difference within it is none.
        significant: whether p_adjusted is at most the error level.
        real: significant, and greater than `same`.
    """

    metric: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float
    p_adjusted: float
    wins: int
    losses: int
    ties: int
    deviation: float
    detectable: float | None
    same: float
    significant: bool
    real: bool

    @property
    def is_better(self) -> bool:
        """Whether the second system is really better."""
        return self.real and self.difference > 0

    @property
    def is_worse(self) -> bool:
        """Whether the second system is really worse."""
        return self.real and self.difference < 0


def compare_metrics(
    first: Mapping[str, Sequence[float] | Array],
    second: Mapping[str, Sequence[float] | Array],
    *,
    same: Mapping[str, float] | None = None,
    alpha: float = ALPHA,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> tuple[list[MetricComparison], dict[str, Interval]]:
    """Compare two systems by several metrics.

    Args:
        first: each metric's values, one a question.
        second: the same metrics of the same questions, in the same order.
        same: how far each metric moves between two builds of one configuration; what is not named does not move.
        alpha: level of error over all the metrics.
        resamples: of each test and each interval.
        seed: of their draws.

    Returns:
        A comparison for each metric, in the order given, and the intervals by metric.

    Raises:
        ValueError: the metrics or the numbers of questions are not the same, or there is none.
    """
    if first.keys() != second.keys() or not first:
        raise ValueError("the two systems are not measured by the same metrics")
    ours = {name: np.asarray(values, dtype=np.float64) for name, values in first.items()}
    theirs = {name: np.asarray(second[name], dtype=np.float64) for name in ours}
    if len({values.shape for values in (*ours.values(), *theirs.values())}) != 1 or not len(next(iter(ours.values()))):
        raise ValueError("the two systems are not measured on the same questions, or on none")
    differences = {name: changes(ours[name], theirs[name]) for name in ours}
    p = [randomization_test(values, resamples=resamples, seed=seed) for values in differences.values()]
    intervals = {
        name: bootstrap_interval(values, resamples=resamples, seed=seed) for name, values in differences.items()
    }
    found = []
    for (name, values), chance, adjusted in zip(differences.items(), p, holm(p), strict=True):
        moved = float(values.mean())
        tolerance = (same or {}).get(name, 0.0)
        found.append(
            MetricComparison(
                metric=name,
                first=float(ours[name].mean()),
                second=float(theirs[name].mean()),
                difference=moved,
                low=intervals[name].low,
                high=intervals[name].high,
                p=chance,
                p_adjusted=adjusted,
                wins=int((values > 0).sum()),
                losses=int((values < 0).sum()),
                ties=int((values == 0).sum()),
                deviation=float(values.std(ddof=1)) if len(values) > 1 else 0.0,
                detectable=detectable_difference(values, alpha=alpha),
                same=tolerance,
                significant=adjusted <= alpha,
                real=adjusted <= alpha and abs(moved) > tolerance + CHANGED,
            )
        )
    return found, intervals


def changes(first: Array, second: Array) -> Array:
    """Second less first, by question; what is only rounding is 0."""
    values = second - first
    return np.where(np.abs(values) <= CHANGED, 0.0, values)


def randomization_test(differences: Array, *, resamples: int = RESAMPLES, seed: int = SEED) -> float:
    """Two-sided p of Fisher's paired randomisation test: how often swapping the two systems' names at random gives a mean as far from 0.

    Exact, over every way to swap, where there are at most `resamples` of them; else of that many random ones, the observed one counted among
    them, (b + 1) / (m + 1), so that p is never 0 and never too small (Phipson and Smyth 2010). Questions without a difference change nothing, and
    are left out. Smucker, Allan and Carterette 2007 compare such tests for retrieval and recommend this one.

    Args:
        differences: one a question.
        resamples: random relabellings.
        seed: of the relabellings.

    Returns:
        0 < p ≤ 1; 1 where no question differs.
    """
    from scipy import stats  # noqa: PLC0415  (an extra, and slow to import)

    moved = differences[differences != 0]
    if len(moved) < 2:  # noqa: PLR2004  (of the two ways to swap one question both are as far from 0)
        return 1.0
    found = stats.permutation_test(
        (moved,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=1000,
        alternative="two-sided",
        rng=np.random.default_rng(seed),
    )
    return min(1.0, float(found.pvalue))


def bootstrap_interval(
    differences: Array, *, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """Bootstrap interval of the mean difference, bias-corrected and accelerated (Efron 1987); the percentiles where that is undefined.

    Args:
        differences: one a question.
        confidence: share of such intervals that hold the true mean.
        resamples: of the questions, with replacement.
        seed: of the resamples.
    """
    from scipy import stats  # noqa: PLC0415  (an extra, and slow to import)

    mean = float(differences.mean())
    if not np.ptp(differences) > 0:
        return Interval(mean, mean, np.array([]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a degenerate distribution; answered by the percentiles
        found = stats.bootstrap(
            (differences,),
            np.mean,
            n_resamples=resamples,
            batch=1000,
            vectorized=True,
            confidence_level=confidence,
            method="BCa",
            rng=np.random.default_rng(seed),
        )
    means = np.asarray(found.bootstrap_distribution, dtype=np.float64)
    low, high = float(found.confidence_interval.low), float(found.confidence_interval.high)
    if not (np.isfinite(low) and np.isfinite(high)):
        low, high = (float(end) for end in np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2]))
    return Interval(low, high, means)


def holm(p: Sequence[float]) -> list[float]:
    """Adjust p of several tests so that one chance finding among all is as rare as it would be in one (Holm 1979).

    Ascending: the i-th of m is multiplied by m - i + 1, and is at least the one before it and at most 1.
    """
    order = sorted(range(len(p)), key=lambda place: p[place])
    adjusted, highest = [0.0] * len(p), 0.0
    for step, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p) - step) * p[place]))
        adjusted[place] = highest
    return adjusted


def detectable_difference(differences: Array, *, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The smallest true mean difference that as many questions, differing as much as these, would show with this power.

    (t[1 - alpha/2] + t[power]) * s / sqrt(n), s being the standard deviation of the n differences and t quantiles of Student's distribution with
    n - 1 degrees of freedom: of a two-sided paired test of one metric (Cohen 1988; for retrieval Sakai 2018, Laboratory Experiments in Information
    Retrieval). It says what the gold set can show, and nothing of what was found.

    Returns:
        In units of the metric; None where all questions differ alike (by nothing, for instance), or there are fewer than two.
    """
    from scipy import stats  # noqa: PLC0415  (an extra, and slow to import)

    count = len(differences)
    if count < 2 or not np.ptp(differences) > 0:  # noqa: PLR2004  (a standard deviation needs two)
        return None
    quantiles = stats.t.ppf([1 - alpha / 2, power], count - 1)
    return float(quantiles.sum() * differences.std(ddof=1) / np.sqrt(count))


def overlap(first: Sequence[str], second: Sequence[str]) -> float:
    """Rank-biased overlap of two rankings, 0 … 1, the top weighing most: `kbsearch.arbitration.rank_biased_overlap` of documents' names."""
    if tuple(first) == tuple(second):
        return 1.0
    numbers: dict[str, int] = {}
    for document in (*first, *second):
        numbers.setdefault(document, len(numbers))
    return float(rank_biased_overlap([numbers[one] for one in first], [numbers[one] for one in second]))
