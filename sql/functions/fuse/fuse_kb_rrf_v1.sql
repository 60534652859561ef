-- Reciprocal rank fusion (Cormack, Clarke and Buettcher 2009) over articles.
CREATE FUNCTION kbsearch.fuse_kb_rrf_v1(
    p_org_id bigint, p_space_id bigint, p_embedding vector, p_lexemes text [], p_term_weights double precision [], p_counts_terms boolean,
    p_allowed bigint [], p_uses_vector boolean, p_uses_keyword boolean, p_dense boolean,
    p_vector_weight double precision, p_keyword_weight double precision, p_rrf_k integer, p_keyword_bound double precision
) RETURNS TABLE (article_id bigint, chunk_id bigint, score bigint, similarity integer, raw double precision)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        r.article_id,
        CASE
            WHEN r.vector_part > r.keyword_part THEN r.vector_chunk_id
            WHEN r.vector_part < r.keyword_part THEN r.keyword_chunk_id
            ELSE least(r.vector_chunk_id, r.keyword_chunk_id)
        END AS chunk_id,
        r.vector_part + r.keyword_part AS score,
        r.similarity,
        r.raw
    FROM (
        SELECT
            l.article_id,
            l.vector_chunk_id,
            l.keyword_chunk_id,
            kbsearch.rrf_part_v1(p_vector_weight, p_rrf_k, l.vector_rank) AS vector_part,
            kbsearch.rrf_part_v1(p_keyword_weight, p_rrf_k, l.keyword_rank) AS keyword_part,
            l.similarity,
            l.raw
        FROM kbsearch.rank_kb_legs_v1(
            p_org_id, p_space_id, p_embedding, p_lexemes, p_term_weights, p_counts_terms, p_allowed, p_uses_vector, p_uses_keyword, p_dense, p_keyword_bound
        ) AS l
    ) AS r;
END;
COMMENT ON FUNCTION kbsearch.fuse_kb_rrf_v1(
    bigint, bigint, vector, text [], double precision [], boolean, bigint [], boolean, boolean, boolean, double precision, double precision, integer, double precision
) IS
'Every article that a leg found, scored in billionths: the sum over the legs that found it of round(1e9 * weight / (k + rank)), rank being its competition rank there by similarity in millionths or keyword score in billionths (Cormack, Clarke and Buettcher 2009). chunk_id: the best chunk of the leg that gave more, the lower id where both gave the same; similarity and raw: the best of each leg.';
