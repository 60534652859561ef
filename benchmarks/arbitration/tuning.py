"""What the tuning questions choose: the best vector weight and the best policy of a grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from benchmarks.arbitration.collect import Array, Track
from benchmarks.arbitration.policies import STEPS, Policy
from benchmarks.arbitration.rankings import Studied, step

LIMIT = 0.005
"""How far below its better leg the nDCG@10 of a set may be, for a choice within the limit."""
RULES = (("fuse", "apply_rule"), ("apply_rule", "fuse"), ("apply_rule", "apply_rule"))
"""Moderate and severe."""


@dataclass(frozen=True, slots=True)
class Grid:
    """What is searched."""

    top_k: Sequence[int] = (3, 5, 10, 20)
    max_disagreement: Sequence[float] = (0, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75)
    similarity_threshold: Sequence[float] = (
        *(-1, 0.4, 0.45, 0.5, 0.525, 0.55, 0.575, 0.6, 0.625, 0.65, 0.675),
        *(0.7, 0.75, 0.8, 0.85, 0.9, 1),
    )
    vector_weight: Sequence[float] = tuple(round(0.4 + 0.05 * n, 2) for n in range(11))
    privilege: Sequence[float] = tuple(round(0.5 + 0.05 * n, 2) for n in range(11))


@dataclass(frozen=True, slots=True)
class Choice:
    """A vector weight or a policy, with the mean nDCG@10 of each set that it was chosen on."""

    vector_weight: float = 0.5
    policy: Policy | None = None
    means: tuple[float, ...] = ()

    @property
    def mean(self) -> float:
        """The sets weigh the same."""
        return sum(self.means) / len(self.means) if self.means else float("-inf")


@dataclass(frozen=True, slots=True)
class Best:
    """The choices of the highest mean; of equals the first."""

    free: Choice = field(default_factory=Choice)
    within: Choice = field(default_factory=Choice)
    tried: int = 0


@dataclass(frozen=True, slots=True)
class _Compared:
    """How far apart the legs are, by question, at one top_k."""

    disagreement: Array
    fused: Array
    """Whether the limit decides nothing: the legs agree, or one alone answered."""


def floors(sets: Sequence[Studied]) -> Array:
    """What a choice within the limit reaches on each set."""
    return np.array([max(float(s.vector.mean()), float(s.keyword.mean())) - LIMIT for s in sets])


def best_weight(sets: Sequence[Studied]) -> Best:
    """The vector weights, as multiples of 1 / STEPS, of the highest mean."""
    means = np.stack([studied.by_weight.mean(axis=0) for studied in sets])
    reached = (means >= floors(sets)[:, None]).all(axis=0)
    mean = means.mean(axis=0)

    def choice(values: Array) -> Choice:
        number = int(values.argmax())
        return Choice(number / STEPS, None, tuple(means[:, number].tolist()))

    return Best(choice(mean), choice(np.where(reached, mean, -np.inf)) if reached.any() else Choice(), len(mean))


def best_policy(sets: Sequence[Studied], grid: Grid, track: Track) -> Best:
    """The policies of a grid with the highest mean.

    Questions fall into five cells: fused whatever the limit; over or within it, with the best similarity over or below the threshold. A policy's mean
    is a sum of what its weights score in each cell, and so all weights and privileges are tried at once.
    """
    free, within, tried = Choice(), Choice(), 0
    lowest = floors(sets)[:, None, None]
    for number in track(range(len(grid.top_k)), "trying policies"):
        compared = [_compare(studied, grid.top_k[number]) for studied in sets]
        for policy, means in _policies(sets, compared, grid, grid.top_k[number]):
            mean = means.mean(axis=0)
            tried += mean.size
            free = _better(free, policy, means, mean, grid)
            within = _better(within, policy, means, np.where((means >= lowest).all(axis=0), mean, -np.inf), grid)
    return Best(free, within, tried)


def _better(known: Choice, policy: Policy, means: Array, values: Array, grid: Grid) -> Choice:
    """The known choice or the best of these, if it is better by more than rounding."""
    row, column = divmod(int(values.argmax()), values.shape[1])
    if not values[row, column] > known.mean + 1e-12:
        return known
    chosen = Policy(
        policy.top_k,
        policy.max_disagreement,
        policy.similarity_threshold,
        policy.moderate_rule,
        policy.severe_rule,
        vector_weight=grid.vector_weight[row],
        privilege=grid.privilege[column],
    )
    return Choice(policy=chosen, vector_weight=chosen.vector_weight, means=tuple(means[:, row, column].tolist()))


def _compare(studied: Studied, top_k: int) -> _Compared:
    decisions = studied.decisions(Policy(top_k=top_k).parameters())
    return _Compared(
        np.array([float(decision.disagreement or 0) for decision in decisions]),
        np.array([decision.disagreement is None or decision.verdict == "rankings_agree" for decision in decisions]),
    )


def _policies(
    sets: Sequence[Studied], compared: Sequence[_Compared], grid: Grid, top_k: int
) -> Iterator[tuple[Policy, Array]]:
    """Policies with the means of each set, by vector weight and privilege."""
    fused = np.array([step(weight) for weight in grid.vector_weight])
    high = np.array([step(privilege) for privilege in grid.privilege])
    for limit, threshold in product(grid.max_disagreement, grid.similarity_threshold):
        cells = [_cells(studied, apart, limit, threshold) for studied, apart in zip(sets, compared, strict=True)]
        for moderate, severe in RULES:
            if moderate == severe and limit != grid.max_disagreement[0]:
                continue  # one rule for all: the limit decides nothing
            means = np.stack([_means(cell, moderate, severe, fused, high) for cell in cells])
            yield Policy(top_k, limit, threshold, moderate, severe), means


def _cells(studied: Studied, apart: _Compared, limit: float, threshold: float) -> tuple[Array, ...]:
    """The part of the mean that each cell's questions have, by vector weight."""
    severe, high = (apart.disagreement > limit) & ~apart.fused, studied.peak >= threshold
    moderate = ~severe & ~apart.fused
    cells = (apart.fused, severe & high, severe & ~high, moderate & high, moderate & ~high)
    return tuple(studied.by_weight[cell].sum(axis=0) / len(studied.peak) for cell in cells)


def _means(cells: Sequence[Array], moderate: str, severe: str, fused: Array, high: Array) -> Array:
    total = np.add.outer(cells[0][fused], np.zeros(len(high)))
    for rule, above, below in ((severe, cells[1], cells[2]), (moderate, cells[3], cells[4])):
        fusing, trusting = (above + below)[fused][:, None], (above[high] + below[STEPS - high])[None, :]
        total = total + (fusing if rule == "fuse" else trusting)
    return total
