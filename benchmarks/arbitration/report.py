"""The table for the terminal, and ARBITRATION.md for the reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from benchmarks.arbitration.compare import (
    PERMUTATIONS,
    SIGNIFICANT,
    Candidate,
    Difference,
    Line,
    Row,
    better_leg,
    permutation_test,
    plain,
)
from benchmarks.arbitration.policies import Policy
from benchmarks.arbitration.rankings import Studied
from benchmarks.arbitration.tuning import LIMIT, Best

PAGE = Path(__file__).resolve().parents[1] / "ARBITRATION.md"
COMMAND = "python -m benchmarks.arbitration"
GAIN = 0.03
"""What a fusion should gain over rank fusion on the mean."""
TITLES = {"scifact": "SciFact", "cranfield": "Cranfield", "stackfaq": "StackFAQ", "scifact-train": "SciFact train"}


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that a run found.

    Attributes:
        rows: a row a system, on the held-out questions.
        candidates: those of the rows that were chosen on the tuning questions.
        tuning: sets that something was chosen on.
        held_out: sets that the rows are of.
        weights: chosen vector weights.
        policies: chosen policies.
        builtin: parameters of the built-in policies by name.
        searches: nDCG@10 of the server's rankings by collection and profile.
        server: versions of what answered.
    """

    rows: Sequence[Row]
    candidates: Sequence[Candidate]
    tuning: Mapping[str, Studied]
    held_out: Mapping[str, Studied]
    weights: Best
    policies: Best
    builtin: Mapping[str, Mapping[str, Any]]
    searches: Mapping[str, Mapping[str, float]]
    server: str

    def row(self, name: str) -> Row:
        """The row of a system."""
        return next(row for row in self.rows if row.name == name)


def table(found: Found) -> Table:
    """For the terminal: + and - where a figure differs significantly from weighted@1's."""
    result = Table(title="nDCG@10 on questions that nothing was tuned on", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    result.add_column("system", no_wrap=True)
    for name in (*(TITLES[name] for name in found.held_out), "mean", "vs weighted@1"):
        result.add_column(name, justify="right", no_wrap=True)
    for row in found.rows:
        cells = [f"{line.value:.4f}{_mark(line.weighted)}" for line in (*row.sets.values(), row.mean)]
        result.add_row(row.name, *cells, _difference(row.mean.weighted))
    result.caption = "+ and -: better and worse than weighted@1, p < .05; in brackets p of the mean"
    return result


def _mark(difference: Difference) -> str:
    if difference.p >= SIGNIFICANT:
        return " "
    return "+" if difference.value > 0 else "-"


def _difference(difference: Difference) -> str:
    return f"{difference.value:+.4f} ({_p(difference.p)})"


def _p(value: float) -> str:
    if value < 0.001:  # noqa: PLR2004  (three digits are shown)
        return "<.001"
    return f"{value:.3f}".lstrip("0") if value < 1 else "1"


def markdown(found: Found) -> str:
    """The whole of ARBITRATION.md."""
    return "\n".join(
        [
            "# Does arbitration rank better?",
            "",
            f"Written by `{COMMAND}`; do not edit. nDCG@10, one chunk a document, vectors of all-MiniLM-L6-v2 (int8), {found.server}.",
            "",
            *_answer(found),
            "",
            "## Questions that nothing was tuned on",
            "",
            *_held_out(found),
            "",
            *_threads(found),
            "",
            "## What was chosen on which questions",
            "",
            *_chosen(found),
            "",
            "## Hard questions",
            "",
            *_hard(found),
            "",
            "## What was checked",
            "",
            *_checks(found),
            "",
        ]
    )


def _answer(found: Found) -> list[str]:
    rows = [found.row(candidate.name) for candidate in found.candidates]
    better = [row.name for row in rows if row.mean.weighted.value > 0 and row.mean.weighted.p < SIGNIFICANT]
    top = max(rows, key=lambda row: row.mean.value)
    alone = found.row(plain(found.weights.free.vector_weight).name)
    near = [row.name for row in rows if all(line.leg.value >= -LIMIT for line in row.sets.values())]
    far = [row.name for row in rows if row.mean.rrf.value >= GAIN]
    reference = found.builtin["reference@1"]
    escalated = [100 * float(np.mean(studied.chosen(reference) < 0)) for studied in found.held_out.values()]
    return [
        f"{'Yes: ' + ', '.join(better) if better else 'No: none'} of the {len(rows)} weights, class rules and policies that tuning chose",
        f"{'are' if better else 'is'} significantly better than equal weights on the mean of the three collections.",
        "",
        f"- The best of them is {top.name}: {_difference(top.mean.weighted)} over `weighted@1`, in brackets p, which flatters what is",
        f"  picked by the figure itself. {alone.name.capitalize()}, the best on the tuning questions, gains {_difference(alone.mean.weighted)}.",
        "- `arbitrate@1`, by the policy `default@1`, ranks as `weighted@1` does, and records how far apart the legs are.",
        f"  Both gain {_difference(found.row('weighted@1').mean.rrf)} over `rrf@1`.",
        f"- At most {LIMIT} below the better leg of every collection: {_list(near)}.",
        f"  At least {GAIN} over `rrf@1` on the mean: {_list(far)}.",
        f"- `reference@1` is for audits, not for ranking: it escalates {min(escalated):.0f} to {max(escalated):.0f} % of a collection's questions,",
        "  which then have no answer.",
        "- Thresholds are of this model's similarities; another model has others. Tune on questions of your own before a policy leans to a leg.",
    ]


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none of them"


def _held_out(found: Found) -> list[str]:
    sizes = ", ".join(f"{TITLES[name]} {len(studied.queries):,}" for name, studied in found.held_out.items())
    heads = [f"{TITLES[name]} | vs leg | vs weighted | vs rrf" for name in found.held_out]
    lines = [
        f"Questions: {sizes} (of StackFAQ the half that nothing was tuned on). Leg: the better single leg of the collection, by its mean; weighted",
        "and rrf: `weighted@1` and `rrf@1`. Mean: the collections weigh the same. In brackets p of a paired permutation test",
        f"({PERMUTATIONS:,} permutations, two-sided, not adjusted: of {len(found.candidates)} candidates one may well have p < .05 by chance).",
        "",
        f"| system | {' | '.join(heads)} | mean | vs weighted | vs rrf |",
        "|---" * (4 * len(heads) + 4) + "|",
    ]
    for row in found.rows:
        cells = [_cells(line, leg=True) for line in row.sets.values()] + [_cells(row.mean, leg=False)]
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return lines


def _cells(line: Line, *, leg: bool) -> str:
    differences = ([line.leg] if leg else []) + [line.weighted, line.rrf]
    return " | ".join([f"{line.value:.4f}", *map(_difference, differences)])


def _threads(found: Found) -> list[str]:
    """The permutation test by thread, for what is better than weighted@1 on StackFAQ."""
    studied = found.held_out["stackfaq"]
    threads = [str(query).split("q")[0] for query in studied.queries]
    names = {plain(found.weights.free.vector_weight).name, plain(found.weights.within.vector_weight).name, "P1", "P4"}
    parts = []
    for candidate in found.candidates:
        if candidate.name in names:
            scores = candidate.score(studied)
            others = (studied.at(0.5), better_leg(studied))
            against = [_p(permutation_test(scores - other, threads)) for other in others]
            parts.append(f"{candidate.name} {against[0]} and {against[1]}")
    return [
        f"StackFAQ's halves have questions of the same {len(set(threads))} threads, so its second half is not independent of the first. With the",
        "signs of a thread's questions flipped together, p against `weighted@1` and against the vector leg is:",
        "; ".join(parts) + ".",
    ]


def _chosen(found: Found) -> list[str]:
    sizes = ", ".join(f"{TITLES[name]} ({len(studied.queries):,})" for name, studied in found.tuning.items())
    lines = [
        f"Chosen on questions of {sizes}, of StackFAQ every second one by sorted id. Mechanical choices are made again by every run:",
        f"the highest mean of {found.weights.tried} vector weights and of {found.policies.tried:,} policies, free or with every set at most",
        f"{LIMIT} below its better leg. Those by hand were picked from the tops of these lists and written down before the figures above",
        "were looked at; known were SciFact's by vector weight, which had been printed once, and the best single weight of each collection.",
        "`reference@1`, and the same with the severe rule `fuse`, were added later.",
        "",
        "| candidate | chosen | policy (else as default@1) | "
        + " | ".join(TITLES[name] for name in found.tuning)
        + " | mean |",
        "|---" * (4 + len(found.tuning)) + "|",
    ]
    for candidate in [Candidate("weighted@1", "as it is"), *found.candidates]:
        scores = [candidate.score(studied) for studied in found.tuning.values()]
        means = [float(one.mean()) for one in scores]
        cells = [f"{value:.4f}" for value in (*means, float(np.mean(means)))]
        lines.append(f"| {candidate.name} | {candidate.origin} | {_described(candidate)} | {' | '.join(cells)} |")
    return lines


def _described(candidate: Candidate) -> str:
    return f"vector_weight {candidate.vector_weight:g}" if candidate.policy is None else str(candidate.policy)


def _hard(found: Found) -> list[str]:
    limit = Policy().max_disagreement
    lines = [
        "Disagreement does not say which leg is right, but which questions are hard: nDCG@10 of `weighted@1` where the first five articles of the",
        f"legs disagree by more than {limit}, the limit of `default@1`, which was noticed on the tuning questions.",
        "",
        "| | questions | over the limit | nDCG@10 over it | else |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, studied in [*found.tuning.items(), *found.held_out.items()]:
        apart = np.array([float(one.disagreement or 0) for one in studied.decisions(Policy().parameters())]) > limit
        scores = studied.at(0.5)
        title = TITLES[name] + (", a half" if name == "stackfaq" else "")
        lines.append(
            f"| {title} | {len(scores):,} | {100 * apart.mean():.0f} % | {scores[apart].mean():.4f} | {scores[~apart].mean():.4f} |"
        )
    return lines


def _checks(found: Found) -> list[str]:
    lines = [
        "The figures above are computed from what the legs score; decisions are those of `kbsearch.arbitration`. Every run compares, and refuses to",
        "go on where something differs:",
        "",
        "- nDCG@10 of `weighted@1`, `rrf@1` and each leg with what `kbsearch evaluate` says of the three collections;",
        "- the first ten articles of every question of the three collections with the server's, which arbitrates itself. `own@1` has P4 as an",
        "  organisation's own policy and profile.",
        "",
        "| nDCG@10, all questions, by the server | " + " | ".join(next(iter(found.searches.values()))) + " |",
        "|---" * (1 + len(next(iter(found.searches.values())))) + "|",
    ]
    for name, searches in found.searches.items():
        lines.append(f"| {TITLES[name]} | " + " | ".join(f"{value:.4f}" for value in searches.values()) + " |")
    return lines
