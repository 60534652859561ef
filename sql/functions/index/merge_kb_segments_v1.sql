-- Nets exactly the rows that its DELETE returned: an entry and its removal cancel, a removal whose entry lies in another segment stays.
CREATE FUNCTION kbsearch.merge_kb_segments_v1(p_org_id bigint, p_segments bigint []) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET jit = off
AS $$
DECLARE
    v_segment CONSTANT bigint := nextval('kbsearch.kb_segment_seq');
    v_rows bigint;
BEGIN
    WITH removed AS (
        DELETE FROM kbsearch.kb_postings AS p
        WHERE p.org_id = p_org_id AND p.segment_id = ANY (p_segments)
        RETURNING p.lexeme, p.sign, p.entries
    ),
    net AS (
        SELECT e.lexeme, e.entry, sum(e.sign) AS copies
        FROM (SELECT r.lexeme, r.sign, unnest(r.entries) AS entry FROM removed AS r) AS e
        GROUP BY e.lexeme, e.entry
        HAVING sum(e.sign) <> 0
    ),
    numbered AS (
        SELECT
            n.lexeme,
            n.entry,
            sign(n.copies)::smallint AS sign,
            (row_number() OVER (PARTITION BY n.lexeme, sign(n.copies) ORDER BY n.entry) - 1) / 200 AS block
        FROM net AS n
        CROSS JOIN LATERAL generate_series(1, abs(n.copies)) AS copy
    ),
    posted AS (
        -- entries and removals get segments of their own: a block has one sign
        INSERT INTO kbsearch.kb_postings (org_id, lexeme, first_chunk_id, segment_id, sign, max_impact, entry_count, entries)
        SELECT
            p_org_id, m.lexeme, min(m.entry) >> 12, CASE m.sign WHEN 1 THEN v_segment ELSE -v_segment END,
            m.sign, max(m.entry & 4095), count(*), array_agg(m.entry ORDER BY m.entry)
        FROM numbered AS m
        GROUP BY m.lexeme, m.sign, m.block
        RETURNING sign
    ),
    counted AS (
        SELECT count(*) FILTER (WHERE i.sign = 1) AS added, count(*) FILTER (WHERE i.sign = -1) AS taken FROM posted AS i
    ),
    stats AS (
        DELETE FROM kbsearch.kb_corpus_stats AS s
        WHERE s.org_id = p_org_id AND s.segment_id = ANY (p_segments)
        RETURNING s.chunk_count, s.occurrence_count
    ),
    summed AS (
        SELECT coalesce(sum(t.chunk_count), 0)::bigint AS chunk_count, coalesce(sum(t.occurrence_count), 0)::bigint AS occurrence_count FROM stats AS t
    ),
    kept AS (
        INSERT INTO kbsearch.kb_corpus_stats (org_id, segment_id, chunk_count, occurrence_count, posting_rows)
        SELECT p_org_id, v_segment, s.chunk_count, s.occurrence_count, c.added
        FROM summed AS s, counted AS c
        WHERE s.chunk_count <> 0 OR s.occurrence_count <> 0 OR c.added > 0
        UNION ALL
        SELECT p_org_id, -v_segment, 0, 0, c.taken
        FROM counted AS c
        WHERE c.taken > 0
    )
    SELECT c.added + c.taken INTO v_rows FROM counted AS c;
    RETURN v_rows;
END
$$;
COMMENT ON FUNCTION kbsearch.merge_kb_segments_v1(bigint, bigint []) IS
'Merges the given segments of an organisation into one and returns its number of posting rows. The caller holds the organisation''s maintenance lock. Changes no score.';
