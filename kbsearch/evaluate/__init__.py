"""Evaluation: a collection with relevance judgements, asked through the search function itself."""

from kbsearch.evaluate.collection import Collection, CollectionError, EvaluationDocument, Query, prose, sentences
from kbsearch.evaluate.metrics import METRICS, measure, per_query
from kbsearch.evaluate.run import SYSTEMS, Evaluation, SystemResult, evaluate, evaluate_in_place
from kbsearch.evaluate.runs import RunError, SavedRun

__all__ = [
    "METRICS",
    "SYSTEMS",
    "Collection",
    "CollectionError",
    "Evaluation",
    "EvaluationDocument",
    "Query",
    "RunError",
    "SavedRun",
    "SystemResult",
    "evaluate",
    "evaluate_in_place",
    "measure",
    "per_query",
    "prose",
    "sentences",
]
