CREATE FUNCTION kbsearch.insert_kb_keyword_impacts_v1(p_org_id bigint, p_lexemes text [], p_idfs double precision []) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    INSERT INTO kbsearch.kb_keyword_impacts (org_id, lexeme, block_no, idf, dense, sparse)
    WITH slots AS MATERIALIZED (
        SELECT b.block_no, u.chunk_id, u.slot
        FROM kbsearch.kb_keyword_blocks AS b
        CROSS JOIN LATERAL unnest(b.chunk_ids) WITH ORDINALITY AS u (chunk_id, slot)
        WHERE
            b.org_id = p_org_id
            AND u.chunk_id NOT IN (SELECT unnest(g.chunk_ids) FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = p_org_id)
    )
    SELECT
        p_org_id, v.lexeme, v.block_no, v.idf, CASE WHEN v.entry_count > 950 THEN v.impacts::vector (1900) END,
        CASE WHEN v.entry_count <= 950 THEN v.impacts END
    FROM (
        SELECT
            e.lexeme, s.block_no, e.idf, count(*) AS entry_count, ('{' || string_agg(s.slot || ':' || e.impact * e.idf, ',') || '}/1900')::sparsevec (1900) AS impacts
        FROM (
            SELECT u.lexeme, u.idf, u.entry >> 12 AS chunk_id, u.entry & 4095 AS impact
            FROM (
                SELECT p.lexeme, g.idf, unnest(p.entries) AS entry
                FROM kbsearch.kb_postings AS p
                INNER JOIN unnest(p_lexemes, p_idfs) AS g (lexeme, idf) ON g.lexeme = p.lexeme
                WHERE p.org_id = p_org_id AND p.lexeme = ANY (p_lexemes) AND p.sign > 0
            ) AS u
        ) AS e
        INNER JOIN slots AS s ON s.chunk_id = e.chunk_id
        GROUP BY e.lexeme, s.block_no, e.idf
    ) AS v;
END;
COMMENT ON FUNCTION kbsearch.insert_kb_keyword_impacts_v1(bigint, text [], double precision []) IS
'The rows of kb_keyword_impacts of the given lexemes, whose idfs are given, without the chunks that kb_keyword_changes names.';
