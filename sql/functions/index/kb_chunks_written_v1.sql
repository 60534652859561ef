-- One function for all chunk triggers. Each names the rows whose entries it adds or takes away "written" and passes the sign; an update has
-- two triggers, one for the old rows (-1) and one for the new (+1), and both leave out rows whose entries stayed the same ("other"
-- holds the other version). Rows of organisations that are gone are skipped: kb_organizations_removed_v1 removes theirs.
CREATE FUNCTION kbsearch.kb_chunks_written_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, kbsearch, pg_temp
SET jit = off
AS $$
DECLARE
    v_sign CONSTANT smallint := TG_ARGV[0]::smallint;
    v_segment bigint;
    v_unchanged bigint[] := '{}';
    v_org_id bigint;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        SELECT coalesce(array_agg(w.id), '{}') INTO v_unchanged
        FROM written AS w
        INNER JOIN other AS o ON o.org_id = w.org_id AND o.id = w.id
        WHERE
            o.searchable = w.searchable
            AND (NOT w.searchable OR (o.occurrence_count = w.occurrence_count AND o.lexemes = w.lexemes AND o.term_counts = w.term_counts));
        IF v_sign = 1 THEN
            UPDATE kbsearch.kb_article_embeddings AS e
            SET searchable = w.searchable
            FROM written AS w
            WHERE e.org_id = w.org_id AND e.article_id = w.article_id AND e.chunk_id = w.id AND e.searchable <> w.searchable;
        END IF;
    END IF;
    FOR v_org_id IN
        SELECT DISTINCT o.id
        FROM written AS w
        INNER JOIN kbsearch.organizations AS o ON o.id = w.org_id
        WHERE w.searchable AND w.id <> ALL (v_unchanged)
        ORDER BY o.id
    LOOP
        PERFORM pg_advisory_xact_lock_shared(kbsearch.lock_kb_corpus_v1(v_org_id, 'writers'));
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            -- a snapshot older than a change of reference_length fails here (40001) instead of writing entries of the old one
            PERFORM 1 FROM kbsearch.organizations AS o WHERE o.id = v_org_id FOR SHARE;
        END IF;
        v_segment := nextval('kbsearch.kb_segment_seq');
        WITH rows_of_org AS MATERIALIZED (
            SELECT w.id, w.lexemes, w.term_counts, w.occurrence_count, o.reference_length
            FROM written AS w
            INNER JOIN kbsearch.organizations AS o ON o.id = w.org_id
            WHERE w.org_id = v_org_id AND w.searchable AND w.id <> ALL (v_unchanged)
        ),
        entries AS (
            SELECT t.lexeme, (r.id << 12) | kbsearch.bm25_impact_v1(t.term_count, r.occurrence_count, r.reference_length) AS entry
            FROM rows_of_org AS r
            CROSS JOIN LATERAL unnest(r.lexemes, r.term_counts) AS t (lexeme, term_count)
        ),
        numbered AS (
            SELECT e.lexeme, e.entry, (row_number() OVER (PARTITION BY e.lexeme ORDER BY e.entry) - 1) / 200 AS block FROM entries AS e
        ),
        posted AS (
            INSERT INTO kbsearch.kb_postings (org_id, lexeme, first_chunk_id, segment_id, sign, max_impact, entry_count, entries)
            SELECT v_org_id, n.lexeme, min(n.entry) >> 12, v_segment, v_sign, max(n.entry & 4095), count(*), array_agg(n.entry ORDER BY n.entry)
            FROM numbered AS n
            GROUP BY n.lexeme, n.block
            RETURNING 1
        )
        INSERT INTO kbsearch.kb_corpus_stats (org_id, segment_id, chunk_count, occurrence_count, posting_rows)
        SELECT v_org_id, v_segment, v_sign * count(*), v_sign * sum(r.occurrence_count), (SELECT count(*) FROM posted)
        FROM rows_of_org AS r;
        PERFORM kbsearch.merge_kb_small_segments_v1(v_org_id);
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_chunks_written_v1() IS
'Trigger, after insert, update or delete of chunks, once a statement: adds a segment with the entries of the written rows, of sign TG_ARGV[0], for each organisation; passes searchable on to the embeddings.';
