CREATE FUNCTION kbsearch.list_kb_entries_v1(p_org_id bigint) RETURNS TABLE (lexeme text, entry bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT e.lexeme, e.entry
    FROM kbsearch.kb_article_chunks AS c
    INNER JOIN kbsearch.organizations AS o ON o.id = c.org_id
    CROSS JOIN LATERAL kbsearch.list_kb_chunk_entries_v1(
        c.id, c.searchable, c.lexemes, c.term_counts, c.occurrence_count, o.reference_length, 1::smallint
    ) AS e
    WHERE c.org_id = p_org_id;
END;
COMMENT ON FUNCTION kbsearch.list_kb_entries_v1(bigint) IS
'The entries that an organisation''s postings must add up to, one row each: lexeme and chunk_id << 12 | impact.';
