CREATE FUNCTION kbsearch.list_kb_chunk_entries_v1(
    p_chunk_id bigint, p_searchable boolean, p_lexemes text [], p_term_counts smallint [], p_length bigint, p_reference_length bigint, p_sign smallint
) RETURNS TABLE (lexeme text, entry bigint, sign smallint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT t.lexeme, (p_chunk_id << 12) | kbsearch.bm25_impact_v1(t.term_count, p_length, p_reference_length), p_sign
    FROM unnest(p_lexemes, p_term_counts) AS t (lexeme, term_count)
    WHERE p_searchable;
END;
COMMENT ON FUNCTION kbsearch.list_kb_chunk_entries_v1(bigint, boolean, text [], smallint [], bigint, bigint, smallint) IS
'The entries of one chunk, from the columns of its row alone: lexeme, chunk_id << 12 | impact, and the sign given. None where it is not searchable.';
