-- PL/pgSQL for its plan cache: planning the analysis costs more than running it on a short text, and its plan does not depend on the text. It has no
-- join that could turn quadratic on a long text. Every SET costs two microseconds a chunk.
CREATE FUNCTION kbsearch.describe_kb_chunk_v1(
    p_title text, p_heading text, p_content text, p_language regconfig, p_tag text,
    OUT lexemes text [], OUT term_counts smallint [], OUT occurrence_count integer, OUT phrase_text text
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    WITH words AS MATERIALIZED (
        SELECT a.field, a.n, a.part, a.form, a.lexeme, a.in_phrase
        FROM kbsearch.analyze_kb_text_v1(ARRAY[p_title, p_heading, p_content], p_language) AS a
    ),
    terms AS (
        SELECT w.lexeme, least(255, count(*) + 2 * count(*) FILTER (WHERE w.field = 1))::smallint AS term_count, count(*) FILTER (WHERE w.in_phrase) AS occurrences
        FROM words AS w
        WHERE w.lexeme IS NOT NULL
        GROUP BY w.lexeme
    ),
    sequences AS (
        SELECT w.field, ' ' || string_agg(coalesce(w.lexeme, w.form), ' ' ORDER BY w.n, w.part) || ' ' AS words
        FROM words AS w
        WHERE w.in_phrase
        GROUP BY w.field
    )
    SELECT
        coalesce(t.lexemes, '{}'),
        coalesce(t.term_counts, '{}'),
        coalesce(t.occurrence_count, 0),
        coalesce((SELECT string_agg(s.words, E'\n' ORDER BY s.field) FROM sequences AS s), '')
    INTO lexemes, term_counts, occurrence_count, phrase_text
    FROM (
        SELECT
            array_agg(m.lexeme) AS lexemes,
            array_agg(m.term_count) AS term_counts,
            sum(m.occurrences)::integer AS occurrence_count
        FROM (SELECT s.lexeme, s.term_count, s.occurrences FROM terms AS s ORDER BY s.lexeme COLLATE "C" ASC) AS m
    ) AS t;
    IF p_tag <> '' THEN
        -- the separator in a tag sorts before every character of a lexeme, so the order stays
        lexemes := p_tag || ARRAY(SELECT u.lexeme || p_tag FROM unnest(lexemes) WITH ORDINALITY AS u (lexeme, n) ORDER BY u.n);
        term_counts := 1::smallint || term_counts;
    END IF;
END
$$;
COMMENT ON FUNCTION kbsearch.describe_kb_chunk_v1(text, text, text, regconfig, text) IS
'What a chunk''s postings are made of: distinct lexemes in "C" order; term_counts, for each the occurrences in title (3 times), heading and content, at most 255; occurrence_count, the chunk''s length in words that are no stop words (the forms that a compound adds do not count); phrase_text, the words of each field in order, stop words included, between spaces. p_tag: empty for the organisation''s language; the tag of another is a lexeme of the chunk and stands behind each of the others.';
