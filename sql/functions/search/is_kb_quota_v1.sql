CREATE FUNCTION kbsearch.is_kb_quota_v1(p_kind_quota jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT p_kind_quota IS NULL OR (
        jsonb_typeof(p_kind_quota) = 'object'
        AND NOT EXISTS (
            SELECT 1 FROM jsonb_each(CASE jsonb_typeof(p_kind_quota) WHEN 'object' THEN p_kind_quota ELSE '{}' END) AS q (kind, quota)
            WHERE jsonb_typeof(q.quota) <> 'number' OR q.quota::text !~ '^[0-9]{1,9}$'
        )
    );
END;
COMMENT ON FUNCTION kbsearch.is_kb_quota_v1(jsonb) IS 'Whether it is a quota: NULL, or an object of whole numbers from 0 to 999999999.';
