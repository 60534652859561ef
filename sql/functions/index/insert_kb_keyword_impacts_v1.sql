CREATE FUNCTION kbsearch.insert_kb_keyword_impacts_v1(p_org_id bigint, p_lexemes text []) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    INSERT INTO kbsearch.kb_keyword_impacts (org_id, lexeme, block_no, dense, sparse)
    WITH slots AS MATERIALIZED (
        SELECT b.block_no, u.chunk_id, u.slot
        FROM kbsearch.kb_keyword_blocks AS b
        CROSS JOIN LATERAL unnest(b.chunk_ids) WITH ORDINALITY AS u (chunk_id, slot)
        WHERE
            b.org_id = p_org_id
            AND u.chunk_id NOT IN (SELECT unnest(g.chunk_ids) FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = p_org_id)
    )
    SELECT
        p_org_id, v.lexeme, v.block_no, CASE WHEN v.entry_count > 950 THEN v.impacts::vector (1900) END,
        CASE WHEN v.entry_count <= 950 THEN v.impacts END
    FROM (
        SELECT
            e.lexeme, s.block_no, count(*) AS entry_count,
            ('{' || string_agg(s.slot || ':' || CASE WHEN e.impact = 0 THEN '0.25' ELSE e.impact::text END, ',') || '}/1900')::sparsevec (1900) AS impacts
        FROM (
            SELECT u.lexeme, u.entry >> 12 AS chunk_id, u.entry & 4095 AS impact
            FROM (
                SELECT p.lexeme, unnest(p.entries) AS entry
                FROM kbsearch.kb_postings AS p
                WHERE p.org_id = p_org_id AND p.lexeme = ANY (p_lexemes) AND p.sign > 0
            ) AS u
        ) AS e
        INNER JOIN slots AS s ON s.chunk_id = e.chunk_id
        GROUP BY e.lexeme, s.block_no
    ) AS v;
END;
COMMENT ON FUNCTION kbsearch.insert_kb_keyword_impacts_v1(bigint, text []) IS
'The rows of kb_keyword_impacts of the given lexemes, without the chunks that kb_keyword_changes names.';
