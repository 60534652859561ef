-- A small write. Rows that only add are cheap to write and dear to keep: one word of one chunk takes 170 bytes alone and 8 in a block. So the writer
-- merges what it touches, where no other transaction is merging (then it only adds, and nobody waits): always where the merged row is no larger than
-- two that would be added (24 entries), else when there are more rows beside the blocks than it takes to pay for rewriting them. Of a word with over
-- 64 rows that is looked at every 64th time, and up to 100,000 entries; beyond that merging is for compact_kb_postings_v1. A write that only
-- adds does all that every fourth time, since nothing cancels.
CREATE FUNCTION kbsearch.write_kb_entries_v1(
    p_org_id bigint, p_lexemes text [], p_entries bigint [], p_signs smallint [], p_chunk_count bigint, p_occurrence_count bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_merged text[] := '{}';
BEGIN
    IF
        (random() < 0.25 OR -1 = ANY (p_signs))
        AND current_setting('transaction_isolation') = 'read committed' AND pg_try_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(p_org_id, 'maintenance'))
    THEN
        SELECT coalesce(array_agg(w.lexeme), '{}') INTO v_merged
        FROM (SELECT DISTINCT g.lexeme COLLATE "C" AS lexeme FROM unnest(p_lexemes) AS g (lexeme)) AS w
        CROSS JOIN LATERAL (
            SELECT count(*) AS row_count, coalesce(sum(f.entry_count), 0) AS entry_count
            FROM (SELECT p.entry_count FROM kbsearch.kb_postings AS p WHERE p.org_id = p_org_id AND p.lexeme = w.lexeme LIMIT 65) AS f
        ) AS first
        WHERE
            first.entry_count <= 24
            OR (first.row_count <= 64 AND first.row_count > least(8, first.entry_count / 24) + 3 * (first.entry_count / 200))
            OR (
                first.row_count > 64 AND random() < 1.0 / 64
                AND (
                    SELECT count(*) > 8 + 3 * (sum(p.entry_count) / 200) AND sum(p.entry_count) <= 100000
                    FROM kbsearch.kb_postings AS p
                    WHERE p.org_id = p_org_id AND p.lexeme = w.lexeme
                )
            );
    END IF;
    PERFORM kbsearch.merge_kb_entries_v1(p_org_id, v_merged, p_lexemes, p_entries, p_signs, p_chunk_count, p_occurrence_count);
END
$$;
COMMENT ON FUNCTION kbsearch.write_kb_entries_v1(bigint, text [], bigint [], smallint [], bigint, bigint) IS
'Adds the entries of a small write (lexeme, entry, sign; three arrays) to an organisation''s postings, merged with what stands there as far as that is cheap and keeps nobody waiting, and the counts to its statistics.';
