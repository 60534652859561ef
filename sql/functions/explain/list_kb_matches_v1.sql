CREATE FUNCTION kbsearch.list_kb_matches_v1(p_plan kbsearch.kb_search_plan, p_chunk_id bigint) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(jsonb_agg(
        jsonb_build_object(
            'lexeme', split_part(k.lexeme, chr(31), 1),
            'language', kbsearch.name_kb_language_v1(c.language),
            'document_frequency', q.document_frequency,
            'question_count', q.term_count,
            'idf', kbsearch.kb_idf_v1((p_plan).chunk_counts[q.corpus], q.document_frequency),
            'impact', i.impact,
            'share', (p_plan).term_weights[k.n],
            'contribution', (p_plan).term_weights[k.n] * CASE WHEN (p_plan).counts_terms THEN 1 ELSE i.impact END
        ) ORDER BY k.lexeme
    ), '[]')
    FROM kbsearch.kb_article_chunks AS c
    INNER JOIN kbsearch.organizations AS o ON o.id = c.org_id
    CROSS JOIN LATERAL unnest(c.lexemes, c.term_counts) AS t (lexeme, term_count)
    INNER JOIN LATERAL unnest((p_plan).known_lexemes) WITH ORDINALITY AS k (lexeme, n) ON k.lexeme = t.lexeme
    INNER JOIN LATERAL unnest((p_plan).lexemes, (p_plan).document_frequencies, (p_plan).term_counts, (p_plan).corpora)
        AS q (lexeme, document_frequency, term_count, corpus) ON q.lexeme = k.lexeme
    CROSS JOIN LATERAL (SELECT kbsearch.bm25_impact_v1(t.term_count, c.occurrence_count, o.reference_length) AS impact) AS i
    WHERE c.org_id = (p_plan).org_id AND c.id = p_chunk_id AND (p_plan).uses_keyword;
END;
COMMENT ON FUNCTION kbsearch.list_kb_matches_v1(kbsearch.kb_search_plan, bigint) IS
'The words of a question that a chunk has, an array of objects in the order of the lexemes: lexeme, language, document_frequency, question_count, idf (thousandths), impact (thousandths, 0 … 2200), share (10^-12 of all that the question''s words weigh) and contribution, share * impact (or share), of which the chunk''s raw keyword score is the sum.';
