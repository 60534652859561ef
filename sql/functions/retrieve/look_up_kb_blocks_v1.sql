CREATE FUNCTION kbsearch.look_up_kb_blocks_v1(p_org_id bigint, p_lexemes text [], p_weights double precision [], p_chunk_ids bigint [])
RETURNS TABLE (chunk_id bigint, raw double precision)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH placed AS MATERIALIZED (
        SELECT p.block_no, array_agg(p.chunk_id) AS chunk_ids, array_agg(p.slot) AS slots
        FROM (
            SELECT k.block_no, k.chunk_id, k.chunk_ids, width_bucket(k.chunk_id, k.chunk_ids) AS slot
            FROM (
                SELECT d.block_no, d.chunk_ids, unnest(d.ids) AS chunk_id
                FROM (
                    SELECT n.block_no, n.ids[n.first_place + 1:n.last_place] AS ids, n.chunk_ids || '{}'::bigint [] AS chunk_ids  -- detoasts once
                    FROM (
                        SELECT
                            b.block_no, b.chunk_ids, given.ids,
                            width_bucket(b.first_chunk_id - 1, given.ids) AS first_place, width_bucket(b.last_chunk_id, given.ids) AS last_place
                        FROM (SELECT array_agg(u.id ORDER BY u.id) AS ids FROM unnest(p_chunk_ids) AS u (id) OFFSET 0) AS given
                        CROSS JOIN kbsearch.kb_keyword_blocks AS b
                        WHERE b.org_id = p_org_id
                        OFFSET 0
                    ) AS n
                    WHERE n.first_place < n.last_place
                    OFFSET 0
                ) AS d
            ) AS k
        ) AS p
        WHERE p.chunk_ids[p.slot] = p.chunk_id
        GROUP BY p.block_no
    )
    SELECT f.chunk_id, sum(f.weight * round(f.impact))
    FROM (
        SELECT unnest(t.chunk_ids) AS chunk_id, t.weight, vector_norm(subvector(t.impacts, unnest(t.slots), 1)) AS impact
        FROM (
            SELECT p.chunk_ids, p.slots, w.weight, coalesce(i.dense, i.sparse::vector (1900)) AS impacts
            FROM unnest(p_lexemes, p_weights) AS w (lexeme, weight)
            CROSS JOIN placed AS p
            INNER JOIN kbsearch.kb_keyword_impacts AS i ON i.lexeme = w.lexeme AND i.block_no = p.block_no
            WHERE i.org_id = p_org_id AND i.lexeme = ANY (p_lexemes)
            OFFSET 0
        ) AS t
    ) AS f
    WHERE f.impact > 0
    GROUP BY f.chunk_id;
END;
COMMENT ON FUNCTION kbsearch.look_up_kb_blocks_v1(bigint, text [], double precision [], bigint []) IS
'The rows of match_kb_keyword_v1 of the given chunks, by the blocks: for lexemes that stand in kb_keyword_impacts, and chunks that kb_keyword_changes does not name. p_chunk_ids: different ones, in any order.';
