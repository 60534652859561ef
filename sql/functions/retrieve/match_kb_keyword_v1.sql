-- Presence is sum(sign) > 0, never score > 0. The sum is over float8 and exact: weights are whole numbers that add up to at most 10^12 and an impact is at
-- most 2,200, so every partial sum is a whole number below 2^53. OFFSET 0 has a block's weight looked up once and not for each of its entries.
CREATE FUNCTION kbsearch.match_kb_keyword_v1(p_org_id bigint, p_lexemes text [], p_weights double precision [], p_counts_terms boolean)
RETURNS TABLE (chunk_id bigint, raw double precision)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        hit.entry >> 12,
        sum(CASE WHEN p_counts_terms THEN hit.weight ELSE hit.weight * (hit.entry & 4095)::double precision END)
    FROM (
        SELECT unnest(b.entries) AS entry, b.sign, b.weight
        FROM (
            SELECT p.entries, p.sign, p.sign * p_weights[array_position(p_lexemes, p.lexeme)] AS weight
            FROM kbsearch.kb_postings AS p
            WHERE p.org_id = p_org_id AND p.lexeme = ANY (p_lexemes)
            OFFSET 0
        ) AS b
    ) AS hit
    GROUP BY 1
    HAVING sum(hit.sign) > 0;
END;
COMMENT ON FUNCTION kbsearch.match_kb_keyword_v1(bigint, text [], double precision [], boolean) IS
'Keyword leg: every chunk of the organisation with one of the lexemes and its raw score, a whole number: the sum of weight * impact (BM25) or of weight (p_counts_terms).';
