-- Blocks are ascending, so a chunk's entries are found by halving (width_bucket counts the elements up to a value), and blocks between the chunks are
-- passed over. The chunks come as one value of a subquery: an array of a variable would be copied for every block.
CREATE FUNCTION kbsearch.look_up_kb_keyword_v1(
    p_org_id bigint, p_lexemes text [], p_weights double precision [], p_counts_terms boolean, p_chunk_ids bigint []
) RETURNS TABLE (chunk_id bigint, raw double precision)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        found.chunk_id,
        sum(CASE WHEN p_counts_terms THEN found.weight ELSE found.weight * (found.entry & 4095)::double precision END)
    FROM (
        SELECT
            wanted.chunk_id,
            wanted.sign,
            wanted.weight,
            unnest(
                wanted.entries[
                    width_bucket((wanted.chunk_id << 12) - 1, wanted.entries) + 1:width_bucket((wanted.chunk_id << 12) | 4095, wanted.entries)
                ]
            ) AS entry
        FROM (
            SELECT b.entries, b.sign, b.weight, unnest(b.ids[b.first_place + 1:b.last_place]) AS chunk_id
            FROM (
                SELECT
                    p.entries,
                    p.sign,
                    p.weight,
                    given.ids,
                    width_bucket(p.first_chunk_id - 1, given.ids) AS first_place,
                    width_bucket(p.entries[p.entry_count] >> 12, given.ids) AS last_place
                FROM (SELECT array_agg(u.id ORDER BY u.id) AS ids FROM unnest(p_chunk_ids) AS u (id) OFFSET 0) AS given
                CROSS JOIN LATERAL (
                    SELECT k.entries, k.sign, k.sign * w.weight AS weight, k.first_chunk_id, k.entry_count
                    FROM kbsearch.kb_postings AS k
                    INNER JOIN unnest(p_lexemes, p_weights) AS w (lexeme, weight) ON w.lexeme = k.lexeme
                    WHERE k.org_id = p_org_id AND k.lexeme = ANY (p_lexemes)
                    OFFSET 0
                ) AS p
                OFFSET 0
            ) AS b
            WHERE b.first_place < b.last_place
        ) AS wanted
    ) AS found
    GROUP BY found.chunk_id
    HAVING sum(found.sign) > 0;
END;
COMMENT ON FUNCTION kbsearch.look_up_kb_keyword_v1(bigint, text [], double precision [], boolean, bigint []) IS
'The rows of match_kb_keyword_v1 of the given chunks, without reading what the lexemes'' other chunks have. p_chunk_ids: different ones, in any order.';
