CREATE FUNCTION kbsearch.list_kb_entries_v1(p_org_id bigint) RETURNS TABLE (lexeme text, entry bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT t.lexeme, (c.id << 12) | kbsearch.bm25_impact_v1(t.term_count, c.occurrence_count, o.reference_length)
    FROM kbsearch.kb_article_chunks AS c
    INNER JOIN kbsearch.organizations AS o ON o.id = c.org_id
    CROSS JOIN LATERAL unnest(c.lexemes, c.term_counts) AS t (lexeme, term_count)
    WHERE c.org_id = p_org_id AND c.searchable;
END;
COMMENT ON FUNCTION kbsearch.list_kb_entries_v1(bigint) IS
'The entries that an organisation''s postings must add up to, one row each: lexeme and chunk_id << 12 | impact.';
