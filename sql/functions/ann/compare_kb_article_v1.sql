CREATE FUNCTION kbsearch.compare_kb_article_v1(p_org_id bigint, p_space_id bigint, p_embedding vector, p_article_id bigint)
RETURNS TABLE (chunk_id bigint, similarity integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT e.chunk_id, round((1::double precision - (e.embedding <=> p_embedding)) * 1000000::double precision)::integer
    FROM kbsearch.kb_article_embeddings AS e
    WHERE e.org_id = p_org_id AND e.article_id = p_article_id AND e.space_id = p_space_id AND e.searchable AND e.has_direction
    OFFSET 0;
END;
COMMENT ON FUNCTION kbsearch.compare_kb_article_v1(bigint, bigint, vector, bigint) IS
'The rows of match_kb_vector_v1 of one article, found by its id.';
