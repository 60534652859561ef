-- Ranks are competition ranks: articles that tie in a leg share one, so no id enters a score. PL/pgSQL, so that it is not inlined into the ranking: a plan
-- that holds its branches too would be started by every other search as well.
CREATE FUNCTION kbsearch.rank_kb_legs_v1(
    p_org_id bigint, p_space_id bigint, p_embedding vector, p_lexemes text [], p_term_weights double precision [], p_counts_terms boolean,
    p_allowed bigint [], p_uses_vector boolean, p_uses_keyword boolean, p_dense boolean, p_keyword_bound double precision
) RETURNS TABLE (
    article_id bigint, vector_chunk_id bigint, keyword_chunk_id bigint, vector_rank bigint, keyword_rank bigint, similarity integer, raw double precision
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH vector_best AS (
        SELECT DISTINCT ON (v.article_id) v.article_id, v.chunk_id, v.score, v.similarity
        FROM kbsearch.fuse_kb_weighted_v1(
            p_org_id, p_space_id, p_embedding, NULL, NULL, false, p_allowed, p_uses_vector, false, false, 1, 0
        ) AS v
        ORDER BY v.article_id ASC, v.score DESC, v.chunk_id ASC
    ),
    keyword_best AS (
        SELECT DISTINCT ON (k.article_id) k.article_id, k.chunk_id, k.score, k.raw
        FROM kbsearch.fuse_kb_weighted_v1(
            p_org_id, NULL, NULL, p_lexemes, p_term_weights, p_counts_terms, p_allowed, false, p_uses_keyword, p_dense, 0, 1e9::double precision / p_keyword_bound
        ) AS k
        ORDER BY k.article_id ASC, k.score DESC, k.chunk_id ASC
    )
    SELECT coalesce(v.article_id, k.article_id), v.chunk_id, k.chunk_id, v.leg_rank, k.leg_rank, v.similarity, k.raw
    FROM (SELECT b.article_id, b.chunk_id, b.similarity, rank() OVER (ORDER BY b.score DESC) AS leg_rank FROM vector_best AS b) AS v
    FULL JOIN (SELECT b.article_id, b.chunk_id, b.raw, rank() OVER (ORDER BY b.score DESC) AS leg_rank FROM keyword_best AS b) AS k
        ON k.article_id = v.article_id;
END
$$;
COMMENT ON FUNCTION kbsearch.rank_kb_legs_v1(
    bigint, bigint, vector, text [], double precision [], boolean, bigint [], boolean, boolean, boolean, double precision
) IS
'Every article that a leg found: its best chunk in each leg, of equally good ones the one of the lowest id, and its competition rank there, by max(0, similarity in millionths) and by keyword score in billionths; NULL where the leg did not find it.';
