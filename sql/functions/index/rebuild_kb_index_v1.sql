-- Removal and new rows are one statement: both see one snapshot, taken after the lock. What a concurrent writer commits meanwhile is in neither.
CREATE FUNCTION kbsearch.rebuild_kb_index_v1(p_org_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
SET jit = off
AS $$
DECLARE
    v_segment bigint;
    v_known bigint[];
    v_rows bigint;
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    IF kbsearch.count_kb_chunk_statements_v1() > 0 THEN
        RAISE EXCEPTION 'the index cannot be rebuilt inside a statement that writes chunks'
            USING ERRCODE = 'KBIDX', DETAIL = jsonb_build_object('org_id', p_org_id)::text,
                HINT = 'Rebuild, or change reference_length, in a statement of its own.';
    END IF;
    PERFORM pg_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(p_org_id, 'maintenance'));
    v_known := ARRAY(SELECT g.segment_id FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = p_org_id);
    v_segment := nextval('kbsearch.kb_segment_seq');
    WITH removed AS (
        DELETE FROM kbsearch.kb_postings AS p WHERE p.org_id = p_org_id
    ),
    removed_stats AS (
        DELETE FROM kbsearch.kb_corpus_stats AS s WHERE s.org_id = p_org_id
    ),
    words AS (
        SELECT e.lexeme COLLATE "C" AS lexeme, array_agg(e.entry) AS entries, max(e.entry & 4095) AS max_impact
        FROM (SELECT l.lexeme, l.entry FROM kbsearch.list_kb_entries_v1(p_org_id) AS l OFFSET 0) AS e
        GROUP BY e.lexeme COLLATE "C"
    ),
    sorted AS MATERIALIZED (
        SELECT w.lexeme, CASE WHEN cardinality(w.entries) = 1 THEN w.entries ELSE ARRAY(SELECT unnest(w.entries) AS entry ORDER BY entry) END AS entries, w.max_impact
        FROM words AS w
    ),
    blocks AS (
        SELECT s.lexeme, s.entries, s.max_impact FROM sorted AS s WHERE cardinality(s.entries) <= 200
        UNION ALL
        SELECT b.lexeme, b.entries, (SELECT max(e.entry & 4095) FROM (SELECT unnest(b.entries) AS entry) AS e)
        FROM (
            SELECT s.lexeme, s.entries[first.n:first.n + 199] AS entries
            FROM sorted AS s
            CROSS JOIN LATERAL generate_series(1, cardinality(s.entries), 200) AS first (n)
            WHERE cardinality(s.entries) > 200
        ) AS b
    ),
    posted AS (
        INSERT INTO kbsearch.kb_postings (org_id, lexeme, first_chunk_id, segment_id, sign, max_impact, entry_count, entries)
        SELECT
            p_org_id, b.lexeme, b.entries[1] >> 12, v_segment, 1, b.max_impact, cardinality(b.entries), b.entries
        FROM blocks AS b
        ORDER BY b.lexeme, b.entries[1]
        RETURNING 1
    ),
    kept AS (
        INSERT INTO kbsearch.kb_corpus_stats (org_id, segment_id, chunk_count, occurrence_count)
        SELECT p_org_id, v_segment, count(*), sum(c.occurrence_count)
        FROM kbsearch.kb_article_chunks AS c
        WHERE c.org_id = p_org_id AND c.searchable
        HAVING count(*) > 0
    )
    SELECT count(*) INTO v_rows FROM posted;
    IF EXISTS (SELECT FROM kbsearch.kb_keyword_blocks AS b WHERE b.org_id = p_org_id) THEN
        PERFORM kbsearch.build_kb_keyword_blocks_v1(p_org_id, v_known);
    END IF;
    RETURN v_rows;
END
$$;
COMMENT ON FUNCTION kbsearch.rebuild_kb_index_v1(bigint) IS
'Makes an organisation''s postings and statistics again from its chunks: after a data-only restore, or after triggers were switched off. Changes no score of a sound index; safe beside readers and writers. For the owner of the tables.

Arguments:
p_org_id: The organisation.

Returns: the number of posting rows.

Errors: KBORG; KBIDX inside a statement that writes chunks.';
