-- One function for documents and for questions, so that they cannot drift. It parses by explicit character ranges under COLLATE "C" and not with
-- PostgreSQL's text search parser, whose idea of a letter is the database locale's. A run is a maximal string of word characters, held
-- together by joiners (- _ . / @ : + # &). Runs without a joiner, by far the most, take the short way.
CREATE FUNCTION kbsearch.analyze_kb_text_v1(p_fields text [], p_language regconfig)
RETURNS TABLE (field bigint, n bigint, part bigint, form text, lexeme text, in_phrase boolean, in_question boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH folded AS (
        -- a regular expression costs a microsecond a word, so plain text goes without; OFFSET 0: computed once, not
        -- wherever it is named
        SELECT
            plain.field,
            plain.is_mixed,
            CASE WHEN plain.is_mixed THEN regexp_replace(plain.form, '([\u0E00-\u0EFF\u1000-\u109F\u1100-\u11FF\u1780-\u17FF\u2E80-\u2FDF\u3005-\u3007\u3021-\u3029\u3031-\u303C\u3040-\u30FA\u30FC-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uA960-\uA97F\uAC00-\uD7FF\uF900-\uFAFF\uFF66-\uFF9F\U0001B000-\U0001B16F\U00020000-\U0003FFFF]+)', ' \1 ', 'g') ELSE plain.form END AS form
        FROM (
            SELECT fold.field, fold.form, octet_length(fold.form) <> char_length(fold.form) AND fold.form ~ '[\u0E00-\u0EFF\u1000-\u109F\u1100-\u11FF\u1780-\u17FF\u2E80-\u2FDF\u3005-\u3007\u3021-\u3029\u3031-\u303C\u3040-\u30FA\u30FC-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uA960-\uA97F\uAC00-\uD7FF\uF900-\uFAFF\uFF66-\uFF9F\U0001B000-\U0001B16F\U00020000-\U0003FFFF]' AS is_mixed
            FROM (
                SELECT given.field, kbsearch.fold_kb_text_v1(given.content) COLLATE "C" AS form
                FROM unnest(p_fields) WITH ORDINALITY AS given (content, field)
                WHERE given.content <> ''
                OFFSET 0
            ) AS fold
            OFFSET 0
        ) AS plain
    ),
    runs AS MATERIALIZED (
        SELECT
            run.field,
            run.n,
            run.form,
            CASE
                WHEN translate(run.form, '-_./@:+#&', '') <> run.form THEN 'compound'
                WHEN run.is_mixed AND run.form ~ '^[\u0E00-\u0EFF\u1000-\u109F\u1100-\u11FF\u1780-\u17FF\u2E80-\u2FDF\u3005-\u3007\u3021-\u3029\u3031-\u303C\u3040-\u30FA\u30FC-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uA960-\uA97F\uAC00-\uD7FF\uF900-\uFAFF\uFF66-\uFF9F\U0001B000-\U0001B16F\U00020000-\U0003FFFF]' THEN 'unspaced'
                ELSE 'word'
            END AS shape
        FROM (
            SELECT
                folded.field,
                folded.is_mixed,
                run.n,
                -- joiners at the ends join nothing, but for the signs of c++ and c#; LIKE, because a regular expression costs ten times as much
                CASE
                    WHEN run.form ~~ '%+%' OR run.form ~~ '%#%' THEN ltrim(substring(run.form FROM '^(.*[^\u0001-\u002F\u003A-\u0040\u005B-\u0060\u007B-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF][+#]*)'), '-_./@:+#&')
                    ELSE btrim(run.form, '-_./@:+#&')
                END AS form
            FROM folded
            CROSS JOIN LATERAL string_to_table(regexp_replace(folded.form, '[\u0001-\u0022\u0024\u0025\u0027-\u002A\u002C\u003B-\u003F\u005B-\u005E\u0060\u007B-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF]+', ' ', 'g'), ' ') WITH ORDINALITY AS run (form, n)
            OFFSET 0
        ) AS run
        WHERE run.form <> ''
    ),
    parts AS MATERIALIZED (
        SELECT runs.field, runs.n, part.part, part.hit[1] AS form
        FROM runs
        CROSS JOIN LATERAL regexp_matches(runs.form COLLATE "C", '[^\u0001-\u002F\u003A-\u0040\u005B-\u0060\u007B-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF]+(?:[+#]+(?![^\u0001-\u002F\u003A-\u0040\u005B-\u0060\u007B-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF]))?', 'g') WITH ORDINALITY AS part (hit, part)
        WHERE runs.shape = 'compound'
    ),
    characters AS (
        SELECT
            runs.field,
            runs.n,
            letter.part,
            letter.form,
            lead(letter.form) OVER (PARTITION BY runs.field, runs.n ORDER BY letter.part) AS next_form,
            count(*) OVER (PARTITION BY runs.field, runs.n) AS size
        FROM runs
        CROSS JOIN LATERAL string_to_table(runs.form, NULL) WITH ORDINALITY AS letter (form, part)
        WHERE runs.shape = 'unspaced'
    ),
    tokens AS (
        SELECT runs.field, runs.n, 1::bigint AS part, runs.form, true AS stem, true AS in_phrase, true AS in_question
        FROM runs
        WHERE runs.shape = 'word'
        UNION ALL
        -- a compound as a whole, when it has several parts and is no longer than an identifier
        SELECT runs.field, runs.n, 0, runs.form, false, false, true
        FROM runs
        WHERE
            runs.shape = 'compound' AND char_length(runs.form) <= 64 AND runs.form ~ '[-_./@:+#&][^\u0001-\u002F\u003A-\u0040\u005B-\u0060\u007B-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF]'
        UNION ALL
        -- its parts; a part such as c++ counts with and without its signs
        SELECT parts.field, parts.n, parts.part, parts.form, parts.form !~ '[+#]', true, true
        FROM parts
        UNION ALL
        SELECT parts.field, parts.n, parts.part, rtrim(parts.form, '+#'), true, false, true
        FROM parts
        WHERE parts.form ~ '[+#]'
        UNION ALL
        -- digits and letters of a mixed part of a document, so that ds-7604 finds ds-7604ni
        SELECT parts.field, parts.n, parts.part, piece.hit[1], true, false, false
        FROM parts
        CROSS JOIN LATERAL regexp_matches(parts.form COLLATE "C", '[0-9]+|[^0-9+#]+', 'g') AS piece (hit)
        WHERE parts.form ~ '[0-9]' AND parts.form ~ '[^0-9+#]'
        UNION ALL
        -- scripts without spaces: pairs of neighbours; single characters too, which a question uses only where it has nothing longer
        SELECT characters.field, characters.n, characters.part, characters.form, false, true, characters.size = 1
        FROM characters
        UNION ALL
        SELECT characters.field, characters.n, characters.part, characters.form || characters.next_form, false, false, true
        FROM characters
        WHERE characters.next_form IS NOT NULL
    ),
    -- one dictionary for words in ASCII and one for others is all that most configurations have; the next is asked where one knows nothing
    dictionaries AS (
        SELECT
            array_agg(map.mapdict::regdictionary ORDER BY map.mapseqno) FILTER (WHERE map.maptokentype = 1) AS ascii,
            array_agg(map.mapdict::regdictionary ORDER BY map.mapseqno) FILTER (WHERE map.maptokentype = 2) AS other
        FROM pg_catalog.pg_ts_config_map AS map
        WHERE map.mapcfg = p_language AND map.maptokentype IN (1, 2)
    )
    SELECT
        words.field,
        words.n,
        words.part,
        words.form,
        (CASE
            WHEN NOT words.stem THEN ARRAY[words.form]
            WHEN octet_length(words.form) = char_length(words.form)
                THEN coalesce(
                    ts_lexize((SELECT dictionaries.ascii[1] FROM dictionaries), words.form), ts_lexize((SELECT dictionaries.ascii[2] FROM dictionaries), words.form),
                    ts_lexize((SELECT dictionaries.ascii[3] FROM dictionaries), words.form), ts_lexize((SELECT dictionaries.ascii[4] FROM dictionaries), words.form)
                )
            ELSE coalesce(
                ts_lexize((SELECT dictionaries.other[1] FROM dictionaries), words.form), ts_lexize((SELECT dictionaries.other[2] FROM dictionaries), words.form),
                ts_lexize((SELECT dictionaries.other[3] FROM dictionaries), words.form), ts_lexize((SELECT dictionaries.other[4] FROM dictionaries), words.form)
            )
        END)[1] COLLATE "C",
        words.in_phrase,
        words.in_question
    FROM (
        SELECT tokens.field, tokens.n, tokens.part, left(tokens.form, 64) AS form, tokens.stem, tokens.in_phrase, tokens.in_question
        FROM tokens
        OFFSET 0
    ) AS words;
END;
COMMENT ON FUNCTION kbsearch.analyze_kb_text_v1(text [], regconfig) IS
'The words of the given fields, one row an occurrence: field (1 …), n and part (place of the run, place within it), form (folded, at most 64 characters), lexeme (NULL for a stop word), in_phrase (part of the plain word sequence), in_question (counts when the text is a question). Compounds count whole and by parts; scripts without spaces by single characters and pairs. Stemming: the dictionaries of the text search configuration. STABLE because those may change.';
