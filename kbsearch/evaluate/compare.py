"""Two saved runs side by side: what differs in how they were made, and whether the second really answers better or worse."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kbsearch.evaluate.metrics import METRICS, per_query
from kbsearch.evaluate.runs import SavedRun
from kbsearch.evaluate.statistics import ALPHA, RESAMPLES, Interval, MetricComparison, compare_metrics, overlap

TREATMENT = ("system",)
"""What two runs may differ in where nothing else is declared: the ranking profile and the functions that it runs."""
CHANGED = 10
"""How many of the questions that changed most are shown."""
MOVED = 5
"""How many articles are shown of each."""
SEEN = 10
"""Places that are looked at for articles that moved, beside those of relevant ones."""

Verdict: TypeAlias = Literal["better", "worse", "mixed", "no difference", "none"]
"""Of the second run against the first; mixed: better by one metric and worse by another; none: there is no verdict."""


def heading(metric: str) -> str:
    """A metric as tables call it: MRR for the mean of RR, hit@n for that of Success@n."""
    return metric.replace("Success", "hit").replace("RR", "MRR")


_BY_HEADING = {heading(name): name for name in METRICS}


class ComparisonError(ValueError):
    """The two runs cannot be compared: other questions, other judgements, an unknown metric."""


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A recorded field in which two runs differ.

    Attributes:
        name: dotted path in the record.
        first: its value in the first run; None where the field is missing.
        second: its value in the second run.
        declared: whether it belongs to the declared treatment.
    """

    name: str
    first: Any
    second: Any
    declared: bool


@dataclass(frozen=True, slots=True)
class Moved:
    """An article of a question that changed: its places in both rankings (None: not found) and its grade (None: not judged)."""

    document: str
    grade: int | None
    first: int | None
    second: int | None


@dataclass(frozen=True, slots=True)
class ChangedQuestion:
    """A question that the two runs answer differently: its metric in both, the overlap of its rankings (0 … 1), the articles that moved most."""

    query: str
    first: float
    second: float
    overlap: float
    moved: tuple[Moved, ...]


@dataclass(frozen=True, slots=True)
class SameTwice:
    """What `kbsearch aa` found: how much rankings move when one configuration is built twice.

    Attributes:
        questions: that were asked.
        differing: whose rankings were not the same.
        ndcg_difference: of the mean nDCG@10 of the two builds; None where nothing was judged.
        stage: where the builds first part; None where they do not.
    """

    questions: int
    differing: int
    ndcg_difference: float | None
    stage: str | None = None

    @classmethod
    def load(cls, path: Path) -> SameTwice:
        """Read the JSON that `kbsearch aa` writes.

        Raises:
            ComparisonError: it cannot be read, or is something else.
        """
        try:
            given = json.loads(path.read_text(encoding="utf-8"))
            found = cls(
                questions=given["questions"],
                differing=given["differing"],
                ndcg_difference=given["ndcg_difference"],
                stage=given.get("stage"),
            )
        except OSError as error:
            raise ComparisonError(f"cannot read {path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ComparisonError(f"{path} is not what kbsearch aa --json writes: {error!r}") from error
        counts = type(found.questions) is int and type(found.differing) is int
        if not counts or not 0 <= found.differing <= found.questions or not _is_number(found.ndcg_difference or 0):
            raise ComparisonError(f"{path} is not what kbsearch aa --json writes: numbers are missing or impossible")
        return found

    def tolerance(self, metric: str) -> float:
        """How far the mean of a metric moves between two builds, or can at most.

        nDCG@10 was measured, if anything was judged. A mean of another metric, which lies in 0 … 1, moves at most by the share of the
        questions that differ.
        """
        if metric == "nDCG@10" and self.ndcg_difference is not None:
            return abs(self.ndcg_difference)
        return self.differing / self.questions if self.questions else 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing two runs found.

    Attributes:
        first: name of the first run.
        second: name of the second.
        treatment: prefixes of the fields that may differ.
        fields: that differ.
        questions: number of judged questions.
        verdict: about the second run.
        reason: the verdict in a sentence; where there is none, what to do.
        confounded: whether the verdict was insisted on although more than the treatment differs.
        metrics: by metric; empty without a verdict.
        intervals: bootstrap means by metric.
        values: each question's metrics, of the first and of the second run: name, question, value.
        overlap: mean rank-biased overlap of the rankings, 0 … 1.
        identical: number of questions whose rankings are the same.
        changed: questions that changed most, by the first metric.
        same: what building twice moves; None: not given, taken as nothing.
    """

    first: str
    second: str
    treatment: tuple[str, ...]
    fields: tuple[FieldDifference, ...]
    questions: int
    verdict: Verdict
    reason: str
    confounded: bool = False
    metrics: tuple[MetricComparison, ...] = ()
    intervals: Mapping[str, Interval] | None = None
    values: tuple[Mapping[str, Mapping[str, float]], Mapping[str, Mapping[str, float]]] = ({}, {})
    overlap: float = 1.0
    identical: int = 0
    changed: tuple[ChangedQuestion, ...] = ()
    same: SameTwice | None = None

    @property
    def undeclared(self) -> tuple[FieldDifference, ...]:
        """The fields that differ and may not."""
        return tuple(field for field in self.fields if not field.declared)

    @property
    def is_worse(self) -> bool:
        """Whether the second run is really worse by some metric."""
        return any(metric.is_worse for metric in self.metrics)

    def as_json(self) -> dict[str, Any]:
        """All of it but the single questions' values, as JSON values."""
        return {
            "first": self.first,
            "second": self.second,
            "verdict": self.verdict,
            "confounded": self.confounded,
            "reason": self.reason,
            "treatment": list(self.treatment),
            "fields": [asdict(field) for field in self.fields],
            "questions": self.questions,
            "identical": self.identical,
            "overlap": self.overlap,
            "metrics": [asdict(metric) for metric in self.metrics],
            "changed": [asdict(question) for question in self.changed],
            "aa": None if self.same is None else asdict(self.same),
        }


def compare(
    first: SavedRun,
    second: SavedRun,
    *,
    names: tuple[str, str] | None = None,
    treatment: Sequence[str] = TREATMENT,
    allow_confounded: bool = False,
    metrics: Sequence[str] = METRICS,
    same: SameTwice | None = None,
    alpha: float = ALPHA,
    resamples: int = RESAMPLES,
) -> Comparison:
    """Compare two runs over the same questions.

    There is no verdict where more than the treatment differs (unless it is insisted on), nor where nothing recorded differs and the rankings
    do: what decided them is not known. A metric is called different where it is significant (Holm, over all the metrics) and moves by more
    than building one configuration twice moves it.

    Args:
        first: the run that is compared with.
        second: the run that is judged.
        names: what to call them; their systems by default.
        treatment: prefixes of the fields that may differ, by dots: `system` has `system.profile` in it, and not `systems`.
        allow_confounded: give a verdict all the same; it is marked.
        metrics: that are compared, of METRICS or as tables call them; the first decides which questions changed most.
        same: what building one configuration twice moves; None: nothing.
        alpha: level of error over all the metrics.
        resamples: of tests and intervals.

    Raises:
        ComparisonError: the runs have other questions or judgements, or a metric is unknown.
    """
    if unknown := [name for name in metrics if name not in METRICS and name not in _BY_HEADING]:
        raise ComparisonError(f"unknown metric {unknown[0]!r}: there are {', '.join(map(heading, METRICS))}")
    wanted = tuple(dict.fromkeys(_BY_HEADING.get(name, name) for name in metrics)) or METRICS
    _check_questions(first, second)
    called = names or _names(first.system, second.system)
    fields = tuple(differing_fields(first.record, second.record, treatment))
    undeclared = [field.name for field in fields if not field.declared]
    queries = sorted(first.qrels)
    moved = [query for query in queries if first.rankings.get(query, ()) != second.rankings.get(query, ())]
    known = Comparison(
        first=called[0],
        second=called[1],
        treatment=tuple(treatment),
        fields=fields,
        questions=len(queries),
        verdict="none",
        reason="",
        identical=len(queries) - len(moved),
        same=same,
    )
    if undeclared and not allow_confounded:
        return replace(known, reason=_what_to_do(undeclared, treatment))
    if not fields and moved and not allow_confounded:
        return replace(
            known,
            reason=f"No recorded field differs, and the rankings of {len(moved)} questions do: something that is not recorded decided them. "
            "kbsearch aa finds the stage.",
        )
    values = per_query(first.qrels, first.rankings), per_query(second.qrels, second.rankings)
    columns = [{name: [one[name][query] for query in queries] for name in wanted} for one in values]
    tolerances = {name: same.tolerance(name) for name in wanted} if same else {}
    compared, intervals = compare_metrics(*columns, same=tolerances, alpha=alpha, resamples=resamples)
    overlaps = {
        query: overlap(first.rankings.get(query, ()), second.rankings.get(query, ())) if query in set(moved) else 1.0
        for query in queries
    }
    verdict = _verdict(compared)
    return replace(
        known,
        verdict=verdict,
        reason=_reason(verdict, compared, called),
        confounded=bool(undeclared) or (not fields and bool(moved)),
        metrics=tuple(compared),
        intervals=intervals,
        values=values,
        overlap=math.fsum(overlaps.values()) / len(overlaps),
        changed=tuple(_changed(first, second, moved, values[0][wanted[0]], values[1][wanted[0]], overlaps)),
    )


def differing_fields(
    first: Mapping[str, Any], second: Mapping[str, Any], treatment: Sequence[str] = TREATMENT
) -> list[FieldDifference]:
    """The leaves in which two records differ, by dotted path, sorted; lists are leaves."""
    ours, theirs = leaves(first), leaves(second)
    return [
        FieldDifference(name, ours.get(name), theirs.get(name), _is_declared(name, treatment))
        for name in sorted(ours.keys() | theirs.keys())
        if name not in ours or name not in theirs or not _equal(ours[name], theirs[name])
    ]


def leaves(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested objects by dotted path; an empty object is a value."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, Mapping) and value:
            found |= leaves(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def _equal(one: Any, other: Any) -> bool:
    """As JSON has it: true is not 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _is_declared(name: str, treatment: Sequence[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in treatment)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _check_questions(first: SavedRun, second: SavedRun) -> None:
    if first.qrels != second.qrels:
        queries = sorted(first.qrels.keys() ^ second.qrels.keys())
        if queries:
            raise ComparisonError(
                f"the runs are of different questions: {queries[0]} is judged in one of them only, the first of {len(queries)}"
            )
        other = next(query for query in sorted(first.qrels) if first.qrels[query] != second.qrels[query])
        raise ComparisonError(f"the runs have different judgements: query {other} is the first")
    if not first.qrels:
        raise ComparisonError("the runs have no judgements")
    ours, theirs = leaves(first.record), leaves(second.record)
    for name, what in (("collection.queries_sha256", "questions"), ("collection.qrels_sha256", "judgements")):
        if name in ours and name in theirs and ours[name] != theirs[name]:
            raise ComparisonError(f"the runs have different {what}: {name} is not the same")


def _names(first: str, second: str) -> tuple[str, str]:
    return (first, second) if first != second else (f"{first} (1)", f"{second} (2)")


def _what_to_do(undeclared: Sequence[str], treatment: Sequence[str]) -> str:
    groups = dict.fromkeys([*treatment, *(name.split(".", maxsplit=1)[0] for name in undeclared)])
    options = " ".join(f"--treatment {group}" for group in groups)
    return (
        f"More than the treatment differs: {', '.join(undeclared)}. Measure both again with everything else the same; or, if this is what "
        f"is tried out, declare it ({options}); or insist with --allow-confounded: nobody can say then which of them it was."
    )


def _verdict(compared: Sequence[MetricComparison]) -> Verdict:
    better, worse = any(metric.is_better for metric in compared), any(metric.is_worse for metric in compared)
    if better and worse:
        return "mixed"
    if better:
        return "better"
    return "worse" if worse else "no difference"


def _reason(verdict: Verdict, compared: Sequence[MetricComparison], names: tuple[str, str]) -> str:
    first, second = names
    better = ", ".join(heading(metric.metric) for metric in compared if metric.is_better)
    worse = ", ".join(heading(metric.metric) for metric in compared if metric.is_worse)
    within = ", ".join(heading(metric.metric) for metric in compared if metric.significant and not metric.real)
    if verdict == "better":
        return f"{second} is better than {first} by {better}."
    if verdict == "worse":
        return f"{second} is worse than {first} by {worse}."
    if verdict == "mixed":
        return f"{second} is better than {first} by {better}, and worse by {worse}."
    if not any(metric.wins or metric.losses for metric in compared):
        return f"{second} and {first} do not differ in any question."
    if within:
        return f"No difference is shown: what differs ({within}) moves as much when one configuration is built twice."
    return f"No difference is shown between {second} and {first}: chance would do the same."


def _changed(
    first: SavedRun,
    second: SavedRun,
    moved: Sequence[str],
    ours: Mapping[str, float],
    theirs: Mapping[str, float],
    overlaps: Mapping[str, float],
) -> list[ChangedQuestion]:
    order = sorted(moved, key=lambda query: (-abs(theirs[query] - ours[query]), overlaps[query], query))
    return [
        ChangedQuestion(
            query,
            ours[query],
            theirs[query],
            overlaps[query],
            tuple(moves(first.rankings.get(query, ()), second.rankings.get(query, ()), first.qrels[query])),
        )
        for query in order[:CHANGED]
    ]


def moves(first: Sequence[str], second: Sequence[str], grades: Mapping[str, int]) -> list[Moved]:
    """The articles that moved most: relevant ones wherever they stand, others among the first ten; the most gain won or lost first."""
    before = {document: place for place, document in enumerate(first, 1)}
    after = {document: place for place, document in enumerate(second, 1)}
    relevant = {document for document, grade in grades.items() if grade > 0}
    seen = {*first[:SEEN], *second[:SEEN], *(relevant & (before.keys() | after.keys()))}

    def weight(document: str) -> tuple[float, float, str]:
        discounts = [
            1 / math.log2(1 + place) if place else 0.0 for place in (before.get(document), after.get(document))
        ]
        change = abs(discounts[1] - discounts[0])
        return (-change * max(0, grades.get(document, 0)), -change, document)

    found = [
        Moved(document, grades.get(document), before.get(document), after.get(document))
        for document in sorted(seen, key=weight)
        if before.get(document) != after.get(document)
    ]
    return found[:MOVED]
