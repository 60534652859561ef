CREATE FUNCTION kbsearch.resolve_kb_profile_v1(p_org_id bigint, p_profile text)
RETURNS TABLE (
    profile text, fusion text, scorer text, vector_weight double precision, keyword_weight double precision, rrf_k integer, kind_quota jsonb, policy text,
    retrieval text, ann_window integer
)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT p.name || '@' || p.version, p.fusion, p.scorer, p.vector_weight, p.keyword_weight, p.rrf_k, p.kind_quota, p.policy, p.retrieval, p.ann_window
    FROM (
        SELECT b.name, b.version, b.fusion, b.scorer, b.vector_weight, b.keyword_weight, b.rrf_k, b.kind_quota, b.policy, b.retrieval, b.ann_window
        FROM kbsearch.kb_builtin_profiles AS b
        UNION ALL
        SELECT r.name, r.version, r.fusion, r.scorer, r.vector_weight, r.keyword_weight, r.rrf_k, r.kind_quota, r.policy, r.retrieval, r.ann_window
        FROM kbsearch.kb_ranking_profiles AS r
        WHERE r.org_id = p_org_id
    ) AS p
    WHERE
        p_profile ~ '^[a-z][a-z0-9_]{0,62}(@[1-9][0-9]{0,8})?$'
        AND p.name = split_part(p_profile, '@', 1)
        AND p.version::text = coalesce(nullif(split_part(p_profile, '@', 2), ''), '1');
END;
COMMENT ON FUNCTION kbsearch.resolve_kb_profile_v1(bigint, text) IS
'The ranking profile name@version, built-in or the organisation''s own; a bare name is version 1. No row: there is none.';
