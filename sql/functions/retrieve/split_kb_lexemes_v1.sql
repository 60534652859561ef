CREATE FUNCTION kbsearch.split_kb_lexemes_v1(
    p_org_id bigint, p_lexemes text [], p_weights double precision []
) RETURNS TABLE (lexemes text [], weights double precision [], other_lexemes text [], other_weights double precision [], changed_ids bigint [])
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
        array_agg(w.lexeme) FILTER (WHERE w.is_blocked), array_agg(w.weight) FILTER (WHERE w.is_blocked),
        coalesce(array_agg(w.lexeme) FILTER (WHERE NOT w.is_blocked), '{}'), coalesce(array_agg(w.weight) FILTER (WHERE NOT w.is_blocked), '{}')
    INTO lexemes, weights, other_lexemes, other_weights
    FROM (
        SELECT
            u.lexeme, u.weight,
            EXISTS (SELECT FROM kbsearch.kb_keyword_impacts AS i WHERE i.org_id = p_org_id AND i.lexeme = u.lexeme OFFSET 0) AS is_blocked
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
'The lexemes and their weights that stand in kb_keyword_impacts, the others, and the chunks that the blocks say nothing of; no row where the blocks are of no use: they have none of the lexemes, over 2,000 chunks have been written since they were made, or there are over 500 lexemes.';
