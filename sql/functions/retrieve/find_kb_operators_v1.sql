CREATE FUNCTION kbsearch.find_kb_operators_v1(p_org_id bigint, p_operators jsonb, p_configurations regconfig [], p_tags text [])
RETURNS TABLE (n integer, shape text, article_ids bigint [])
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    FOR n, shape IN
        SELECT (o.element -> 'n')::integer, min(o.element ->> 'shape') FROM jsonb_array_elements(p_operators) AS o (element) GROUP BY 1 ORDER BY 1
    LOOP
        SELECT coalesce(array_agg(f.article_id), '{}') INTO article_ids
        FROM jsonb_array_elements(p_operators) AS s (element)
        CROSS JOIN LATERAL kbsearch.find_kb_phrase_v1(
            p_org_id, p_configurations[(s.element -> 'corpus')::integer], s.element ->> 'words',
            ARRAY(SELECT (w.lexeme || p_tags[(s.element -> 'corpus')::integer]) COLLATE "C" FROM jsonb_array_elements_text(s.element -> 'lexemes') AS w (lexeme))
        ) AS f
        WHERE (s.element -> 'n')::integer = n;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION kbsearch.find_kb_operators_v1(bigint, jsonb, regconfig [], text []) IS
'For each phrase and exclusion of a question (numbered n, shape phrase or exclusion; operators of analyze_kb_question_v1) the articles that have it, each by a chunk in its own language.';
