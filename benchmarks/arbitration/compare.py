"""Systems side by side on questions that nothing was tuned on, and how likely their differences are by chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from benchmarks.arbitration.collect import SEARCHED, Array, Asked
from benchmarks.arbitration.policies import BY_HAND, LENIENT, OWN, PLAIN_BY_HAND, Policy
from benchmarks.arbitration.rankings import Studied
from benchmarks.arbitration.tuning import LIMIT, Best

System: TypeAlias = Callable[[Studied], Array]
"""nDCG@10 of each question."""

PERMUTATIONS = 10_000
SIGNIFICANT = 0.05
EVALUATED: Mapping[str, Mapping[str, float]] = {
    "scifact": {"weighted": 0.7362, "rrf": 0.7170, "vector": 0.6468, "keyword": 0.7006},
    "cranfield": {"weighted": 0.4226, "rrf": 0.4130, "vector": 0.3767, "keyword": 0.3746},
    "stackfaq": {"weighted": 0.9313, "rrf": 0.8858, "vector": 0.9506, "keyword": 0.7646},
}
"""nDCG@10 by `kbsearch evaluate`."""
BASES: Mapping[str, System] = {
    "weighted": lambda studied: studied.at(0.5),
    "rrf": lambda studied: studied.rank_fusion,
    "vector": lambda studied: studied.vector,
    "keyword": lambda studied: studied.keyword,
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A vector weight or a policy that the tuning questions chose, and who chose it by them."""

    name: str
    origin: str
    vector_weight: float = 0.5
    policy: Policy | None = None

    def score(self, studied: Studied) -> Array:
        """nDCG@10 of each question."""
        return studied.at(self.vector_weight) if self.policy is None else studied.judge(self.policy.parameters())


class DifferentError(Exception):
    """What is computed is not what the server answers."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of means, and the p of a paired permutation test: two-sided, not adjusted for the number of comparisons."""

    value: float
    p: float


@dataclass(frozen=True, slots=True)
class Line:
    """A system on one set of questions, beside the better leg, weighted@1 and rrf@1."""

    value: float
    leg: Difference
    weighted: Difference
    rrf: Difference


@dataclass(frozen=True, slots=True)
class Row:
    """A system on every set; and on the mean of the sets, which weigh the same. The mean's `leg` is the better leg of each set."""

    name: str
    sets: Mapping[str, Line]
    mean: Line


def plain(vector_weight: float, origin: str = "") -> Candidate:
    """A vector weight for every question."""
    return Candidate(f"vector weight {vector_weight:g}", origin, vector_weight)


def candidates(weights: Best, policies: Best) -> list[Candidate]:
    """What is compared with plain fusion: mechanical choices, which every run makes again, and those by hand."""
    hand, free, within = "by hand", "highest mean", f"highest mean within {LIMIT} of the legs"
    by_weight = {weight: plain(weight, hand) for weight in PLAIN_BY_HAND}
    by_weight |= {
        choice.vector_weight: plain(choice.vector_weight, origin)
        for choice, origin in ((weights.within, within), (weights.free, free))
    }
    found = [("P1", free, policies.free), ("P2", within, policies.within)]
    return [
        *(by_weight[weight] for weight in sorted(by_weight)),
        *(Candidate(name, origin, policy=choice.policy) for name, origin, choice in found if choice.policy is not None),
        *(Candidate(name, hand, policy=policy) for name, policy in BY_HAND.items()),
    ]


def systems(chosen: Sequence[Candidate], builtin: Mapping[str, Mapping[str, Any]]) -> dict[str, System]:
    """All that is compared, by name: legs and fusions, what arbitrate@1 does, the candidates, and the reference policy."""

    def under(policy: Mapping[str, Any]) -> System:
        return lambda studied: studied.judge(policy)

    reference = builtin["reference@1"]
    return {
        "vector@1": BASES["vector"],
        "keyword@1": BASES["keyword"],
        "rrf@1": BASES["rrf"],
        "weighted@1": BASES["weighted"],
        "arbitrate@1": under(builtin["default@1"]),
        **{candidate.name: candidate.score for candidate in chosen},
        "reference@1": under(reference),
        LENIENT: under({**reference, "severe_rule": "fuse"}),
    }


def check_figures(name: str, studied: Studied) -> None:
    """Refuse to go on where the computed figures are not those of `kbsearch evaluate`.

    Raises:
        DifferentError: one is not, to 4 decimals.
    """
    found = {system: round(float(score(studied).mean()), 4) for system, score in BASES.items()}
    if found != EVALUATED[name]:
        raise DifferentError(
            f"{name}: nDCG@10 {found} computed, {dict(EVALUATED[name])} by kbsearch evaluate when this was written"
        )


def check_searches(name: str, asked: Asked, studied: Studied) -> dict[str, float]:
    """Compare the computed rankings of SEARCHED with those of the server, article by article.

    Returns:
        nDCG@10 by profile, which is the same for both.

    Raises:
        DifferentError: the first ten of a question are others.
    """
    builtin = asked.builtin()
    policies = (None, builtin["default@1"], builtin["reference@1"], OWN.parameters())
    found = {}
    for profile, policy, searched in zip(SEARCHED, policies, asked.searched, strict=True):
        computed = studied.tops[:, studied.tops.shape[1] // 2] if policy is None else studied.answer(policy)
        if others := np.flatnonzero((computed != searched).any(axis=1)).tolist():
            raise DifferentError(
                f"{name}, {profile}: the server ranks {len(others)} of {len(searched)} questions otherwise, "
                f"{studied.queries[others[0]]} the first of them"
            )
        found[profile] = float((studied.at(0.5) if policy is None else studied.judge(policy)).mean())
    return found


def better_leg(studied: Studied) -> Array:
    """nDCG@10 of each question by the leg of the higher mean."""
    return max((studied.vector, studied.keyword), key=lambda scores: float(scores.mean()))


def compare(name: str, score: System, sets: Mapping[str, Studied]) -> Row:
    """A system on every set."""
    scores = [score(studied) for studied in sets.values()]
    bases = {
        "leg": [better_leg(studied) for studied in sets.values()],
        "weighted": [BASES["weighted"](studied) for studied in sets.values()],
        "rrf": [BASES["rrf"](studied) for studied in sets.values()],
    }

    def line(places: Sequence[int]) -> Line:
        ours = [scores[place] for place in places]
        return Line(
            float(np.mean([one.mean() for one in ours])),
            **{base: difference(ours, [others[place] for place in places]) for base, others in bases.items()},
        )

    return Row(name, {one: line([place]) for place, one in enumerate(sets)}, line(range(len(sets))))


def difference(first: Sequence[Array], second: Sequence[Array]) -> Difference:
    """Of the means over sets that weigh the same: each question's difference weighs 1 / the size of its set."""
    differences = [(one - other) / len(one) / len(first) for one, other in zip(first, second, strict=True)]
    whole = np.concatenate(differences)
    return Difference(float(whole.sum()), permutation_test(whole))


def permutation_test(differences: Array, groups: Sequence[Any] | None = None, seed: int = 7) -> float:
    """Two-sided p of a paired permutation test (Fisher's randomisation): how often random signs give a sum at least as far from 0.

    Args:
        differences: of each question.
        groups: the signs of a group's questions are flipped together; None: each question alone.
        seed: of the PERMUTATIONS random signs.
    """
    if groups is not None:
        _, index = np.unique(np.array(groups), return_inverse=True)
        differences = np.bincount(index, weights=differences)
    moved = differences[differences != 0]
    signs = np.random.default_rng(seed).integers(0, 2, (PERMUTATIONS, len(moved)), dtype=np.int8) * 2 - 1
    reached = np.sum(np.abs(signs @ moved) >= abs(moved.sum()) - 1e-12)
    return float((reached + 1) / (PERMUTATIONS + 1))
