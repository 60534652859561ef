"""Arbitrations decided again and checked, without a database: what a manifest says follows from its rankings and its policy, or it does not.

The same rules as `arbitrate_kb_rankings_v1`, in exact arithmetic, so that both give the same digits.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any, TypeAlias

from kbsearch.errors import ArbitrationError, PolicyError

Ids: TypeAlias = Sequence[int]
Number: TypeAlias = Decimal | Fraction | int | float | str

CLASSES = ("identifier", "quoted", "keywords", "question", "empty")
"""Classes of questions."""
VERDICTS = (
    "rankings_agree",
    "vector_only",
    "keyword_only",
    "vector_privileged",
    "keyword_privileged",
    "escalated",
    "exploratory_fused",
    "calibrated_fused",
    "advisory",
    "fused_within_limit",
)

_BOUNDS = {
    "penalty": (0, 1),
    "max_disagreement": (0, 1),
    "similarity_threshold": (-1, 1),
    "vector_weight": (0, 1),
    "keyword_weight": (0, 1),
    "privilege": (Fraction(1, 2), 1),
}
_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "moderate_rule": ("fuse", "apply_rule"),
    "severe_rule": ("apply_rule", "escalate", "fuse"),
    "advisory_leg": (None, "vector", "keyword"),
}
_OF_POLICY = ("top_k", "penalty", "class_rules")
"""What a class of questions cannot have of its own."""
_PARAMETERS = frozenset((*_BOUNDS, *_CHOICES, *_OF_POLICY, "calibrated"))
_FIELDS = frozenset(
    """manifest_version query_hash query_class vector_ranking vector_ranks vector_ranking_hash keyword_ranking keyword_ranks
keyword_ranking_hash chosen_ranking_hash semantic_similarity_peak policy policy_parameters exploratory arbitration_rule_id
disagreement_magnitude overlap verdict directive manifest_digest""".split()  # noqa: SIM905
)

_DIRECTIVES = {
    "rankings_agree": "Both legs rank the same articles alike: they are fused.",
    "vector_only": "Only the vector leg answered: its ranking is the answer.",
    "keyword_only": "Only the keyword leg answered: its ranking is the answer.",
    "vector_privileged": "The legs disagree and the best similarity reaches the threshold: the vector leg is trusted.",
    "keyword_privileged": "The legs disagree and the best similarity is below the threshold: the keyword leg is trusted.",
    "escalated": "The legs disagree by more than the limit: there is no answer until somebody decides.",
    "exploratory_fused": "The search is exploratory: the legs are fused.",
    "calibrated_fused": "The legs are known to converge: they are fused.",
    "advisory.vector": "The vector leg never decides: the keyword leg's ranking is the answer.",
    "advisory.keyword": "The keyword leg never decides: the vector leg's ranking is the answer.",
    "moderate.fuse": "The legs disagree within the limit: they are fused.",
    "severe.fuse": "The legs disagree by more than the limit, and the rule is to fuse them all the same.",
}
"""By rule where a verdict has several, else by verdict."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What an arbitration decided; decimals are text, as in a manifest.

    Attributes:
        verdict: one of VERDICTS.
        rule: what decided; ends in `@class` where the question's class has rules that differ.
        disagreement: distance of the rankings, 0 … 1; None where one leg alone answered.
        overlap: their rank-biased overlap, 0 … 1; None where one leg alone answered.
        vector_weight: weight of the vector leg in the final ranking; None where the verdict is escalated.
        keyword_weight: weight of the keyword leg.
        directive: the verdict in words.
    """

    verdict: str
    rule: str
    disagreement: str | None
    overlap: str | None
    vector_weight: str | None
    keyword_weight: str | None
    directive: str


def kendall_tau_top_k(
    left: Ids,
    right: Ids,
    penalty: Number = Decimal("0.5"),
    left_ranks: Ids | None = None,
    right_ranks: Ids | None = None,
) -> Decimal:
    """Disagreement of two top-k lists: Kendall tau distance with a penalty, as a share of the pairs of the union.

    K with penalty p of Fagin, Kumar and Sivakumar 2003 (Comparing top k lists), with ties as in Fagin et al. 2004 (Comparing and aggregating
    rankings with ties): an id that a list does not have stands behind all that it has.

    Args:
        left: ids, best first, no id twice.
        right: the other list.
        penalty: what a pair counts that exactly one list orders, 0 … 1.
        left_ranks: competition ranks of left; None: no ties.
        right_ranks: competition ranks of right.

    Returns:
        0 … 1, rounded to 12 decimals; 0 where the union has fewer than two ids.

    Raises:
        ArbitrationError: a list has an id twice, ranks are no competition ranks, or the penalty is out of range.
    """
    share = _fraction(penalty)
    if not 0 <= share <= 1:
        raise ArbitrationError("the penalty is not from 0 to 1")
    places = [_places(left, left_ranks), _places(right, right_ranks)]
    union = places[0].keys() | places[1].keys()
    cost = Fraction(0)
    for one, other in combinations(union, 2):
        ahead, behind = (_order(place, one, other) for place in places)
        if ahead * behind < 0:
            cost += 1
        elif ahead != behind:
            cost += share
    pairs = len(union) * (len(union) - 1) // 2
    return _rounded(cost / pairs) if pairs else Decimal(0)


def rank_biased_overlap(left: Ids, right: Ids, persistence: Number = Decimal("0.9")) -> Decimal:
    """Similarity of two rankings: extrapolated rank-biased overlap (Webber, Moffat and Zobel 2010, equation 32).

    Args:
        left: ids, best first, no id twice.
        right: the other list.
        persistence: how likely a reader goes on to the next place, between 0 and 1.

    Returns:
        0 … 1, rounded to 12 decimals; two empty lists are equal.

    Raises:
        ArbitrationError: a list has an id twice, or the persistence is out of range.
    """
    p = _fraction(persistence)
    if not 0 < p < 1:
        raise ArbitrationError("the persistence is not between 0 and 1")
    short, long = sorted((list(_places(left, None)), list(_places(right, None))), key=len)
    s, n = len(short), len(long)
    if s == 0:
        return Decimal(0 if n else 1)
    overlaps = [len(set(short[:depth]) & set(long[:depth])) for depth in range(1, n + 1)]
    at_cut, at_end = overlaps[s - 1], overlaps[n - 1]
    total = sum((Fraction(overlap, depth) * p**depth for depth, overlap in enumerate(overlaps, 1)), Fraction(0))
    total += sum((Fraction(at_cut * (depth - s), s * depth) * p**depth for depth in range(s + 1, n + 1)), Fraction(0))
    return _rounded((1 - p) / p * total + (Fraction(at_end - at_cut, n) + Fraction(at_cut, s)) * p**n)


def decide(
    policy: Mapping[str, Any],
    query_class: str,
    vector_ids: Ids,
    vector_ranks: Ids | None,
    keyword_ids: Ids,
    keyword_ranks: Ids | None,
    similarity_peak: Number | None,
    *,
    exploratory: bool = False,
) -> Decision:
    """Decide which leg of a search to trust.

    Args:
        policy: what resolve_kb_policy_v1 gives, or the policy_parameters of a manifest; decimals are numbers or text.
        query_class: one of CLASSES.
        vector_ids: articles of the vector leg, best first; the first top_k are used; empty: the leg did not answer.
        vector_ranks: their competition ranks; None: no ties.
        keyword_ids: articles of the keyword leg.
        keyword_ranks: their competition ranks.
        similarity_peak: cosine of the best chunk, rounded to 6 decimals; of no meaning without a vector leg.
        exploratory: whether the search is exploratory.

    Raises:
        PolicyError: the policy is unusable.
        ArbitrationError: neither leg answered, or an argument is unusable.
    """
    rules, differs = _rules(policy, query_class)
    top_k = rules["top_k"]
    vector, keyword = list(vector_ids[:top_k]), list(keyword_ids[:top_k])
    vector_places = _places(vector, None if vector_ranks is None else vector_ranks[:top_k])
    keyword_places = _places(keyword, None if keyword_ranks is None else keyword_ranks[:top_k])
    if not vector and not keyword:
        raise ArbitrationError("nothing to arbitrate: no leg answered")
    suffix = f"@{query_class}" if differs else ""
    if not keyword:
        return Decision("vector_only", "one_leg.vector" + suffix, None, None, "1", "0", _DIRECTIVES["vector_only"])
    if not vector:
        return Decision("keyword_only", "one_leg.keyword" + suffix, None, None, "0", "1", _DIRECTIVES["keyword_only"])
    peak = _peak(similarity_peak)
    distance = kendall_tau_top_k(
        vector, keyword, rules["penalty"], list(vector_places.values()), list(keyword_places.values())
    )
    agree = list(vector_places.items()) == list(keyword_places.items())
    verdict, rule, weight = _judge(rules, distance, peak, agree=agree, exploratory=exploratory)
    return Decision(
        verdict,
        rule + suffix,
        _written(distance),
        _written(rank_biased_overlap(vector, keyword)),
        None if weight is None else _written(weight),
        None if weight is None else _written(1 - weight),
        _DIRECTIVES.get(rule) or _DIRECTIVES[verdict],
    )


def _judge(  # noqa: PLR0911  (a rule a line)
    rules: Mapping[str, Any], distance: Decimal, peak: Decimal, *, agree: bool, exploratory: bool
) -> tuple[str, str, Fraction | None]:
    """Verdict, rule and weight of the vector leg, where both legs answered."""
    fused: Fraction = rules["vector_weight"]
    advisory = rules["advisory_leg"]
    if exploratory:
        return "exploratory_fused", "exploratory", fused
    if rules["calibrated"]:
        return "calibrated_fused", "calibrated", fused
    if advisory is not None:
        return "advisory", f"advisory.{advisory}", Fraction(advisory == "keyword")
    if agree:
        return "rankings_agree", "agree", fused
    kind = "severe" if distance > rules["max_disagreement"] else "moderate"
    rule = rules[f"{kind}_rule"]
    if rule == "fuse":
        return "fused_within_limit", f"{kind}.fuse", fused
    if rule == "escalate":
        return "escalated", f"{kind}.escalate", None
    if peak >= rules["similarity_threshold"]:
        return "vector_privileged", f"{kind}.apply_rule.vector", rules["privilege"]
    return "keyword_privileged", f"{kind}.apply_rule.keyword", 1 - rules["privilege"]


def canonical_json(value: Any) -> str:
    """Write a value in the one way of RFC 8785 (JSON Canonicalization Scheme).

    Args:
        value: text, booleans, None, whole numbers of at most 2^53 - 1, lists and dicts of these.

    Raises:
        ArbitrationError: something else: a decimal is written as text.
    """
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        if abs(value) >= 2**53:
            raise ArbitrationError(f"the number {value} has no place in canonical JSON")
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(canonical_json, value))}]"
    if isinstance(value, Mapping):
        try:
            keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        except (AttributeError, UnicodeEncodeError) as error:
            raise ArbitrationError("a key is no text") from error
        return f"{{{','.join(f'{canonical_json(key)}:{canonical_json(value[key])}' for key in keys)}}}"
    raise ArbitrationError(f"{str(value)[:100]!r} has no place in canonical JSON")


def ranking_hash(ids: Ids) -> str:
    """The sha256 of ids as ASCII decimals with a newline between two, as 64 hexadecimal digits."""
    return _sha256("\n".join(map(str, ids)))


def digest(manifest: Mapping[str, Any]) -> str:
    """The sha256 of a manifest in canonical JSON, but for its manifest_digest, as 64 hexadecimal digits.

    Raises:
        ArbitrationError: the manifest has what no manifest has.
    """
    return _sha256(canonical_json({name: value for name, value in manifest.items() if name != "manifest_digest"}))


def recompute(manifest: Mapping[str, Any]) -> Decision:
    """Decide again what a manifest records.

    Raises:
        PolicyError: its policy is unusable.
        ArbitrationError: it is no manifest, or nothing can be decided from it.
    """
    if fault := _shape(manifest):
        raise ArbitrationError(fault)
    return decide(
        manifest["policy_parameters"],
        manifest["query_class"],
        manifest["vector_ranking"],
        manifest["vector_ranks"],
        manifest["keyword_ranking"],
        manifest["keyword_ranks"],
        manifest["semantic_similarity_peak"],
        exploratory=manifest["exploratory"],
    )


def verify(manifest: Mapping[str, Any], query_text: str | None = None) -> tuple[str, ...]:
    """Check a manifest: its digest, its hashes, and that its decision follows from its rankings and its policy.

    The class of the question and the chosen ranking are taken as they are: the one is recomputed by classify_kb_query_v1, the other by searching.

    Args:
        manifest: what came with a search, as parsed JSON.
        query_text: the question, to be checked against its hash; None: it is not.

    Returns:
        What is wrong, in sentences; empty where nothing is.
    """
    if fault := _shape(manifest):
        return (fault,)
    wrong = []
    try:
        if digest(manifest) != manifest["manifest_digest"]:
            wrong.append("the digest is another: the manifest was changed")
        wrong += [
            f"{leg}_ranking_hash is not the hash of {leg}_ranking"
            for leg in ("vector", "keyword")
            if ranking_hash(manifest[f"{leg}_ranking"]) != manifest[f"{leg}_ranking_hash"]
        ]
        if query_text is not None and _sha256(query_text) != manifest["query_hash"]:
            wrong.append("the question is another")
        decision = recompute(manifest)
    except (ArbitrationError, PolicyError) as error:
        return (*wrong, str(error))
    recorded = {
        "verdict": decision.verdict,
        "arbitration_rule_id": decision.rule,
        "disagreement_magnitude": decision.disagreement,
        "overlap": decision.overlap,
        "directive": decision.directive,
    }
    wrong += [
        f"{name} is {manifest[name]!r}, but {value!r} follows from the rankings and the policy"
        for name, value in recorded.items()
        if manifest[name] != value
    ]
    if (manifest["chosen_ranking_hash"] is None) != (decision.verdict == "escalated"):
        wrong.append("a ranking was chosen although the search was escalated, or none although it was not")
    if (manifest["semantic_similarity_peak"] is None) != (not manifest["vector_ranking"]):
        wrong.append("there is a similarity without a vector leg, or a vector leg without one")
    return tuple(wrong)


_HASHES = ("query_hash", "vector_ranking_hash", "keyword_ranking_hash", "manifest_digest")
_LISTS = ("vector_ranking", "vector_ranks", "keyword_ranking", "keyword_ranks")


def _shape(manifest: Any) -> str | None:
    """What a manifest's form has that is none, or None."""
    if not isinstance(manifest, Mapping):
        return "the manifest is not a JSON object"
    if type(manifest.get("manifest_version")) is not int or manifest["manifest_version"] != 1:
        return "the manifest is of another version"
    if strange := sorted(map(str, manifest.keys() ^ _FIELDS)):
        name = strange[0]
        return f"{name} is missing" if name in _FIELDS else f"there is no {name} in a manifest"
    chosen, peak = manifest["chosen_ranking_hash"], manifest["semantic_similarity_peak"]
    for name, right in {
        **{name: _matches(manifest[name], "[0-9a-f]{64}") for name in _HASHES},
        "chosen_ranking_hash": chosen is None or _matches(chosen, "[0-9a-f]{64}"),
        "semantic_similarity_peak": peak is None or _matches(peak, r"-?[01]\.[0-9]{6}"),
        "policy": _matches(manifest["policy"], "[a-z][a-z0-9_]{0,62}@[1-9][0-9]{0,8}"),
        "policy_parameters": isinstance(manifest["policy_parameters"], Mapping),
        "exploratory": isinstance(manifest["exploratory"], bool),
        **{name: _are_ids(manifest[name]) for name in _LISTS},
    }.items():
        if not right:
            return f"{name} is not what it should be"
    top_k = manifest["policy_parameters"].get("top_k")
    if any(len(manifest[name]) > (top_k if type(top_k) is int else 0) for name in _LISTS):
        return "a ranking is longer than top_k"
    return None


def _matches(value: Any, pattern: str) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int and 0 <= one < 2**53 for one in value)


def _rules(policy: Mapping[str, Any], query_class: str) -> tuple[dict[str, Any], bool]:
    """The rules for a class of questions, decimals as fractions, and whether they differ from what holds for all.

    Raises:
        PolicyError: the policy is unusable.
        ArbitrationError: there is no such class.
    """
    given = {name: value for name, value in policy.items() if name not in ("name", "version")}
    if missing := sorted(_PARAMETERS - given.keys()):
        raise PolicyError(f"the arbitration policy is unusable: {missing[0]} is missing")
    rules = _checked(given)
    if query_class not in CLASSES:
        raise ArbitrationError(f"the class is not one of {', '.join(CLASSES)}")
    merged = {**rules, **rules["class_rules"].get(query_class, {})}
    return merged, merged != rules


def _checked(rules: Any, query_class: str | None = None) -> dict[str, Any]:
    """A set of rules, a policy's or a class's of its own, with decimals as fractions."""
    where = "the arbitration policy is unusable: " + (f"class_rules of {query_class}: " if query_class else "")
    if not isinstance(rules, Mapping):
        raise PolicyError(f"{where}no JSON object")
    checked: dict[str, Any] = {}
    for name, value in rules.items():
        if name not in _PARAMETERS or (query_class and name in _OF_POLICY):
            raise PolicyError(f"{where}there is no rule {name}")
        if name == "class_rules":
            if not isinstance(value, Mapping) or not set(value) <= set(CLASSES):
                raise PolicyError(f"{where}class_rules is no object of classes")
            checked[name] = {one: _checked(own, one) for one, own in value.items()}
            continue
        checked[name] = _decimal(value) if name in _BOUNDS else value
        if not _is_rule(name, checked[name]):
            raise PolicyError(f"{where}{name} is {value!r}")
    if ("vector_weight" in checked) != ("keyword_weight" in checked):
        raise PolicyError(f"{where}there is one weight without the other")
    if "vector_weight" in checked and checked["vector_weight"] + checked["keyword_weight"] != 1:
        raise PolicyError(f"{where}the weights do not add up to 1")
    return checked


def _is_rule(name: str, value: Any) -> bool:
    if name in _BOUNDS:
        low, high = _BOUNDS[name]
        return value is not None and low <= value <= high
    if name in _CHOICES:
        return value is None or isinstance(value, str) if value in _CHOICES[name] else False
    if name == "top_k":
        return type(value) is int and 1 <= value <= 100  # noqa: PLR2004
    return isinstance(value, bool)


def _decimal(value: Any) -> Fraction | None:
    """A decimal with at most six places, as a number or as text, or None."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal)):
        return None
    text = value if isinstance(value, str) else format(Decimal(str(value)), "f")
    return Fraction(text) if re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,6}0*)?", text, re.ASCII) else None


def _places(ids: Ids, ranks: Ids | None) -> dict[int, int]:
    """The rank of each id, in the order of the list."""
    places = dict(zip(ids, range(1, len(ids) + 1) if ranks is None else ranks, strict=False))
    if len(places) != len(ids) or (ranks is not None and len(ranks) != len(ids)):
        raise ArbitrationError("a list has an id twice, or another number of ranks than of ids")
    shared = 0
    for n, rank in enumerate(places.values(), 1):
        if rank not in (n, shared) or rank == 0:
            raise ArbitrationError("the ranks are no competition ranks")
        shared = rank
    return places


def _order(places: Mapping[int, int], one: int, other: int) -> int:
    """-1 or 1: which is ahead; 0: neither."""
    behind = len(places) + 1
    return (places.get(one, behind) > places.get(other, behind)) - (places.get(one, behind) < places.get(other, behind))


def _peak(value: Number | None) -> Decimal:
    peak = None if value is None else Decimal(str(value))
    if peak is None or not peak.is_finite() or abs(peak) > 1:
        raise ArbitrationError("the peak of the similarities is not from -1 to 1")
    return peak.quantize(Decimal("0.000001"), ROUND_HALF_UP)


def _fraction(value: Number) -> Fraction:
    try:
        return Fraction(str(value))
    except ValueError as error:
        raise ArbitrationError(f"{value!r} is no number") from error


def _rounded(value: Fraction) -> Decimal:
    """To 12 decimals, halves up."""
    return Decimal((value * 2 * 10**12 + 1) // 2).scaleb(-12).normalize()


def _written(value: Decimal | Fraction) -> str:
    """A decimal without trailing zeros."""
    number = value if isinstance(value, Decimal) else Decimal(value.numerator) / value.denominator
    return format(number.normalize(), "f")


def _sha256(text: str) -> str:
    try:
        return hashlib.sha256(text.encode()).hexdigest()
    except UnicodeEncodeError as error:
        raise ArbitrationError("a text is no Unicode") from error
