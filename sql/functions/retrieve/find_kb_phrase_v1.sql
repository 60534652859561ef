CREATE FUNCTION kbsearch.find_kb_phrase_v1(p_org_id bigint, p_language regconfig, p_words text, p_lexemes text []) RETURNS TABLE (article_id bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT DISTINCT c.article_id
    FROM kbsearch.kb_article_chunks AS c
    WHERE
        c.org_id = p_org_id AND c.searchable AND c.language = p_language AND position(p_words IN c.phrase_text) > 0
        AND (
            cardinality(p_lexemes) = 0
            OR c.id IN (
                SELECT holder.chunk_id
                FROM (
                    SELECT hit.entry >> 12 AS chunk_id, hit.lexeme
                    FROM (
                        SELECT unnest(p.entries) AS entry, p.sign, p.lexeme
                        FROM kbsearch.kb_postings AS p
                        WHERE p.org_id = p_org_id AND p.lexeme = ANY (p_lexemes)
                    ) AS hit
                    GROUP BY 1, 2
                    HAVING sum(hit.sign) > 0
                ) AS holder
                GROUP BY holder.chunk_id
                HAVING count(*) = cardinality(p_lexemes)
            )
        );
END;
COMMENT ON FUNCTION kbsearch.find_kb_phrase_v1(bigint, regconfig, text, text []) IS
'Articles with a searchable chunk of the language whose word sequence (title, heading or content) contains p_words, a phrase as in phrase_text. p_lexemes: its distinct lexemes, by which chunks are found; empty: all chunks are read.';
