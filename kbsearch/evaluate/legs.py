"""What both legs of a search say of every chunk, read once a question, and the rankings that any weights would make of it.

The rankings are those of the SQL functions, computed by the same expressions on the same numbers: `fuse_kb_weighted_v1`, `rank_kb_legs_v1`,
`fuse_kb_rrf_v1`, and of `rank_kb_articles_v1` the best chunk of an article and the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import psycopg

from kbsearch.schema import DEFAULT, in_schema

DEPTH = 10
"""Places of a ranking that are looked at: nDCG@10."""
_NONE = -(2**31)

# A statement's rows would cost more than the search: three columns of all chunks, as bytes.
_READ = """SELECT
    plan.uses_vector, plan.uses_keyword, plan.keyword_bound, kbsearch.classify_kb_query_v1(%(text)s),
    found.articles, found.similarities, found.raw
FROM kbsearch.prepare_kb_search_v1(
    p_org_id => %(org_id)s, p_query_text => %(text)s, p_query_embedding => %(vector)s, p_limit => 0, p_offset => 0, p_cursor => NULL, p_kinds => NULL,
    p_kind_quota => '{}', p_metadata => NULL, p_min_score => NULL, p_profile => %(profile)s, p_space_id => NULL, p_exploratory => false,
    p_language => NULL, p_highlight => false
) AS plan
CROSS JOIN LATERAL (
    SELECT
        string_agg(int8send(chunk.article_id), ''::bytea ORDER BY chunk.article_id, chunk.chunk_id) AS articles,
        string_agg(int4send(coalesce(chunk.similarity, -2147483648)), ''::bytea ORDER BY chunk.article_id, chunk.chunk_id) AS similarities,
        string_agg(float8send(coalesce(chunk.raw, 'NaN')), ''::bytea ORDER BY chunk.article_id, chunk.chunk_id) AS raw
    FROM kbsearch.fuse_kb_weighted_v1(
        plan.org_id, plan.space_id, %(vector)s, plan.known_lexemes, plan.term_weights, plan.counts_terms, plan.allowed, plan.uses_vector,
        plan.uses_keyword, plan.dense, 1, 1
    ) AS chunk
) AS found"""

Array: TypeAlias = npt.NDArray[np.float64]
Ids: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Legs:
    """What both legs say of one question.

    Attributes:
        query_class: by classify_kb_query_v1.
        articles: ids of the articles that a leg found, ascending; A of them.
        starts: where each article's chunks begin in the next two.
        similarity: of each chunk in millionths; NaN where it has none.
        raw: keyword score of each chunk in units of 1/bound; NaN where no word matches.
        bound: highest raw score.
        uses_vector: whether the vector leg takes part.
        uses_keyword: whether the keyword leg takes part.
    """

    query_class: str
    articles: Ids
    starts: Ids
    similarity: Array
    raw: Array
    bound: float
    uses_vector: bool
    uses_keyword: bool

    def weighted(self, weights: Sequence[float]) -> Array:
        """Scores of the weighted fusion in billionths: a row a vector weight, a column an article."""
        if not len(self.articles):
            return np.zeros((len(weights), 0))
        given = np.asarray(weights, dtype=np.float64)[:, None]
        # The expressions of prepare_kb_search_v1, fuse_kb_weighted_v1 and create_kb_ranking_profile_v1's callers.
        vector_unit = (given if self.uses_keyword else np.ones_like(given)) * 1000
        keyword_unit = (rest(given) if self.uses_vector else np.ones_like(given)) * 1e9 / self.bound
        near = np.nan_to_num(np.rint(np.maximum(0, self.similarity) * vector_unit))
        scores: Array = np.maximum.reduceat(near + np.nan_to_num(np.rint(self.raw * keyword_unit)), self.starts, axis=1)
        return scores

    def rrf(self, settings: Sequence[tuple[int, float]]) -> Array:
        """Scores of reciprocal rank fusion in billionths: a row a pair of k and vector weight, a column an article."""
        if not len(self.articles):
            return np.zeros((len(settings), 0))
        k, weights = (np.asarray(values, dtype=np.float64)[:, None] for values in zip(*settings, strict=True))
        near = np.maximum.reduceat(np.nan_to_num(np.maximum(0, self.similarity), nan=-1), self.starts)
        words = np.maximum.reduceat(np.nan_to_num(np.rint(self.raw * (1e9 / self.bound)), nan=-1), self.starts)
        scores: Array = _rrf_parts(weights, k, near) + _rrf_parts(rest(weights), k, words)
        return scores

    def best(self, scores: Array, depth: int = DEPTH) -> Ids:
        """The articles that come first by each row of scores, of equal ones the lower id; -1 where there are no more."""
        kept = min(depth, scores.shape[1])
        if scores.shape[1] > kept > 0:
            least = -np.partition(-scores, kept - 1, axis=1)[:, kept - 1 : kept]
            columns = np.flatnonzero((scores >= least).any(axis=0))
        else:
            columns = np.arange(scores.shape[1])
        order = np.argsort(-scores[:, columns], axis=1, kind="stable")[:, :kept]
        found = self.articles[columns[order]]
        return np.pad(found, ((0, 0), (0, depth - kept)), constant_values=-1)


def rest(weight: Array) -> Array:
    """The keyword leg's weight beside a vector leg's: what is left of 1, in millionths, as a decimal would have it."""
    return np.round(1 - weight, 6)


def _rrf_parts(weights: Array, k: Array, scores: Array) -> Array:
    """What a leg gives each article: by its competition rank, nothing where the leg did not find it (-1)."""
    ranks = np.searchsorted(np.sort(-scores), -scores, side="left") + 1.0
    return np.where(scores < 0, 0, np.rint(1e9 * weights / (k + ranks)))


def read_legs(
    connection: psycopg.Connection[Any], org_id: int, text: str, vector: str | None, scorer: str, schema: str = DEFAULT
) -> Legs:
    """Ask both legs of an organisation's search for all they find.

    Args:
        connection: to a database with kbsearch.
        org_id: the organisation.
        text: the question.
        vector: its embedding as text.
        scorer: bm25 or term_count.
        schema: that kbsearch is installed in.

    Raises:
        psycopg.DatabaseError: the search refuses the question.
    """
    profile = "weighted_term_count@1" if scorer == "term_count" else "weighted@1"
    values = {"org_id": org_id, "text": text, "vector": vector, "profile": profile}
    row = connection.execute(in_schema(_READ, schema).encode(), values, binary=True).fetchone()
    assert row is not None  # noqa: S101  (an aggregate has a row)
    uses_vector, uses_keyword, bound, query_class, articles, similarities, raw = row
    ids = np.frombuffer(articles or b"", dtype=">i8").astype(np.int64)
    near = np.frombuffer(similarities or b"", dtype=">i4").astype(np.float64)
    near[near == _NONE] = np.nan
    unique, starts = np.unique(ids, return_index=True)
    return Legs(
        query_class=query_class,
        articles=unique,
        starts=starts.astype(np.int64),
        similarity=near,
        raw=np.frombuffer(raw or b"", dtype=">f8").astype(np.float64),
        bound=bound,
        uses_vector=uses_vector,
        uses_keyword=uses_keyword,
    )


def ndcg(tops: Ids, grades: Mapping[int, int], ideal: Sequence[int]) -> Array:
    """nDCG@10 of each row of article ids, with linear gain as trec_eval's.

    Args:
        tops: (rankings, 10) ids, -1 where there are no more.
        grades: by article id; above 0 is relevant.
        ideal: all grades of the question's judgements, those of documents that are not there too.
    """
    discounts = 1 / np.log2(np.arange(2, DEPTH + 2))
    best = np.array(sorted((grade for grade in ideal if grade > 0), reverse=True)[:DEPTH], dtype=np.float64)
    if not len(best):
        return np.zeros(len(tops))
    gains = np.zeros(tops.shape)
    for article, grade in grades.items():
        gains[tops == article] = max(0, grade)
    scores: Array = gains @ discounts / (best @ discounts[: len(best)])
    return scores
