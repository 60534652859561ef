-- Each statement sees what has been committed until then. A chunk written after the known changes stands in kb_keyword_changes, and is left out.
CREATE FUNCTION kbsearch.build_kb_keyword_blocks_v1(p_org_id bigint, p_known bigint []) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET jit = off
AS $$
DECLARE
    v_chunk_count bigint;
    v_words record;
BEGIN
    DELETE FROM kbsearch.kb_keyword_impacts AS i WHERE i.org_id = p_org_id;
    DELETE FROM kbsearch.kb_keyword_blocks AS b WHERE b.org_id = p_org_id;
    DELETE FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = p_org_id AND g.segment_id = ANY (p_known);
    INSERT INTO kbsearch.kb_keyword_blocks (org_id, block_no, chunk_ids)
    SELECT p_org_id, div(c.n, 1900), array_agg(c.id ORDER BY c.id)
    FROM (
        SELECT s.id, row_number() OVER (ORDER BY s.id) - 1 AS n
        FROM kbsearch.kb_article_chunks AS s
        WHERE s.org_id = p_org_id AND s.searchable
    ) AS c
    GROUP BY div(c.n, 1900);
    v_chunk_count := (SELECT sum(s.chunk_count) FROM kbsearch.kb_corpus_stats AS s WHERE s.org_id = p_org_id);
    FOR v_words IN
        SELECT array_agg(s.lexeme) AS lexemes, array_agg(kbsearch.kb_idf_v1(v_chunk_count, s.entry_count)::double precision) AS idfs
        FROM (
            SELECT w.lexeme, w.entry_count, div(sum(w.entry_count) OVER (ORDER BY w.lexeme), 2000000) AS slice
            FROM (
                SELECT p.lexeme, sum(p.sign * p.entry_count) AS entry_count
                FROM kbsearch.kb_postings AS p
                WHERE p.org_id = p_org_id
                GROUP BY p.lexeme
            ) AS w
            WHERE 200 * w.entry_count >= v_chunk_count
        ) AS s
        GROUP BY s.slice
        ORDER BY s.slice
    LOOP
        PERFORM kbsearch.insert_kb_keyword_impacts_v1(p_org_id, v_words.lexemes, v_words.idfs);
    END LOOP;
    RETURN (SELECT count(*) FROM kbsearch.kb_keyword_blocks AS b WHERE b.org_id = p_org_id);
END
$$;
COMMENT ON FUNCTION kbsearch.build_kb_keyword_blocks_v1(bigint, bigint []) IS
'Makes an organisation''s blocks anew from its postings, in which nothing of the changes p_known (begin_kb_keyword_blocks_v1) is still to be netted; returns their number. The caller holds the maintenance lock.';
