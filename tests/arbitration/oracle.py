"""Arbitration once more, from its definitions: slow, short, and of nothing else's making.

Distances by the cases of the paper and by averaging over all orders that the lists leave open; the decision as a table; the manifest as a dict.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

HALF = Fraction(1, 2)
CLASSES = ("identifier", "quoted", "keywords", "question", "empty")
DECIMALS = (
    "penalty",
    "max_disagreement",
    "similarity_threshold",
    "vector_weight",
    "keyword_weight",
    "privilege",
)


def rounded(value: Fraction, places: int = 12) -> Fraction:
    """To so many decimals, halves up."""
    return Fraction((value * 10**places + HALF).__floor__(), 10**places)


def text(value: Fraction) -> str:
    """A decimal fraction without trailing zeros."""
    whole, part = divmod(abs(value) * 10**12, 10**12)
    assert part.denominator == 1
    digits = f"{int(part):012d}".rstrip("0")
    return f"{'-' if value < 0 else ''}{whole}{'.' if digits else ''}{digits}"


def distance(
    left: Sequence[int],
    right: Sequence[int],
    penalty: Fraction = HALF,
    left_ranks: Sequence[int] | None = None,
    right_ranks: Sequence[int] | None = None,
) -> Fraction:
    """Fagin, Kumar and Sivakumar 2003, section 3.1, case by case, as a share of the pairs; not rounded."""
    one = dict(zip(left, left_ranks or range(1, len(left) + 1), strict=True))
    two = dict(zip(right, right_ranks or range(1, len(right) + 1), strict=True))
    pairs = list(combinations(sorted(set(left) | set(right)), 2))
    return sum((_cost(one, two, i, j, penalty) for i, j in pairs), Fraction(0)) / max(1, len(pairs))


def _cost(one: Mapping[int, int], two: Mapping[int, int], i: int, j: int, penalty: Fraction) -> Fraction:
    both = [rank for rank in (one, two) if i in rank and j in rank]
    if len(both) == 2:  # case 1
        if (one[i] == one[j]) != (two[i] == two[j]):
            return penalty
        return Fraction((one[i] - one[j]) * (two[i] - two[j]) < 0)
    if len(both) == 1:
        (rank,) = both
        other = two if rank is one else one
        if i not in other and j not in other:  # case 4; where they are tied, nobody orders them
            return Fraction(0) if rank[i] == rank[j] else penalty
        here, gone = (i, j) if i in other else (j, i)  # case 2
        return penalty if rank[here] == rank[gone] else Fraction(rank[here] > rank[gone])
    return Fraction(1)  # case 3


def average_distance(left: Sequence[int], right: Sequence[int]) -> Fraction:
    """Kendall's distance averaged over all ways to complete both lists to orders of the union: K with penalty 1/2, by the paper's section 3.1."""
    union = set(left) | set(right)
    pairs = list(combinations(union, 2))
    ones, twos = (
        [{one: n for n, one in enumerate((*known, *rest))} for rest in permutations(union - set(known))]
        for known in (left, right)
    )
    swaps = sum((a[i] - a[j]) * (b[i] - b[j]) < 0 for a in ones for b in twos for i, j in pairs)
    return Fraction(swaps, max(1, len(ones) * len(twos) * len(pairs)))


def overlap(left: Sequence[int], right: Sequence[int], p: Fraction = Fraction(9, 10)) -> Fraction:
    """Rank-biased overlap with each depth's agreement as it is or, where a list has ended, as extrapolated; not rounded."""
    short, long = sorted((left, right), key=len)
    if not short:
        return Fraction(not long)

    def agreement(depth: int) -> Fraction:
        shared = Fraction(len(set(short[:depth]) & set(long[:depth])))
        if depth > len(short):
            shared += Fraction(len(set(short) & set(long[: len(short)])), len(short)) * (depth - len(short))
        return shared / depth

    depths = range(1, len(long) + 1)
    return (1 - p) * sum(p ** (d - 1) * agreement(d) for d in depths) + p ** len(long) * agreement(len(long))


def one_sided(n: int) -> Iterator[tuple[int, ...]]:
    """All competition ranks of n places."""
    if n == 0:
        yield ()
        return
    for rest in one_sided(n - 1):
        yield (*rest, n)
        if rest:
            yield (*rest, rest[-1])


def decision(case: Mapping[str, Any]) -> dict[str, Any]:
    """What a case is decided as; keys are the arguments of arbitrate_kb_rankings_v1 without p_."""
    policy = case["policy"]
    own = policy["class_rules"].get(case["query_class"], {})
    rules = {**policy, **own}
    for name in DECIMALS:
        rules[name] = Fraction(str(rules[name]))
    differs = any(rules[name] != (Fraction(str(policy[name])) if name in DECIMALS else policy[name]) for name in own)
    at = f"@{case['query_class']}" if differs else ""
    (vector, vector_ranks), (keyword, keyword_ranks) = (
        (
            list(case[f"{leg}_ids"] or [])[: policy["top_k"]],
            list(case[f"{leg}_ranks"] or range(1, len(case[f"{leg}_ids"] or []) + 1))[: policy["top_k"]],
        )
        for leg in ("vector", "keyword")
    )
    if not (vector and keyword):
        leg = "vector" if vector else "keyword"
        weights = {"vector_weight": str(int(leg == "vector")), "keyword_weight": str(int(leg == "keyword"))}
        return {
            "verdict": f"{leg}_only",
            "rule": f"one_leg.{leg}{at}",
            "disagreement": None,
            "overlap": None,
            **weights,
        }
    apart = rounded(distance(vector, keyword, rules["penalty"], vector_ranks, keyword_ranks))
    high = rounded(Fraction(str(case["similarity_peak"])), 6) >= rules["similarity_threshold"]
    trusted, trust = ("vector", rules["privilege"]) if high else ("keyword", 1 - rules["privilege"])
    fused = rules["vector_weight"]
    level = "severe" if apart > rules["max_disagreement"] else "moderate"
    chosen = rules[f"{level}_rule"]
    table: list[tuple[bool, str, str, Fraction | None]] = [
        (bool(case["exploratory"]), "exploratory_fused", "exploratory", fused),
        (rules["calibrated"], "calibrated_fused", "calibrated", fused),
        (rules["advisory_leg"] == "vector", "advisory", "advisory.vector", Fraction(0)),
        (rules["advisory_leg"] == "keyword", "advisory", "advisory.keyword", Fraction(1)),
        ((vector, vector_ranks) == (keyword, keyword_ranks), "rankings_agree", "agree", fused),
        (chosen == "fuse", "fused_within_limit", f"{level}.fuse", fused),
        (chosen == "escalate", "escalated", f"{level}.escalate", None),
        (chosen == "apply_rule", f"{trusted}_privileged", f"{level}.apply_rule.{trusted}", trust),
    ]
    verdict, rule, weight = next((verdict, rule, weight) for holds, verdict, rule, weight in table if holds)
    return {
        "verdict": verdict,
        "rule": rule + at,
        "disagreement": text(apart),
        "overlap": text(rounded(overlap(vector, keyword))),
        "vector_weight": None if weight is None else text(weight),
        "keyword_weight": None if weight is None else text(1 - weight),
    }


def manifest(case: Mapping[str, Any], decided: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a case: beside its arguments `query_text` and `chosen_ids`."""
    k = case["policy"]["top_k"]
    vector, keyword = ([*(case[f"{leg}_ids"] or [])][:k] for leg in ("vector", "keyword"))
    peak = rounded(Fraction(str(case["similarity_peak"])), 6) if vector else None
    made = {
        "manifest_version": 1,
        "query_hash": _sha256(case["query_text"] or ""),
        "query_class": case["query_class"],
        "vector_ranking": vector,
        "vector_ranks": [*(case["vector_ranks"] or range(1, len(vector) + 1))][:k],
        "vector_ranking_hash": _sha256("\n".join(map(str, vector))),
        "keyword_ranking": keyword,
        "keyword_ranks": [*(case["keyword_ranks"] or range(1, len(keyword) + 1))][:k],
        "keyword_ranking_hash": _sha256("\n".join(map(str, keyword))),
        "chosen_ranking_hash": None
        if decided["verdict"] == "escalated"
        else _sha256("\n".join(map(str, [*(case["chosen_ids"] or [])][:k]))),
        "semantic_similarity_peak": None if peak is None else f"{'-' if peak < 0 else ''}{_six(abs(peak))}",
        "policy": f"{case['policy']['name']}@{case['policy']['version']}",
        "policy_parameters": _written(
            {name: case["policy"][name] for name in case["policy"].keys() - {"name", "version"}}
        ),
        "exploratory": bool(case["exploratory"]),
        "arbitration_rule_id": decided["rule"],
        "disagreement_magnitude": decided["disagreement"],
        "overlap": decided["overlap"],
        "verdict": decided["verdict"],
        "directive": decided["directive"],
    }
    return {**made, "manifest_digest": digest(made)}


def digest(made: Mapping[str, Any]) -> str:
    """Of a manifest without its digest; its keys and texts are such that Python's own order and escapes are those of RFC 8785."""
    return _sha256(json.dumps(made, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def _six(value: Fraction) -> str:
    whole, part = divmod(int(value * 10**6), 10**6)
    return f"{whole}.{part:06d}"


def _written(rules: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: text(Fraction(str(value)))
        if name in DECIMALS
        else {one: _written(own) for one, own in value.items()}
        if name == "class_rules"
        else value
        for name, value in rules.items()
    }


def _sha256(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()
