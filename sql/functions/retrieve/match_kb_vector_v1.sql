-- Exact: every embedded chunk of the organisation is compared. Below six decimals a similarity is float noise, so it is rounded there. Rows
-- without direction are left out: their cosine is NaN or 1 to everything. OFFSET 0 has the similarity computed here: without it the planner may
-- carry the vectors themselves into a join. Articles are looked up in a hash (IN): = ANY of a parameter is searched from end to end.
CREATE FUNCTION kbsearch.match_kb_vector_v1(p_org_id bigint, p_space_id bigint, p_embedding vector, p_allowed bigint [])
RETURNS TABLE (article_id bigint, chunk_id bigint, similarity integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT e.article_id, e.chunk_id, round((1::double precision - (e.embedding <=> p_embedding)) * 1000000::double precision)::integer
    FROM kbsearch.kb_article_embeddings AS e
    WHERE
        e.org_id = p_org_id AND e.space_id = p_space_id AND e.searchable AND e.has_direction
        AND (p_allowed IS NULL OR e.article_id IN (SELECT u.id FROM unnest(p_allowed) AS u (id)))
    OFFSET 0;
END;
COMMENT ON FUNCTION kbsearch.match_kb_vector_v1(bigint, bigint, vector, bigint []) IS
'Vector leg: every searchable chunk of the organisation that has a direction in the space, with its cosine similarity in millionths (-1000000 … 1000000). p_allowed: articles, NULL for all.';
