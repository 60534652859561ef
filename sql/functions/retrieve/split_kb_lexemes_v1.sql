CREATE FUNCTION kbsearch.split_kb_lexemes_v1(
    p_org_id bigint, p_lexemes text [], p_weights double precision []
) RETURNS TABLE (lexemes text [], factors double precision [], other_lexemes text [], other_weights double precision [], changed_ids bigint [])
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
AS $$
#variable_conflict use_variable
BEGIN
    IF (
        NOT EXISTS (SELECT FROM kbsearch.kb_keyword_blocks AS b WHERE b.org_id = p_org_id)
        OR (SELECT sum(g.chunk_count) > 2000 FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = p_org_id)
        OR cardinality(p_lexemes) > 500
    ) THEN
        RETURN;
    END IF;
    SELECT
        array_agg(w.lexeme) FILTER (WHERE w.idf > 0), array_agg(w.weight / w.idf) FILTER (WHERE w.idf > 0),
        coalesce(array_agg(w.lexeme) FILTER (WHERE w.idf IS NULL), '{}'), coalesce(array_agg(w.weight) FILTER (WHERE w.idf IS NULL), '{}')
    INTO lexemes, factors, other_lexemes, other_weights
    FROM (
        SELECT
            u.lexeme, u.weight,
            (SELECT i.idf FROM kbsearch.kb_keyword_impacts AS i WHERE i.org_id = p_org_id AND i.lexeme = u.lexeme ORDER BY i.block_no LIMIT 1) AS idf
        FROM unnest(p_lexemes, p_weights) AS u (lexeme, weight)
    ) AS w;
    IF lexemes IS NULL THEN
        RETURN;
    END IF;
    changed_ids := ARRAY(
        SELECT unnest(g.chunk_ids) FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = p_org_id
    );
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION kbsearch.split_kb_lexemes_v1(bigint, text [], double precision []) IS
'The lexemes that stand in kb_keyword_impacts and what their idf there has to be multiplied by to be their weight, the others and their weights, and the chunks that the blocks say nothing of; no row where the blocks are of no use: they have none of the lexemes, over 2,000 chunks have been written since they were made, or there are over 500 lexemes.';
