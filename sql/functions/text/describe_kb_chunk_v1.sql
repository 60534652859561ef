-- Says of a whole chunk what analyze_kb_text_v1 says of its words, and is what writers wait for most. Nine in ten words have no joiner and stand between
-- spaces: for these it is enough to cut there and to ask the dictionary. The few words with a joiner are taken one by one. Texts in scripts without
-- spaces, and those that are mostly joined words, are analysed as questions are; a test holds the ways to the same.
-- PL/pgSQL for its plan cache: planning the analysis costs more than running it on a short text, and its plan does not depend on the text. No step is
-- quadratic in the length of the text. Every SET costs two microseconds a chunk. replace() costs a fifth of what a regular expression does.
-- unnest() as an item of a SELECT hands over one element after the other, in their order; in FROM it would store them all first.
CREATE FUNCTION kbsearch.describe_kb_chunk_v1(
    p_title text, p_heading text, p_content text, p_language regconfig, p_tag text,
    OUT lexemes text [], OUT term_counts smallint [], OUT occurrence_count integer, OUT phrase_text text
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET standard_conforming_strings = on
AS $$
DECLARE
    c_joiners CONSTANT text := '-_./@:+#&';
    -- between the fields: it separates words, so no word has it
    c_border CONSTANT text := chr(1);
    v_given CONSTANT text[] := ARRAY[p_title, p_heading, p_content];
    v_field text COLLATE "C";
    v_text text COLLATE "C" := '';
    v_has_title boolean := false;
    v_is_ascii boolean;
    v_is_unspaced boolean;
    v_ascii regdictionary[];
    v_other regdictionary[];
    v_lexemes text[];
    v_words text[];
    v_joined text[];
    v_places integer[];
    v_signed text[];
    v_signed_places integer[];
    v_title_size integer := 0;
    v_title_lexemes text[] := '{}';
    v_form text COLLATE "C";
    v_parts text[];
    v_part text COLLATE "C";
    v_is_compound boolean;
    v_lexeme text;
    v_added text[];
    v_more text[] := '{}';
    v_found record;
BEGIN
    FOR i IN 1 .. 3 LOOP
        CONTINUE WHEN v_given[i] IS NULL;
        v_field := CASE WHEN octet_length(v_given[i]) = char_length(v_given[i]) THEN lower(v_given[i] COLLATE "C") ELSE kbsearch.fold_kb_text_v1(v_given[i]) END;
        IF v_field ~ '[^ a-z0-9]' THEN
            v_field := replace(replace(replace(replace(replace(replace(replace(replace(replace(v_field, chr(1), ' '), chr(9), ' '), chr(10), ' '), chr(13), ' '), chr(92), ' '), '!', ' '), '"', ' '), '$', ' '), '%', ' ');
            v_field := replace(replace(replace(replace(replace(replace(replace(replace(replace(v_field, '''', ' '), '(', ' '), ')', ' '), '*', ' '), ',', ' '), ';', ' '), '<', ' '), '=', ' '), '>', ' ');
            v_field := replace(replace(replace(replace(replace(replace(replace(replace(replace(v_field, '?', ' '), '[', ' '), ']', ' '), '^', ' '), '`', ' '), '{', ' '), '|', ' '), '}', ' '), '~', ' ');
            -- a full stop is by far the most frequent joiner at the end of a word
            v_field := replace(v_field, '. ', ' ');
            IF octet_length(v_field) <> char_length(v_field) AND v_field ~ '[\u007F-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF]' THEN
                v_field := regexp_replace(v_field, '[\u0001-\u0022\u0024\u0025\u0027-\u002A\u002C\u003B-\u003F\u005B-\u005E\u0060\u007B-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF]+', ' ', 'g');
            END IF;
        END IF;
        CONTINUE WHEN v_field !~ '[^- _./@:+#&\u0002-\u001F\u007F]';
        v_has_title := v_has_title OR i = 1;
        v_text := CASE WHEN v_text = '' THEN v_field ELSE v_text || ' ' || c_border || ' ' || v_field END;
    END LOOP;
    v_is_ascii := octet_length(v_text) = char_length(v_text);
    v_is_unspaced := NOT v_is_ascii AND v_text ~ '[\u0E00-\u0EFF\u1000-\u109F\u1100-\u11FF\u1780-\u17FF\u2E80-\u2FDF\u3005-\u3007\u3021-\u3029\u3031-\u303C\u3040-\u30FA\u30FC-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uA960-\uA97F\uAC00-\uD7FF\uF900-\uFAFF\uFF66-\uFF9F\U0001B000-\U0001B16F\U00020000-\U0003FFFF]';
    IF NOT v_is_unspaced THEN
        -- one dictionary for words in ASCII and one for others is all that most configurations have; the next is asked where one knows nothing
        SELECT
            array_agg(map.mapdict::regdictionary ORDER BY map.mapseqno) FILTER (WHERE map.maptokentype = 1),
            array_agg(map.mapdict::regdictionary ORDER BY map.mapseqno) FILTER (WHERE map.maptokentype = 2)
        INTO v_ascii, v_other
        FROM pg_ts_config_map AS map
        WHERE map.mapcfg = p_language AND map.maptokentype IN (1, 2);
        IF v_text !~ '[^ a-z0-9\u0001]' THEN
            SELECT array_agg(w.lexeme), array_agg(coalesce(w.lexeme, w.form)), count(w.lexeme)
            INTO v_lexemes, v_words, occurrence_count
            FROM (
                SELECT t.form, CASE
                    WHEN t.form <> c_border
                        THEN (coalesce(ts_lexize(v_ascii[1], t.form), ts_lexize(v_ascii[2], t.form), ts_lexize(v_ascii[3], t.form), ts_lexize(v_ascii[4], t.form)))[1]
                END AS lexeme
                FROM (
                    SELECT CASE WHEN octet_length(s.form) > 64 THEN left(s.form, 64) ELSE s.form END AS form
                    FROM (SELECT unnest(string_to_array(v_text, ' ')) AS form) AS s
                    WHERE s.form <> ''
                ) AS t
                OFFSET 0
            ) AS w;
        ELSE
            SELECT
                array_agg(w.lexeme), array_agg(coalesce(w.lexeme, w.form)), count(w.lexeme),
                array_agg(w.form) FILTER (WHERE w.is_joined), array_positions(array_agg(w.is_joined), true)
            INTO v_lexemes, v_words, occurrence_count, v_joined, v_places
            FROM (
                SELECT t.form, t.is_joined, CASE
                    WHEN t.is_joined OR t.form = c_border THEN NULL
                    WHEN v_is_ascii OR octet_length(t.form) = char_length(t.form)
                        THEN (coalesce(ts_lexize(v_ascii[1], t.form), ts_lexize(v_ascii[2], t.form), ts_lexize(v_ascii[3], t.form), ts_lexize(v_ascii[4], t.form)))[1]
                    ELSE (coalesce(ts_lexize(v_other[1], t.form), ts_lexize(v_other[2], t.form), ts_lexize(v_other[3], t.form), ts_lexize(v_other[4], t.form)))[1]
                END AS lexeme
                FROM (
                    SELECT u.form, u.form ~ '[-_./@:+#&\u0002-\u001F\u007F]' OR octet_length(u.form) > 64 AS is_joined
                    FROM (SELECT unnest(string_to_array(v_text, ' ')) AS form) AS u
                    WHERE u.form <> ''
                    OFFSET 0
                ) AS t
                OFFSET 0
            ) AS w;
        END IF;
    END IF;
    IF v_is_unspaced OR cardinality(v_joined) > 64 THEN
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
    ELSE
        IF v_has_title THEN
            v_title_size := coalesce(array_position(v_words, c_border) - 1, cardinality(v_words));
            v_title_lexemes := v_lexemes[:v_title_size];
        END IF;
        FOR i IN 1 .. coalesce(cardinality(v_joined), 0) LOOP
            v_form := ltrim(v_joined[i], c_joiners);
            v_words[v_places[i]] := NULL;
            IF v_form ~ '[+#\u0002-\u001F\u007F]' THEN
                -- c++ and the like
                v_signed := v_signed || v_joined[i];
                v_signed_places := v_signed_places || v_places[i];
                CONTINUE;
            END IF;
            v_form := rtrim(v_form, c_joiners);
            v_parts := string_to_array(translate(v_form, c_joiners, '         '), ' ');
            v_is_compound := cardinality(v_parts) > 1;
            v_added := CASE WHEN v_is_compound AND char_length(v_form) <= 64 THEN ARRAY[v_form::text] END;
            FOREACH v_part IN ARRAY v_parts LOOP
                CONTINUE WHEN v_part = '';
                v_form := left(v_part, 64);
                v_lexeme := (CASE
                    WHEN octet_length(v_form) = char_length(v_form)
                        THEN coalesce(ts_lexize(v_ascii[1], v_form), ts_lexize(v_ascii[2], v_form), ts_lexize(v_ascii[3], v_form), ts_lexize(v_ascii[4], v_form))
                    ELSE coalesce(ts_lexize(v_other[1], v_form), ts_lexize(v_other[2], v_form), ts_lexize(v_other[3], v_form), ts_lexize(v_other[4], v_form))
                END)[1];
                v_words[v_places[i]] := concat_ws(' ', v_words[v_places[i]], coalesce(v_lexeme, v_form));
                v_added := v_added || v_lexeme;
                occurrence_count := occurrence_count + (v_lexeme IS NOT NULL)::integer;
                IF v_is_compound AND v_part ~ '[0-9]' AND v_part ~ '[^0-9]' THEN
                    v_added := v_added || ARRAY(
                        SELECT (CASE
                            WHEN octet_length(p.form) = char_length(p.form)
                                THEN coalesce(ts_lexize(v_ascii[1], p.form), ts_lexize(v_ascii[2], p.form), ts_lexize(v_ascii[3], p.form), ts_lexize(v_ascii[4], p.form))
                            ELSE coalesce(ts_lexize(v_other[1], p.form), ts_lexize(v_other[2], p.form), ts_lexize(v_other[3], p.form), ts_lexize(v_other[4], p.form))
                        END)[1]
                        FROM (SELECT left(m.hit[1], 64) AS form FROM regexp_matches(v_part, '[0-9]+|[^0-9]+', 'g') AS m (hit)) AS p
                    );
                END IF;
            END LOOP;
            v_more := v_more || v_added;
            IF v_places[i] <= v_title_size THEN
                v_title_lexemes := v_title_lexemes || v_added;
            END IF;
        END LOOP;
        IF v_signed IS NOT NULL THEN
            FOR v_found IN
                SELECT
                    a.field, string_agg(coalesce(a.lexeme, a.form), ' ' ORDER BY a.n, a.part) FILTER (WHERE a.in_phrase) AS words,
                    array_agg(a.lexeme) AS lexemes, count(a.lexeme) FILTER (WHERE a.in_phrase) AS occurrence_count
                FROM kbsearch.analyze_kb_text_v1(v_signed, p_language) AS a
                GROUP BY a.field
            LOOP
                v_words[v_signed_places[v_found.field]] := v_found.words;
                v_more := v_more || v_found.lexemes;
                IF v_signed_places[v_found.field] <= v_title_size THEN
                    v_title_lexemes := v_title_lexemes || v_found.lexemes;
                END IF;
                occurrence_count := occurrence_count + v_found.occurrence_count;
            END LOOP;
        END IF;
        -- a word of the title counts three times
        SELECT coalesce(array_agg(m.lexeme), '{}'), coalesce(array_agg(m.term_count), '{}')
        INTO lexemes, term_counts
        FROM (
            SELECT u.lexeme, least(255, count(*))::smallint AS term_count
            FROM (SELECT unnest(v_lexemes || v_more || v_title_lexemes || v_title_lexemes) COLLATE "C" AS lexeme) AS u
            WHERE u.lexeme IS NOT NULL
            GROUP BY u.lexeme
            ORDER BY u.lexeme ASC
        ) AS m;
        occurrence_count := coalesce(occurrence_count, 0);
        phrase_text := coalesce(' ' || replace(array_to_string(v_words, ' '), c_border, chr(10)) || ' ', '');
    END IF;
    IF p_tag <> '' THEN
        -- the separator in a tag sorts before every character of a lexeme, so the order stays
        lexemes := p_tag || ARRAY(SELECT u.lexeme || p_tag FROM unnest(lexemes) WITH ORDINALITY AS u (lexeme, n) ORDER BY u.n);
        term_counts := 1::smallint || term_counts;
    END IF;
END
$$;
COMMENT ON FUNCTION kbsearch.describe_kb_chunk_v1(text, text, text, regconfig, text) IS
'What a chunk''s postings are made of: distinct lexemes in "C" order; term_counts, for each the occurrences in title (3 times), heading and content, at most 255; occurrence_count, the chunk''s length in words that are no stop words (the forms that a compound adds do not count); phrase_text, the words of each field in order, stop words included, between spaces. p_tag: empty for the organisation''s language; the tag of another is a lexeme of the chunk and stands behind each of the others.';
