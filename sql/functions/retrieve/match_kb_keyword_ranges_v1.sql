-- A range at a time, whose chunks' sums stay in the processor's cache. A block is read where it meets a range, and of it what lies there, found by halving:
-- width_bucket counts the elements up to a value.
CREATE FUNCTION kbsearch.match_kb_keyword_ranges_v1(
    p_org_id bigint, p_lexemes text [], p_weights double precision [], p_counts_terms boolean, p_lows bigint [], p_width bigint
) RETURNS TABLE (chunk_id bigint, raw double precision, entry_count bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH blocks AS MATERIALIZED (
        SELECT
            p.entries, p.first_chunk_id, p.entries[p.entry_count] >> 12 AS last_chunk_id, p.sign,
            p.sign * w.weight AS weight
        FROM kbsearch.kb_postings AS p
        INNER JOIN unnest(p_lexemes, p_weights) AS w (lexeme, weight) ON w.lexeme = p.lexeme
        WHERE p.org_id = p_org_id AND p.lexeme = ANY (p_lexemes)
    )
    SELECT s.chunk_id, s.raw, s.entry_count
    FROM unnest(p_lows) AS r (low)
    CROSS JOIN LATERAL (
        SELECT
            hit.entry >> 12 AS chunk_id,
            sum(CASE WHEN p_counts_terms THEN hit.weight ELSE hit.weight * (hit.entry & 4095)::double precision END) AS raw,
            count(*) AS entry_count
        FROM (
            SELECT
                unnest(b.entries[width_bucket((r.low << 12) - 1, b.entries) + 1:width_bucket(((r.low + p_width) << 12) - 1, b.entries)]) AS entry,
                b.sign, b.weight
            FROM blocks AS b
            WHERE b.first_chunk_id < r.low + p_width AND b.last_chunk_id >= r.low
        ) AS hit
        GROUP BY 1
        HAVING sum(hit.sign) > 0
    ) AS s;
END;
COMMENT ON FUNCTION kbsearch.match_kb_keyword_ranges_v1(bigint, text [], double precision [], boolean, bigint [], bigint) IS
'The rows of match_kb_keyword_v1 whose chunk_id lies in one of the ranges p_low … p_low + p_width - 1, which may not overlap, and how many entries each chunk has.';
