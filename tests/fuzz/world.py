"""The database that is fuzzed: two organisations, six languages, every kind of thing that an argument can name, and samples of sound arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

Connection = psycopg.Connection[Any]

DIMENSIONS = 3
WORDS = (
    "alpha",
    "beta",
    "gamma",
    "policy",
    "P-8A",
    "日本語",
    "café",
    "C++",
    "running",
    "Häuser",
    "CVE-2026-2332",
    "the",
)
KINDS = ("article", "faq", "policy")
LANGUAGES = (None, "german", "simple", "french", "russian", "danish")
ARTICLES = 48


@dataclass(frozen=True, slots=True)
class World:
    """What there is.

    Attributes:
        org_id: the organisation that most calls name.
        other_id: another, whose articles nobody may see who names the first.
        article_ids: articles of the first.
        published_ids: those of them that can be found.
        cursors: sound ones of searches and of stored rankings, of both organisations.
        other_cursors: those of them that are of the other organisation.
        other_snapshot: a stored ranking of the other organisation.
        samples: sound values of arguments as text (lists for arrays), by the argument's name or by `function.argument`.
    """

    org_id: int
    other_id: int
    article_ids: frozenset[int]
    published_ids: frozenset[int]
    cursors: Sequence[str]
    other_cursors: frozenset[str]
    other_snapshot: str
    samples: Mapping[str, Sequence[str | list[str]]]


def value(connection: Connection, statement: LiteralString, parameters: Sequence[Any] = ()) -> Any:
    row = connection.execute(statement, parameters).fetchone()
    assert row is not None
    return row[0]


def _load(connection: Connection, org_id: int, space_id: int, count: int) -> None:
    articles = [
        {
            "external_ref": f"ref-{n}",
            "title": f"{WORDS[n % len(WORDS)]} {WORDS[n * 5 % len(WORDS)]}",
            "kind": KINDS[n % 3],
            "language": LANGUAGES[n % len(LANGUAGES)],
            "published": n % 9 != 8,
            "metadata": {"n": n % 4, "tags": ["a", "b"][: n % 3]},
            "chunks": [
                {
                    "heading": None if part else "Heading",
                    "content": " ".join(WORDS[(n + part * 3 + word) % len(WORDS)] for word in range(3 + n % 5)),
                    "embedding": [n % 3, part, 1] if n % 7 else None,
                }
                for part in range(1 + n % 3)
            ],
        }
        for n in range(count)
    ]
    for article in articles:
        value(
            connection,
            """SELECT kbsearch.upsert_kb_article_v1(%s, %s, %s, NULL, %s, %s::jsonb, %s, %s::jsonb, NULL, %s, p_space_id => %s)""",
            [
                org_id,
                article["external_ref"],
                article["title"],
                article["kind"],
                json.dumps(article["chunks"]),
                article["published"],
                json.dumps(article["metadata"]),
                article["language"],
                space_id,
            ],
        )


def build(connection: Connection) -> World:
    """Fill an empty database with kbsearch installed."""
    spaces = [
        value(
            connection,
            "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES (%s, 'm', %s) RETURNING id",
            [name, dimensions],
        )
        for name, dimensions in (("searched", DIMENSIONS), ("other", 2))
    ]
    organizations = [
        value(
            connection,
            "INSERT INTO kbsearch.organizations (name, arbitration_log) VALUES (%s, 'text') RETURNING id",
            [name],
        )
        for name in ("first", "second")
    ]
    org_id, other_id = organizations
    _load(connection, org_id, spaces[0], ARTICLES)
    _load(connection, other_id, spaces[0], 12)
    policy = value(connection, "SELECT kbsearch.create_kb_arbitration_policy_v1(%s, 'mine')", [org_id])
    profiles = [
        value(
            connection,
            "SELECT kbsearch.create_kb_ranking_profile_v1(%s, 'arbitrated', 'arbitrate', p_policy => %s)",
            [org_id, policy],
        ),
        "weighted@1",
        "rrf@1",
        "vector",
        "keyword@1",
        "term_count@1",
        *(
            value(
                connection,
                "SELECT kbsearch.create_kb_ranking_profile_v1(%s, %s, 'weighted', p_retrieval => %s, p_ann_window => %s)",
                [org_id, f"{retrieval}_{window}", retrieval, window],
            )
            for retrieval, window in (("ann", 5), ("ann", 1000), ("auto", 20))
        ),
    ]
    value(connection, "SELECT kbsearch.create_kb_ann_index_v1(%s)", [org_id])
    snapshot, other_snapshot = (
        value(connection, "SELECT s.snapshot FROM kbsearch.open_kb_search_v1(%s, 'alpha beta') AS s", [one])
        for one in organizations
    )
    cursors = [
        [
            value(connection, statement, [one, *more])
            for statement, more in (
                ("SELECT kbsearch.search_kb_hybrid_page_v1(%s, 'alpha', p_limit => 1) ->> 'next_cursor'", []),
                (
                    "SELECT kbsearch.search_kb_hybrid_page_v1(%s, 'alpha', '[1,0,1]'::ext.vector, 1) ->> 'next_cursor'",
                    [],
                ),
                ("SELECT kbsearch.fetch_kb_page_v1(%s, %s, 1) ->> 'next_cursor'", [stored]),
            )
        ]
        for one, stored in ((org_id, snapshot), (other_id, other_snapshot))
    ]
    assert all(all(some) for some in cursors)
    rules = value(connection, "SELECT kbsearch.resolve_kb_policy_v1(%s, %s)", [org_id, policy])
    manifest = value(
        connection,
        "SELECT kbsearch.arbitrate_kb_search_v1(%s, 'alpha policy', '[1,0,1]'::ext.vector, p_profile => %s)",
        [org_id, profiles[0]],
    )
    decision = value(
        connection,
        "SELECT kbsearch.arbitrate_kb_rankings_v1(%s::jsonb, 'keywords', '{1,2,3}', '{1,2,3}', '{2,1,9}', '{1,2,2}', 0.9, false)",
        [json.dumps(rules)],
    )
    articles = connection.execute(
        "SELECT a.id, a.published FROM kbsearch.kb_articles AS a WHERE a.org_id = %s ORDER BY a.id", [org_id]
    ).fetchall()
    chunks = connection.execute(
        "SELECT c.article_id, c.id FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %s AND c.searchable ORDER BY c.id",
        [org_id],
    ).fetchall()
    chunk = {"content": "alpha beta", "heading": "Heading", "embedding": [1, 2, 3]}
    article = {"external_ref": "ref-1", "title": "alpha", "kind": "faq", "metadata": {"n": 1}, "chunks": [chunk]}
    rankings = [["1", "2", "3"], ["2", "1", "9"], [], [str(n) for n in range(1, 40)]]
    samples: dict[str, Sequence[str | list[str]]] = {
        "p_org_id": [str(org_id)],
        "p_space_id": [str(spaces[0])],
        "activate_kb_space_v1.p_space_id": [str(space) for space in spaces],
        "drop_kb_space_v1.p_space_id": [str(spaces[1])],
        "p_article_id": [str(one) for one, published in articles if published],
        "p_chunk_id": [str(one) for _, one in chunks[:5]],
        "p_query_text": [
            "alpha",
            "beta gamma policy",
            '"alpha beta" policy',
            "P-8A -gamma",
            "日本語 café",
            'how is "C++" running?',
            "CVE-2026-2332",
            "Häuser",
        ],
        "p_query_embedding": ["[1,0,1]", "[0.5,-2,1e-3]", "[-1,-1,-1]"],
        "p_limit": ["0", "1", "3", "10", "1000"],
        "p_offset": ["0", "1", "5"],
        "p_kinds": [["faq"], ["article", "policy"], ["nothing"]],
        "p_kind_quota": ['{"faq": 2, "*": 1}', "{}", '{"policy": 0}'],
        "p_metadata": ['{"n": 1}', '[{"n": 1}, {"tags": ["a"]}]', "{}"],
        "p_min_score": ["0", "0.2", "-1", "Infinity"],
        "p_profile": profiles,
        "p_language": ["german", "pg_catalog.english", "simple"],
        "p_highlight": ["true", "false"],
        "p_snapshot": [*[str(snapshot)] * 4, str(other_snapshot)],
        "p_expires_in": ["1 minute", "1 day", "00:00:01"],
        "p_bucket": ["1 day", "1 hour"],
        "p_external_ref": ["ref-1", "new", "ref-47"],
        "p_external_refs": [["ref-1", "new"], ["x"]],
        "p_title": ["alpha", ""],
        "p_body": ["alpha beta"],
        "p_kind": list(KINDS),
        "p_chunks": [json.dumps([chunk]), "[]"],
        "p_articles": [json.dumps([article]), json.dumps([article, {**article, "external_ref": "new"}]), "[]"],
        "p_published": ["true", "false"],
        "p_source_uri": ["https://example.org/a"],
        "p_content_sha256": ["0" * 64],
        "p_name": ["mine_too", "a"],
        "p_fusion": ["weighted", "vector", "keyword"],
        "p_scorer": ["bm25", "term_count"],
        "p_rrf_k": ["60", "1"],
        "create_kb_ranking_profile_v1.p_policy": [policy],
        "p_vector_weight": ["0.5"],
        "p_keyword_weight": ["0.5"],
        "p_top_k": ["5", "1"],
        "p_penalty": ["0.5", "0", "1"],
        "p_max_disagreement": ["0.3", "0"],
        "p_similarity_threshold": ["0.85"],
        "p_moderate_rule": ["fuse", "apply_rule"],
        "p_severe_rule": ["fuse", "escalate", "apply_rule"],
        "p_advisory_leg": ["vector", "keyword"],
        "p_privilege": ["1", "0.9"],
        "p_class_rules": ["{}", '{"identifier": {"max_disagreement": 0.2}}'],
        "p_description": ["words"],
        "p_policy": [json.dumps(rules)],
        "p_query_class": ["identifier", "quoted", "keywords", "question"],
        "p_vector_ids": rankings[:2],
        "p_keyword_ids": rankings[:2],
        "p_vector_ranks": [["1", "2", "3"], ["1", "1", "3"]],
        "p_keyword_ranks": [["1", "2", "3"], ["1", "2", "2"]],
        "p_similarity_peak": ["0.9", "0.1"],
        "p_decision": [json.dumps(decision)],
        "p_chosen_ids": rankings[:3],
        "p_manifest": [json.dumps(manifest)],
        "p_value": [json.dumps(manifest), "[1, 2, {}]", '"a"'],
        "p_ids": rankings,
        "p_left": rankings,
        "p_right": rankings,
        "p_left_ranks": [["1", "2", "3"]],
        "p_right_ranks": [["1", "2", "2"]],
        "p_persistence": ["0.9", "0.5"],
        "p_before_id": ["1000000"],
        "log_kb_arbitration_v1.p_query_text": ["alpha policy"],
    }
    return World(
        org_id,
        other_id,
        frozenset(one for one, _ in articles),
        frozenset(one for one, published in articles if published),
        [*cursors[0], *cursors[1]],
        frozenset(cursors[1]),
        str(other_snapshot),
        samples,
    )
