CREATE FUNCTION kbsearch.arbitrate_kb_plan_v1(p_plan kbsearch.kb_search_plan, p_embedding vector, p_raises boolean) RETURNS kbsearch.kb_search_plan
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_plan kbsearch.kb_search_plan;
    v_decision text;
    v_manifest jsonb;
BEGIN
    IF p_plan.fusion <> 'arbitrate' THEN
        RETURN p_plan;
    END IF;
    IF clock_timestamp() > p_plan.deadline THEN
        PERFORM kbsearch.refuse_kb_overtime_v1(p_plan.budget, 'ranking');
    END IF;
    SELECT r.decision, r.manifest INTO v_decision, v_manifest FROM kbsearch.rank_kb_arbitrated_v1(p_plan, p_embedding, 0, 0) AS r;
    v_plan := kbsearch.apply_kb_decision_v1(p_plan, v_decision, v_manifest);
    IF p_raises AND v_plan.verdict = 'escalated' THEN
        RAISE EXCEPTION 'the legs disagree by %, over the limit of arbitration policy %', v_manifest ->> 'disagreement_magnitude', v_manifest ->> 'policy'
            USING ERRCODE = 'KBESC', DETAIL = v_manifest::text,
                HINT = 'The policy has such searches decided by somebody: look at both legs (profiles vector@1, keyword@1), or search with p_exploratory.';
    END IF;
    RETURN v_plan;
END
$$;
COMMENT ON FUNCTION kbsearch.arbitrate_kb_plan_v1(kbsearch.kb_search_plan, vector, boolean) IS
'The plan with its arbitration decided; as it is, if its fusion is another. KBESC where the verdict is escalated and p_raises.';
