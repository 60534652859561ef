"""Rankings and their nDCG@10, computed from what the legs say; what arbitration decides is kbsearch.arbitration's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from benchmarks.arbitration.collect import DEPTH, Array, Asked, Track
from benchmarks.arbitration.policies import STEPS
from kbsearch.arbitration import Decision, decide

RRF_K = 60
COMPARED = 20
"""Articles of each leg that a policy may compare at most."""
NOBODY = -1.0
"""Score of a document that is not in a ranking."""


@dataclass(frozen=True, slots=True)
class Studied:
    """A set of questions: what arbitration looks at, and the rankings that it may choose. A row is a question, as in Asked.

    Attributes:
        queries: ids of the questions.
        classes: classes of the questions.
        peak: best similarity.
        vector_ids: the best COMPARED documents of the vector leg.
        vector_ranks: their competition ranks.
        keyword_ids: the same of the keyword leg; -1 where it ends.
        keyword_ranks: their competition ranks.
        tops: (questions, STEPS + 1, DEPTH) documents of the weighted fusion by vector weight, 0 … 1; -1 where a ranking ends.
        by_weight: (questions, STEPS + 1) nDCG@10 of these.
        rank_fusion: nDCG@10 of reciprocal rank fusion.
    """

    queries: Array
    classes: Array
    peak: Array
    vector_ids: Array
    vector_ranks: Array
    keyword_ids: Array
    keyword_ranks: Array
    tops: Array
    by_weight: Array
    rank_fusion: Array

    @property
    def keyword(self) -> Array:
        """The keyword leg alone."""
        return self.at(0)

    @property
    def vector(self) -> Array:
        """The vector leg alone."""
        return self.at(1)

    def at(self, vector_weight: float) -> Array:
        """nDCG@10 of each question, both legs fused by this weight."""
        found: Array = self.by_weight[:, step(vector_weight)]
        return found

    def decisions(self, policy: Mapping[str, Any]) -> list[Decision]:
        """What a policy decides for each question."""
        return [
            decide(
                policy,
                str(query_class),
                vector.tolist(),
                vector_ranks.tolist(),
                keyword[keyword >= 0].tolist(),
                keyword_ranks[keyword >= 0].tolist(),
                f"{peak:.6f}",
            )
            for query_class, vector, vector_ranks, keyword, keyword_ranks, peak in zip(
                self.classes,
                self.vector_ids,
                self.vector_ranks,
                self.keyword_ids,
                self.keyword_ranks,
                self.peak,
                strict=True,
            )
        ]

    def chosen(self, policy: Mapping[str, Any]) -> Array:
        """The step of the vector weight that a policy gives each question; -1 where it escalates."""
        weights = [decision.vector_weight for decision in self.decisions(policy)]
        return np.array([-1 if weight is None else step(float(weight)) for weight in weights])

    def judge(self, policy: Mapping[str, Any]) -> Array:
        """nDCG@10 of each question under a policy; an escalated search answers nothing."""
        chosen = self.chosen(policy)
        return np.where(chosen < 0, 0, self.by_weight[np.arange(len(chosen)), chosen])

    def answer(self, policy: Mapping[str, Any]) -> Array:
        """The documents that each question is answered by under a policy, -1 where there is none."""
        chosen = self.chosen(policy)
        return np.where((chosen < 0)[:, None], -1, self.tops[np.arange(len(chosen)), chosen])

    def select(self, rows: Array) -> Studied:
        """Some of the questions."""
        return Studied(**{one.name: getattr(self, one.name)[rows] for one in fields(self)})

    def halves(self) -> tuple[Studied, Studied]:
        """By sorted id: every second question from the first on, and the others."""
        order = np.array(sorted(range(len(self.queries)), key=lambda row: str(self.queries[row])))
        return self.select(order[0::2]), self.select(order[1::2])


def study(asked: Asked, track: Track, name: str) -> Studied:
    """Compute the rankings that policies choose from, once."""
    vector, keyword = weighted(asked, 1), weighted(asked, 0)
    vector_ids, keyword_ids = best(vector, COMPARED), best(keyword, COMPARED)
    steps = track(range(STEPS + 1), f"ranking {name}")
    tops = np.stack([best(weighted(asked, number / STEPS), DEPTH) for number in steps], axis=1)
    return Studied(
        queries=asked.queries,
        classes=asked.classes,
        peak=asked.similarity.max(axis=1),
        vector_ids=vector_ids,
        vector_ranks=np.take_along_axis(ranks(vector), vector_ids, axis=1).astype(int),
        keyword_ids=keyword_ids,
        keyword_ranks=np.nan_to_num(np.take_along_axis(ranks(keyword), keyword_ids, axis=1)).astype(int),
        tops=tops,
        by_weight=np.stack([ndcg(tops[:, number], asked.gains) for number in range(STEPS + 1)], axis=1),
        rank_fusion=ndcg(best(rrf(vector, keyword), DEPTH), asked.gains),
    )


def step(weight: float) -> int:
    """A weight as a number of steps.

    Raises:
        ValueError: it is no multiple of 1 / STEPS.
    """
    number = round(weight * STEPS)
    if abs(number - weight * STEPS) > 1e-9:  # noqa: PLR2004  (rounding of floats)
        raise ValueError(f"the weight {weight} is no multiple of 1/{STEPS}")
    return number


def weighted(asked: Asked, vector_weight: float) -> Array:
    """Scores of the weighted fusion in billionths; a leg of weight 0 takes no part, and brings no candidates."""
    near = np.maximum(0, asked.similarity)
    scores: Array = np.round(1e9 * vector_weight * near) + np.round(
        1e9 * (1 - vector_weight) * np.nan_to_num(asked.keyword)
    )
    return np.where(np.isnan(asked.keyword), NOBODY, scores) if vector_weight == 0 else scores


def rrf(vector: Array, keyword: Array) -> Array:
    """Scores of reciprocal rank fusion in billionths, from scores of the legs."""
    parts = [np.nan_to_num(np.round(1e9 / (RRF_K + ranks(scores)))) for scores in (vector, keyword)]
    return np.where(parts[0] + parts[1] > 0, parts[0] + parts[1], NOBODY)


def ranks(scores: Array) -> Array:
    """Competition ranks of each row; NaN for NOBODY."""
    found = [np.searchsorted(np.sort(-row), -row, side="left") + 1.0 for row in scores]
    return np.where(scores == NOBODY, np.nan, np.array(found))


def best(scores: Array, depth: int) -> Array:
    """Columns of the best of each row, ties by column, -1 where there are no more."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    found = np.where(np.take_along_axis(scores, order, axis=1) == NOBODY, -1, order)
    return np.pad(found, ((0, 0), (0, depth - found.shape[1])), constant_values=-1)


def ndcg(tops: Array, gains: Array) -> Array:
    """Normalised discounted cumulative gain with linear gain, as trec_eval's, of each row's ranking; a question without anything relevant is 0."""
    discounts = 1 / np.log2(np.arange(2, DEPTH + 2))
    found = np.where(tops >= 0, np.take_along_axis(gains, np.maximum(tops, 0), axis=1), 0) @ discounts
    ideal = -np.sort(-gains, axis=1)[:, :DEPTH]
    whole = ideal @ discounts[: ideal.shape[1]]
    scores: Array = np.divide(found, whole, out=np.zeros(len(gains)), where=whole > 0)
    return scores
