CREATE FUNCTION kbsearch.analyze_kb_question_v1(
    p_query_text text, p_configurations regconfig [], p_tags text [], p_named regconfig, p_deadline timestamptz, p_budget integer,
    OUT languages regconfig [], OUT lexemes text [], OUT term_counts bigint [], OUT forms text [], OUT corpora integer [], OUT reason text,
    OUT operators jsonb, OUT operator_count integer, OUT ignored text []
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_question record;
    v_reasons text[];
BEGIN
    operators := '[]';
    FOR i IN 1 .. cardinality(p_configurations) LOOP
        IF clock_timestamp() > p_deadline THEN
            PERFORM kbsearch.refuse_kb_overtime_v1(p_budget, 'analysis');
        END IF;
        v_question := kbsearch.parse_kb_query_v1(p_query_text, p_configurations[i]);
        IF p_tags[i] <> '' THEN
            v_question.lexemes := ARRAY(SELECT u.lexeme || p_tags[i] FROM unnest(v_question.lexemes) WITH ORDINALITY AS u (lexeme, n) ORDER BY u.n);
        END IF;
        IF p_named IS NULL OR p_named = p_configurations[i] THEN
            languages := languages || p_configurations[i];
            lexemes := lexemes || v_question.lexemes;
            term_counts := term_counts || v_question.term_counts;
            forms := forms || v_question.forms;
            corpora := corpora || array_fill(i, ARRAY[cardinality(v_question.lexemes)]);
            v_reasons := v_reasons || v_question.reason;
        END IF;
        ignored := v_question.ignored;
        operator_count := jsonb_array_length(v_question.operators);
        IF operator_count > 0 THEN
            -- they hold in every language, also where one is named
            operators := operators || (SELECT jsonb_agg(o.element || jsonb_build_object('corpus', i)) FROM jsonb_array_elements(v_question.operators) AS o (element));
            IF operator_count > 100 THEN
                RETURN;
            END IF;
        END IF;
    END LOOP;
    reason := CASE WHEN cardinality(lexemes) = 0 THEN v_reasons[1] END;
END
$$;
COMMENT ON FUNCTION kbsearch.analyze_kb_question_v1(text, regconfig [], text [], regconfig, timestamptz, integer) IS
'A question analysed in several languages, each with its tag (retrieve/count_kb_languages_v1), or its words in p_named alone: the languages of the words; lexemes with their tags, term_counts, forms and corpora (place of the language) in parallel; reason why there are none; operators of all languages, corpus being the place of the language; how many there are in one language; those ignored. KBTMO after p_deadline, that of a search with p_budget milliseconds; NULL: none.';
