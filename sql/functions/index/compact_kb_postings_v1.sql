CREATE FUNCTION kbsearch.compact_kb_postings_v1(p_org_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    PERFORM pg_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(p_org_id, 'maintenance'));
    RETURN kbsearch.merge_kb_entries_v1(p_org_id, NULL, '{}', '{}', '{}', 0, 0);
END
$$;
COMMENT ON FUNCTION kbsearch.compact_kb_postings_v1(bigint) IS
'Merges all of an organisation''s postings: less to read after many small writes by several writers at a time. Changes no score; safe beside readers and writers. For the owner of the tables, from a scheduler: once a day or after some thousand edits.

Arguments:
p_org_id: The organisation.

Returns: the number of posting rows afterwards.

Errors: KBORG.';
