-- Both legs are completed: a chunk that one leg found gets its true score from the other. Each branch is one set of legs that take part, and
-- all but one are switched off by p_uses_vector, p_uses_keyword and p_dense before they run. A keyword match alone names its
-- article by a look-up (few matches) or a join (many).
CREATE FUNCTION kbsearch.fuse_kb_weighted_v1(
    p_org_id bigint, p_space_id bigint, p_embedding vector, p_lexemes text [], p_term_weights double precision [], p_counts_terms boolean,
    p_allowed bigint [], p_uses_vector boolean, p_uses_keyword boolean, p_dense boolean, p_vector_unit double precision, p_keyword_unit double precision
) RETURNS TABLE (article_id bigint, chunk_id bigint, score bigint, similarity integer, raw double precision)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        found.article_id,
        found.chunk_id,
        coalesce(round(greatest(0, found.similarity) * p_vector_unit)::bigint, 0) + coalesce(round(found.raw * p_keyword_unit)::bigint, 0),
        found.similarity,
        found.raw
    FROM (
        SELECT
            coalesce(v.article_id, (
                SELECT c.article_id FROM kbsearch.kb_article_chunks AS c
                WHERE c.org_id = p_org_id AND c.id = k.chunk_id AND v.article_id IS NULL
            )) AS article_id,
            coalesce(v.chunk_id, k.chunk_id) AS chunk_id,
            v.similarity,
            k.raw
        FROM kbsearch.match_kb_vector_v1(p_org_id, p_space_id, p_embedding, p_allowed) AS v
        FULL JOIN kbsearch.match_kb_keyword_v1(p_org_id, p_lexemes, p_term_weights, p_counts_terms) AS k ON k.chunk_id = v.chunk_id
        WHERE p_uses_vector AND p_uses_keyword
        UNION ALL
        SELECT v.article_id, v.chunk_id, v.similarity, NULL::double precision
        FROM kbsearch.match_kb_vector_v1(p_org_id, p_space_id, p_embedding, p_allowed) AS v
        WHERE p_uses_vector AND NOT p_uses_keyword
        UNION ALL
        SELECT (SELECT c.article_id FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = p_org_id AND c.id = k.chunk_id), k.chunk_id, NULL::integer, k.raw
        FROM kbsearch.match_kb_keyword_v1(p_org_id, p_lexemes, p_term_weights, p_counts_terms) AS k
        WHERE p_uses_keyword AND NOT p_uses_vector AND NOT p_dense
        UNION ALL
        SELECT c.article_id, k.chunk_id, NULL::integer, k.raw
        FROM kbsearch.match_kb_keyword_v1(p_org_id, p_lexemes, p_term_weights, p_counts_terms) AS k
        INNER JOIN kbsearch.kb_article_chunks AS c ON c.org_id = p_org_id AND c.id = k.chunk_id
        WHERE p_uses_keyword AND NOT p_uses_vector AND p_dense
    ) AS found
    WHERE p_allowed IS NULL OR found.article_id = ANY (p_allowed);
END;
COMMENT ON FUNCTION kbsearch.fuse_kb_weighted_v1(
    bigint, bigint, vector, text [], double precision [], boolean, bigint [], boolean, boolean, boolean, double precision, double precision
) IS
'Every chunk that a leg found, scored in billionths: round(max(0, similarity in millionths) * p_vector_unit) + round(raw * p_keyword_unit). A leg that takes no part adds nothing.';
