CREATE FUNCTION kbsearch.list_kb_escalations_v1(p_org_id bigint, p_limit bigint DEFAULT 100, p_before_id bigint DEFAULT NULL)
RETURNS TABLE (id bigint, logged_at timestamptz, query_class text, query_text text, query_hash text, policy text, disagreement numeric, manifest jsonb)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'the limit % is not from 1 to 1000', coalesce(p_limit::text, 'NULL')
            USING ERRCODE = 'KBLIM', DETAIL = jsonb_build_object('limit', p_limit)::text, HINT = 'Read on with p_before_id, the last id of a page.';
    END IF;
    RETURN QUERY
    SELECT
        l.id,
        l.logged_at,
        l.manifest ->> 'query_class',
        l.query_text,
        l.manifest ->> 'query_hash',
        l.manifest ->> 'policy',
        (l.manifest ->> 'disagreement_magnitude')::numeric,
        l.manifest
    FROM kbsearch.kb_arbitration_log AS l
    WHERE l.org_id = p_org_id AND l.manifest ->> 'verdict' = 'escalated' AND (p_before_id IS NULL OR l.id < p_before_id)
    ORDER BY l.id DESC
    LIMIT p_limit;
END
$$;
COMMENT ON FUNCTION kbsearch.list_kb_escalations_v1(bigint, bigint, bigint) IS
'An organisation''s logged searches whose verdict was escalated, the latest first.

Arguments:
p_org_id: The organisation.
p_limit: How many, 1 … 1000.
p_before_id: Only rows logged before the one with this id; NULL: from the latest on.

Columns:
id: Id in the log.
logged_at: When it was logged.
query_class: Class of the question.
query_text: The question; NULL where only its hash is kept.
query_hash: sha256 of the question.
policy: name@version of the policy.
disagreement: How much the legs disagreed, 0 … 1.
manifest: The whole manifest.

Errors: KBORG, KBLIM.';
