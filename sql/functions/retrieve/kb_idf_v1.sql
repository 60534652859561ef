-- Through numeric, so that no C library decides a digit.
CREATE FUNCTION kbsearch.kb_idf_v1(p_chunk_total bigint, p_document_frequency bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT greatest(1, round(1000 * ln(1 + (p_chunk_total - p_document_frequency + 0.5) / (p_document_frequency + 0.5))))::bigint;
END;
COMMENT ON FUNCTION kbsearch.kb_idf_v1(bigint, bigint) IS
'Inverse document frequency of BM25 in the form that is never negative (as in Lucene), in thousandths, at least 1: ln(1 + (N - df + 0.5) / (df + 0.5)).';
