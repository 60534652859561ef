CREATE FUNCTION kbsearch.create_kb_arbitration_policy_v1(
    p_org_id bigint, p_name text, p_top_k integer DEFAULT 5, p_penalty numeric DEFAULT 0.5, p_max_disagreement numeric DEFAULT 0.3,
    p_similarity_threshold numeric DEFAULT 0.85, p_moderate_rule text DEFAULT 'fuse', p_severe_rule text DEFAULT 'fuse', p_advisory_leg text DEFAULT NULL,
    p_calibrated boolean DEFAULT false, p_vector_weight numeric DEFAULT 0.5, p_keyword_weight numeric DEFAULT 0.5, p_privilege numeric DEFAULT 1,
    p_class_rules jsonb DEFAULT '{}', p_description text DEFAULT ''
) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_fault text;
    v_version integer;
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    v_fault := CASE
        WHEN EXISTS (SELECT FROM kbsearch.kb_builtin_policies AS b WHERE b.name = p_name) THEN 'the name is a built-in policy''s'
        WHEN p_description IS NULL THEN 'the description is NULL'
        ELSE kbsearch.find_kb_policy_fault_v1(
            jsonb_build_object(
                'name', p_name, 'version', 1, 'top_k', p_top_k, 'penalty', p_penalty, 'max_disagreement', p_max_disagreement,
                'similarity_threshold', p_similarity_threshold, 'moderate_rule', p_moderate_rule, 'severe_rule', p_severe_rule,
                'advisory_leg', p_advisory_leg, 'calibrated', p_calibrated, 'vector_weight', p_vector_weight, 'keyword_weight', p_keyword_weight,
                'privilege', p_privilege, 'class_rules', p_class_rules
            ), false
        )
    END;
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION 'the arbitration policy cannot be made: %', v_fault
            USING ERRCODE = 'KBPOL', DETAIL = jsonb_build_object('org_id', p_org_id, 'name', p_name, 'problem', v_fault)::text,
                HINT = 'For instance: p_name => ''mine'', p_severe_rule => ''apply_rule'', p_class_rules => ''{"identifier": {"advisory_leg": "vector"}}''.';
    END IF;
    PERFORM FROM kbsearch.organizations AS o WHERE o.id = p_org_id FOR NO KEY UPDATE;
    SELECT coalesce(max(r.version), 0) + 1 INTO v_version FROM kbsearch.kb_arbitration_policies AS r WHERE r.org_id = p_org_id AND r.name = p_name;
    INSERT INTO kbsearch.kb_arbitration_policies (
        org_id, name, version, top_k, penalty, max_disagreement, similarity_threshold, moderate_rule, severe_rule, advisory_leg, calibrated,
        vector_weight, keyword_weight, privilege, class_rules, description
    ) VALUES (
        p_org_id, p_name, v_version, p_top_k, p_penalty, p_max_disagreement, p_similarity_threshold, p_moderate_rule, p_severe_rule, p_advisory_leg,
        p_calibrated, p_vector_weight, p_keyword_weight, p_privilege, p_class_rules, p_description
    );
    RETURN p_name || '@' || v_version;
END
$$;
COMMENT ON FUNCTION kbsearch.create_kb_arbitration_policy_v1(
    bigint, text, integer, numeric, numeric, numeric, text, text, text, boolean, numeric, numeric, numeric, jsonb, text
) IS
'Makes the next version of an organisation''s arbitration policy. Rows never change, and no search uses it until it is asked for.

Arguments:
p_org_id: The organisation that it is for.
p_name: Name: 1 to 63 of a-z, 0-9 and _, a letter first; not a built-in policy''s.
p_top_k: How many of the best articles of each leg are compared, 1 … 100.
p_penalty: What a pair counts that one ranking orders and the other leaves undecided, 0 … 1.
p_max_disagreement: Limit, 0 … 1: over it the severe rule decides, up to it the moderate one.
p_similarity_threshold: Cosine, -1 … 1: apply_rule trusts the vector leg where the best similarity reaches it, else the keyword leg.
p_moderate_rule: fuse or apply_rule.
p_severe_rule: apply_rule, escalate or fuse.
p_advisory_leg: vector or keyword: the leg that never decides; NULL: none.
p_calibrated: Whether the legs are known to converge; they are then always fused.
p_vector_weight: Weight of the vector leg where the legs are fused, 0 … 1; both weights add up to 1.
p_keyword_weight: Weight of the keyword leg where the legs are fused, 0 … 1.
p_privilege: Weight of a leg that is trusted before the other, 0.5 … 1; 1: its ranking alone.
p_class_rules: {"class": {…}}: what is different for a class of classify_kb_query_v1, by the names of the arguments from p_max_disagreement on, without p_.
p_description: For people.

Returns: name@version.

Errors: KBORG, KBPOL.';
