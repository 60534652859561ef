-- 0.85 of the mean and not the mean: nDCG@10 of the keyword leg is .7006 / .3747 / .7640 instead of .6998 / .3719 / .7616 on SciFact, Cranfield
-- and StackFAQ, and .6975 instead of .6968 on SciFact's training questions.
CREATE FUNCTION kbsearch.calibrate_kb_corpus_v1(p_org_id bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_reference_length integer;
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    -- before the organisation's row, which a writer of its first vectors asks for while it holds this lock
    PERFORM pg_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(p_org_id, 'writers'));
    SELECT least(100000, greatest(1, round(0.85 * sum(s.occurrence_count) / nullif(sum(s.chunk_count), 0))))::integer
    INTO v_reference_length
    FROM kbsearch.kb_corpus_stats AS s
    WHERE s.org_id = p_org_id
    HAVING sum(s.chunk_count) > 0;
    UPDATE kbsearch.organizations AS o
    SET reference_length = v_reference_length
    WHERE o.id = p_org_id AND v_reference_length IS NOT NULL AND o.reference_length <> v_reference_length;
    RETURN (SELECT o.reference_length FROM kbsearch.organizations AS o WHERE o.id = p_org_id);
END
$$;
COMMENT ON FUNCTION kbsearch.calibrate_kb_corpus_v1(bigint) IS
'Sets the organisation''s reference_length to 0.85 times the mean length of its searchable chunks (in words that are no stop words) and rebuilds its postings where that changes it. Moves scores and ends the validity of cursors: meant for the end of the first complete load. For the owner of the tables. Waits for the organisation''s writers and keeps them out until the end of the transaction.

Arguments:
p_org_id: The organisation.

Returns: the reference_length, in words.

Errors: KBORG; KBIDX outside READ COMMITTED.';
