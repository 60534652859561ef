-- The first field is all words of the question, those in phrases too; each phrase and each exclusion has a field of its own for its word sequence.
-- Syntax: words, "a phrase", -word, -"a phrase". A quotation mark without a partner and a minus that is not before a word mean nothing.
CREATE FUNCTION kbsearch.parse_kb_query_v1(
    p_query_text text, p_language regconfig,
    OUT lexemes text [], OUT term_counts bigint [], OUT forms text [], OUT reason text, OUT operators jsonb, OUT ignored text []
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET standard_conforming_strings = on
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
DECLARE
    v_text text;
    v_dictionaries regdictionary[];
    v_fields text[];
    v_shapes text[];
BEGIN
    operators := '[]';
    ignored := '{}';
    IF p_query_text COLLATE "C" ~ '^[A-Za-z0-9 ]*$' THEN
        -- plain words, as analyze_kb_text_v1 takes them: starting a long statement is a good part of a search of a small organisation
        v_dictionaries := ARRAY(
            SELECT m.mapdict::regdictionary FROM pg_catalog.pg_ts_config_map AS m WHERE m.mapcfg = p_language AND m.maptokentype = 1 ORDER BY m.mapseqno
        );
        SELECT
            coalesce(array_agg(t.lexeme ORDER BY t.lexeme) FILTER (WHERE t.lexeme IS NOT NULL), '{}'),
            coalesce(array_agg(t.term_count ORDER BY t.lexeme) FILTER (WHERE t.lexeme IS NOT NULL), '{}'),
            coalesce(array_agg(t.forms ORDER BY t.lexeme) FILTER (WHERE t.lexeme IS NOT NULL), '{}'),
            CASE WHEN count(*) = 0 THEN 'empty_query' WHEN count(t.lexeme) = 0 THEN 'stop_words_only' END
        INTO lexemes, term_counts, forms, reason
        FROM (
            SELECT w.lexeme, count(*) AS term_count, string_agg(w.form, ' ') AS forms
            FROM (
                SELECT
                    f.form,
                    (coalesce(
                        ts_lexize(v_dictionaries[1], f.form), ts_lexize(v_dictionaries[2], f.form), ts_lexize(v_dictionaries[3], f.form),
                        ts_lexize(v_dictionaries[4], f.form)
                    ))[1] COLLATE "C" AS lexeme
                FROM (
                    SELECT left(u.run, 64) AS form FROM string_to_table(lower(p_query_text COLLATE "C"), ' ') AS u (run) WHERE u.run <> '' OFFSET 0
                ) AS f
            ) AS w
            GROUP BY w.lexeme
        ) AS t;
        RETURN;
    END IF;
    -- a dash before a word is punctuation; the minus that excludes is the ASCII one, so dashes go before folding makes them minus signs
    v_text := translate(
        kbsearch.fold_kb_text_v1(regexp_replace(coalesce(p_query_text, ''), '(^|[[:space:]])[\u2010-\u2015\u2212]+', '\1', 'g')),
        U&'\201C\201D\201E\201F\00AB\00BB', '""""""'
    );
    IF strpos(v_text, '"') = 0 AND strpos(v_text, '-') = 0 THEN
        -- no operators: a shorter statement, because starting a long one is a good part of a search of a small organisation
        SELECT
            coalesce(array_agg(t.lexeme ORDER BY t.lexeme) FILTER (WHERE t.term_count > 0), '{}'),
            coalesce(array_agg(t.term_count ORDER BY t.lexeme) FILTER (WHERE t.term_count > 0), '{}'),
            coalesce(array_agg(t.forms ORDER BY t.lexeme) FILTER (WHERE t.term_count > 0), '{}'),
            CASE WHEN count(*) = 0 THEN 'empty_query' WHEN count(*) FILTER (WHERE t.term_count > 0) = 0 THEN 'stop_words_only' END
        INTO lexemes, term_counts, forms, reason
        FROM (
            SELECT a.lexeme, count(a.lexeme) FILTER (WHERE a.in_question) AS term_count, string_agg(a.form, ' ') FILTER (WHERE a.in_question) AS forms
            FROM kbsearch.analyze_kb_text_v1(ARRAY[v_text], p_language) AS a
            GROUP BY a.lexeme
        ) AS t;
        RETURN;
    END IF;
    WITH pieces AS MATERIALIZED (
        SELECT p.n, p.piece, CASE
            WHEN p.piece ~ '^"..*"$' THEN 'phrase'
            WHEN p.piece ~ '^-("..*"$|[^-"])' THEN 'exclusion'
            ELSE 'words'
        END AS shape
        FROM (
            SELECT m.n, m.hit[1] AS piece
            FROM regexp_matches(v_text COLLATE "C", '-?"[^"]+"|[^[:space:]"]+|"', 'g') WITH ORDINALITY AS m (hit, n)
        ) AS p
    )
    SELECT
        array_agg(f.content ORDER BY f.n), array_agg(f.shape ORDER BY f.n)
    INTO v_fields, v_shapes
    FROM (
        SELECT 0 AS n, coalesce(string_agg(p.piece, ' ' ORDER BY p.n), '') AS content, 'words' AS shape FROM pieces AS p WHERE p.shape <> 'exclusion'
        UNION ALL
        SELECT min(p.n), p.piece, p.shape FROM pieces AS p WHERE p.shape <> 'words' GROUP BY p.shape, p.piece
    ) AS f;
    IF cardinality(v_fields) > 101 THEN
        -- far too many: not worth analysing
        operators := to_jsonb(v_fields[2:]);
        lexemes := '{}';
        term_counts := '{}';
        forms := '{}';
        RETURN;
    END IF;
    WITH words AS MATERIALIZED (
        SELECT a.field, a.n, a.part, a.form, a.lexeme, a.in_phrase, a.in_question, v_shapes[a.field] AS shape
        FROM kbsearch.analyze_kb_text_v1(v_fields, p_language) AS a
    ),
    terms AS (
        SELECT w.lexeme, count(*) AS term_count, string_agg(w.form, ' ') AS forms
        FROM words AS w
        WHERE w.lexeme IS NOT NULL AND w.in_question AND w.shape = 'words'
        GROUP BY w.lexeme
    ),
    sequences AS (
        SELECT
            w.field,
            w.shape,
            ' ' || string_agg(coalesce(w.lexeme, w.form), ' ' ORDER BY w.n, w.part) || ' ' AS words,
            coalesce(array_agg(DISTINCT w.lexeme) FILTER (WHERE w.lexeme IS NOT NULL), '{}') AS lexemes
        FROM words AS w
        WHERE w.in_phrase AND w.shape <> 'words'
        GROUP BY w.field, w.shape
    )
    SELECT
        coalesce((SELECT array_agg(t.lexeme ORDER BY t.lexeme) FROM terms AS t), '{}'),
        coalesce((SELECT array_agg(t.term_count ORDER BY t.lexeme) FROM terms AS t), '{}'),
        coalesce((SELECT array_agg(t.forms ORDER BY t.lexeme) FROM terms AS t), '{}'),
        CASE
            WHEN EXISTS (SELECT 1 FROM terms) THEN NULL
            WHEN EXISTS (SELECT 1 FROM words AS w WHERE w.shape = 'words') THEN 'stop_words_only'
            WHEN EXISTS (SELECT 1 FROM words) THEN 'only_exclusions'
            ELSE 'empty_query'
        END,
        coalesce((
            SELECT jsonb_agg(jsonb_build_object('n', s.field, 'shape', s.shape, 'text', v_fields[s.field], 'words', s.words, 'lexemes', to_jsonb(s.lexemes)) ORDER BY s.field)
            FROM sequences AS s
        ), '[]'),
        coalesce((
            SELECT array_agg(f.content ORDER BY f.field)
            FROM unnest(v_fields) WITH ORDINALITY AS f (content, field)
            WHERE v_shapes[f.field] <> 'words' AND NOT EXISTS (SELECT 1 FROM sequences AS s WHERE s.field = f.field)
        ), '{}')
    INTO lexemes, term_counts, forms, reason, operators, ignored;
END
$$;
COMMENT ON FUNCTION kbsearch.parse_kb_query_v1(text, regconfig) IS
'A question''s lexemes ("C" order) with the number of times it says each, words of phrases included, and the folded words it says them by (forms, between spaces); reason: why there are none (empty_query, stop_words_only, only_exclusions); operators: phrases and exclusions, numbered (n) alike in every language, with their word sequence; ignored: operators without a word in them.';
