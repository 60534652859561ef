-- Chunks are found by the rarest words of a phrase, and by others that are not much more frequent: an entry costs a tenth of what reading a chunk's text
-- does. What decides is the text. A phrase of stop words alone is in no postings; one pass over all chunks looks for all of those.
CREATE FUNCTION kbsearch.find_kb_operators_v1(
    p_org_id bigint, p_operators jsonb, p_configurations regconfig [], p_tags text [], p_deadline timestamptz, p_budget integer
)
RETURNS TABLE (n integer, shape text, article_ids bigint [])
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET work_mem = '64MB'
SET enable_seqscan = off
SET enable_hashjoin = on
SET enable_hashagg = on
SET enable_nestloop = off
SET enable_mergejoin = off
SET max_parallel_workers_per_gather = 0
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_found_n integer[] := '{}';
    v_found_articles bigint[] := '{}';
    v_more_n integer[];
    v_more_articles bigint[];
BEGIN
    WITH elements AS MATERIALIZED (
        SELECT
            s.place, (s.element -> 'n')::integer AS n, s.element ->> 'words' AS words,
            p_configurations[(s.element -> 'corpus')::integer] AS configuration, p_tags[(s.element -> 'corpus')::integer] AS tag, s.element -> 'lexemes' AS lexemes
        FROM jsonb_array_elements(p_operators) WITH ORDINALITY AS s (element, place)
    ),
    named AS MATERIALIZED (
        SELECT e.place, (w.lexeme || e.tag) COLLATE "C" AS lexeme
        FROM elements AS e
        CROSS JOIN LATERAL jsonb_array_elements_text(e.lexemes) AS w (lexeme)
    ),
    frequencies AS MATERIALIZED (
        SELECT d.lexeme, d.document_frequency
        FROM kbsearch.count_kb_documents_v1(p_org_id, ARRAY(SELECT DISTINCT w.lexeme FROM named AS w)) AS d
        WHERE d.document_frequency > 0
    ),
    rarest AS MATERIALIZED (
        SELECT o.place, o.lexeme
        FROM (
            SELECT
                w.place, w.lexeme, f.document_frequency, min(f.document_frequency) OVER (PARTITION BY w.place) AS lowest,
                bool_and(f.lexeme IS NOT NULL) OVER (PARTITION BY w.place) AS is_known
            FROM named AS w
            LEFT JOIN frequencies AS f ON f.lexeme = w.lexeme
        ) AS o
        WHERE o.is_known AND o.document_frequency <= 16 * o.lowest
    ),
    holders AS MATERIALIZED (
        SELECT hit.lexeme, hit.entry >> 12 AS chunk_id
        FROM (
            SELECT unnest(p.entries) AS entry, p.sign, p.lexeme
            FROM kbsearch.kb_postings AS p
            WHERE p.org_id = p_org_id AND p.lexeme = ANY (ARRAY(SELECT DISTINCT r.lexeme FROM rarest AS r))
        ) AS hit
        GROUP BY hit.lexeme, chunk_id
        HAVING sum(hit.sign) > 0
    ),
    hits AS MATERIALIZED (
        SELECT r.place, h.chunk_id
        FROM rarest AS r
        INNER JOIN holders AS h ON h.lexeme = r.lexeme
        INNER JOIN (SELECT u.place, count(*) AS size FROM rarest AS u GROUP BY u.place) AS z ON z.place = r.place
        GROUP BY r.place, h.chunk_id
        HAVING count(*) = min(z.size)
    )
    SELECT array_agg(f.n), array_agg(f.article_id) INTO v_more_n, v_more_articles
    FROM (
        SELECT DISTINCT e.n, c.article_id
        FROM kbsearch.kb_article_chunks AS c
        INNER JOIN hits AS t ON t.chunk_id = c.id
        INNER JOIN elements AS e ON e.place = t.place
        WHERE
            c.org_id = p_org_id AND c.id = ANY (ARRAY(SELECT DISTINCT i.chunk_id FROM hits AS i))
            AND c.searchable AND c.language = e.configuration AND position(e.words IN c.phrase_text) > 0
    ) AS f;
    v_found_n := v_found_n || v_more_n;
    v_found_articles := v_found_articles || v_more_articles;
    IF p_operators @? '$[*] ? (@.lexemes.size() == 0)' THEN
        IF clock_timestamp() > p_deadline THEN
            PERFORM kbsearch.refuse_kb_overtime_v1(p_budget, 'phrases');
        END IF;
        SELECT array_agg(f.n), array_agg(f.article_id) INTO v_more_n, v_more_articles
        FROM (
            SELECT DISTINCT e.n, c.article_id
            FROM kbsearch.kb_article_chunks AS c
            INNER JOIN (
                SELECT (s.element -> 'n')::integer AS n, s.element ->> 'words' AS words, p_configurations[(s.element -> 'corpus')::integer] AS configuration
                FROM jsonb_array_elements(p_operators) AS s (element)
                WHERE s.element -> 'lexemes' = '[]'
                OFFSET 0
            ) AS e ON e.configuration = c.language
            WHERE c.org_id = p_org_id AND c.searchable AND position(e.words IN c.phrase_text) > 0
        ) AS f;
        v_found_n := v_found_n || v_more_n;
        v_found_articles := v_found_articles || v_more_articles;
    END IF;
    RETURN QUERY
    SELECT o.n, o.shape, coalesce(array_agg(DISTINCT f.article_id) FILTER (WHERE f.article_id IS NOT NULL), '{}')
    FROM (
        SELECT (e.element -> 'n')::integer AS n, min(e.element ->> 'shape') AS shape FROM jsonb_array_elements(p_operators) AS e (element) GROUP BY 1
    ) AS o
    LEFT JOIN unnest(v_found_n, v_found_articles) AS f (n, article_id) ON f.n = o.n
    GROUP BY o.n, o.shape
    ORDER BY o.n ASC;
END
$$;
COMMENT ON FUNCTION kbsearch.find_kb_operators_v1(bigint, jsonb, regconfig [], text [], timestamptz, integer) IS
'For each phrase and exclusion of a question (numbered n, shape phrase or exclusion; operators of analyze_kb_question_v1) the articles that have it, each by a searchable chunk in its own language whose word sequence (title, heading or content) contains it. KBTMO after p_deadline, that of a search with p_budget milliseconds; NULL: none.';
