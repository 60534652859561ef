"""Ranking profiles searched for on questions with judgements, and believed only by what they do on questions that they were not chosen on.

Three families are searched: one weight for all questions (`weighted`), reciprocal rank fusion with its k and its weight (`rrf`), and a weight for
each class of questions (`weighted by class`: the fusion `arbitrate` with a policy that always fuses). In each fold a family's best setting on the
other folds answers the fold's questions; these held-out answers together are compared with the present profile's. Questions with the same relevant
articles (paraphrases of one question) are never in two folds, and count as one in the test: their differences stand or fall together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import numpy as np

from kbsearch.evaluate.legs import Array, Ids
from kbsearch.evaluate.statistics import ALPHA, RESAMPLES, bootstrap_interval, changes, holm, randomization_test

WEIGHTS = tuple(round(0.025 * step, 3) for step in range(41))
"""Vector weights that are tried: 0 … 1 by .025; the keyword leg has the rest."""
RRF = tuple((k, round(0.1 * step, 1)) for k in (1, 2, 5, 10, 20, 40, 60, 100, 200, 500) for step in range(1, 10))
"""Pairs of k and vector weight that are tried."""
FOLDS = 5
QUESTIONS = 20
"""Fewer questions with a relevant article are too few to tune on."""
OF_CLASS = 30
"""Questions of a class, among those chosen on, below which it has no weight of its own."""

Family: TypeAlias = Literal["weighted", "rrf", "weighted by class"]
FAMILIES: tuple[Family, ...] = ("weighted", "rrf", "weighted by class")
"""The simplest first: of equals it is chosen."""


class TuningError(ValueError):
    """There is nothing to tune: too few questions, or a profile that cannot be the starting point."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a profile is made of.

    Attributes:
        family: one of FAMILIES.
        vector_weight: 0 … 1; the keyword leg has the rest.
        rrf_k: of rrf; of no meaning elsewhere.
        class_weights: vector weight by class of question, where it differs.
        scorer: of the keyword leg: bm25 or term_count.
    """

    family: Family
    vector_weight: float
    rrf_k: int = 60
    class_weights: Mapping[str, float] = field(default_factory=dict)
    scorer: str = "bm25"

    def __str__(self) -> str:
        """As people write it."""
        parts = [f"vector weight {self.vector_weight:g}"]
        if self.family == "rrf":
            parts.append(f"k {self.rrf_k}")
        parts += [f"{name} {weight:g}" for name, weight in sorted(self.class_weights.items())]
        return f"{self.family}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Asked:
    """Some questions, and how every setting that is tried ranks their articles. A row is a question.

    Attributes:
        queries: ids.
        classes: by classify_kb_query_v1.
        groups: number of the group of questions with the same relevant articles.
        base: nDCG@10 of the present profile, by searching.
        weighted: (questions, WEIGHTS) nDCG@10.
        rrf: (questions, RRF) nDCG@10.
        weighted_tops: (questions, WEIGHTS, 10) ids of articles.
        rrf_tops: (questions, RRF, 10) ids of articles.
        refused: why the search refuses a question, by its id; it counts 0 everywhere.
    """

    queries: tuple[str, ...]
    classes: tuple[str, ...]
    groups: Ids
    base: Array
    weighted: Array
    rrf: Array
    weighted_tops: Ids
    rrf_tops: Ids
    refused: Mapping[str, str] = field(default_factory=dict)

    def select(self, rows: Sequence[int] | Ids) -> Asked:
        """Some of the questions."""
        kept = np.asarray(rows, dtype=np.int64)
        return Asked(
            queries=tuple(self.queries[row] for row in kept),
            classes=tuple(self.classes[row] for row in kept),
            groups=self.groups[kept],
            base=self.base[kept],
            weighted=self.weighted[kept],
            rrf=self.rrf[kept],
            weighted_tops=self.weighted_tops[kept],
            rrf_tops=self.rrf_tops[kept],
            refused={
                query: self.refused[query] for query in (self.queries[row] for row in kept) if query in self.refused
            },
        )

    def columns(self, setting: Setting) -> Ids:
        """Where each question's ranking by a setting stands among those that were tried."""
        if setting.family == "rrf":
            return np.full(len(self.queries), RRF.index((setting.rrf_k, setting.vector_weight)))
        weights = [setting.class_weights.get(name, setting.vector_weight) for name in self.classes]
        return np.array([WEIGHTS.index(weight) for weight in weights], dtype=np.int64)

    def judge(self, setting: Setting) -> Array:
        """nDCG@10 of each question by a setting."""
        values = self.rrf if setting.family == "rrf" else self.weighted
        found: Array = values[np.arange(len(self.queries)), self.columns(setting)]
        return found

    def tops(self, setting: Setting) -> Ids:
        """The articles that each question is answered by, by a setting."""
        tops = self.rrf_tops if setting.family == "rrf" else self.weighted_tops
        found: Ids = tops[np.arange(len(self.queries)), self.columns(setting)]
        return found


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean nDCG@10 of a setting and of the present profile, over the same questions.

    Attributes:
        mean: of the setting.
        base: of the present profile.
        difference: mean - base.
        low: lower end of the 95 % bootstrap interval of the difference, groups of questions drawn anew.
        high: its upper end.
        p: two-sided, of the paired randomisation test over groups.
        wins: questions answered better.
        losses: questions answered worse.
    """

    mean: float
    base: float
    difference: float
    low: float
    high: float
    p: float
    wins: int
    losses: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a family comes to.

    Attributes:
        setting: its best on all questions that were tuned on.
        folds: its best of each fold, chosen on the other folds.
        tuned: nDCG@10 of `setting` on the questions that chose it: too good.
        held_out: on questions that had no part in the choice, against the present profile.
        p_adjusted: of held_out, adjusted for the number of families (Holm).
        better: held_out is greater than 0, and p_adjusted at most the error level.
    """

    setting: Setting
    folds: tuple[Setting, ...]
    tuned: float
    held_out: Difference
    p_adjusted: float
    better: bool


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was found.

    Attributes:
        base: name of the present profile.
        questions: number of questions that were tuned on.
        groups: number of groups of questions with the same relevant articles among them.
        families: what each comes to.
        chosen: the one that a profile is made of; None: none is better than the present one.
        reason: why.
        asked: the questions that were tuned on.
        apart: nDCG@10 on the questions that were held out altogether; None: none were.
        elsewhere: nDCG@10 on other collections by their names.
    """

    base: str
    questions: int
    groups: int
    families: tuple[Found, ...]
    chosen: Found | None
    reason: str
    asked: Asked
    apart: Difference | None = None
    elsewhere: Mapping[str, Difference] = field(default_factory=dict)

    def measured(self, name: str, asked: Asked, *, alpha: float = ALPHA, resamples: int = RESAMPLES) -> Tuning:
        """With what the choice does on other questions: where it is significantly worse, nothing is chosen."""
        found = measure_difference(asked.judge(self.best.setting), asked.base, asked.groups, resamples=resamples)
        elsewhere = {**self.elsewhere, name: found}
        if self.chosen is None or found.p > alpha or found.difference >= 0:
            return replace(self, elsewhere=elsewhere)
        reason = (
            f"{self.base} stays: {self.chosen.setting} is worse on {name}: {found.difference:+.4f}, p {found.p:.4f}."
        )
        return replace(self, elsewhere=elsewhere, chosen=None, reason=reason)

    @property
    def best(self) -> Found:
        """What was chosen; else the family that does best on what is held out."""
        return self.chosen or max(self.families, key=lambda found: found.held_out.mean)

    def as_json(self) -> dict[str, Any]:
        """All but the questions, as JSON values."""
        return {
            "base": self.base,
            "questions": self.questions,
            "groups": self.groups,
            "families": [asdict(found) for found in self.families],
            "chosen": None if self.chosen is None else asdict(self.chosen.setting),
            "reason": self.reason,
            "apart": None if self.apart is None else asdict(self.apart),
            "elsewhere": {name: asdict(difference) for name, difference in self.elsewhere.items()},
            "refused": len(self.asked.refused),
        }


def decide(
    asked: Asked,
    base: str,
    *,
    scorer: str = "bm25",
    folds: int = FOLDS,
    alpha: float = ALPHA,
    resamples: int = RESAMPLES,
) -> Tuning:
    """Search each family, and choose one if its held-out answers are significantly better than the present profile's.

    One setting for all questions is preferred: weights by class are chosen where they are significantly better than it, too.

    Args:
        asked: the questions.
        base: name of the present profile.
        scorer: of the keyword leg, as in the present profile.
        folds: how many parts the questions are divided into.
        alpha: level of error, over all families together.
        resamples: of tests and intervals.

    Raises:
        TuningError: too few questions, or too few groups for the folds.
    """
    count, groups = len(asked.queries), len(set(asked.groups.tolist()))
    if count < QUESTIONS or groups < 2 * folds:
        raise TuningError(
            f"{count} questions with {groups} different sets of relevant articles are too few: at least {QUESTIONS} and {2 * folds} are needed"
        )
    parts = fold_numbers(asked, folds)
    settings, answers = {}, {}
    for family in FAMILIES:
        chosen = tuple(choose(asked.select(np.flatnonzero(parts != part)), family, scorer) for part in range(folds))
        values = np.zeros(count)
        for part, setting in enumerate(chosen):
            values[parts == part] = asked.judge(setting)[parts == part]
        settings[family], answers[family] = chosen, values
    differences = {
        family: measure_difference(values, asked.base, asked.groups, resamples=resamples)
        for family, values in answers.items()
    }
    families = []
    for family, adjusted in zip(FAMILIES, holm([differences[family].p for family in FAMILIES]), strict=True):
        setting = choose(asked, family, scorer)
        held_out = differences[family]
        families.append(
            Found(
                setting=setting,
                folds=settings[family],
                tuned=float(asked.judge(setting).mean()),
                held_out=held_out,
                p_adjusted=adjusted,
                better=adjusted <= alpha and held_out.difference > 0,
            )
        )
    picked = _pick(families, answers, asked.groups, alpha, resamples)
    if picked is None:
        best = max(families, key=lambda found: found.held_out.mean)
        reason = (
            f"{base} stays: on held-out questions no setting is significantly better (the best, {best.setting}, "
            f"{best.held_out.difference:+.4f}, p {best.p_adjusted:.3f})."
        )
    else:
        reason = f"{picked.setting} is better than {base} on held-out questions: {picked.held_out.difference:+.4f}, p {picked.p_adjusted:.4f}."
    return Tuning(base, count, groups, tuple(families), picked, reason, asked)


def _pick(
    families: Sequence[Found], answers: Mapping[Family, Array], groups: Ids, alpha: float, resamples: int
) -> Found | None:
    """The best of the families with one setting for all; weights by class only if they are better than that."""
    plain = [found for found in families if found.better and not found.setting.class_weights]
    best = max(plain, key=lambda found: found.held_out.mean, default=None)
    for found in families:
        if not found.better or not found.setting.class_weights:
            continue
        if best is None:
            return found
        over = measure_difference(
            answers[found.setting.family], answers[best.setting.family], groups, resamples=resamples
        )
        if over.difference > 0 and over.p <= alpha:
            return found
    return best


def choose(asked: Asked, family: Family, scorer: str = "bm25") -> Setting:
    """The setting of a family with the highest mean nDCG@10; of equals the one nearest to equal weights, and to k 60."""
    if family == "rrf":
        means = asked.rrf.mean(axis=0)
        order = sorted(
            range(len(RRF)), key=lambda one: (-round(means[one], 12), abs(RRF[one][1] - 0.5), abs(RRF[one][0] - 60))
        )
        k, weight = RRF[order[0]]
        return Setting(family, weight, k, scorer=scorer)
    weight = _best_weight(asked.weighted)
    if family == "weighted":
        return Setting(family, weight, scorer=scorer)
    own = {}
    for name, size in sorted(Counter(asked.classes).items()):
        if size >= OF_CLASS:
            rows = np.array([one == name for one in asked.classes])
            # The legs alone are no part of a policy's weights: between them.
            own[name] = _best_weight(asked.weighted[rows][:, 1:-1], WEIGHTS[1:-1])
    weight = min(max(weight, WEIGHTS[1]), WEIGHTS[-2])
    return Setting(
        family, weight, class_weights={name: one for name, one in own.items() if one != weight}, scorer=scorer
    )


def _best_weight(values: Array, weights: Sequence[float] = WEIGHTS) -> float:
    means = values.mean(axis=0)
    return min(zip(weights, means, strict=True), key=lambda pair: (-round(pair[1], 12), abs(pair[0] - 0.5)))[0]


def fold_numbers(asked: Asked, folds: int) -> Ids:
    """The fold of each question: groups by a hash of their first question's id, each into the smallest fold so far."""
    members: dict[int, list[int]] = {}
    for row, group in enumerate(asked.groups.tolist()):
        members.setdefault(group, []).append(row)
    order = sorted(
        members.values(),
        key=lambda rows: sha256(min(asked.queries[row] for row in rows).encode(errors="surrogatepass")).digest(),
    )
    sizes = [0] * folds
    found = np.zeros(len(asked.queries), dtype=np.int64)
    for rows in order:
        part = sizes.index(min(sizes))
        sizes[part] += len(rows)
        found[rows] = part
    return found


def split_apart(asked: Asked, share: float) -> tuple[Asked, Asked]:
    """Questions to tune on, and a share of them (0 … 1) that is not looked at: of halves every second, by sorted id.

    Questions with the same relevant articles are on one side all, in the place of the first of them; so the share may be missed by as many.
    """
    order = sorted(range(len(asked.queries)), key=lambda row: asked.queries[row])
    members: dict[int, list[int]] = {}
    for row in order:
        members.setdefault(int(asked.groups[row]), []).append(row)
    taken: set[int] = set()
    seen = 0
    for rows in members.values():
        seen += len(rows)
        if len(taken) < int(seen * share + 1e-9):
            taken.update(rows)
    return asked.select([row for row in order if row not in taken]), asked.select(
        [row for row in order if row in taken]
    )


def measure_difference(values: Array, base: Array, groups: Ids, *, resamples: int = RESAMPLES) -> Difference:
    """Compare two systems' nDCG@10 over questions that come in groups: a group's differences stand or fall together."""
    moved = changes(base, values)
    _, index = np.unique(groups, return_inverse=True)
    sums = np.bincount(index, weights=moved).astype(np.float64)
    # The mean over questions is the mean of these: sum over groups / questions.
    interval = bootstrap_interval(sums * len(sums) / len(moved), resamples=resamples)
    return Difference(
        mean=float(values.mean()),
        base=float(base.mean()),
        difference=float(moved.mean()),
        low=interval.low,
        high=interval.high,
        p=randomization_test(sums, resamples=resamples),
        wins=int((moved > 0).sum()),
        losses=int((moved < 0).sum()),
    )
