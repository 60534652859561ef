-- As rank_kb_articles_v1, whose settings these are, with all that a search may ask for.
CREATE FUNCTION kbsearch.rank_kb_general_v1(
    p_plan kbsearch.kb_search_plan, p_embedding vector, p_limit bigint, p_offset bigint, p_after_score bigint, p_after_article_id bigint
) RETURNS TABLE (
    place bigint, article_id bigint, chunk_id bigint, score bigint, similarity integer, raw double precision, tied_with bigint, total bigint
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
    -- variables are read faster than fields, and some are read for every row
    v_org_id CONSTANT bigint := p_plan.org_id;
    v_space_id CONSTANT bigint := p_plan.space_id;
    v_known_lexemes CONSTANT text[] := p_plan.known_lexemes;
    v_term_weights CONSTANT double precision[] := p_plan.term_weights;
    v_counts_terms CONSTANT boolean := p_plan.counts_terms;
    v_allowed CONSTANT bigint[] := p_plan.allowed;
    v_uses_vector CONSTANT boolean := p_plan.uses_vector;
    v_uses_keyword CONSTANT boolean := p_plan.uses_keyword;
    v_dense CONSTANT boolean := p_plan.dense;
    v_fusion CONSTANT text := p_plan.fusion;
    v_vector_weight CONSTANT double precision := p_plan.vector_weight;
    v_keyword_weight CONSTANT double precision := p_plan.keyword_weight;
    v_rrf_k CONSTANT integer := p_plan.rrf_k;
    v_keyword_bound CONSTANT double precision := p_plan.keyword_bound;
    v_min_score CONSTANT double precision := p_plan.min_score;
    v_kind_quota CONSTANT jsonb := p_plan.kind_quota;
    v_vector_unit CONSTANT double precision := p_plan.vector_unit;
    v_keyword_unit CONSTANT double precision := p_plan.keyword_unit;
BEGIN
    RETURN QUERY
    WITH candidates AS MATERIALIZED (
        SELECT c.article_id, c.chunk_id, c.score, c.similarity, c.raw
        FROM kbsearch.list_kb_candidates_v1(
            v_org_id, v_space_id, p_embedding, v_known_lexemes, v_term_weights, v_counts_terms, v_allowed, v_uses_vector, v_uses_keyword, v_dense,
            v_vector_unit, v_keyword_unit, v_fusion, v_vector_weight, v_keyword_weight, v_rrf_k, v_keyword_bound, v_min_score
        ) AS c
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
        SELECT
            count(*) AS total,
            count(*) FILTER (WHERE c.score > p_after_score OR (c.score = p_after_score AND c.article_id <= p_after_article_id)) AS before
        FROM candidates AS c
        WHERE v_kind_quota IS NULL OR c.article_id NOT IN (SELECT u.article_id FROM cut AS u)
    ),
    page AS MATERIALIZED (
        SELECT c.article_id, c.chunk_id, c.score, c.similarity, c.raw
        FROM candidates AS c
        WHERE
            (v_kind_quota IS NULL OR c.article_id NOT IN (SELECT u.article_id FROM cut AS u))
            AND (p_after_score IS NULL OR c.score < p_after_score OR (c.score = p_after_score AND c.article_id > p_after_article_id))
        ORDER BY score DESC, article_id ASC
        LIMIT p_limit OFFSET p_offset
    ),
    groups AS MATERIALIZED (
        SELECT c.score, count(*) AS size
        FROM candidates AS c
        WHERE c.score BETWEEN (SELECT min(p.score) FROM page AS p) AND (SELECT max(p.score) FROM page AS p)
        GROUP BY c.score
    )
    SELECT
        counted.before + p_offset + row_number() OVER (ORDER BY p.score DESC, p.article_id ASC),
        p.article_id, p.chunk_id, p.score, p.similarity, p.raw, g.size - 1, counted.total
    FROM page AS p
    INNER JOIN groups AS g ON g.score = p.score
    CROSS JOIN counted
    ORDER BY score DESC, article_id ASC;
END
$$;
COMMENT ON FUNCTION kbsearch.rank_kb_general_v1(kbsearch.kb_search_plan, vector, bigint, bigint, bigint, bigint) IS
'What rank_kb_articles_v1 returns, for any search that neither is arbitrated nor has windows.';
