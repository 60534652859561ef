CREATE FUNCTION kbsearch.has_kb_vectors_v1(p_org_id bigint, p_space_id bigint) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT EXISTS (
        SELECT 1 FROM kbsearch.kb_article_embeddings AS e
        WHERE e.org_id = p_org_id AND e.space_id = p_space_id AND e.searchable AND e.has_direction
    );
END;
COMMENT ON FUNCTION kbsearch.has_kb_vectors_v1(bigint, bigint) IS
'Whether a searchable chunk of the organisation has a vector with a direction in the space.';
