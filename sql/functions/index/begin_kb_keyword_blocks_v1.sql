-- The first blocks must miss no write: writers look for blocks to know whether to note what they change. So it is made while none is under way. The lock is
-- tried, never waited for: a writer that has it may want what the caller has. Later blocks keep nobody waiting, as what is written beside them is noted.
CREATE FUNCTION kbsearch.begin_kb_keyword_blocks_v1(p_org_id bigint, p_least bigint) RETURNS bigint []
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_exists CONSTANT boolean := EXISTS (SELECT FROM kbsearch.kb_keyword_blocks AS b WHERE b.org_id = p_org_id);
    v_chunk_count CONSTANT bigint := (SELECT coalesce(sum(s.chunk_count), 0) FROM kbsearch.kb_corpus_stats AS s WHERE s.org_id = p_org_id);
    v_known bigint[];
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN NULL;
    END IF;
    IF v_chunk_count < p_least / (1 + v_exists::integer) THEN
        DELETE FROM kbsearch.kb_keyword_impacts AS i WHERE i.org_id = p_org_id;
        DELETE FROM kbsearch.kb_keyword_blocks AS b WHERE b.org_id = p_org_id;
        DELETE FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = p_org_id;
        RETURN NULL;
    END IF;
    FOR v_attempt IN 1..20 LOOP
        IF v_exists OR pg_try_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(p_org_id, 'writers')) THEN
            v_known := ARRAY(SELECT g.segment_id FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = p_org_id);
            RETURN CASE WHEN v_exists AND v_known = '{}' THEN NULL ELSE v_known END;
        END IF;
        PERFORM pg_sleep(0.1);
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.begin_kb_keyword_blocks_v1(bigint, bigint) IS
'Whether an organisation''s blocks are to be made: the changes (segment_id) that they will hold, or NULL: they are as they should be, the organisation has fewer than p_least searchable chunks (with less than half of that they are removed), or its writers left no gap of a tenth of a second in two. To be asked before the postings are merged; the caller holds the maintenance lock.';
