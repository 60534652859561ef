CREATE FUNCTION kbsearch.describe_kb_retrieval_v1(p_plan kbsearch.kb_search_plan, p_total bigint, p_end_reached boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_certain_above CONSTANT bigint := p_plan.retrieval -> 'certain_above';
    v_settled_above CONSTANT bigint := p_plan.retrieval -> 'settled_above';
    v_min_score CONSTANT double precision := p_plan.min_score;
    v_certain bigint;
    v_settled bigint;
BEGIN
    IF coalesce(p_plan.retrieval ->> 'mode', 'exact') = 'exact' THEN
        RETURN jsonb_build_object(
            'mode', 'exact', 'reason', p_plan.retrieval ->> 'reason', 'window', NULL, 'index', NULL, 'reachable', p_total, 'certain', p_total, 'settled', p_total,
            'window_exhausted', false
        );
    END IF;
    IF p_plan.kind_quota IS NULL THEN
        SELECT count(*) FILTER (WHERE s.score > v_certain_above), count(*) FILTER (WHERE s.score > v_settled_above) INTO v_certain, v_settled
        FROM unnest(p_plan.window_scores) AS s (score)
        WHERE v_min_score IS NULL OR s.score / 1e9::double precision >= v_min_score;
    ELSE
        SELECT count(*) FILTER (WHERE r.score > v_certain_above), count(*) FILTER (WHERE r.score > v_settled_above) INTO v_certain, v_settled
        FROM kbsearch.rank_kb_window_v1(p_plan, NULL, 0, NULL, NULL) AS r;
    END IF;
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
