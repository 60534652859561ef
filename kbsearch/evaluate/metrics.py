"""Metrics of rankings, by question and as means, computed by ir-measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

METRICS = ("nDCG@10", "R@10", "R@100", "RR", "Success@1", "Success@3", "Success@5")
"""What is measured, by the names of ir-measures; all lie in 0 … 1.

nDCG has a linear gain, as in trec_eval; RR is the reciprocal rank (its mean is MRR); Success@n says whether one of the first n answers (hit@n).
"""

Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Grades by query and document; above 0 is relevant."""
Rankings: TypeAlias = Mapping[str, Sequence[str]]
"""The document ids found for each query id, best first."""


def per_query(qrels: Qrels, rankings: Rankings) -> dict[str, dict[str, float]]:
    """Metrics by name and judged query, in the order of the judgements; a query without an answer has 0.

    The evaluator is given places, not scores: it would break ties of scores by document id.
    """
    import ir_measures  # noqa: PLC0415  (an extra, and slow to import)

    # Ids become numbers: some evaluators break at ids that are no UTF-8.
    queries = {query: str(place) for place, query in enumerate(qrels)}
    documents = _Numbers()
    judgements = [
        ir_measures.Qrel(queries[query], documents[document], grade)
        for query, grades in qrels.items()
        for document, grade in grades.items()
    ]
    scored = [
        ir_measures.ScoredDoc(queries[query], documents[document], -float(place))
        for query, ranking in rankings.items()
        if query in queries
        for place, document in enumerate(ranking, 1)
    ]
    values: dict[str, dict[str, float]] = {name: dict.fromkeys(qrels, 0.0) for name in METRICS}
    names = {ir_measures.parse_measure(name): name for name in METRICS}
    numbered = list(qrels)
    for found in ir_measures.iter_calc(list(names), judgements, scored):
        values[names[found.measure]][numbered[int(found.query_id)]] = float(found.value)
    return values


class _Numbers(dict[str, str]):
    """Numbers for what is looked up, in the order in which it is."""

    def __missing__(self, key: str) -> str:
        self[key] = str(len(self))
        return self[key]


def measure(qrels: Qrels, rankings: Rankings) -> dict[str, float]:
    """Means of the metrics over all judged queries: a query without an answer counts 0."""
    return {name: sum(values.values()) / len(values) for name, values in per_query(qrels, rankings).items()}
