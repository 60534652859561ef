"""Evaluation: a collection with relevance judgements, asked through the search function itself."""

from kbsearch.evaluate.collection import Collection, CollectionError, EvaluationDocument, Query, prose, sentences
from kbsearch.evaluate.run import METRICS, SYSTEMS, Evaluation, SystemResult, evaluate, measure

__all__ = [
    "METRICS",
    "SYSTEMS",
    "Collection",
    "CollectionError",
    "Evaluation",
    "EvaluationDocument",
    "Query",
    "SystemResult",
    "evaluate",
    "measure",
    "prose",
    "sentences",
]
