CREATE FUNCTION kbsearch.compact_kb_postings_v1(p_org_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_segments bigint[];
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    PERFORM pg_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(p_org_id, 'maintenance'));
    SELECT array_agg(s.segment_id) INTO v_segments FROM kbsearch.kb_corpus_stats AS s WHERE s.org_id = p_org_id;
    RETURN kbsearch.merge_kb_segments_v1(p_org_id, coalesce(v_segments, '{}'));
END
$$;
COMMENT ON FUNCTION kbsearch.compact_kb_postings_v1(bigint) IS
'Merges all segments of an organisation into one: less to read after many small writes. Changes no score; safe beside readers and writers; for a scheduler, once a day or after some thousand edits. Returns the number of posting rows. KBORG.';
