-- One function for all chunk triggers. Each names the rows whose entries it adds or takes away "written" and passes the sign; an update has two
-- triggers, one for the old rows (-1) and one for the new (+1), "other" being the other version. Rows of organisations that are gone are
-- skipped: kb_organizations_removed_v1 removes theirs. Up to 256 rows are merged with what stands there, old and new rows of an update
-- together; larger writes add a segment of their own. OFFSET 0: an impact is computed once.
CREATE FUNCTION kbsearch.kb_chunks_written_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, kbsearch, pg_temp
SET jit = off
AS $$
DECLARE
    v_acting CONSTANT text := coalesce(current_setting('kbsearch.acting_org_id', true), '');
    v_sign CONSTANT smallint := TG_ARGV[0]::smallint;
    v_is_small boolean;
    v_segment bigint;
    v_org_id bigint;
    v_lexemes text[];
    v_entries bigint[];
    v_signs smallint[];
    v_chunk_count bigint;
    v_occurrence_count bigint;
BEGIN
    IF TG_RELID <> 'kbsearch.kb_article_chunks'::regclass THEN
        PERFORM kbsearch.refuse_kb_trigger_v1(TG_RELID);
    END IF;
    v_is_small := (SELECT count(*) <= 256 FROM (SELECT FROM written LIMIT 257) AS w);
    IF TG_OP = 'UPDATE' AND v_sign = 1 AND v_is_small THEN
        -- done with the old rows
        RETURN NULL;
    END IF;
    FOR v_org_id IN SELECT DISTINCT w.org_id FROM written AS w ORDER BY w.org_id LOOP
        PERFORM set_config('kbsearch.acting_org_id', v_org_id::text, true);
        CONTINUE WHEN NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = v_org_id);
        PERFORM pg_advisory_xact_lock_shared(kbsearch.lock_kb_corpus_v1(v_org_id, 'writers'));
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            -- a snapshot older than a change of reference_length fails here (40001) instead of writing entries of the old one
            PERFORM 1 FROM kbsearch.organizations AS o WHERE o.id = v_org_id FOR SHARE;
        END IF;
        IF v_is_small AND TG_OP = 'UPDATE' THEN
            PERFORM kbsearch.note_kb_changes_v1(
                v_org_id, ARRAY(SELECT w.id FROM written AS w WHERE w.org_id = v_org_id UNION SELECT t.id FROM other AS t WHERE t.org_id = v_org_id)
            );
        ELSE
            PERFORM kbsearch.note_kb_changes_v1(v_org_id, ARRAY(SELECT w.id FROM written AS w WHERE w.org_id = v_org_id));
        END IF;
        IF v_is_small THEN
            IF TG_OP = 'UPDATE' THEN
                SELECT array_agg(e.lexeme), array_agg(e.entry), array_agg(e.sign) INTO v_lexemes, v_entries, v_signs
                FROM (
                    SELECT c.lexeme, c.entry, c.sign
                    FROM written AS w
                    INNER JOIN kbsearch.organizations AS o ON o.id = w.org_id
                    CROSS JOIN LATERAL kbsearch.list_kb_chunk_entries_v1(
                        w.id, w.searchable, w.lexemes, w.term_counts, w.occurrence_count, o.reference_length, -1::smallint
                    ) AS c
                    WHERE w.org_id = v_org_id
                    UNION ALL
                    SELECT c.lexeme, c.entry, c.sign
                    FROM other AS w
                    INNER JOIN kbsearch.organizations AS o ON o.id = w.org_id
                    CROSS JOIN LATERAL kbsearch.list_kb_chunk_entries_v1(
                        w.id, w.searchable, w.lexemes, w.term_counts, w.occurrence_count, o.reference_length, 1::smallint
                    ) AS c
                    WHERE w.org_id = v_org_id
                ) AS e;
                SELECT sum(s.sign), sum(s.sign * s.occurrence_count) INTO v_chunk_count, v_occurrence_count
                FROM (
                    SELECT -1 AS sign, w.occurrence_count FROM written AS w WHERE w.org_id = v_org_id AND w.searchable
                    UNION ALL
                    SELECT 1, w.occurrence_count FROM other AS w WHERE w.org_id = v_org_id AND w.searchable
                ) AS s;
                -- without what the update did not change
                SELECT array_agg(n.lexeme), array_agg(n.entry), array_agg(n.sign) INTO v_lexemes, v_entries, v_signs
                FROM (
                    SELECT e.lexeme, e.entry, sum(e.sign)::smallint AS sign
                    FROM unnest(v_lexemes, v_entries, v_signs) AS e (lexeme, entry, sign)
                    GROUP BY e.lexeme, e.entry
                    HAVING sum(e.sign) <> 0
                ) AS n;
            ELSE
                SELECT array_agg(c.lexeme), array_agg(c.entry), array_agg(c.sign) INTO v_lexemes, v_entries, v_signs
                FROM written AS w
                INNER JOIN kbsearch.organizations AS o ON o.id = w.org_id
                CROSS JOIN LATERAL kbsearch.list_kb_chunk_entries_v1(
                    w.id, w.searchable, w.lexemes, w.term_counts, w.occurrence_count, o.reference_length, v_sign
                ) AS c
                WHERE w.org_id = v_org_id;
                SELECT v_sign * count(*), v_sign * coalesce(sum(w.occurrence_count), 0) INTO v_chunk_count, v_occurrence_count
                FROM written AS w
                WHERE w.org_id = v_org_id AND w.searchable;
            END IF;
            IF v_lexemes IS NOT NULL OR coalesce(v_chunk_count, 0) <> 0 OR coalesce(v_occurrence_count, 0) <> 0 THEN
                PERFORM kbsearch.write_kb_entries_v1(
                    v_org_id, coalesce(v_lexemes, '{}'), coalesce(v_entries, '{}'), coalesce(v_signs, '{}'),
                    coalesce(v_chunk_count, 0), coalesce(v_occurrence_count, 0)
                );
            END IF;
        ELSE
            v_segment := nextval('kbsearch.kb_segment_seq');
            WITH words AS (
                SELECT e.lexeme COLLATE "C" AS lexeme, array_agg(e.entry) AS entries, max(e.entry & 4095) AS max_impact
                FROM (
                    SELECT c.lexeme, c.entry
                    FROM written AS w
                    INNER JOIN kbsearch.organizations AS o ON o.id = w.org_id
                    CROSS JOIN LATERAL kbsearch.list_kb_chunk_entries_v1(
                        w.id, w.searchable, w.lexemes, w.term_counts, w.occurrence_count, o.reference_length, v_sign
                    ) AS c
                    WHERE w.org_id = v_org_id
                    OFFSET 0
                ) AS e
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
            )
            INSERT INTO kbsearch.kb_postings (org_id, lexeme, first_chunk_id, segment_id, sign, max_impact, entry_count, entries)
            SELECT
                v_org_id, b.lexeme, b.entries[1] >> 12, v_segment, v_sign, b.max_impact, cardinality(b.entries), b.entries
            FROM blocks AS b
            ORDER BY b.lexeme, b.entries[1];
            INSERT INTO kbsearch.kb_corpus_stats (org_id, segment_id, chunk_count, occurrence_count)
            SELECT v_org_id, v_segment, v_sign * count(*), v_sign * sum(w.occurrence_count)
            FROM written AS w
            WHERE w.org_id = v_org_id AND w.searchable
            HAVING count(*) > 0;
        END IF;
    END LOOP;
    PERFORM set_config('kbsearch.acting_org_id', v_acting, true);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_chunks_written_v1() IS
'Trigger, after insert, update or delete of chunks, once a statement: adds the entries of the written rows, of sign TG_ARGV[0], to the postings and statistics of their organisations.';
