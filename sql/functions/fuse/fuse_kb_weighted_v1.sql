-- Both legs are completed: a chunk that one leg found gets its true score from the other. A leg that takes no part is switched off before it runs
-- (p_uses_vector, p_uses_keyword). A keyword match without a vector names its article by a look-up; where there is no vector leg and
-- many matches (p_dense) a join is cheaper, the second branch. Few branches: starting a plan's nodes is what a search of a small
-- organisation costs.
CREATE FUNCTION kbsearch.fuse_kb_weighted_v1(
    p_org_id bigint, p_space_id bigint, p_embedding vector, p_lexemes text [], p_term_weights double precision [], p_counts_terms boolean,
    p_allowed bigint [], p_uses_vector boolean, p_uses_keyword boolean, p_dense boolean, p_vector_unit double precision, p_keyword_unit double precision
) RETURNS TABLE (article_id bigint, chunk_id bigint, score bigint, similarity integer, raw double precision)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        coalesce(v.article_id, c.article_id) AS article_id,
        coalesce(v.chunk_id, k.chunk_id) AS chunk_id,
        coalesce(round(greatest(0, v.similarity) * p_vector_unit)::bigint, 0) + coalesce(round(k.raw * p_keyword_unit)::bigint, 0) AS score,
        v.similarity,
        k.raw
    FROM (
        SELECT m.article_id, m.chunk_id, m.similarity
        FROM kbsearch.match_kb_vector_v1(p_org_id, p_space_id, p_embedding, p_allowed) AS m
        WHERE p_uses_vector
    ) AS v
    FULL JOIN (
        SELECT m.chunk_id, m.raw
        FROM kbsearch.match_kb_keyword_v1(p_org_id, p_lexemes, p_term_weights, p_counts_terms) AS m
        WHERE p_uses_keyword
    ) AS k ON k.chunk_id = v.chunk_id
    CROSS JOIN LATERAL (
        SELECT CASE WHEN v.article_id IS NULL THEN (
            SELECT h.article_id FROM kbsearch.kb_article_chunks AS h WHERE h.org_id = p_org_id AND h.id = k.chunk_id
        ) END AS article_id
    ) AS c
    WHERE (p_uses_vector OR NOT p_dense) AND (p_allowed IS NULL OR v.article_id IS NOT NULL OR c.article_id IN (SELECT u.id FROM unnest(p_allowed) AS u (id)))
    UNION ALL
    SELECT c.article_id, k.chunk_id, round(k.raw * p_keyword_unit)::bigint, NULL::integer, k.raw
    FROM kbsearch.match_kb_keyword_v1(p_org_id, p_lexemes, p_term_weights, p_counts_terms) AS k
    INNER JOIN kbsearch.kb_article_chunks AS c ON c.org_id = p_org_id AND c.id = k.chunk_id
    WHERE p_uses_keyword AND NOT p_uses_vector AND p_dense AND (p_allowed IS NULL OR c.article_id IN (SELECT u.id FROM unnest(p_allowed) AS u (id)));
END;
COMMENT ON FUNCTION kbsearch.fuse_kb_weighted_v1(
    bigint, bigint, vector, text [], double precision [], boolean, bigint [], boolean, boolean, boolean, double precision, double precision
) IS
'Every chunk that a leg found, scored in billionths: round(max(0, similarity in millionths) * p_vector_unit) + round(raw * p_keyword_unit). A leg that takes no part adds nothing.';
