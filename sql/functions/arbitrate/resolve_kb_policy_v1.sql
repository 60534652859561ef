CREATE FUNCTION kbsearch.resolve_kb_policy_v1(p_org_id bigint, p_policy text) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT jsonb_build_object(
        'name', p.name, 'version', p.version, 'top_k', p.top_k, 'penalty', trim_scale(p.penalty), 'max_disagreement', trim_scale(p.max_disagreement),
        'similarity_threshold', trim_scale(p.similarity_threshold), 'moderate_rule', p.moderate_rule, 'severe_rule', p.severe_rule,
        'advisory_leg', p.advisory_leg, 'calibrated', p.calibrated, 'vector_weight', trim_scale(p.vector_weight),
        'keyword_weight', trim_scale(p.keyword_weight), 'privilege', trim_scale(p.privilege), 'class_rules', p.class_rules
    )
    FROM (
        SELECT
            b.name, b.version, b.top_k, b.penalty, b.max_disagreement, b.similarity_threshold, b.moderate_rule, b.severe_rule, b.advisory_leg,
            b.calibrated, b.vector_weight, b.keyword_weight, b.privilege, b.class_rules
        FROM kbsearch.kb_builtin_policies AS b
        UNION ALL
        SELECT
            o.name, o.version, o.top_k, o.penalty, o.max_disagreement, o.similarity_threshold, o.moderate_rule, o.severe_rule, o.advisory_leg,
            o.calibrated, o.vector_weight, o.keyword_weight, o.privilege, o.class_rules
        FROM kbsearch.kb_arbitration_policies AS o
        WHERE o.org_id = p_org_id
    ) AS p
    WHERE
        p_policy ~ '^[a-z][a-z0-9_]{0,62}(@[1-9][0-9]{0,8})?$'
        AND p.name = split_part(p_policy, '@', 1)
        AND p.version::text = coalesce(nullif(split_part(p_policy, '@', 2), ''), '1');
END;
COMMENT ON FUNCTION kbsearch.resolve_kb_policy_v1(bigint, text) IS
'The arbitration policy name@version, built-in or the organisation''s own, as arbitrate_kb_rankings_v1 takes it: a JSON object of its columns without the description. A bare name is version 1. NULL: there is none.';
