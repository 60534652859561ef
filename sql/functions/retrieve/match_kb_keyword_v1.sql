-- Presence is sum(sign) > 0, never score > 0. The sum is over float8 and exact: weights are whole numbers that add up to at most 10^12 and an impact is at
-- most 2,200, so every partial sum is a whole number below 2^53. Weights are joined: looking a word up in an array
-- of thousands cost more than all else, and that for every entry.
CREATE FUNCTION kbsearch.match_kb_keyword_v1(p_org_id bigint, p_lexemes text [], p_weights double precision [], p_counts_terms boolean)
RETURNS TABLE (chunk_id bigint, raw double precision)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        hit.entry >> 12,
        sum(CASE WHEN p_counts_terms THEN hit.weight ELSE hit.weight * (hit.entry & 4095)::double precision END)
    FROM (
        SELECT unnest(p.entries) AS entry, p.sign, p.sign * w.weight AS weight
        FROM kbsearch.kb_postings AS p
        INNER JOIN unnest(p_lexemes, p_weights) AS w (lexeme, weight) ON w.lexeme = p.lexeme
        WHERE p.org_id = p_org_id AND p.lexeme = ANY (p_lexemes)
    ) AS hit
    GROUP BY 1
    HAVING sum(hit.sign) > 0;
END;
COMMENT ON FUNCTION kbsearch.match_kb_keyword_v1(bigint, text [], double precision [], boolean) IS
'Keyword leg: every chunk of the organisation with one of the lexemes and its raw score, a whole number: the sum of weight * impact (BM25) or of weight (p_counts_terms).';
