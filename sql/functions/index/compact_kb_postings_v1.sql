-- Words that already have as few rows as they can stay as they are; of the others two million entries at a time, so that a large organisation needs no more
-- memory or temporary files than a small one.
CREATE FUNCTION kbsearch.compact_kb_postings_v1(p_org_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_known bigint[];
    v_lexemes text[];
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    PERFORM pg_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(p_org_id, 'maintenance'));
    v_known := kbsearch.begin_kb_keyword_blocks_v1(p_org_id, 20000);
    PERFORM kbsearch.merge_kb_entries_v1(p_org_id, NULL, '{}', '{}', '{}', 0, 0);
    FOR v_lexemes IN
        SELECT array_agg(s.lexeme)
        FROM (
            SELECT w.lexeme, div(sum(w.entry_count) OVER (ORDER BY w.lexeme), 2000000) AS slice
            FROM (
                SELECT p.lexeme, sum(p.entry_count) AS entry_count
                FROM kbsearch.kb_postings AS p
                WHERE p.org_id = p_org_id
                GROUP BY p.lexeme
                HAVING count(*) > ceil(sum(p.entry_count) / 200.0) OR min(p.sign) < 0
            ) AS w
        ) AS s
        GROUP BY s.slice
        ORDER BY s.slice
    LOOP
        PERFORM kbsearch.merge_kb_entries_v1(p_org_id, v_lexemes, '{}', '{}', '{}', 0, 0);
    END LOOP;
    IF v_known IS NOT NULL THEN
        PERFORM kbsearch.build_kb_keyword_blocks_v1(p_org_id, v_known);
    END IF;
    RETURN (SELECT count(*) FROM kbsearch.kb_postings AS p WHERE p.org_id = p_org_id);
END
$$;
COMMENT ON FUNCTION kbsearch.compact_kb_postings_v1(bigint) IS
'Merges those of an organisation''s postings that can be fewer: less to read after many small writes by several writers at a time. Of an organisation of 20,000 chunks or more it also makes the vectors that searches of frequent words are fast by: its own writers wait for the first ones, for nothing later. Changes no score; safe beside readers and writers. For the owner of the tables, from a scheduler: once a day or after some thousand edits.

Arguments:
p_org_id: The organisation.

Returns: the number of posting rows afterwards.

Errors: KBORG.';
