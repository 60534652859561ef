-- Keeps the number of segments small as they are written. Segments are taken from the smallest up while each is at most twice the sum of those
-- before it (an entry is then rewritten a logarithmic number of times), and up to 20,000 rows, about a third of a second of work;
-- larger merges are for compact_kb_postings_v1. Skipped where another transaction merges or the snapshot is fixed.
CREATE FUNCTION kbsearch.merge_kb_small_segments_v1(p_org_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_segments bigint[];
BEGIN
    IF (SELECT count(*) FROM kbsearch.kb_corpus_stats AS s WHERE s.org_id = p_org_id AND s.posting_rows <= 20000) < 48 THEN
        RETURN 0;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN 0;
    END IF;
    IF NOT pg_try_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(p_org_id, 'maintenance')) THEN
        RETURN 0;
    END IF;
    WITH ordered AS (
        SELECT
            s.segment_id,
            s.posting_rows,
            row_number() OVER (ORDER BY s.posting_rows, s.segment_id) AS n,
            sum(s.posting_rows) OVER (ORDER BY s.posting_rows, s.segment_id) AS total
        FROM kbsearch.kb_corpus_stats AS s
        WHERE s.org_id = p_org_id AND s.posting_rows <= 20000
    ),
    stop AS (
        SELECT coalesce(min(o.n), 9223372036854775807) AS n
        FROM ordered AS o
        WHERE o.n > 32 AND (o.total > 20000 OR o.posting_rows > 2 * (o.total - o.posting_rows))
    )
    SELECT array_agg(o.segment_id) INTO v_segments FROM ordered AS o, stop WHERE o.n < stop.n;
    RETURN kbsearch.merge_kb_segments_v1(p_org_id, v_segments);
END
$$;
COMMENT ON FUNCTION kbsearch.merge_kb_small_segments_v1(bigint) IS
'Merges an organisation''s small segments when there are 48 or more; returns the number of posting rows written, 0 where nothing was to do or another transaction merges. Changes no score.';
