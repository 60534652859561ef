-- Keeps the number of segments small as they are written. Segments are taken from the smallest up to 20,000 posting rows in all (about a third of a
-- second of work; larger merges are for compact_kb_postings_v1), and beyond the 32nd only while each is at most twice the sum of those
-- before it, so that an entry is rewritten a logarithmic number of times. Skipped where another transaction merges or the
-- snapshot is fixed.
CREATE FUNCTION kbsearch.merge_kb_small_segments_v1(p_org_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_segments bigint[];
BEGIN
    WITH ordered AS (
        SELECT
            s.segment_id,
            s.posting_rows,
            row_number() OVER (ORDER BY s.posting_rows ASC, s.segment_id ASC) AS n,
            sum(s.posting_rows) OVER (ORDER BY s.posting_rows ASC, s.segment_id ASC) AS total
        FROM kbsearch.kb_corpus_stats AS s
        WHERE s.org_id = p_org_id
    ),
    stop AS (
        SELECT min(o.n) AS n
        FROM ordered AS o
        WHERE o.total > 20000 OR (o.n > 32 AND o.posting_rows > 2 * (o.total - o.posting_rows))
    )
    SELECT array_agg(o.segment_id) INTO v_segments FROM ordered AS o, stop AS s WHERE o.n < coalesce(s.n, o.n + 1);
    IF cardinality(v_segments) < 32 OR v_segments IS NULL THEN
        RETURN 0;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN 0;
    END IF;
    IF NOT pg_try_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(p_org_id, 'maintenance')) THEN
        RETURN 0;
    END IF;
    RETURN kbsearch.merge_kb_segments_v1(p_org_id, v_segments);
END
$$;
COMMENT ON FUNCTION kbsearch.merge_kb_small_segments_v1(bigint) IS
'Merges an organisation''s small segments when there are 32 or more; returns the number of posting rows written, 0 where nothing was to do or another transaction merges. Changes no score.';
