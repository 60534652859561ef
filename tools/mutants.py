"""Shows that the tests can fail: breaks the SQL on purpose, one way at a time, and runs tests against each broken copy.

A mutant is an exact replacement of text in SQL files. It is killed when a test fails by an assertion; a mutant that no longer applies, that can't be
installed or that makes tests fail by anything else is an error, and one that no test notices has survived: both end in exit status 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kbsearch import embedded, migrate

ROOT = Path(__file__).resolve().parent.parent
SERVER = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "2GB"}
TIMEOUT = 900.0
"""Seconds for the tests of one mutant."""

RANK = "functions/search/rank_kb_articles_v1.sql"
GENERAL = "functions/search/rank_kb_general_v1.sql"
PREPARE = "functions/search/prepare_kb_search_v1.sql"
LIST = "functions/search/list_kb_results_v1.sql"
DIGEST = "functions/search/digest_kb_request_v1.sql"
WEIGHTED = "functions/fuse/fuse_kb_weighted_v1.sql"
LEGS = "functions/fuse/rank_kb_legs_v1.sql"
CANDIDATES = "functions/fuse/list_kb_candidates_v1.sql"
QUESTION = "functions/text/analyze_kb_question_v1.sql"
PARSED = "functions/text/parse_kb_query_v1.sql"
VECTOR = "functions/retrieve/match_kb_vector_v1.sql"
WEIGH = "functions/retrieve/weigh_kb_terms_v1.sql"
DOCUMENTS = "functions/retrieve/count_kb_documents_v1.sql"
DESCRIBE = "functions/index/kb_chunks_describe_v1.sql"
GUARD = "functions/index/kb_articles_guard_v1.sql"
WRITTEN = "functions/index/kb_chunks_written_v1.sql"
MERGE = "functions/index/merge_kb_entries_v1.sql"
WORDS = "functions/text/describe_kb_chunk_v1.sql"
EMBEDDED = "functions/index/kb_embeddings_check_v1.sql"
ACTIVATE = "functions/embed/activate_kb_space_v1.sql"

FETCH = "functions/snapshot/fetch_kb_page_v1.sql"
PLACE = "functions/explain/place_kb_candidates_v1.sql"
EXPLAIN = "functions/explain/explain_kb_search_v1.sql"
MATCHES = "functions/explain/list_kb_matches_v1.sql"
WHY = "functions/explain/explain_kb_article_v1.sql"
TAU = "functions/arbitrate/measure_kb_disagreement_v1.sql"
OVERLAP = "functions/arbitrate/rank_biased_overlap_v1.sql"
DECIDE = "functions/arbitrate/decide_kb_rankings_v1.sql"
MANIFEST = "functions/arbitrate/build_kb_manifest_v1.sql"
CANONICAL = "functions/arbitrate/canonicalize_kb_json_v1.sql"
CLASSIFY = "functions/arbitrate/classify_kb_query_v1.sql"
LOG = "functions/arbitrate/log_kb_arbitration_v1.sql"
ARBITRATED = "functions/arbitrate/rank_kb_arbitrated_v1.sql"
APPLY = "functions/arbitrate/apply_kb_decision_v1.sql"

TOP = "functions/retrieve/list_kb_keyword_top_v1.sql"
LOOK_UP = "functions/retrieve/look_up_kb_keyword_v1.sql"
BLOCK_TOP = "functions/retrieve/list_kb_block_top_v1.sql"
IMPACTS = "functions/index/insert_kb_keyword_impacts_v1.sql"
BUILD = "functions/index/build_kb_keyword_blocks_v1.sql"
BEGIN = "functions/index/begin_kb_keyword_blocks_v1.sql"
NOTE = "functions/index/note_kb_changes_v1.sql"
WINDOWS = "functions/ann/window_kb_search_v1.sql"
GATHER = "functions/ann/gather_kb_window_v1.sql"
READ = "functions/ann/read_kb_ann_index_v1.sql"
INDEX_DESCRIPTION = "functions/ann/describe_kb_ann_index_v1.sql"
RETRIEVAL = "functions/ann/describe_kb_retrieval_v1.sql"

ENABLE = "functions/tenancy/enable_kb_row_security_v1.sql"
ATTACH = "functions/ingest/attach_kb_cached_vectors_v1.sql"

PROPERTIES = ("tests/properties",)
KEYWORD_TOP = ("tests/properties/test_keyword_top.py",)
BY_BLOCKS = ("tests/properties/test_keyword_blocks.py",)
BLOCKS = ("tests/index/test_keyword_blocks.py",)
BOUND = ("tests/tenancy/test_bound.py",)
WRITING = ("tests/tenancy/test_writing.py",)
KEYS = ("tests/tenancy/test_cursor_keys.py",)
NON_INTERFERENCE = ("tests/properties/non_interference/test_4_writes.py",)
SNAPSHOT = ("tests/snapshot/test_snapshots.py",)
EXPLANATIONS = ("tests/explain",)
DISTANCE = ("tests/arbitration/test_distance.py",)
DECISION = ("tests/arbitration/test_decision.py",)
RECORD = ("tests/arbitration/test_manifest.py",)
CLASSES = ("tests/arbitration/test_classify.py",)
LOGGED = ("tests/arbitration/test_log.py",)
BUDGET = ("tests/sql/test_budget.py",)
SEARCHED = ("tests/arbitration/test_search.py",)
INDEX = ("tests/index/test_derived_state.py",)
DESCRIPTION = ("tests/sql/test_description.py",)
SWITCH = ("tests/ingest/test_reembed.py",)
VECTORS = ("tests/cases/test_vectors.py",)
RACES = ("tests/index/test_interleavings.py", "tests/index/test_concurrency.py")


class MutantError(Exception):
    """A mutant that doesn't fit the SQL as it is now."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of text in a file.

    Attributes:
        file: relative to sql/.
        before: text that is there exactly `times` times.
        after: what stands there instead.
        times: how often `before` occurs; all are replaced.
    """

    file: str
    before: str
    after: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Mutant:
    """A way to break the SQL.

    Attributes:
        name: what is broken.
        edits: how.
        tests: what must notice, as paths for pytest.
    """

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...] = PROPERTIES


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant.

    Attributes:
        verdict: killed, survived or error.
        by: the test that noticed, or what went wrong.
        seconds: how long the tests ran.
    """

    verdict: Literal["killed", "survived", "error"]
    by: str
    seconds: float = 0.0


LEAKS = (
    Mutant(
        "document frequency over all organisations",
        (Edit(DOCUMENTS, "WHERE p.org_id = p_org_id AND p.lexeme", "WHERE p.lexeme"),),
        NON_INTERFERENCE,
    ),
    Mutant(
        "vector index shared by all organisations",
        (
            Edit(
                VECTOR,
                "FROM kbsearch.kb_article_embeddings AS e\n",
                # what an index over everybody's vectors gives: the nearest of all, of which the organisation's are kept
                """FROM (
        SELECT n.org_id, n.space_id, n.article_id, n.chunk_id, n.searchable, n.has_direction, n.embedding
        FROM kbsearch.kb_article_embeddings AS n
        WHERE n.space_id = p_space_id AND n.searchable AND n.has_direction
        ORDER BY n.embedding <=> p_embedding, n.chunk_id
        LIMIT 40
    ) AS e
""",
            ),
        ),
        NON_INTERFERENCE,
    ),
    Mutant(
        "cache readable across organisations",
        (
            Edit(
                ATTACH,
                """SELECT k.embedding
            FROM kbsearch.kb_embedding_cache AS k
            WHERE k.org_id = p_org_id AND k.input_sha256""",
                """SELECT min(k.embedding::text)::vector
            FROM kbsearch.kb_embedding_cache AS k
            WHERE k.input_sha256""",
            ),
        ),
        NON_INTERFERENCE,
    ),
    Mutant(
        "error that names another organisation",
        (
            Edit(
                FETCH,
                "RAISE EXCEPTION 'there is no snapshot % in organisation %', coalesce(p_snapshot::text, 'NULL'), p_org_id\n",
                "RAISE EXCEPTION 'snapshot % is not of organisation % but of %', coalesce(p_snapshot::text, 'NULL'), p_org_id,\n"
                "            coalesce((SELECT s.org_id FROM kbsearch.kb_search_snapshots AS s WHERE s.id = p_snapshot)::text, 'none')\n",
            ),
        ),
        NON_INTERFERENCE,
    ),
    Mutant(
        "profile of another organisation",
        (
            Edit(
                "functions/search/resolve_kb_profile_v1.sql",
                "WHERE r.org_id = p_org_id\n",
                "WHERE r.name <> 'own' OR r.org_id = p_org_id\n",
            ),
        ),
        NON_INTERFERENCE,
    ),
    Mutant(
        "disagreement of all organisations",
        (
            Edit(
                "functions/arbitrate/kb_disagreement_trend_v1.sql",
                "        WHERE l.org_id = p_org_id\n",
                "",
            ),
        ),
        NON_INTERFERENCE,
    ),
)
"""What is told of one organisation to another: each is planted by tests/properties/non_interference/test_4_leaks.py, too."""

PRUNING = (
    Mutant(
        "pruning: a threshold too high is believed",
        (
            Edit(
                TOP,
                "IF v_threshold IS NOT NULL AND cardinality(v_chunk_ids) IS DISTINCT FROM p_limit THEN",
                "IF false THEN",
            ),
        ),
        KEYWORD_TOP,
    ),
    Mutant(
        "pruning: what is looked up is half of what a block has",
        (
            Edit(
                LOOK_UP,
                "width_bucket((wanted.chunk_id << 12) | 4095, wanted.entries)",
                "least(100, width_bucket((wanted.chunk_id << 12) | 4095, wanted.entries))",
            ),
        ),
        KEYWORD_TOP,
    ),
)
"""A keyword leg that passes over what cannot be among the first places."""

BY_VECTORS = (
    Mutant(
        "blocks: what was written since is no candidate",
        (Edit(BLOCK_TOP, "SELECT u.id FROM unnest(v_split.changed_ids) AS u (id)", "SELECT 0"),),
        BY_BLOCKS,
    ),
    Mutant(
        "blocks: chunks of rare words are no candidates",
        (Edit(BLOCK_TOP, "v_split.other_weights, false) AS m", "v_split.other_weights, false) AS m WHERE m.raw < 0"),),
        BY_BLOCKS,
    ),
    Mutant(
        "blocks: a threshold too high is believed",
        (
            Edit(
                BLOCK_TOP,
                "IF cardinality(v_chunk_ids) >= p_limit AND v_raws[p_limit] > v_hits.threshold * 1.0001 THEN",
                "IF true THEN",
            ),
        ),
        BY_BLOCKS,
    ),
    Mutant(
        "blocks: the threshold is of the smallest factor",
        (Edit(BLOCK_TOP, "max(r.factor / r.times) AS factor INTO", "min(r.factor / r.times) * 0.9 AS factor INTO"),),
        BY_BLOCKS,
    ),
    Mutant(
        "blocks: factors that lie apart are taken for one",
        (
            Edit(BLOCK_TOP, "max(r.factor / r.times) < 1.03 * v_unit", "true"),
            Edit(BLOCK_TOP, "max(r.factor / r.times) AS factor INTO", "v_unit AS factor INTO"),
        ),
        BY_BLOCKS,
    ),
    Mutant("blocks: nothing is noted", (Edit(NOTE, "OR EXISTS (SELECT", "OR 1 = 0 AND EXISTS (SELECT"),), INDEX),
    Mutant(
        "blocks: a fixed snapshot notes nothing",
        (Edit(NOTE, "current_setting('transaction_isolation') <> 'read committed'", "1 = 0"),),
        BLOCKS,
    ),
    Mutant(
        "blocks: the first are made beside writers",
        (Edit(BEGIN, "IF v_exists OR pg_try", "IF true OR pg_try"),),
        BLOCKS,
    ),
    Mutant("blocks: every note goes", (Edit(BUILD, " AND g.segment_id = ANY (p_known)", ""),), BLOCKS),
    Mutant(
        "blocks: what is written meanwhile is in them",
        (
            Edit(
                IMPACTS,
                "AND u.chunk_id NOT IN (SELECT unnest(g.chunk_ids) FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = p_org_id)",
                "",
            ),
        ),
        BLOCKS,
    ),
    Mutant(
        "blocks: made from a fixed snapshot",
        (Edit(BEGIN, "IF current_setting('transaction_isolation') <> 'read committed' THEN", "IF false THEN"),),
        BLOCKS,
    ),
)
"""The vectors of large organisations' frequent words, and what they say nothing of."""

THROUGH_WINDOWS = (
    Mutant(
        "windows: what words found has no similarity",
        (Edit(GATHER, "CASE WHEN p_plan.uses_vector THEN v_compared END", "p_near"),),
        ("tests/properties/test_7_absolute_scores.py",),
    ),
    Mutant(
        "windows: what vectors found has no keyword score",
        (Edit(GATHER, "v_depth + 1, v_unscored) AS t", "v_depth + 1) AS t"),),
        ("tests/properties/test_7_absolute_scores.py",),
    ),
    Mutant(
        "windows: other chunks of what words found have no keyword score",
        (Edit(GATHER, "WHERE cardinality(v_unscored) > 0", "WHERE p_given IS NOT NULL"),),
        ("tests/ann/test_index.py",),
    ),
    Mutant(
        "windows: of what vectors found only the nearest chunk is compared",
        (Edit(GATHER, "v_compared := coalesce(p_given, ARRAY(", "v_compared := coalesce(p_given, '{}', ARRAY("),),
        ("tests/ann/test_index.py",),
    ),
    Mutant(
        "windows: chunks fill them",
        (Edit(READ, "IF v_row.article_id <> ALL (article_ids) THEN", "IF true THEN"),),
        ("tests/properties/test_5_collapse.py",),
    ),
    Mutant(
        "windows: the worst matches come first",
        (
            Edit(
                TOP,
                "FROM matched AS m ORDER BY raw DESC, chunk_id ASC LIMIT p_limit",
                "FROM matched AS m ORDER BY raw ASC, chunk_id ASC LIMIT p_limit / 4",
            ),
        ),
        ("tests/properties/test_1_total_order.py",),
    ),
    Mutant(
        "windows: what the index gives is called certain",
        (
            Edit(
                WINDOWS,
                "round(1000000 * v_vector_unit)::bigint",
                "round(greatest(0, v_last_similarity) * v_vector_unit)::bigint",
            ),
        ),
        ("tests/properties/test_2_partition.py",),
    ),
    Mutant(
        "windows: the keyword leg's first few chunks are all that there is",
        (Edit(GATHER, "EXIT WHEN v_found >= p_window OR v_has_more IS NOT TRUE", "EXIT WHEN true"),),
        ("tests/properties/test_2_partition.py",),
    ),
    Mutant(
        "windows: one that ties with what may be outside is called settled",
        (
            Edit(
                RETRIEVAL,
                "s.score > v_settled_above",
                "s.score >= v_settled_above",
            ),
        ),
        ("tests/properties/test_2_partition.py",),
    ),
    Mutant(
        "windows: the last page does not say that the exact ranking goes on",
        (Edit(RETRIEVAL, "p_end_reached AND (p_plan.retrieval ->> 'is_cut')::boolean", "false"),),
        ("tests/properties/test_2_partition.py",),
    ),
    Mutant(
        "windows: a cursor of another index is taken",
        (Edit(WINDOWS, "OR v_index.identity <> split_part(p_tag, '/', 3)", ""),),
        ("tests/ann/test_index.py",),
    ),
    Mutant(
        "windows: an index that was built again is the same",
        (Edit(INDEX_DESCRIPTION, ", obj_description(d.oid, 'pg_class'), d.relfilenode", ""),),
        ("tests/ann/test_index.py",),
    ),
)
TENANCY = (
    Mutant(
        "row-level security not forced",
        (Edit(ENABLE, "ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY", "ENABLE ROW LEVEL SECURITY"),),
        BOUND,
    ),
    Mutant(
        "writes not bound",
        (
            Edit(
                ENABLE,
                "WITH CHECK (%I = %s)', v_table.table_id, v_table.key, v_bound, v_table.key, v_bound)",
                "WITH CHECK (true)', v_table.table_id, v_table.key, v_bound)",
            ),
        ),
        BOUND,
    ),
    Mutant(
        "drafts shown to readers",
        (Edit(ENABLE, "AS RESTRICTIVE FOR SELECT", "FOR SELECT"),),
        WRITING,
    ),
    Mutant(
        "triggers bound as their caller",
        (
            Edit(
                "functions/index/kb_chunks_written_v1.sql",
                "set_config('kbsearch.acting_org_id', v_org_id::text, true)",
                "v_org_id",
            ),
        ),
        WRITING,
    ),
    Mutant(
        "directory for everybody",
        (Edit(ENABLE, " AND has_table_privilege('kbsearch.organizations'::regclass, 'INSERT')", ""),),
        BOUND,
    ),
    Mutant(
        "cursor of another's key",
        (
            Edit(
                "functions/tenancy/list_kb_cursor_keys_v1.sql",
                "\n    WHERE k.org_id = p_org_id",
                "\n    WHERE p_org_id IS NOT NULL",
            ),
        ),
        KEYS,
    ),
    Mutant(
        "keys that are never forgotten",
        (Edit("functions/tenancy/set_kb_cursor_key_v1.sql", "LIMIT p_keep + 1", "LIMIT p_keep + 2"),),
        KEYS,
    ),
    Mutant(
        "unsigned cursors accepted beside a key",
        (
            Edit(
                "functions/search/open_kb_cursor_v1.sql",
                "IF p_keys = '{}' THEN",
                "IF p_keys = '{}' OR substr(v_bytes, 1, 9) = substr(sha256(substr(v_bytes, 10)), 1, 9) THEN",
            ),
            Edit(
                "functions/search/open_kb_cursor_v1.sql",
                "RETURN CASE WHEN kbsearch.seal_kb_cursor_v1(v_payload, CASE WHEN p_keys <> '{}' THEN v_pads END) = p_cursor THEN v_payload END;",
                "RETURN v_payload;",
            ),
        ),
        KEYS,
    ),
)
"""Ways past row-level security and signed cursors."""

MUTANTS = (
    Mutant(
        "final article_id dropped",
        (
            Edit(RANK, "ORDER BY score DESC, article_id ASC", "ORDER BY score DESC", times=2),
            Edit(RANK, "ORDER BY p.score DESC, p.article_id ASC", "ORDER BY p.score DESC"),
            Edit(
                "functions/search/search_kb_hybrid_v1.sql", "ORDER BY score DESC, article_id ASC", "ORDER BY score DESC"
            ),
        ),
    ),
    Mutant(
        "DESC lost",
        (
            Edit(
                RANK,
                "ORDER BY score DESC, article_id ASC\n        LIMIT",
                "ORDER BY score, article_id ASC\n        LIMIT",
            ),
        ),
    ),
    Mutant(
        "chunk tie-break dropped",
        (
            Edit(
                CANDIDATES,
                "ORDER BY f.article_id ASC, f.score DESC, f.chunk_id ASC",
                "ORDER BY f.article_id ASC, f.score DESC",
            ),
        ),
    ),
    Mutant(
        "DISTINCT ON dropped",
        (Edit(CANDIDATES, "SELECT DISTINCT ON (f.article_id) f.article_id", "SELECT f.article_id"),),
    ),
    Mutant(
        "chunks limited before collapse",
        (
            Edit(
                CANDIDATES,
                "WHERE p_fusion = 'rrf'\n        ) AS f\n",
                "WHERE p_fusion = 'rrf'\n            ORDER BY score DESC, chunk_id ASC LIMIT 12\n        ) AS f\n",
            ),
        ),
    ),
    Mutant(
        "quota without its tie-break",
        (
            Edit(
                GENERAL,
                "(PARTITION BY a.kind ORDER BY c.score DESC, c.article_id ASC)",
                "(PARTITION BY a.kind ORDER BY c.score DESC)",
            ),
        ),
    ),
    Mutant(
        "quota before collapse",
        (
            Edit(
                GENERAL,
                "FROM candidates AS c\n            INNER JOIN kbsearch.kb_articles",
                "FROM kbsearch.fuse_kb_weighted_v1(v_org_id, v_space_id, p_embedding, v_known_lexemes, v_term_weights, v_counts_terms, v_allowed, "
                "v_uses_vector, v_uses_keyword, v_dense, v_vector_unit, v_keyword_unit) AS c\n            INNER JOIN kbsearch.kb_articles",
            ),
        ),
    ),
    Mutant(
        "rank() became row_number()",
        (Edit(LEGS, "rank() OVER (ORDER BY b.score DESC)", "row_number() OVER (ORDER BY b.score DESC)", times=2),),
    ),
    Mutant(
        "candidate cut that grows with the page",
        (
            Edit(
                RANK,
                "    ),\n    counted AS MATERIALIZED (",
                "        ORDER BY c.score DESC, c.article_id ASC LIMIT 3 * (p_limit + p_offset)\n    ),\n    counted AS MATERIALIZED (",
            ),
        ),
    ),
    Mutant("offset applied twice", (Edit(RANK, "LIMIT p_limit OFFSET p_offset", "LIMIT p_limit OFFSET 2 * p_offset"),)),
    Mutant(
        "NaN not guarded",
        (
            Edit(VECTOR, "e.searchable AND e.has_direction", "e.searchable"),
            # least() lets NaN become the highest similarity, as NaN sorts first under DESC
            Edit(VECTOR, "round((1::", "least(1000001, round((1::"),
            Edit(VECTOR, "1000000::double precision)::integer", "1000000::double precision))::integer"),
        ),
    ),
    Mutant(
        "similarity not rounded",
        (
            Edit(VECTOR, "1000000::double precision)::integer", "1000000000::double precision)::integer"),
            Edit(PREPARE, "vector_weight ELSE 1 END * 1000", "vector_weight ELSE 1 END"),
            Edit(APPLY, "vector_weight ELSE 1 END * 1000", "vector_weight ELSE 1 END"),
            Edit(ARBITRATED, "::double precision ELSE 1 END * 1000", "::double precision ELSE 1 END"),
            Edit(ARBITRATED, "END * 0.000001 AS peak", "END * 0.000000001 AS peak"),
            Edit(LIST, "r.similarity / 1e6::double precision", "r.similarity / 1e9::double precision"),
        ),
    ),
    Mutant(
        "missing leg counted 0",
        (
            Edit(
                PREPARE,
                "CASE WHEN v_plan.uses_keyword THEN v_plan.vector_weight ELSE 1 END * 1000",
                "v_plan.vector_weight * 1000",
            ),
            Edit(
                PREPARE,
                "CASE WHEN v_plan.uses_vector THEN v_plan.keyword_weight ELSE 1 END * 1e9",
                "v_plan.keyword_weight * 1e9",
            ),
        ),
    ),
    Mutant(
        "chunk outside a leg's window counted 0",
        (
            Edit(
                WEIGHTED,
                "        WHERE p_uses_vector\n    ) AS v\n",
                "        WHERE p_uses_vector\n        ORDER BY m.similarity DESC, m.chunk_id ASC LIMIT 3\n    ) AS v\n",
            ),
        ),
    ),
    Mutant(
        "question count ignored", (Edit(WEIGH, "ELSE q.term_count * kbsearch.kb_idf_v1", "ELSE kbsearch.kb_idf_v1"),)
    ),
    *LEAKS,
    *PRUNING,
    *BY_VECTORS,
    *THROUGH_WINDOWS,
    *TENANCY,
    Mutant(
        "deleted chunks left in document frequencies",
        (
            Edit(
                DOCUMENTS, "sum(p.sign * p.entry_count)::bigint", "sum(p.entry_count) FILTER (WHERE p.sign = 1)::bigint"
            ),
        ),
    ),
    Mutant(
        "cursor compared as text",
        (
            Edit(
                RANK,
                "(p_after_score IS NULL OR c.score < p_after_score OR (",
                "(p_after_score IS NULL OR c.score::text < p_after_score::text OR (",
            ),
        ),
    ),
    Mutant(
        "cursor good for another embedding",
        (Edit(DIGEST, "vector_send(p_embedding)", "''::bytea"),),
        ("tests/properties", "tests/cases"),
    ),
    Mutant(
        "ties counted after the quota",
        (
            Edit(
                GENERAL,
                "FROM candidates AS c\n        WHERE c.score",
                "FROM candidates AS c\n        WHERE (v_kind_quota IS NULL OR c.article_id NOT IN (SELECT u.article_id FROM cut AS u)) AND c.score",
            ),
        ),
    ),
    Mutant(
        "vectors of unpublished articles searched",
        (Edit(VECTOR, "AND e.searchable AND e.has_direction", "AND e.has_direction"),),
    ),
    Mutant("unpublished articles stay searchable", (Edit(DESCRIBE, "coalesce(v_published, false)", "true"),)),
    Mutant(
        "unpublishing does not reach the chunks",
        (Edit(GUARD, " OR NEW.published <> OLD.published", ""),),
        INDEX,
    ),
    Mutant(
        "an article's language does not reach the chunks",
        (Edit(GUARD, " OR NEW.language IS DISTINCT FROM OLD.language", ""),),
        (*INDEX, "tests/sql/test_languages.py"),
    ),
    Mutant(
        "words of all languages are one corpus",
        (Edit(WEIGH, "sum(w.weight) OVER (PARTITION BY w.corpus)", "sum(w.weight) OVER ()"),),
    ),
    Mutant(
        "a word that only another language has does not count",
        (Edit(WEIGH, "cardinality(p_chunk_counts) > 1", "false"),),
    ),
    Mutant(
        "the number of chunks is that of all languages",
        (
            Edit(
                PREPARE,
                "v_plan.chunk_counts[1] := v_plan.chunk_total - (",
                "v_plan.chunk_counts[1] := v_plan.chunk_total - 0 * (",
            ),
        ),
    ),
    Mutant(
        "a question of plain words has longer ones than documents",
        (Edit(PARSED, "SELECT left(u.run, 64) AS form", "SELECT u.run AS form"),),
        ("tests/sql/test_description.py",),
    ),
    Mutant(
        "phrases hold in the named language only",
        (
            Edit(
                QUESTION,
                "IF operator_count > 0 THEN",
                "IF operator_count > 0 AND (p_named IS NULL OR p_named = p_configurations[i]) THEN",
            ),
        ),
    ),
    Mutant(
        "article not locked while a chunk is described", (Edit(DESCRIBE, "    FOR KEY SHARE OF a;", "    ;"),), RACES
    ),
    Mutant(
        "writers beside a change of language",
        (
            Edit(DESCRIBE, "PERFORM pg_advisory_xact_lock_shared(", "PERFORM ("),
            Edit(WRITTEN, "PERFORM pg_advisory_xact_lock_shared(", "PERFORM ("),
        ),
        RACES,
    ),
    Mutant(
        "old entries of an edited chunk stay",
        (
            Edit(
                WRITTEN,
                "WHERE w.org_id = v_org_id\n                    UNION ALL",
                "WHERE false\n                    UNION ALL",
            ),
        ),
        INDEX,
    ),
    Mutant(
        "merging drops removals whose entry lies elsewhere",
        (Edit(MERGE, "HAVING sum(e.sign) <> 0", "HAVING sum(e.sign) > 0"),),
        INDEX,
    ),
    Mutant(
        "a word of the title counts twice",
        (Edit(WORDS, "|| v_title_lexemes || v_title_lexemes", "|| v_title_lexemes"),),
        DESCRIPTION,
    ),
    Mutant(
        "joined words are found as a whole only",
        (Edit(WORDS, "                v_added := v_added || v_lexeme;\n", ""),),
        DESCRIPTION,
    ),
    Mutant(
        "a chunk with another title says the same to its vectors",
        (Edit(DESCRIBE, "digest_kb_chunk_v1(v_title, NEW", "digest_kb_chunk_v1(NULL, NEW"),),
        VECTORS,
    ),
    Mutant(
        "vectors of other dimensions than their space's are stored",
        (Edit(EMBEDDED, "IF v_given <> v_dimensions THEN", "IF false THEN"),),
        VECTORS,
    ),
    Mutant(
        "whatever touches an old vector makes it fresh",
        (Edit(EMBEDDED, "IF NEW.chunk_id <> OLD.chunk_id OR NEW.input_sha256", "IF true OR NEW.input_sha256"),),
        SWITCH,
    ),
    Mutant(
        "a vector stored for what a chunk said before passes for one of what it says now",
        (
            Edit(
                EMBEDDED,
                "IF TG_OP = 'INSERT' THEN\n        NEW.chunk_digest := coalesce(NEW.chunk_digest, NEW.current_digest);",
                "IF TG_OP = 'INSERT' THEN\n        NEW.chunk_digest := NEW.current_digest;",
            ),
        ),
        SWITCH,
    ),
    Mutant(
        "a space that is not whole is activated",
        (Edit(ACTIVATE, "IF v_lacking + v_stale + v_without_direction > 0 THEN", "IF false THEN"),),
        SWITCH,
    ),
    Mutant(
        "old vectors keep no switch back",
        (Edit(ACTIVATE, "IF v_lacking + v_stale + v_without_direction", "IF v_lacking + v_without_direction"),),
        SWITCH,
    ),
    Mutant(
        "a switch waits for no writer",
        (Edit(ACTIVATE, "PERFORM pg_advisory_xact_lock(", "PERFORM ("),),
        SWITCH,
    ),
    Mutant(
        "a switch from a fixed snapshot",
        (Edit(ACTIVATE, "IF current_setting('transaction_isolation') <> 'read committed' THEN", "IF false THEN"),),
        SWITCH,
    ),
    Mutant(
        "a stored ranking shows what was unpublished",
        (Edit(FETCH, "a.id = p.article_id AND a.published", "a.id = p.article_id"),),
        SNAPSHOT,
    ),
    Mutant(
        "a page of a stored ranking begins a place early",
        (Edit(FETCH, "WHERE p.place > v_from AND", "WHERE p.place >= v_from AND"),),
        SNAPSHOT,
    ),
    Mutant(
        "a stored ranking opens what has nothing to open",
        (Edit(FETCH, "CASE WHEN coalesce(k.inspectable, true) THEN c.id END", "c.id"),),
        SNAPSHOT,
    ),
    Mutant(
        "contributions are rounded once more",
        (
            Edit(
                EXPLAIN,
                "coalesce(round(p.raw * v_plan.keyword_unit)::bigint, 0)",
                "coalesce(floor(p.raw * v_plan.keyword_unit)::bigint, 0)",
            ),
        ),
        EXPLANATIONS,
    ),
    Mutant(
        "matches without the impact",
        (Edit(MATCHES, "CASE WHEN v_counts_terms THEN 1 ELSE m.impact END", "1"),),
        EXPLANATIONS,
    ),
    Mutant(
        "a tie that the quota cuts is not told",
        (
            Edit(
                PLACE,
                "bool_or(t.place_in_kind <= t.quota) AND bool_or(t.place_in_kind > t.quota)",
                "bool_or(t.place_in_kind > t.quota)",
            ),
        ),
        EXPLANATIONS,
    ),
    Mutant(
        "ties over the kept alone",
        (
            Edit(
                PLACE,
                "FROM candidates AS t\n        GROUP BY t.score",
                "FROM candidates AS t\n        WHERE t.quota IS NULL OR t.place_in_kind <= t.quota\n        GROUP BY t.score",
            ),
        ),
        EXPLANATIONS,
    ),
    Mutant(
        "an exclusion is told after the floor",
        (
            Edit(
                WHY,
                "ELSIF v_operators IS NOT NULL THEN",
                "ELSIF v_operators IS NOT NULL AND v_plan.min_score IS NULL THEN",
            ),
        ),
        EXPLANATIONS,
    ),
    Mutant(
        "arbitrated search: a leg's best articles are looked for among its best chunks only",
        (
            Edit(ARBITRATED, "NOT (SELECT e.enough FROM vector_enough AS e)", "false"),
            Edit(
                ARBITRATED,
                "SELECT s.article_id, s.score FROM vector_some AS s\n            WHERE (SELECT e.enough FROM vector_enough AS e)",
                "SELECT s.article_id, s.score FROM vector_some AS s",
            ),
        ),
        SEARCHED,
    ),
    Mutant(
        "arbitrated search: a page is looked for among the best chunks only",
        (
            Edit(ARBITRATED, "WHERE NOT (SELECT e.enough FROM first_enough AS e) AND", "WHERE false AND"),
            Edit(ARBITRATED, "WHERE (SELECT e.enough FROM first_enough AS e)\n            UNION", "UNION"),
        ),
        SEARCHED,
    ),
    Mutant(
        "arbitrated search: ties are counted among the best chunks only",
        (
            Edit(
                ARBITRATED,
                " FILTER (WHERE f.score > (SELECT min(m.score) FROM first AS m)) >= v_wanted",
                " >= v_wanted",
            ),
        ),
        SEARCHED,
    ),
    Mutant(
        "arbitrated search: a decision of other weights is ranked by the policy's",
        (
            Edit(
                ARBITRATED,
                " AND d.decision ->> 'vector_weight' = v_fused ->> 'vector_weight' AS as_fused",
                " AS as_fused",
            ),
        ),
        SEARCHED,
    ),
    Mutant(
        "arbitrated search: the peak of similarities below 0 is 0",
        (
            Edit(
                ARBITRATED,
                "CASE WHEN max(b.score) > 0 THEN max(b.score) ELSE (SELECT max(c.similarity) FROM chunks AS c) END",
                "max(b.score)",
            ),
        ),
        SEARCHED,
    ),
    Mutant(
        "arbitrated search: a leg that was not chosen is shown all the same",
        (Edit(ARBITRATED, "CASE WHEN d.uses_keyword THEN b.raw END AS raw", "b.raw AS raw"),),
        SEARCHED,
    ),
    Mutant(
        "arbitrated search: the chosen ranking is the page, wherever it begins",
        (
            Edit(
                ARBITRATED, "v_kind_quota IS NULL AND p_offset = 0 AND (p_limit IS NULL OR p_limit >= v_top_k)", "true"
            ),
        ),
        SEARCHED,
    ),
    Mutant(
        "arbitrated search: page 2 decides again",
        (Edit(PREPARE, "IF v_plan.fusion = 'arbitrate' AND p_cursor IS NOT NULL THEN", "IF false THEN"),),
        SEARCHED,
    ),
    Mutant(
        "arbitrated search: an escalated one is a plain empty answer",
        (
            Edit(
                "functions/arbitrate/arbitrate_kb_plan_v1.sql",
                "IF p_raises AND v_plan.verdict = 'escalated' THEN",
                "IF false THEN",
            ),
        ),
        SEARCHED,
    ),
    Mutant(
        "arbitrated search: a cursor forgets the weight",
        (
            Edit(
                APPLY,
                "v_plan.vector_weight := coalesce(nullif(v_parts[3], ''), p_plan.policy",
                "v_plan.vector_weight := coalesce(NULL, p_plan.policy",
            ),
        ),
        SEARCHED,
    ),
    Mutant(
        "arbitration: what a list does not have stands before all that it has",
        (Edit(TAU, "ELSE 1001 END", "ELSE 0 END"),),
        DISTANCE,
    ),
    Mutant(
        "arbitration: a pair that both lists tie counts the penalty",
        (
            Edit(
                TAU,
                "(v_left[a.n] = v_left[b.n]) <> (v_right[a.n] = v_right[b.n])",
                "v_left[a.n] = v_left[b.n] OR v_right[a.n] = v_right[b.n]",
            ),
        ),
        DISTANCE,
    ),
    Mutant(
        "arbitration: the distance's last digit is cut, not rounded",
        (Edit(TAU, "v_distance * 2e12 + v_unit", "v_distance * 2e12"),),
        DISTANCE,
    ),
    Mutant(
        "arbitration: an overlap beyond the shorter list is not extrapolated",
        (Edit(OVERLAP, " + v_overlap_at_cut * (d - v_cut) * div(v_unit, v_cut::numeric * d)", ""),),
        DISTANCE,
    ),
    Mutant(
        "arbitration: the limit itself is over the limit",
        (
            Edit(
                DECIDE,
                "v_disagreement > (v_rules ->> 'max_disagreement')",
                "v_disagreement >= (v_rules ->> 'max_disagreement')",
            ),
        ),
        DECISION,
    ),
    Mutant(
        "arbitration: the threshold itself is below it",
        (Edit(DECIDE, "round(p_similarity_peak, 6) >=", "round(p_similarity_peak, 6) >"),),
        DECISION,
    ),
    Mutant(
        "arbitration: the peak is compared before it is rounded",
        (Edit(DECIDE, "round(p_similarity_peak, 6)", "p_similarity_peak"),),
        DECISION,
    ),
    Mutant(
        "arbitration: an id that settles a tie makes the legs agree",
        (
            Edit(
                DECIDE,
                " AND coalesce(p_vector_ranks, v_places) = coalesce(p_keyword_ranks, v_places)",
                "",
            ),
        ),
        DECISION,
    ),
    Mutant(
        "arbitration: calibrated goes before exploratory",
        (Edit(DECIDE, "IF p_exploratory THEN", "IF p_exploratory AND NOT (v_rules ->> 'calibrated')::boolean THEN"),),
        DECISION,
    ),
    Mutant(
        "arbitration: rules of a class do not count",
        (Edit(DECIDE, "v_rules := p_policy || v_own;", "v_rules := p_policy;"),),
        DECISION,
    ),
    Mutant(
        "arbitration: articles beyond top_k are in the manifest",
        (Edit(MANIFEST, "coalesce(p_keyword_ids[:v_top_k], '{}')", "coalesce(p_keyword_ids, '{}')"),),
        RECORD,
    ),
    Mutant(
        "arbitration: the exploratory flag is not in the manifest's digest",
        (Edit(MANIFEST, "'exploratory', coalesce(p_exploratory, false)", "'exploratory', false"),),
        RECORD,
    ),
    Mutant(
        "arbitration: keys are sorted by code points",
        (Edit(CANONICAL, "THEN 2000000 ELSE 0 END", "THEN 0 ELSE 0 END"),),
        RECORD,
    ),
    Mutant(
        "arbitration: decimals are canonical JSON",
        (Edit(CANONICAL, "'^-?[0-9]{1,16}$'", "'^-?[0-9.]{1,16}$'"),),
        RECORD,
    ),
    Mutant(
        "arbitration: a number with its unit is an identifier",
        (Edit(CLASSIFY, "[a-z\\u00B5\\u03BC]{1,3}$' THEN false", "[a-z\\u00B5\\u03BC]{1,3}$' THEN true"),),
        CLASSES,
    ),
    Mutant(
        "arbitration: a question's text is kept where only hashes may be",
        (Edit(LOG, "CASE WHEN v_keeps = 'text' THEN p_query_text END", "p_query_text"),),
        LOGGED,
    ),
    Mutant(
        "arbitration: any text may be logged as the question",
        (Edit(LOG, "kbsearch.hash_kb_text_v1(p_query_text) <> p_manifest ->> 'query_hash'", "false"),),
        LOGGED,
    ),
    Mutant(
        "budget: rows are written without a look at the clock",
        (Edit(LIST, "clock_timestamp() > (p_plan).deadline", "false"),),
        BUDGET,
    ),
    Mutant(
        "budget: a stored ranking is read without a look at the clock between rows",
        (Edit(FETCH, "(clock_timestamp() > v_deadline) IS NOT TRUE", "true"),),
        BUDGET,
    ),
    Mutant(
        "budget: words are explained without a look at the clock",
        (Edit(MATCHES, "(clock_timestamp() > v_deadline) IS NOT TRUE", "true", times=2),),
        BUDGET,
    ),
    Mutant(
        "cursors: as long as a page has rows, however many words",
        (Edit(PREPARE, "p_limit * octet_length(v_plan.cursor_prefix) > 50331648", "false"),),
        ("tests/sql/test_limits.py",),
    ),
    Mutant(
        "tenancy: a trigger function that anybody may make triggers of",
        (
            Edit(
                "schema/0012_trigger_rights.sql",
                "REVOKE EXECUTE ON FUNCTION kbsearch.kb_chunks_truncated_v1() FROM public;",
                "",
            ),
        ),
        ("tests/tenancy/test_leaks.py",),
    ),
)


def apply(mutant: Mutant) -> dict[str, str]:
    """The text of each file that the mutant changes, by its name relative to sql/.

    Raises:
        MutantError: the text to replace is not there as often as expected.
    """
    changed: dict[str, str] = {}
    for edit in mutant.edits:
        text = changed.get(edit.file) or migrate.file_text(edit.file)
        if text.count(edit.before) != edit.times:
            raise MutantError(
                f"{mutant.name}: {edit.before!r} occurs {text.count(edit.before)} times in sql/{edit.file}, expected {edit.times}"
            )
        changed[edit.file] = text.replace(edit.before, edit.after)
    return changed


def run_tests(dsn: str, sql: Path, tests: Sequence[str], directory: Path) -> Outcome:
    """Run tests against an installation of the SQL in a directory, up to the first failure.

    Args:
        dsn: maintenance database of the server.
        sql: a directory like sql/.
        tests: paths for pytest.
        directory: where its report may lie.
    """
    report = directory / "report.xml"
    environment = os.environ | {
        "KBSEARCH_TEST_DSN": dsn,
        "KBSEARCH_TEST_SQL_OVERLAY": str(sql),
        "HYPOTHESIS_PROFILE": "quick",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", *tests]
    begin = time.monotonic()
    try:
        result = subprocess.run(
            command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return Outcome("error", f"the tests ran for more than {TIMEOUT:.0f} s", TIMEOUT)
    seconds = time.monotonic() - begin
    if result.returncode == 0:
        return Outcome("survived", "", seconds)
    for case in ET.parse(report).iter("testcase") if report.exists() else ():  # noqa: S314  (our own pytest wrote it)
        for problem in case:
            if problem.tag == "failure" and _is_assertion(problem):
                return Outcome("killed", _name(case), seconds)
            if problem.tag in {"failure", "error"}:
                return Outcome("error", f"{_name(case)}: {problem.get('message', '').splitlines()[0][:200]}", seconds)
    return Outcome("error", "\n".join(result.stdout.splitlines()[-5:]) or result.stderr[-500:], seconds)


def _is_assertion(problem: ET.Element) -> bool:
    """Whether a test failed by what it claims, not by an exception that it did not expect or by the examples that it was given."""
    text = f"{problem.get('message', '')}\n{problem.text or ''}"
    return ("AssertionError" in text or "DID NOT RAISE" in text) and "too few examples" not in text


def _name(case: ET.Element) -> str:
    return f"{case.get('classname', '').removeprefix('tests.').split('.')[-1]}::{case.get('name', '')}"


def try_mutant(mutant: Mutant, dsn: str) -> Outcome:
    """Break a copy of the SQL and run the tests against it."""
    with tempfile.TemporaryDirectory(prefix="kbsearch-mutant-") as name:
        directory = Path(name)
        sql = directory / "sql"
        shutil.copytree(migrate.sql_root(), sql)
        try:
            changed = apply(mutant)
        except MutantError as error:
            return Outcome("error", str(error))
        for file, text in changed.items():
            (sql / file).write_text(text, encoding="utf-8")
        return run_tests(dsn, sql, mutant.tests, directory)


@contextmanager
def server() -> Iterator[str]:
    """A throw-away server; its maintenance database's connection string."""
    directory = Path(tempfile.mkdtemp(prefix="kbsearch-mutants-"))
    data = directory / "postgres"
    try:
        yield embedded.start(data, settings=SERVER).dsn("postgres")
    finally:
        embedded.stop(data)
        shutil.rmtree(directory, ignore_errors=True)


def main(
    *,
    only: Annotated[str, typer.Option(help="Try only mutants whose name contains this.")] = "",
    jobs: Annotated[int, typer.Option(help="Mutants tried at a time.", min=1)] = 2,
) -> None:
    """Break the SQL in every listed way; each must be noticed by a test."""
    console = Console()
    mutants = [mutant for mutant in MUTANTS if only in mutant.name]
    if not mutants:
        raise typer.BadParameter(f"no mutant's name contains {only!r}")
    outcomes: dict[str, Outcome] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with server() as dsn, Progress(*columns, console=console) as progress:
        bar = progress.add_task("the SQL as it is", total=len(mutants))
        tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
        with tempfile.TemporaryDirectory(prefix="kbsearch-mutant-") as name:
            sound = run_tests(dsn, migrate.sql_root(), tests, Path(name))
        if sound.verdict != "survived":
            console.print(f"[bold red]the tests fail without any mutant: {sound.by}")
            raise typer.Exit(1)
        progress.update(bar, description="mutants")

        def attempt(mutant: Mutant) -> None:
            outcomes[mutant.name] = outcome = try_mutant(mutant, dsn)
            if outcome.verdict != "killed":
                console.print(f"[bold red]{mutant.name}: {outcome.verdict} {outcome.by}", markup=True)
            progress.advance(bar)

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(attempt, mutants))
    console.print(_table(mutants, outcomes))
    if any(outcome.verdict != "killed" for outcome in outcomes.values()):
        raise typer.Exit(1)


def _table(mutants: Sequence[Mutant], outcomes: dict[str, Outcome]) -> Table:
    killed = sum(outcome.verdict == "killed" for outcome in outcomes.values())
    table = Table(title=f"{killed} of {len(mutants)} mutants killed")
    for heading in ("mutant", "verdict", "by", "seconds"):
        table.add_column(heading, justify="right" if heading == "seconds" else "left")
    for mutant in mutants:
        outcome = outcomes[mutant.name]
        style = None if outcome.verdict == "killed" else "bold red"
        table.add_row(mutant.name, outcome.verdict, outcome.by, f"{outcome.seconds:.0f}", style=style)
    return table


if __name__ == "__main__":
    typer.run(main)
