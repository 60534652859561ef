-- As rank_kb_articles_v1, of the few candidates that a windowed plan holds, in order.
CREATE FUNCTION kbsearch.rank_kb_window_v1(
    p_plan kbsearch.kb_search_plan, p_limit bigint, p_offset bigint, p_after_score bigint, p_after_article_id bigint
) RETURNS TABLE (
    place bigint, article_id bigint, chunk_id bigint, score bigint, similarity integer, raw double precision, tied_with bigint, total bigint
)
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    v_org_id CONSTANT bigint := p_plan.org_id;
    v_min_score CONSTANT double precision := p_plan.min_score;
    v_kind_quota CONSTANT jsonb := p_plan.kind_quota;
    v_articles CONSTANT bigint[] := p_plan.window_articles;
    v_scores CONSTANT bigint[] := p_plan.window_scores;
    v_before bigint;
    v_last bigint;
BEGIN
    IF v_min_score IS NULL AND v_kind_quota IS NULL THEN
        -- in order as they are
        v_before := p_offset;
        IF p_after_score IS NOT NULL THEN
            v_before := p_offset + (
                SELECT count(*)
                FROM unnest(v_scores, v_articles) AS u (score, article_id)
                WHERE u.score > p_after_score OR (u.score = p_after_score AND u.article_id <= p_after_article_id)
            );
        END IF;
        IF v_before < cardinality(v_articles) THEN
            v_last := least(v_before + coalesce(p_limit, cardinality(v_articles)), cardinality(v_articles));
            RETURN QUERY
            SELECT
                v_before + u.n, u.article_id, u.chunk_id, u.score, u.similarity, u.raw, cardinality(array_positions(v_scores, u.score)) - 1::bigint,
                cardinality(v_articles)::bigint
            FROM unnest(
                v_articles[v_before + 1:v_last], p_plan.window_chunks[v_before + 1:v_last],
                v_scores[v_before + 1:v_last], p_plan.window_similarities[v_before + 1:v_last],
                p_plan.window_raws[v_before + 1:v_last]
            ) WITH ORDINALITY AS u (article_id, chunk_id, score, similarity, raw, n);
        END IF;
        RETURN;
    END IF;
    RETURN QUERY
    WITH candidates AS MATERIALIZED (
        SELECT u.article_id, u.chunk_id, u.score, u.similarity, u.raw, count(*) OVER (PARTITION BY u.score) - 1 AS tied_with
        FROM unnest(p_plan.window_articles, p_plan.window_chunks, p_plan.window_scores, p_plan.window_similarities, p_plan.window_raws)
            AS u (article_id, chunk_id, score, similarity, raw)
        WHERE v_min_score IS NULL OR u.score / 1e9::double precision >= v_min_score
    ),
    kinds AS (
        SELECT c.article_id, a.kind, row_number() OVER (PARTITION BY a.kind ORDER BY c.score DESC, c.article_id ASC) AS place_in_kind
        FROM candidates AS c
        CROSS JOIN LATERAL (SELECT t.kind FROM kbsearch.kb_articles AS t WHERE t.org_id = v_org_id AND t.id = c.article_id OFFSET 0) AS a
        WHERE v_kind_quota IS NOT NULL
    ),
    kept AS MATERIALIZED (
        SELECT
            c.article_id, c.chunk_id, c.score, c.similarity, c.raw, c.tied_with,
            row_number() OVER (ORDER BY c.score DESC, c.article_id ASC) AS place, count(*) OVER () AS total
        FROM candidates AS c
        LEFT JOIN kinds AS k ON k.article_id = c.article_id
        WHERE k.article_id IS NULL OR k.place_in_kind <= coalesce((v_kind_quota ->> k.kind)::bigint, (v_kind_quota ->> '*')::bigint, k.place_in_kind)
    )
    SELECT k.place, k.article_id, k.chunk_id, k.score, k.similarity, k.raw, k.tied_with, k.total
    FROM kept AS k
    WHERE p_after_score IS NULL OR k.score < p_after_score OR (k.score = p_after_score AND k.article_id > p_after_article_id)
    ORDER BY score DESC, article_id ASC
    LIMIT p_limit OFFSET p_offset;
END
$$;
COMMENT ON FUNCTION kbsearch.rank_kb_window_v1(kbsearch.kb_search_plan, bigint, bigint, bigint, bigint) IS
'What rank_kb_articles_v1 returns for a search whose plan has the candidates (window_articles and so on).';
