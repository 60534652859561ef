CREATE FUNCTION kbsearch.list_kb_cursor_keys_v1(p_org_id bigint) RETURNS bytea []
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(array_agg(k.pads ORDER BY k.id DESC), '{}')
    FROM kbsearch.kb_cursor_keys AS k
    WHERE k.org_id = p_org_id;
END;
COMMENT ON FUNCTION kbsearch.list_kb_cursor_keys_v1(bigint) IS
'The keys of an organisation''s cursors, as kb_cursor_keys.pads has them, the newest first; empty where cursors are not authenticated.';
