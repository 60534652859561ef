CREATE FUNCTION kbsearch.drop_kb_ann_index_v1(p_org_id bigint, p_space_id bigint DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_space_id CONSTANT bigint := coalesce(p_space_id, (SELECT o.active_space_id FROM kbsearch.organizations AS o WHERE o.id = p_org_id));
BEGIN
    IF p_org_id IS NULL THEN
        RAISE EXCEPTION 'organisation NULL does not exist'
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id that the index was made for.';
    END IF;
    -- one at a time with those that make or drop others: what the catalog says of an index that goes meanwhile is an error
    PERFORM pg_advisory_xact_lock(hashtextextended('kbsearch approximate indexes', 0));
    IF NOT EXISTS (SELECT FROM kbsearch.list_kb_ann_indexes_v1(p_org_id) AS l WHERE l.space_id = v_space_id AND l.state <> 'foreign') THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP INDEX kbsearch.kb_ann_%s_%s', p_org_id, v_space_id);
    RETURN true;
END
$$;
COMMENT ON FUNCTION kbsearch.drop_kb_ann_index_v1(bigint, bigint) IS
'Drops an index of create_kb_ann_index_v1; the organisation and the space need not exist any more. Waits for searches and writers of all organisations, and they for it, for a moment: kbsearch ann drop does not.

Arguments:
p_org_id: The organisation.
p_space_id: The embedding space. NULL: the one that searches use.

Returns: whether there was one.

Errors: KBORG.';
