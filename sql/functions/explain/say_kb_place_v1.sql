CREATE FUNCTION kbsearch.say_kb_place_v1(
    p_vector_rank bigint, p_vector_part bigint, p_keyword_rank bigint, p_keyword_part bigint, p_matches jsonb, p_other_chunk_count bigint, p_tied_with bigint
) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT concat_ws(
        ' ',
        CASE
            WHEN p_vector_rank IS NULL THEN 'Found by its words alone'
            WHEN p_keyword_rank IS NULL THEN 'Found by meaning alone'
            ELSE 'Found by meaning and by words'
        END || ':',
        concat_ws(
            '; ',
            CASE WHEN p_vector_rank > 0 THEN format('meaning gives %s (place %s by meaning)', trim_scale(p_vector_part / 1e9::numeric), p_vector_rank) END,
            CASE WHEN p_keyword_rank > 0 THEN format('words give %s (place %s by words)', trim_scale(p_keyword_part / 1e9::numeric), p_keyword_rank) END,
            'words: ' || nullif((SELECT string_agg(m.match ->> 'lexeme', ', ' ORDER BY m.n) FROM jsonb_array_elements(p_matches) WITH ORDINALITY AS m (match, n)), '')
        ) || '.',
        CASE WHEN p_other_chunk_count > 0 THEN format('The best of its %s passages.', p_other_chunk_count + 1) END,
        CASE
            WHEN p_tied_with = 1 THEN 'It shares its score with 1 other; their order is by id and says nothing about relevance.'
            WHEN p_tied_with > 1 THEN format('It shares its score with %s others; their order is by id and says nothing about relevance.', p_tied_with)
        END
    );
END;
COMMENT ON FUNCTION kbsearch.say_kb_place_v1(bigint, bigint, bigint, bigint, jsonb, bigint, bigint) IS
'In words for people, why an article has its score, and whether its id had a say in its place.';
