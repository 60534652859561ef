"""The policies that are compared, and who chose them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

STEPS = 40
"""Weights and privileges are multiples of 1 / STEPS."""


@dataclass(frozen=True, slots=True)
class Policy:
    """An arbitration policy, fields as in kb_arbitration_policies; the defaults are those of default@1. The keyword leg gets the rest of 1."""

    top_k: int = 5
    max_disagreement: float = 0.7
    similarity_threshold: float = 0.85
    moderate_rule: str = "fuse"
    severe_rule: str = "fuse"
    calibrated: bool = False
    vector_weight: float = 0.5
    privilege: float = 1.0
    class_rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def parameters(self) -> dict[str, Any]:
        """What kbsearch.arbitration.decide and create_kb_arbitration_policy_v1 take."""
        whole = asdict(self) | {"penalty": 0.5, "advisory_leg": None, "keyword_weight": _rest(self.vector_weight)}
        whole["class_rules"] = {
            name: {**rules, **({"keyword_weight": _rest(rules["vector_weight"])} if "vector_weight" in rules else {})}
            for name, rules in self.class_rules.items()
        }
        return whole

    def __str__(self) -> str:
        """What differs from default@1."""
        ordinary = asdict(Policy())
        changed = {name: value for name, value in asdict(self).items() if value != ordinary[name]}
        return ", ".join(f"{name} {_shown(value)}" for name, value in changed.items()) or "as default@1"


def _rest(weight: float) -> float:
    return round(1 - weight, 6)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def leaning(top_k: int, max_disagreement: float, vector_weight: float, privilege: float, **more: Any) -> Policy:
    """Fuse up to the limit; over it lean to the vector leg, or to the keyword leg where the best similarity is below 0.45."""
    threshold = more.pop("similarity_threshold", 0.45)
    return Policy(
        top_k,
        max_disagreement,
        threshold,
        severe_rule="apply_rule",
        vector_weight=vector_weight,
        privilege=privilege,
        **more,
    )


OWN = leaning(5, 0.65, 0.55, 0.7)
"""The policy that is searched with on the server, as an organisation's own: P4."""

PLAIN_BY_HAND = (0.6, 0.65, 0.7)
"""Vector weights near the best on the tuning questions."""

BY_HAND: Mapping[str, Policy] = {
    "class weights": Policy(
        calibrated=True,
        vector_weight=0.55,
        class_rules={"keywords": {"vector_weight": 0.7}, "quoted": {"vector_weight": 0.7}},
    ),
    "peak alone": Policy(10, 0, 0.55, "apply_rule", "apply_rule", vector_weight=0.55, privilege=0.6),
    "P3": leaning(10, 0.6, 0.6, 0.7),
    "P4": OWN,
    "P5": leaning(5, 0.3, 0.9, 0.6, similarity_threshold=0.5),
    "P6": leaning(10, 0.6, 0.6, 0.7, class_rules={"keywords": {"vector_weight": 0.7}}),
}
"""Picked by hand from the tops of the tuning questions' lists, as the weights of PLAIN_BY_HAND, and written down before the other questions' figures
were looked at.

Class weights: the best weight of each class. Peak alone: the best similarity decides, disagreement does not. P3: the best when a policy's mean is
smoothed over its neighbours in the grid. P4: one that compares five articles, as default@1. P5: top_k and limit of reference@1. P6: P3 with a weight
of its own for keywords. P1 and P2 are not picked: benchmarks.arbitration.tuning finds them.
"""

LENIENT = "reference@1 fusing"
"""reference@1 with the severe rule fuse: it answers where that escalates. It and reference@1 were added afterwards, as what not to rank by."""
