-- A set of rules is a policy's own or a query class's: the same names mean the same in both, and a class leaves out what it does not change.
CREATE FUNCTION kbsearch.find_kb_policy_fault_v1(p_rules jsonb, p_of_class boolean) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_fault text;
BEGIN
    IF p_rules IS NULL OR jsonb_typeof(p_rules) <> 'object' THEN
        RETURN 'the rules are not a JSON object';
    END IF;
    WITH rules AS (
        SELECT
            g.key AS name,
            g.value,
            g.value #>> '{}' AS written,
            jsonb_typeof(g.value) IN ('number', 'string') AND g.value #>> '{}' ~ '^-?[0-9]{1,9}([.][0-9]{1,6}0*)?$' AS is_decimal,
            g.key IN ('name', 'version', 'top_k', 'penalty', 'class_rules') AS is_of_policy
        FROM jsonb_each(p_rules) AS g (key, value)
    )
    SELECT min(CASE
        WHEN p_of_class AND r.is_of_policy THEN format('a class has no %I of its own', r.name)
        WHEN r.name IN ('penalty', 'max_disagreement', 'vector_weight', 'keyword_weight') THEN
            CASE WHEN NOT r.is_decimal OR r.written::numeric NOT BETWEEN 0 AND 1 THEN format('%I is not a decimal from 0 to 1 with at most 6 places', r.name) END
        WHEN r.name = 'privilege' THEN
            CASE WHEN NOT r.is_decimal OR r.written::numeric NOT BETWEEN 0.5 AND 1 THEN 'privilege is not a decimal from 0.5 to 1 with at most 6 places' END
        WHEN r.name = 'similarity_threshold' THEN
            CASE WHEN NOT r.is_decimal OR r.written::numeric NOT BETWEEN -1 AND 1 THEN 'similarity_threshold is not a decimal from -1 to 1 with at most 6 places' END
        WHEN r.name = 'top_k' THEN
            CASE WHEN jsonb_typeof(r.value) <> 'number' OR r.written !~ '^[0-9]{1,3}$' OR r.written::integer NOT BETWEEN 1 AND 100 THEN 'top_k is not a whole number from 1 to 100' END
        WHEN r.name = 'version' THEN
            CASE WHEN jsonb_typeof(r.value) <> 'number' OR r.written !~ '^[1-9][0-9]{0,8}$' THEN 'version is not a whole number from 1' END
        WHEN r.name = 'name' THEN
            CASE WHEN coalesce(r.written, '') !~ '^[a-z][a-z0-9_]{0,62}$' THEN 'the name is not 1 to 63 of a-z, 0-9 and _, a letter first' END
        WHEN r.name = 'moderate_rule' THEN
            CASE WHEN coalesce(r.written, '') NOT IN ('fuse', 'apply_rule') THEN 'moderate_rule is not fuse or apply_rule' END
        WHEN r.name = 'severe_rule' THEN
            CASE WHEN coalesce(r.written, '') NOT IN ('apply_rule', 'escalate', 'fuse') THEN 'severe_rule is not apply_rule, escalate or fuse' END
        WHEN r.name = 'advisory_leg' THEN
            CASE WHEN coalesce(r.written, 'vector') NOT IN ('vector', 'keyword') THEN 'advisory_leg is not vector, keyword or null' END
        WHEN r.name = 'calibrated' THEN
            CASE WHEN jsonb_typeof(r.value) <> 'boolean' THEN 'calibrated is not true or false' END
        WHEN r.name = 'class_rules' THEN kbsearch.find_kb_class_fault_v1(r.value)
        ELSE format('there is no rule %I', r.name)
    END COLLATE "C")
    INTO v_fault
    FROM rules AS r;
    RETURN CASE
        WHEN v_fault IS NOT NULL THEN v_fault
        WHEN NOT p_of_class AND NOT p_rules ?& ARRAY[
            'name', 'version', 'top_k', 'penalty', 'max_disagreement', 'similarity_threshold', 'moderate_rule', 'severe_rule', 'advisory_leg', 'calibrated',
            'vector_weight', 'keyword_weight', 'privilege', 'class_rules'
        ] THEN 'a rule is missing'
        WHEN p_rules ? 'vector_weight' <> (p_rules ? 'keyword_weight') THEN 'there is one weight without the other'
        WHEN (p_rules ->> 'vector_weight')::numeric + (p_rules ->> 'keyword_weight')::numeric <> 1 THEN 'the weights do not add up to 1'
    END;
END
$$;
COMMENT ON FUNCTION kbsearch.find_kb_policy_fault_v1(jsonb, boolean) IS
'What is wrong with the rules of an arbitration policy or, p_of_class, with those that a query class has of its own; NULL where nothing is. Decimals are numbers or strings.';
