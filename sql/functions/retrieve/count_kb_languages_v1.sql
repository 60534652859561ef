-- A chunk of another language than the organisation's has that language's tag (unit separator and name) as a lexeme of its own, and behind each of its
-- lexemes. So the postings know which languages are in use and how many chunks each has, and a lexeme belongs to one language.
CREATE FUNCTION kbsearch.count_kb_languages_v1(p_org_id bigint) RETURNS TABLE (tag text, chunk_count bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT p.lexeme, sum(p.sign * p.entry_count)::bigint
    FROM kbsearch.kb_postings AS p
    WHERE p.org_id = p_org_id AND p.lexeme >= chr(31) AND p.lexeme < ' '
    GROUP BY p.lexeme
    HAVING sum(p.sign * p.entry_count) > 0;
END;
COMMENT ON FUNCTION kbsearch.count_kb_languages_v1(bigint) IS
'The tags of the languages of an organisation''s searchable chunks that are not the organisation''s own, and how many chunks are of each.';
