-- Trigger functions that are SECURITY DEFINER compare TG_RELID with their own table before they do anything else, DECLARE included: what they call
-- written or removed is a view of the caller's, with functions of his in it, where his trigger names no transition table.
CREATE FUNCTION kbsearch.refuse_kb_trigger_v1(p_table_id oid) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'a trigger function of kbsearch''s own is used for table %', p_table_id::regclass
        USING ERRCODE = 'KBSEC', DETAIL = jsonb_build_object('table', p_table_id::regclass)::text,
            HINT = 'Drop the trigger: the function acts as the owner of kbsearch''s tables, and so for the table alone that kbsearch made it for.';
END
$$;
COMMENT ON FUNCTION kbsearch.refuse_kb_trigger_v1(oid) IS
'Refuses to run a trigger function that acts as the owner for a table that it is not made for: KBSEC. p_table_id: that table.';
