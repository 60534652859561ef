-- For inlining: whoever calls it sets what decides the plan, as rank_kb_articles_v1 does.
CREATE FUNCTION kbsearch.list_kb_candidates_v1(
    p_org_id bigint, p_space_id bigint, p_embedding vector, p_lexemes text [], p_term_weights double precision [], p_counts_terms boolean,
    p_allowed bigint [], p_uses_vector boolean, p_uses_keyword boolean, p_dense boolean, p_vector_unit double precision, p_keyword_unit double precision,
    p_fusion text, p_vector_weight double precision, p_keyword_weight double precision, p_rrf_k integer, p_keyword_bound double precision,
    p_min_score double precision
) RETURNS TABLE (article_id bigint, chunk_id bigint, score bigint, similarity integer, raw double precision)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT c.article_id, c.chunk_id, c.score, c.similarity, c.raw
    FROM (
        SELECT DISTINCT ON (f.article_id) f.article_id, f.chunk_id, f.score, f.similarity, f.raw
        FROM (
            SELECT w.article_id, w.chunk_id, w.score, w.similarity, w.raw
            FROM kbsearch.fuse_kb_weighted_v1(
                p_org_id, p_space_id, p_embedding, p_lexemes, p_term_weights, p_counts_terms, p_allowed, p_uses_vector, p_uses_keyword, p_dense,
                p_vector_unit, p_keyword_unit
            ) AS w
            WHERE p_fusion <> 'rrf'
            UNION ALL
            SELECT r.article_id, r.chunk_id, r.score, r.similarity, r.raw
            FROM kbsearch.fuse_kb_rrf_v1(
                p_org_id, p_space_id, p_embedding, p_lexemes, p_term_weights, p_counts_terms, p_allowed, p_uses_vector, p_uses_keyword, p_dense,
                p_vector_weight, p_keyword_weight, p_rrf_k, p_keyword_bound
            ) AS r
            WHERE p_fusion = 'rrf'
        ) AS f
        ORDER BY f.article_id ASC, f.score DESC, f.chunk_id ASC
    ) AS c
    WHERE p_min_score IS NULL OR c.score / 1e9::double precision >= p_min_score;
END;
COMMENT ON FUNCTION kbsearch.list_kb_candidates_v1(
    bigint, bigint, vector, text [], double precision [], boolean, bigint [], boolean, boolean, boolean, double precision, double precision, text,
    double precision, double precision, integer, double precision, double precision
) IS
'The candidates of a search, in no order: every article that a leg found, as its best chunk, of equally good ones the one of the lowest id, and not below the floor. score: billionths; similarity: millionths; raw: keyword score in units of 1/p_keyword_bound.';
