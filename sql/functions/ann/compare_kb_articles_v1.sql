-- Only the primary key may look good: the index that has the space reads a whole organisation's rows. So the other conditions fit no index.
CREATE FUNCTION kbsearch.compare_kb_articles_v1(p_org_id bigint, p_space_id bigint, p_embedding vector, p_article_ids bigint [])
RETURNS TABLE (chunk_id bigint, similarity integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT e.chunk_id, round((1::double precision - (e.embedding <=> p_embedding)) * 1000000::double precision)::integer
    FROM kbsearch.kb_article_embeddings AS e
    WHERE
        e.org_id = p_org_id AND e.article_id = ANY (p_article_ids) AND e.space_id + 0 = p_space_id
        AND coalesce(e.searchable, false) AND coalesce(e.has_direction, false)
    OFFSET 0;
END;
COMMENT ON FUNCTION kbsearch.compare_kb_articles_v1(bigint, bigint, vector, bigint []) IS
'The rows of match_kb_vector_v1 of some articles, found by their ids.';
