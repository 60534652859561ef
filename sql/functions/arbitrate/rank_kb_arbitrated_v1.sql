-- One scan of the legs for all: their best articles, the decision, and the ranking that it asks for. What rank_kb_articles_v1 would rank by the decided
-- plan, row by row; so are its settings. The best articles are looked for among the best chunks, and among all where those are too few to tell: in the order of score
-- and article, the first chunks of so many articles are those articles' best, and the articles are the best. Ties are counted among them, too, so the
-- page needs chunks below its last score.
CREATE FUNCTION kbsearch.rank_kb_arbitrated_v1(p_plan kbsearch.kb_search_plan, p_embedding vector, p_limit bigint, p_offset bigint)
RETURNS TABLE (
    place bigint, article_id bigint, chunk_id bigint, score bigint, similarity integer, raw double precision, tied_with bigint, total bigint, decision text,
    manifest jsonb
)
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET work_mem = '64MB'
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = on
SET enable_hashagg = on
SET enable_nestloop = off
SET enable_mergejoin = off
SET enable_memoize = off
SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    v_org_id CONSTANT bigint := p_plan.org_id;
    v_space_id CONSTANT bigint := p_plan.space_id;
    v_known_lexemes CONSTANT text[] := p_plan.known_lexemes;
    v_term_weights CONSTANT double precision[] := p_plan.term_weights;
    v_counts_terms CONSTANT boolean := p_plan.counts_terms;
    v_allowed CONSTANT bigint[] := p_plan.allowed;
    v_uses_vector CONSTANT boolean := p_plan.uses_vector;
    v_uses_keyword CONSTANT boolean := p_plan.uses_keyword;
    v_dense CONSTANT boolean := p_plan.dense;
    v_keyword_bound CONSTANT double precision := p_plan.keyword_bound;
    v_billionth CONSTANT double precision := 1e9::double precision / p_plan.keyword_bound;
    v_min_score CONSTANT double precision := p_plan.min_score;
    v_kind_quota CONSTANT jsonb := p_plan.kind_quota;
    v_policy CONSTANT jsonb := p_plan.policy;
    v_query_text CONSTANT text := p_plan.query_text;
    v_query_class CONSTANT text := kbsearch.classify_kb_query_v1(v_query_text);
    v_exploratory CONSTANT boolean := p_plan.exploratory;
    v_top_k CONSTANT bigint := v_policy ->> 'top_k';
    v_some CONSTANT bigint := 4 * v_top_k + 40;
    v_page_has_them CONSTANT boolean := v_kind_quota IS NULL AND p_offset = 0 AND (p_limit IS NULL OR p_limit >= v_top_k);
    -- how most decisions have chunks scored: so they are before it is known
    v_fused CONSTANT jsonb := v_policy || coalesce(v_policy -> 'class_rules' -> v_query_class, '{}');
    v_fused_vector_unit CONSTANT double precision := (v_fused ->> 'vector_weight')::double precision * 1000;
    v_fused_keyword_unit CONSTANT double precision := (v_fused ->> 'keyword_weight')::double precision * 1e9 / p_plan.keyword_bound;
    -- the articles up to the end of the page, and the chunks that they are looked for among
    v_wanted CONSTANT bigint := p_limit + p_offset;
    v_first CONSTANT bigint := CASE WHEN v_kind_quota IS NULL AND v_wanted <= 250 THEN 4 * v_wanted + 40 ELSE 0 END;
BEGIN
    RETURN QUERY
    WITH chunks AS MATERIALIZED (
        SELECT f.article_id, f.chunk_id, f.score, f.similarity, f.raw
        FROM kbsearch.fuse_kb_weighted_v1(
            v_org_id, v_space_id, p_embedding, v_known_lexemes, v_term_weights, v_counts_terms, v_allowed, v_uses_vector, v_uses_keyword, v_dense,
            v_fused_vector_unit, v_fused_keyword_unit
        ) AS f
    ),
    vector_some AS MATERIALIZED (
        SELECT c.article_id, greatest(0, c.similarity)::bigint AS score FROM chunks AS c WHERE c.similarity IS NOT NULL
        ORDER BY score DESC, article_id ASC, c.chunk_id ASC
        LIMIT v_some
    ),
    vector_enough AS MATERIALIZED (
        SELECT count(*) < v_some OR count(DISTINCT s.article_id) >= v_top_k AS enough
        FROM vector_some AS s
    ),
    vector_best AS MATERIALIZED (
        SELECT b.article_id, max(b.score) AS score, rank() OVER (ORDER BY max(b.score) DESC) AS leg_rank
        FROM (
            SELECT s.article_id, s.score FROM vector_some AS s
            WHERE (SELECT e.enough FROM vector_enough AS e)
            UNION ALL
            SELECT c.article_id, greatest(0, c.similarity)::bigint FROM chunks AS c
            WHERE c.similarity IS NOT NULL AND NOT (SELECT e.enough FROM vector_enough AS e)
        ) AS b
        GROUP BY b.article_id
        ORDER BY score DESC, article_id ASC
        LIMIT v_top_k
    ),
    keyword_some AS MATERIALIZED (
        SELECT c.article_id, round(c.raw * v_billionth)::bigint AS score FROM chunks AS c WHERE c.raw IS NOT NULL
        ORDER BY score DESC, article_id ASC, c.chunk_id ASC
        LIMIT v_some
    ),
    keyword_enough AS MATERIALIZED (
        SELECT count(*) < v_some OR count(DISTINCT s.article_id) >= v_top_k AS enough
        FROM keyword_some AS s
    ),
    keyword_best AS MATERIALIZED (
        SELECT b.article_id, max(b.score) AS score, rank() OVER (ORDER BY max(b.score) DESC) AS leg_rank
        FROM (
            SELECT s.article_id, s.score FROM keyword_some AS s
            WHERE (SELECT e.enough FROM keyword_enough AS e)
            UNION ALL
            SELECT c.article_id, round(c.raw * v_billionth)::bigint FROM chunks AS c
            WHERE c.raw IS NOT NULL AND NOT (SELECT e.enough FROM keyword_enough AS e)
        ) AS b
        GROUP BY b.article_id
        ORDER BY score DESC, article_id ASC
        LIMIT v_top_k
    ),
    legs AS MATERIALIZED (
        SELECT v.article_ids AS vector_ids, v.ranks AS vector_ranks, k.article_ids AS keyword_ids, k.ranks AS keyword_ranks, v.peak
        FROM (
            SELECT
                array_agg(b.article_id ORDER BY b.score DESC, b.article_id ASC) AS article_ids,
                array_agg(b.leg_rank ORDER BY b.score DESC, b.article_id ASC) AS ranks,
                -- the best similarity, also where it is below 0
                CASE WHEN max(b.score) > 0 THEN max(b.score) ELSE (SELECT max(c.similarity) FROM chunks AS c) END * 0.000001 AS peak
            FROM vector_best AS b
        ) AS v
        CROSS JOIN (
            SELECT
                array_agg(b.article_id ORDER BY b.score DESC, b.article_id ASC) AS article_ids,
                array_agg(b.leg_rank ORDER BY b.score DESC, b.article_id ASC) AS ranks
            FROM keyword_best AS b
        ) AS k
    ),
    -- what a chunk's similarity and keyword score count, as apply_kb_decision_v1 has it; NULL: the leg is not used
    decided AS MATERIALIZED (
        SELECT
            d.decision,
            u.uses_vector,
            u.uses_keyword,
            u.uses_vector AND u.uses_keyword AND d.decision ->> 'vector_weight' = v_fused ->> 'vector_weight' AS as_fused,
            CASE WHEN u.uses_vector THEN CASE WHEN u.uses_keyword THEN (d.decision ->> 'vector_weight')::double precision ELSE 1 END * 1000 END AS vector_unit,
            CASE WHEN u.uses_keyword THEN
                CASE WHEN u.uses_vector THEN (d.decision ->> 'keyword_weight')::double precision ELSE 1 END * 1e9 / v_keyword_bound
            END AS keyword_unit
        FROM (
            SELECT CASE
                WHEN l.vector_ids IS NOT NULL OR l.keyword_ids IS NOT NULL
                    THEN kbsearch.decide_kb_rankings_v1(
                        v_policy, v_query_class, l.vector_ids, l.vector_ranks, l.keyword_ids, l.keyword_ranks, l.peak, v_exploratory
                    )
            END AS decision
            FROM legs AS l
            OFFSET 0 -- decided once, and not wherever it is named
        ) AS d
        CROSS JOIN LATERAL (
            SELECT (d.decision ->> 'vector_weight')::numeric > 0 AS uses_vector, (d.decision ->> 'keyword_weight')::numeric > 0 AS uses_keyword
        ) AS u
    ),
    -- the decision is looked up: joined with every chunk it costs 1 ms in 10,000
    scored AS NOT MATERIALIZED (
        SELECT
            c.article_id,
            c.chunk_id,
            CASE
                WHEN (SELECT d.as_fused FROM decided AS d) THEN c.score
                -- the expressions of fuse_kb_weighted_v1
                ELSE
                    coalesce(round(greatest(0, c.similarity) * (SELECT d.vector_unit FROM decided AS d))::bigint, 0)
                    + coalesce(round(c.raw * (SELECT d.keyword_unit FROM decided AS d))::bigint, 0)
            END AS score,
            c.similarity,
            c.raw
        FROM chunks AS c
        WHERE
            (c.similarity IS NOT NULL AND (SELECT d.uses_vector FROM decided AS d))
            OR (c.raw IS NOT NULL AND (SELECT d.uses_keyword FROM decided AS d))
    ),
    first AS MATERIALIZED (
        SELECT s.article_id, s.chunk_id, s.score, s.similarity, s.raw
        FROM scored AS s
        WHERE v_first > 0 AND (v_min_score IS NULL OR s.score / 1e9::double precision >= v_min_score)
        ORDER BY score DESC, article_id ASC, chunk_id ASC
        LIMIT v_first
    ),
    first_enough AS MATERIALIZED (
        SELECT
            v_first > 0
            AND (count(*) < v_first OR count(DISTINCT f.article_id) FILTER (WHERE f.score > (SELECT min(m.score) FROM first AS m)) >= v_wanted) AS enough
        FROM first AS f
    ),
    candidates AS MATERIALIZED (
        SELECT DISTINCT ON (b.article_id)
            b.article_id,
            b.chunk_id,
            b.score,
            CASE WHEN d.uses_vector THEN b.similarity END AS similarity,
            CASE WHEN d.uses_keyword THEN b.raw END AS raw
        FROM (
            SELECT f.article_id, f.chunk_id, f.score, f.similarity, f.raw FROM first AS f
            WHERE (SELECT e.enough FROM first_enough AS e)
            UNION ALL
            SELECT s.article_id, s.chunk_id, s.score, s.similarity, s.raw FROM scored AS s
            WHERE NOT (SELECT e.enough FROM first_enough AS e) AND (v_min_score IS NULL OR s.score / 1e9::double precision >= v_min_score)
        ) AS b
        CROSS JOIN decided AS d
        ORDER BY b.article_id ASC, b.score DESC, b.chunk_id ASC
    ),
    cut AS (
        SELECT q.article_id
        FROM (
            SELECT c.article_id, a.kind, row_number() OVER (PARTITION BY a.kind ORDER BY c.score DESC, c.article_id ASC) AS place_in_kind
            FROM candidates AS c
            INNER JOIN kbsearch.kb_articles AS a ON a.org_id = v_org_id AND a.id = c.article_id
        ) AS q
        WHERE q.place_in_kind > coalesce((v_kind_quota ->> q.kind)::bigint, (v_kind_quota ->> '*')::bigint, q.place_in_kind)
    ),
    counted AS MATERIALIZED (
        SELECT CASE
            WHEN (SELECT e.enough FROM first_enough AS e) THEN (
                SELECT count(DISTINCT s.article_id) FROM scored AS s
                WHERE v_min_score IS NULL OR s.score / 1e9::double precision >= v_min_score
            )
            ELSE (SELECT count(*) FROM candidates AS c WHERE v_kind_quota IS NULL OR c.article_id NOT IN (SELECT u.article_id FROM cut AS u))
        END AS total
    ),
    page AS MATERIALIZED (
        SELECT c.article_id, c.chunk_id, c.score, c.similarity, c.raw
        FROM candidates AS c
        WHERE v_kind_quota IS NULL OR c.article_id NOT IN (SELECT u.article_id FROM cut AS u)
        ORDER BY score DESC, article_id ASC
        LIMIT p_limit OFFSET p_offset
    ),
    chosen AS (
        SELECT array_agg(b.article_id ORDER BY b.score DESC, b.article_id ASC) AS article_ids
        FROM (
            SELECT u.article_id, u.score
            FROM (
                SELECT p.article_id, p.score FROM page AS p WHERE v_page_has_them
                UNION ALL
                SELECT c.article_id, c.score FROM candidates AS c WHERE NOT v_page_has_them
            ) AS u
            ORDER BY score DESC, article_id ASC
            LIMIT v_top_k
        ) AS b
    ),
    record AS MATERIALIZED (
        SELECT CASE WHEN d.decision IS NOT NULL THEN kbsearch.build_kb_manifest_v1(
            v_query_text, v_policy, v_query_class, l.vector_ids, l.vector_ranks, l.keyword_ids, l.keyword_ranks, l.peak, v_exploratory, d.decision,
            h.article_ids
        ) END AS manifest
        FROM decided AS d
        CROSS JOIN legs AS l
        CROSS JOIN chosen AS h
    ),
    recorded AS MATERIALIZED (
        SELECT
            r.manifest,
            CASE WHEN d.decision IS NULL THEN '--' ELSE concat(
                CASE WHEN d.uses_vector THEN 'v' ELSE '-' END, CASE WHEN d.uses_keyword THEN 'k' ELSE '-' END, ':', d.decision ->> 'verdict', ':',
                d.decision ->> 'vector_weight', ':', r.manifest ->> 'manifest_digest'
            ) END AS decision
        FROM decided AS d
        CROSS JOIN record AS r
    ),
    groups AS MATERIALIZED (
        SELECT c.score, count(*) AS size
        FROM candidates AS c
        WHERE c.score BETWEEN (SELECT min(p.score) FROM page AS p) AND (SELECT max(p.score) FROM page AS p)
        GROUP BY c.score
    )
    SELECT
        p_offset + row_number() OVER (ORDER BY p.score DESC, p.article_id ASC),
        p.article_id, p.chunk_id, p.score, p.similarity, p.raw, p.tied_with, counted.total, r.decision, r.manifest
    FROM recorded AS r
    CROSS JOIN counted
    LEFT JOIN (
        SELECT g.article_id, g.chunk_id, g.score, g.similarity, g.raw, t.size - 1 AS tied_with
        FROM page AS g
        INNER JOIN groups AS t ON t.score = g.score
    ) AS p ON true
    ORDER BY score DESC, article_id ASC;
END
$$;
COMMENT ON FUNCTION kbsearch.rank_kb_arbitrated_v1(kbsearch.kb_search_plan, vector, bigint, bigint) IS
'The articles of a search whose legs are arbitrated, as rank_kb_articles_v1 has them, with the decision (apply_kb_decision_v1) and the manifest (build_kb_manifest_v1; NULL where neither leg found anything). At least one row: where the page is empty, one without an article.';
