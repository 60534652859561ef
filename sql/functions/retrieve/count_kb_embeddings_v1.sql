CREATE FUNCTION kbsearch.count_kb_embeddings_v1(p_org_id bigint, p_space_id bigint) RETURNS TABLE (embedded bigint, without_direction bigint, stale bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT count(*), count(*) FILTER (WHERE NOT e.has_direction), count(*) FILTER (WHERE e.is_stale)
    FROM kbsearch.kb_article_embeddings AS e
    WHERE e.org_id = p_org_id AND e.space_id = p_space_id AND e.searchable;
END;
COMMENT ON FUNCTION kbsearch.count_kb_embeddings_v1(bigint, bigint) IS
'The number of the organisation''s searchable chunks that have an embedding in the space, how many of those have no direction, and how many are of what the chunk said before.';
