CREATE FUNCTION kbsearch.close_kb_search_v1(p_org_id bigint, p_snapshot uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    DELETE FROM kbsearch.kb_search_snapshots AS s WHERE s.org_id = p_org_id AND s.id = p_snapshot;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION kbsearch.close_kb_search_v1(bigint, uuid) IS
'Removes a stored ranking that is not needed any more.

Arguments:
p_org_id: The organisation that it is of.
p_snapshot: The snapshot.

Returns: whether there was one.

Errors: none.';
