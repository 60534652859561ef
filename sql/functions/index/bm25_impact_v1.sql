-- BM25 (Robertson and Zaragoza 2009) with k1 = 1.2 and b = 0.75, in integers, so that no rounding depends on a platform:
-- 1000 * tf * (k1 + 1) / (tf + k1 * (1 - b + b * dl / L)), numerator and denominator scaled by 20 L, rounded half up.
CREATE FUNCTION kbsearch.bm25_impact_v1(p_term_count bigint, p_length bigint, p_reference_length bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        (44000 * p_term_count * p_reference_length + (10 * p_term_count * p_reference_length + 3 * p_reference_length + 9 * p_length))
        / (2 * (10 * p_term_count * p_reference_length + 3 * p_reference_length + 9 * p_length));
END;
COMMENT ON FUNCTION kbsearch.bm25_impact_v1(bigint, bigint, bigint) IS
'Impact of a lexeme in a chunk, 0 … 2200 (thousandths): BM25 without idf, k1 1.2, b 0.75 (Robertson and Zaragoza 2009). p_term_count: weighted occurrences, 1 … 255; p_length: occurrences in the chunk; p_reference_length: the organisation''s, in occurrences.';
