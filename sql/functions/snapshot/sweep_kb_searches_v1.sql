CREATE FUNCTION kbsearch.sweep_kb_searches_v1(p_org_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_count bigint;
BEGIN
    -- rows that another sweep removes are left to it
    DELETE FROM kbsearch.kb_search_snapshots AS s
    WHERE s.org_id = p_org_id AND s.id IN (
        SELECT h.id FROM kbsearch.kb_search_snapshots AS h WHERE h.org_id = p_org_id AND h.expires_at <= now() FOR UPDATE SKIP LOCKED
    );
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION kbsearch.sweep_kb_searches_v1(bigint) IS
'Removes an organisation''s expired snapshots. open_kb_search_v1 does it, too; for a scheduler where few searches are opened.

Arguments:
p_org_id: The organisation.

Returns: how many were removed.

Errors: none.';
