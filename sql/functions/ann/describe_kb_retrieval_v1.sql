CREATE FUNCTION kbsearch.describe_kb_retrieval_v1(p_plan kbsearch.kb_search_plan, p_total bigint, p_end_reached boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_certain bigint;
    v_settled bigint;
BEGIN
    IF coalesce(p_plan.retrieval ->> 'mode', 'exact') = 'exact' THEN
        RETURN jsonb_build_object(
            'mode', 'exact', 'reason', p_plan.retrieval ->> 'reason', 'window', NULL, 'index', NULL, 'reachable', p_total, 'certain', p_total, 'settled', p_total,
            'window_exhausted', false
        );
    END IF;
    SELECT
        count(*) FILTER (WHERE r.score > (p_plan.retrieval ->> 'certain_above')::bigint), count(*) FILTER (WHERE r.score > (p_plan.retrieval ->> 'settled_above')::bigint)
    INTO v_certain, v_settled
    FROM kbsearch.rank_kb_window_v1(p_plan, NULL, 0, NULL, NULL) AS r;
    RETURN jsonb_build_object(
        'mode', 'ann',
        'reason', NULL,
        'window', p_plan.retrieval -> 'window',
        'index', p_plan.retrieval -> 'index',
        'reachable', p_total,
        'certain', v_certain,
        'settled', v_settled,
        'window_exhausted', p_end_reached AND (p_plan.retrieval ->> 'is_cut')::boolean
    );
END
$$;
COMMENT ON FUNCTION kbsearch.describe_kb_retrieval_v1(kbsearch.kb_search_plan, bigint, boolean) IS
'How a search looked for its candidates, as search_kb_hybrid_page_v1 has it under retrieval. p_total: articles in its ranking; p_end_reached: whether nothing follows.';
