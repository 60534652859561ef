CREATE FUNCTION kbsearch.count_kb_documents_v1(p_org_id bigint, p_lexemes text []) RETURNS TABLE (lexeme text, document_frequency bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT p.lexeme, sum(p.sign * p.entry_count)::bigint
    FROM kbsearch.kb_postings AS p
    WHERE p.org_id = p_org_id AND p.lexeme = ANY (p_lexemes)
    GROUP BY p.lexeme;
END;
COMMENT ON FUNCTION kbsearch.count_kb_documents_v1(bigint, text []) IS
'Document frequencies: for each of the lexemes that the organisation''s searchable chunks have or had, the number of chunks with it.';
