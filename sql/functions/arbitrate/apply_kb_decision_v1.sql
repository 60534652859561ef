CREATE FUNCTION kbsearch.apply_kb_decision_v1(p_plan kbsearch.kb_search_plan, p_decision text, p_manifest jsonb) RETURNS kbsearch.kb_search_plan
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_plan kbsearch.kb_search_plan := p_plan;
    v_parts CONSTANT text[] := string_to_array(p_decision, ':');
    v_reason CONSTANT text := CASE WHEN v_parts[2] IN ('vector_only', 'keyword_only') THEN 'found_nothing' ELSE 'not_chosen' END;
BEGIN
    v_plan.fusion := 'weighted';
    v_plan.cursor_legs := p_decision;
    v_plan.manifest := p_manifest;
    v_plan.verdict := v_parts[2];
    v_plan.vector_weight := coalesce(nullif(v_parts[3], ''), p_plan.policy ->> 'vector_weight')::double precision;
    v_plan.keyword_weight := (1 - coalesce(nullif(v_parts[3], ''), p_plan.policy ->> 'vector_weight')::numeric)::double precision;
    v_plan.uses_vector := p_decision LIKE 'v%';
    v_plan.uses_keyword := p_decision LIKE '_k%';
    v_plan.vector_reason := CASE WHEN NOT v_plan.uses_vector THEN coalesce(p_plan.vector_reason, v_reason) END;
    v_plan.keyword_reason := CASE WHEN NOT v_plan.uses_keyword THEN coalesce(p_plan.keyword_reason, v_reason) END;
    v_plan.vector_unit := CASE WHEN v_plan.uses_keyword THEN v_plan.vector_weight ELSE 1 END * 1000;
    v_plan.keyword_unit := CASE WHEN v_plan.uses_vector THEN v_plan.keyword_weight ELSE 1 END * 1e9 / v_plan.keyword_bound;
    RETURN v_plan;
END
$$;
COMMENT ON FUNCTION kbsearch.apply_kb_decision_v1(kbsearch.kb_search_plan, text, jsonb) IS
'The plan of a search whose arbitration is decided: a weighted search with the legs and weights of the decision, which is as cursors have it: legs:verdict:vector weight:manifest digest; the legs alone where neither leg found anything.';
