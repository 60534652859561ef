-- The ranking: chunks are scored, an article is its best chunk, the floor and the quotas cut, and one total order decides. Nothing is cut before
-- the collapse. Settings: an organisation's rows are always read through its own index entries, also where it owns most of a table and a
-- sequential scan of everybody's rows would look cheaper; joins are by hash, because the planner cannot know how many rows a word brings.
-- A search starts every node of its plan, also those that it has no use for: a good part of what a small organisation's costs. So what few searches
-- need stands in functions of its own, and the constants here leave it out of the plan.
CREATE FUNCTION kbsearch.rank_kb_articles_v1(
    p_plan kbsearch.kb_search_plan, p_embedding vector, p_limit bigint, p_offset bigint, p_after_score bigint, p_after_article_id bigint
) RETURNS TABLE (
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
    -- variables are read faster than fields, and some are read for every row
    v_org_id CONSTANT bigint := p_plan.org_id;
    v_space_id CONSTANT bigint := p_plan.space_id;
    v_known_lexemes CONSTANT text[] := p_plan.known_lexemes;
    v_term_weights CONSTANT double precision[] := p_plan.term_weights;
    v_counts_terms CONSTANT boolean := p_plan.counts_terms;
    v_allowed CONSTANT bigint[] := p_plan.allowed;
    v_uses_vector CONSTANT boolean := p_plan.uses_vector;
    v_uses_keyword CONSTANT boolean := p_plan.uses_keyword;
    v_fusion CONSTANT text := p_plan.fusion;
    v_min_score CONSTANT double precision := p_plan.min_score;
    v_vector_unit CONSTANT double precision := p_plan.vector_unit;
    v_keyword_unit CONSTANT double precision := p_plan.keyword_unit;
BEGIN
    IF clock_timestamp() > p_plan.deadline THEN
        PERFORM kbsearch.refuse_kb_overtime_v1(p_plan.budget, 'ranking');
    END IF;
    IF v_fusion = 'arbitrate' THEN
        RETURN QUERY
        SELECT r.place, r.article_id, r.chunk_id, r.score, r.similarity, r.raw, r.tied_with, r.total, r.decision, r.manifest
        FROM kbsearch.rank_kb_arbitrated_v1(p_plan, p_embedding, p_limit, p_offset) AS r
        WHERE r.article_id IS NOT NULL;
        RETURN;
    END IF;
    IF p_plan.window_articles IS NOT NULL THEN
        RETURN QUERY
        SELECT r.place, r.article_id, r.chunk_id, r.score, r.similarity, r.raw, r.tied_with, r.total, NULL::text, NULL::jsonb
        FROM kbsearch.rank_kb_window_v1(p_plan, p_limit, p_offset, p_after_score, p_after_article_id) AS r;
        RETURN;
    END IF;
    IF p_plan.kind_quota IS NOT NULL OR v_fusion = 'rrf' OR (p_plan.dense AND NOT v_uses_vector) THEN
        RETURN QUERY
        SELECT r.place, r.article_id, r.chunk_id, r.score, r.similarity, r.raw, r.tied_with, r.total, NULL::text, NULL::jsonb
        FROM kbsearch.rank_kb_general_v1(p_plan, p_embedding, p_limit, p_offset, p_after_score, p_after_article_id) AS r;
        RETURN;
    END IF;
    RETURN QUERY
    WITH candidates AS MATERIALIZED (
        SELECT c.article_id, c.chunk_id, c.score, c.similarity, c.raw
        FROM kbsearch.list_kb_candidates_v1(
            v_org_id, v_space_id, p_embedding, v_known_lexemes, v_term_weights, v_counts_terms, v_allowed, v_uses_vector, v_uses_keyword, false,
            v_vector_unit, v_keyword_unit, 'weighted', NULL, NULL, NULL, NULL, v_min_score
        ) AS c
    ),
    counted AS MATERIALIZED (
        SELECT
            count(*) AS total,
            count(*) FILTER (
                WHERE p_after_score IS NOT NULL AND (c.score > p_after_score OR (c.score = p_after_score AND c.article_id <= p_after_article_id))
            ) AS before
        FROM candidates AS c
    ),
    page AS MATERIALIZED (
        SELECT c.article_id, c.chunk_id, c.score, c.similarity, c.raw
        FROM candidates AS c
        WHERE (p_after_score IS NULL OR c.score < p_after_score OR (c.score = p_after_score AND c.article_id > p_after_article_id))
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
        p.article_id, p.chunk_id, p.score, p.similarity, p.raw, g.size - 1, counted.total, NULL::text, NULL::jsonb
    FROM page AS p
    INNER JOIN groups AS g ON g.score = p.score
    CROSS JOIN counted
    ORDER BY score DESC, article_id ASC;
END
$$;
COMMENT ON FUNCTION kbsearch.rank_kb_articles_v1(kbsearch.kb_search_plan, vector, bigint, bigint, bigint, bigint) IS
'The articles of a search in its total order (score descending, article id ascending), those after (p_after_score, p_after_article_id) and p_offset more. score: billionths; similarity: millionths; tied_with: other candidates of the same score, also those that a quota cut or that stand on other pages; total: articles in the whole result; decision, manifest: of an arbitration that this call has done.';
