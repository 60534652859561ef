CREATE FUNCTION kbsearch.create_kb_ranking_profile_v1(
    p_org_id bigint, p_name text, p_fusion text, p_scorer text DEFAULT 'bm25', p_vector_weight double precision DEFAULT 0.5,
    p_keyword_weight double precision DEFAULT 0.5, p_rrf_k integer DEFAULT 60, p_kind_quota jsonb DEFAULT NULL, p_policy text DEFAULT NULL,
    p_retrieval text DEFAULT NULL, p_ann_window integer DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_problem text;
    v_version integer;
    v_policy text;
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    v_problem := CASE
        WHEN p_name IS NULL OR p_name !~ '^[a-z][a-z0-9_]{0,62}$' THEN 'the name is not 1 to 63 of a-z, 0-9 and _, a letter first'
        WHEN EXISTS (SELECT FROM kbsearch.kb_builtin_profiles AS b WHERE b.name = p_name) THEN 'the name is a built-in profile''s'
        WHEN coalesce(p_fusion, '') NOT IN ('weighted', 'rrf', 'vector', 'keyword', 'arbitrate') THEN 'the fusion is not weighted, rrf, vector, keyword or arbitrate'
        WHEN coalesce(p_scorer, '') NOT IN ('bm25', 'term_count') THEN 'the scorer is not bm25 or term_count'
        WHEN p_vector_weight IS NULL OR p_keyword_weight IS NULL OR NOT (p_vector_weight BETWEEN 0 AND 1 AND p_keyword_weight BETWEEN 0 AND 1)
            THEN 'a weight is not from 0 to 1'
        WHEN p_fusion = 'weighted' AND p_vector_weight + p_keyword_weight <> 1 THEN 'the weights do not add up to 1'
        WHEN p_fusion = 'rrf' AND (p_vector_weight = 0 OR p_keyword_weight = 0) THEN 'a weight is 0'
        WHEN p_rrf_k IS NULL OR p_rrf_k NOT BETWEEN 1 AND 10000 THEN 'rrf_k is not from 1 to 10000'
        WHEN p_fusion = 'arbitrate' AND kbsearch.resolve_kb_policy_v1(p_org_id, p_policy) IS NULL
            THEN format('there is no arbitration policy %s', coalesce(quote_literal(p_policy), 'NULL'))
        WHEN p_fusion <> 'arbitrate' AND p_policy IS NOT NULL THEN 'a policy is for the fusion arbitrate'
        WHEN p_retrieval NOT IN ('exact', 'ann', 'auto') THEN 'the retrieval is not exact, ann or auto'
        WHEN p_ann_window NOT BETWEEN 1 AND 1000 THEN 'the window is not from 1 to 1000'
        WHEN NOT kbsearch.is_kb_quota_v1(p_kind_quota) THEN 'the quota is not an object of whole numbers from 0 to 999999999'
    END;
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION 'the ranking profile cannot be made: %', v_problem
            USING ERRCODE = 'KBPRF', DETAIL = jsonb_build_object('org_id', p_org_id, 'name', p_name, 'problem', v_problem)::text,
                HINT = 'For instance: p_name => ''mine'', p_fusion => ''weighted'', p_vector_weight => 0.7, p_keyword_weight => 0.3.';
    END IF;
    v_policy := split_part(p_policy, '@', 1) || '@' || coalesce(nullif(split_part(p_policy, '@', 2), ''), '1');
    PERFORM FROM kbsearch.organizations AS o WHERE o.id = p_org_id FOR NO KEY UPDATE;
    SELECT coalesce(max(r.version), 0) + 1 INTO v_version FROM kbsearch.kb_ranking_profiles AS r WHERE r.org_id = p_org_id AND r.name = p_name;
    INSERT INTO kbsearch.kb_ranking_profiles (org_id, name, version, fusion, scorer, vector_weight, keyword_weight, rrf_k, kind_quota, policy, retrieval, ann_window)
    VALUES (p_org_id, p_name, v_version, p_fusion, p_scorer, p_vector_weight, p_keyword_weight, p_rrf_k, p_kind_quota, v_policy, p_retrieval, p_ann_window);
    RETURN p_name || '@' || v_version;
END
$$;
COMMENT ON FUNCTION kbsearch.create_kb_ranking_profile_v1(bigint, text, text, text, double precision, double precision, integer, jsonb, text, text, integer) IS
'Makes the next version of an organisation''s ranking profile. Rows never change, and no search uses it until it is asked for (p_profile) or pinned (organizations.ranking_profile).

Arguments:
p_org_id: The organisation that it is for.
p_name: Name: 1 to 63 of a-z, 0-9 and _, a letter first; not a built-in profile''s.
p_fusion: weighted, rrf, vector, keyword or arbitrate.
p_scorer: Keyword scorer: bm25, or term_count (a point for every distinct word of the question in the chunk).
p_vector_weight: Weight of the vector leg, 0 … 1; for weighted both add up to 1; for rrf neither is 0.
p_keyword_weight: Weight of the keyword leg, 0 … 1.
p_rrf_k: The k of rrf''s weight / (k + rank), 1 … 10000.
p_kind_quota: Quota of searches that give none: {"kind": most articles, "*": of kinds not named}. NULL: no quota.
p_policy: Arbitration policy, name@version, a bare name is version 1; for arbitrate, and for nothing else. It has the weights.
p_retrieval: exact, ann or auto: whether its searches compare all chunks, or the windows that an index of create_kb_ann_index_v1 finds. NULL: as organizations.retrieval has it.
p_ann_window: Articles in a leg''s window, 1 … 1000. NULL: as organizations.ann_window has it.

Returns: name@version.

Errors: KBORG, KBPRF.';
