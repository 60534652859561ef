-- The settings are those of rank_kb_articles_v1.
CREATE FUNCTION kbsearch.place_kb_candidates_v1(p_plan kbsearch.kb_search_plan, p_embedding vector)
RETURNS TABLE (
    article_id bigint, chunk_id bigint, score bigint, similarity integer, raw double precision, kind text, place_in_kind bigint, quota bigint,
    kept boolean, place bigint, tied_with bigint, tied_in_kind bigint, is_tie_cut boolean, tied_article_ids bigint []
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
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
BEGIN
    IF clock_timestamp() > p_plan.deadline THEN
        PERFORM kbsearch.refuse_kb_overtime_v1(p_plan.budget, 'ranking');
    END IF;
    RETURN QUERY
    WITH candidates AS MATERIALIZED (
        SELECT
            c.article_id,
            c.chunk_id,
            c.score,
            c.similarity,
            c.raw,
            a.kind,
            row_number() OVER (PARTITION BY a.kind ORDER BY c.score DESC, c.article_id ASC) AS place_in_kind,
            coalesce(((p_plan).kind_quota ->> a.kind)::bigint, ((p_plan).kind_quota ->> '*')::bigint) AS quota
        FROM kbsearch.list_kb_candidates_v1(
            (p_plan).org_id, (p_plan).space_id, p_embedding, (p_plan).known_lexemes, (p_plan).term_weights, (p_plan).counts_terms, (p_plan).allowed,
            (p_plan).uses_vector, (p_plan).uses_keyword, (p_plan).dense, (p_plan).vector_unit, (p_plan).keyword_unit, (p_plan).fusion,
            (p_plan).vector_weight, (p_plan).keyword_weight, (p_plan).rrf_k, (p_plan).keyword_bound, (p_plan).min_score
        ) AS c
        INNER JOIN kbsearch.kb_articles AS a ON a.org_id = (p_plan).org_id AND a.id = c.article_id
    ),
    kept AS (
        SELECT k.article_id, row_number() OVER (ORDER BY k.score DESC, k.article_id ASC) AS place
        FROM candidates AS k
        WHERE k.quota IS NULL OR k.place_in_kind <= k.quota
    ),
    ties AS (
        -- the ids of the first hundred and one, so that each can leave out its own
        SELECT t.score, count(*) AS size, (array_agg(t.article_id ORDER BY t.article_id))[1:101] AS article_ids
        FROM candidates AS t
        GROUP BY t.score
    ),
    ties_in_kind AS (
        SELECT t.kind, t.score, count(*) AS size, bool_or(t.place_in_kind <= t.quota) AND bool_or(t.place_in_kind > t.quota) AS is_cut
        FROM candidates AS t
        GROUP BY t.kind, t.score
    )
    SELECT
        c.article_id, c.chunk_id, c.score, c.similarity, c.raw, c.kind, c.place_in_kind, c.quota, k.place IS NOT NULL, k.place,
        t.size - 1, g.size - 1, coalesce(g.is_cut, false), (array_remove(t.article_ids, c.article_id))[1:100]
    FROM candidates AS c
    LEFT JOIN kept AS k ON k.article_id = c.article_id
    INNER JOIN ties AS t ON t.score = c.score
    INNER JOIN ties_in_kind AS g ON g.kind = c.kind AND g.score = c.score;
END
$$;
COMMENT ON FUNCTION kbsearch.place_kb_candidates_v1(kbsearch.kb_search_plan, vector) IS
'Every candidate of a search, in no order, with what the quota and the ranking made of it: place_in_kind; quota of its kind, NULL for none; kept; place in the ranking, NULL where the quota cut it; tied_with and tied_in_kind: other candidates of its score, and of its kind too; is_tie_cut: the quota cuts through the tie it is in; tied_article_ids: at most 100 of those it ties with, ascending.';
