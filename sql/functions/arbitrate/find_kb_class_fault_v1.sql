CREATE FUNCTION kbsearch.find_kb_class_fault_v1(p_class_rules jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_class text;
    v_rules jsonb;
    v_fault text;
BEGIN
    IF p_class_rules = '{}' THEN
        RETURN NULL;
    END IF;
    IF p_class_rules IS NULL OR jsonb_typeof(p_class_rules) <> 'object' THEN
        RETURN 'class_rules is not a JSON object';
    END IF;
    FOR v_class, v_rules IN SELECT g.key, g.value FROM jsonb_each(p_class_rules) AS g (key, value) ORDER BY g.key COLLATE "C" LOOP
        v_fault := CASE
            WHEN v_class NOT IN ('identifier', 'quoted', 'keywords', 'question', 'empty') THEN 'there is no such class'
            ELSE kbsearch.find_kb_policy_fault_v1(v_rules, true)
        END;
        IF v_fault IS NOT NULL THEN
            RETURN format('class_rules of %I: %s', v_class, v_fault);
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.find_kb_class_fault_v1(jsonb) IS
'What is wrong with the rules by query class of an arbitration policy; NULL where nothing is.';
