CREATE FUNCTION kbsearch.write_kb_decimals_v1(p_rules jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(jsonb_object_agg(r.key, CASE
        WHEN r.key IN ('penalty', 'max_disagreement', 'similarity_threshold', 'vector_weight', 'keyword_weight', 'privilege')
            THEN to_jsonb(trim_scale((r.value #>> '{}')::numeric)::text)
        ELSE r.value
    END), '{}')
    FROM jsonb_each(p_rules) AS r (key, value);
END;
COMMENT ON FUNCTION kbsearch.write_kb_decimals_v1(jsonb) IS
'Rules of an arbitration policy with their decimals as strings without trailing zeros, as a manifest has them.';
