-- Sums of float4, so near the exact ones only: at most a millionth apart for each lexeme. Multiplying a vector takes longer than all else. The place of each 1 in a block's bits is where
-- the pieces between them end.
CREATE FUNCTION kbsearch.list_kb_block_hits_v1(p_org_id bigint, p_lexemes text [], p_factors double precision [], p_step integer, p_rank bigint)
RETURNS TABLE (chunk_ids bigint [], threshold double precision)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH sums AS MATERIALIZED (
        SELECT
            i.block_no,
            sum(
                CASE
                    WHEN p_factors IS NULL THEN coalesce(i.dense, i.sparse::vector (1900))
                    ELSE coalesce(i.dense, i.sparse::vector (1900)) * w.factors
                END
            ) AS raws
        FROM (
            SELECT u.lexeme, CASE WHEN p_factors IS NOT NULL THEN array_fill(u.factor::real, ARRAY[1900])::vector (1900) END AS factors
            FROM unnest(p_lexemes, p_factors) AS u (lexeme, factor)
            OFFSET 0
        ) AS w
        INNER JOIN kbsearch.kb_keyword_impacts AS i ON i.lexeme = w.lexeme
        WHERE i.org_id = p_org_id AND i.lexeme = ANY (p_lexemes)
        GROUP BY i.block_no
    ),
    level AS MATERIALIZED (
        SELECT coalesce(
            (
                SELECT u.raw
                FROM (SELECT unnest(s.raws::real []) AS raw FROM sums AS s WHERE s.block_no % p_step = 0) AS u
                ORDER BY raw DESC
                LIMIT 1
                OFFSET p_rank
            ), 0
        ) AS raw
    ),
    hits AS (
        SELECT p.block_no, array_agg(p.slot) AS slots
        FROM (
            SELECT
                b.block_no, sum(length(t.piece) + 1) OVER (PARTITION BY b.block_no ORDER BY t.n)::integer AS slot
            FROM (
                SELECT q.block_no, q.bits::text AS bits
                FROM (
                    SELECT s.block_no, binary_quantize(s.raws - l.raws) AS bits
                    FROM sums AS s
                    CROSS JOIN (SELECT array_fill(v.raw, ARRAY[1900])::vector (1900) AS raws FROM level AS v OFFSET 0) AS l
                    OFFSET 0
                ) AS q
                WHERE bit_count(q.bits) > 0
            ) AS b
            CROSS JOIN LATERAL string_to_table(b.bits, '1') WITH ORDINALITY AS t (piece, n)
        ) AS p
        WHERE p.slot <= 1900
        GROUP BY p.block_no
    )
    SELECT
        (
            SELECT array_agg(f.chunk_id)
            FROM (
                SELECT d.chunk_ids[unnest(d.slots)] AS chunk_id
                FROM (
                    SELECT h.slots, b.chunk_ids || '{}'::bigint [] AS chunk_ids  -- detoasts once
                    FROM hits AS h
                    INNER JOIN kbsearch.kb_keyword_blocks AS b ON b.block_no = h.block_no
                    WHERE b.org_id = p_org_id
                    OFFSET 0
                ) AS d
            ) AS f
        ),
        v.raw
    FROM level AS v
    WHERE EXISTS (SELECT FROM sums);
END;
COMMENT ON FUNCTION kbsearch.list_kb_block_hits_v1(bigint, text [], double precision [], integer, bigint) IS
'By the blocks, the chunks whose sum of factor * idf * impact of the lexemes (1 * idf * impact where p_factors is NULL; a lexeme may be named several times) is above a threshold: what is at place p_rank + 1 among the chunks of every p_step-th block.';
