-- Nets exactly the rows that its DELETE returned together with the given entries: an entry and its removal cancel, a removal whose entry lies
-- elsewhere stays as a removal. Blocks of additions and of removals get segment numbers of opposite sign, since a block has one sign.
CREATE FUNCTION kbsearch.merge_kb_entries_v1(
    p_org_id bigint, p_merged text [], p_lexemes text [], p_entries bigint [], p_signs smallint [], p_chunk_count bigint, p_occurrence_count bigint
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
DECLARE
    v_segment CONSTANT bigint := nextval('kbsearch.kb_segment_seq');
    v_rows bigint;
BEGIN
    WITH removed AS (
        DELETE FROM kbsearch.kb_postings AS p
        WHERE p.org_id = p_org_id AND p.lexeme = ANY (p_merged)
        RETURNING p.lexeme, p.sign, p.entries
    ),
    net AS (
        SELECT e.lexeme, e.entry, sum(e.sign) AS copies
        FROM (
            SELECT r.lexeme, unnest(r.entries) AS entry, r.sign FROM removed AS r
            UNION ALL
            SELECT g.lexeme, g.entry, g.sign FROM unnest(p_lexemes, p_entries, p_signs) AS g (lexeme, entry, sign)
        ) AS e
        GROUP BY e.lexeme, e.entry
        HAVING sum(e.sign) <> 0
    ),
    words AS (
        SELECT n.lexeme COLLATE "C" AS lexeme, n.sign, array_agg(n.entry ORDER BY n.entry) AS entries
        FROM (
            SELECT n.lexeme, n.entry, sign(n.copies)::smallint AS sign FROM net AS n
            UNION ALL
            SELECT n.lexeme, n.entry, sign(n.copies)::smallint FROM net AS n CROSS JOIN LATERAL generate_series(2, abs(n.copies)) AS copy WHERE abs(n.copies) > 1
        ) AS n
        GROUP BY n.lexeme, n.sign
    ),
    posted AS (
        INSERT INTO kbsearch.kb_postings (org_id, lexeme, first_chunk_id, segment_id, sign, max_impact, entry_count, entries)
        SELECT
            p_org_id, w.lexeme, b.entries[1] >> 12, w.sign * v_segment, w.sign,
            (SELECT max(e.entry & 4095) FROM unnest(b.entries) AS e (entry)), cardinality(b.entries), b.entries
        FROM words AS w
        CROSS JOIN LATERAL (
            SELECT w.entries[first.n:first.n + 199] AS entries FROM generate_series(1, cardinality(w.entries), 200) AS first (n)
        ) AS b
        RETURNING 1
    )
    SELECT count(*) INTO v_rows FROM posted;
    WITH removed AS (
        DELETE FROM kbsearch.kb_corpus_stats AS s
        WHERE s.org_id = p_org_id AND p_merged IS DISTINCT FROM '{}'
        RETURNING s.chunk_count, s.occurrence_count
    ),
    summed AS (
        SELECT coalesce(sum(t.chunk_count), 0) AS chunk_count, coalesce(sum(t.occurrence_count), 0) AS occurrence_count
        FROM (SELECT r.chunk_count, r.occurrence_count FROM removed AS r UNION ALL SELECT p_chunk_count, p_occurrence_count) AS t
    )
    INSERT INTO kbsearch.kb_corpus_stats (org_id, segment_id, chunk_count, occurrence_count)
    SELECT p_org_id, v_segment, s.chunk_count, s.occurrence_count
    FROM summed AS s
    WHERE s.chunk_count <> 0 OR s.occurrence_count <> 0 OR cardinality(p_lexemes) > 0;
    RETURN v_rows;
END
$$;
COMMENT ON FUNCTION kbsearch.merge_kb_entries_v1(bigint, text [], text [], bigint [], smallint [], bigint, bigint) IS
'Adds entries (lexeme, entry, sign; three arrays) to an organisation''s postings, netted with all its rows of the lexemes p_merged, and the counts to its statistics, which are netted too unless p_merged is {} (NULL: no lexemes, but the statistics); returns the number of posting rows written. With p_merged other than {} the caller holds the maintenance lock.';
