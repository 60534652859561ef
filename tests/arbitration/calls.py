"""Calls of the SQL functions, many at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import psycopg

from tests import oracle

Connection: TypeAlias = psycopg.Connection[Any]

POLICY = oracle.policy("mine")
CASE: dict[str, Any] = {
    "policy": POLICY,
    "query_class": "keywords",
    "vector_ids": [1, 2, 3],
    "vector_ranks": None,
    "keyword_ids": [3, 2, 4],
    "keyword_ranks": None,
    "similarity_peak": "0.9",
    "exploratory": False,
}
_RECORD = """policy jsonb, query_class text, vector_ids bigint[], vector_ranks bigint[], keyword_ids bigint[], keyword_ranks bigint[],
    similarity_peak numeric, exploratory boolean, query_text text, decision jsonb, chosen_ids bigint[]"""
_GIVEN = "c.policy, c.query_class, c.vector_ids, c.vector_ranks, c.keyword_ids, c.keyword_ranks, c.similarity_peak, c.exploratory"


def value(connection: Connection, expression: str, *parameters: Any) -> Any:
    """The value of an SQL expression."""
    row = connection.execute(f"SELECT {expression}".encode(), parameters).fetchone()
    assert row is not None
    return row[0]


def policy(**rules: Any) -> dict[str, Any]:
    """A policy that differs from POLICY by these rules."""
    return {**POLICY, **rules}


def case(**arguments: Any) -> dict[str, Any]:
    """A case that differs from CASE by these arguments."""
    return {**CASE, **arguments}


def distances(
    connection: Connection,
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    penalty: str = "0.5",
    ranks: Iterable[tuple[Sequence[int] | None, Sequence[int] | None]] | None = None,
) -> list[str]:
    """kendall_tau_top_k_v1 of each pair of lists, as text."""
    return _measured(connection, f"kbsearch.kendall_tau_top_k_v1(g.l, g.r, {penalty}, g.lr, g.rr)", pairs, ranks)


def overlaps(
    connection: Connection, pairs: Iterable[tuple[Sequence[int], Sequence[int]]], persistence: str = "0.9"
) -> list[str]:
    """rank_biased_overlap_v1 of each pair of lists, as text."""
    return _measured(connection, f"kbsearch.rank_biased_overlap_v1(g.l, g.r, {persistence})", pairs, None)


def _measured(
    connection: Connection,
    expression: str,
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    ranks: Iterable[tuple[Sequence[int] | None, Sequence[int] | None]] | None,
) -> list[str]:
    lists = [list(map(_array, side)) for side in zip(*pairs, strict=True)]
    places = [list(map(_array, side)) for side in zip(*ranks, strict=True)] if ranks else [[None] * len(lists[0])] * 2
    rows = connection.execute(
        f"""SELECT {expression}::text
        FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) WITH ORDINALITY AS t (l, r, lr, rr, n)
        CROSS JOIN LATERAL (SELECT t.l::bigint[] AS l, t.r::bigint[] AS r, t.lr::bigint[] AS lr, t.rr::bigint[] AS rr) AS g
        ORDER BY t.n""".encode(),
        (*lists, *places),
    ).fetchall()
    return [row[0] for row in rows]


def _array(ids: Sequence[int] | None) -> str | None:
    return None if ids is None else f"{{{','.join(map(str, ids))}}}"


def decisions(connection: Connection, cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """arbitrate_kb_rankings_v1 of each case."""
    return _each(connection, f"kbsearch.arbitrate_kb_rankings_v1({_GIVEN})", cases)


def manifests(connection: Connection, cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """build_kb_manifest_v1 of each case, its decision among its keys."""
    return _each(connection, f"kbsearch.build_kb_manifest_v1(c.query_text, {_GIVEN}, c.decision, c.chosen_ids)", cases)


def _each(connection: Connection, expression: str, cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows = connection.execute(
        f"""SELECT {expression}
        FROM jsonb_array_elements(%s::jsonb) WITH ORDINALITY AS e (one, n)
        CROSS JOIN LATERAL jsonb_to_record(e.one) AS c ({_RECORD})
        ORDER BY e.n""".encode(),
        (json.dumps(cases),),
    ).fetchall()
    return [row[0] for row in rows]
