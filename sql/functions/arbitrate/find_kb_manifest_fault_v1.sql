CREATE FUNCTION kbsearch.find_kb_manifest_fault_v1(p_manifest jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_fault text;
BEGIN
    IF p_manifest IS NULL OR jsonb_typeof(p_manifest) <> 'object' THEN
        RETURN 'the manifest is not a JSON object';
    ELSIF p_manifest -> 'manifest_version' IS DISTINCT FROM '1' THEN
        RETURN 'the manifest is of another version';
    END IF;
    SELECT min(CASE
        WHEN s.pattern IS NULL THEN format('there is no %I in a manifest', coalesce(s.name, m.key))
        WHEN m.key IS NULL THEN format('%I is missing', s.name)
        WHEN jsonb_typeof(m.value) <> ALL (s.types) OR m.value::text !~ s.pattern THEN format('%I is not what it should be', s.name)
    END COLLATE "C")
    INTO v_fault
    FROM jsonb_each(p_manifest) AS m (key, value)
    FULL JOIN (
        VALUES
        ('manifest_version', ARRAY['number'], '^1$'),
        ('query_hash', ARRAY['string'], '^"[0-9a-f]{64}"$'),
        ('query_class', ARRAY['string'], '^"(identifier|quoted|keywords|question|empty)"$'),
        ('vector_ranking', ARRAY['array'], '^\[([0-9]{1,16}(, [0-9]{1,16}){0,99})?\]$'),
        ('vector_ranks', ARRAY['array'], '^\[([0-9]{1,3}(, [0-9]{1,3}){0,99})?\]$'),
        ('vector_ranking_hash', ARRAY['string'], '^"[0-9a-f]{64}"$'),
        ('keyword_ranking', ARRAY['array'], '^\[([0-9]{1,16}(, [0-9]{1,16}){0,99})?\]$'),
        ('keyword_ranks', ARRAY['array'], '^\[([0-9]{1,3}(, [0-9]{1,3}){0,99})?\]$'),
        ('keyword_ranking_hash', ARRAY['string'], '^"[0-9a-f]{64}"$'),
        ('chosen_ranking_hash', ARRAY['string', 'null'], '^("[0-9a-f]{64}"|null)$'),
        ('semantic_similarity_peak', ARRAY['string', 'null'], '^("-?[01][.][0-9]{6}"|null)$'),
        ('policy', ARRAY['string'], '^"[a-z][a-z0-9_]{0,62}@[1-9][0-9]{0,8}"$'),
        ('policy_parameters', ARRAY['object'], ''),
        ('exploratory', ARRAY['boolean'], ''),
        ('arbitration_rule_id', ARRAY['string'], '^"[a-z_.]+(@[a-z]+)?"$'),
        ('disagreement_magnitude', ARRAY['string', 'null'], '^("[01]([.][0-9]{1,12})?"|null)$'),
        ('overlap', ARRAY['string', 'null'], '^("[01]([.][0-9]{1,12})?"|null)$'),
        (
            'verdict', ARRAY['string'],
            '^"(rankings_agree|(vector|keyword)_(only|privileged)|escalated|(exploratory|calibrated)_fused|advisory|fused_within_limit)"$'
        ),
        ('directive', ARRAY['string'], ''),
        ('manifest_digest', ARRAY['string'], '^"[0-9a-f]{64}"$')
    ) AS s (name, types, pattern) ON s.name = m.key;
    IF v_fault IS NULL AND kbsearch.hash_kb_text_v1(kbsearch.canonicalize_kb_json_v1(p_manifest - 'manifest_digest')) <> p_manifest ->> 'manifest_digest' THEN
        v_fault := 'the digest is not the manifest''s';
    END IF;
    RETURN v_fault;
END
$$;
COMMENT ON FUNCTION kbsearch.find_kb_manifest_fault_v1(jsonb) IS
'What is wrong with the form or the digest of a manifest; NULL where nothing is. Whether the decision is right is not looked at.';
