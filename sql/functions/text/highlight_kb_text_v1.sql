-- The text is cut into runs as the analysis cuts it, words with their joiners and stretches of scripts without spaces, and the runs that the analysis
-- of the whole text has are matched with them by their order. Where folding made or took away a run (their numbers differ), each run is analysed as
-- a field of its own, which is slower. OFFSET 0: folded once a run, not once a mark.
CREATE FUNCTION kbsearch.highlight_kb_text_v1(p_text text, p_language regconfig, p_tag text, p_lexemes text [], p_length integer) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_nestloop = off
SET jit = off
AS $$
DECLARE
    c_context CONSTANT integer := 60;
    v_text CONSTANT text := left(p_text, 16384);
    v_runs text[];
    v_starts integer[];
    v_fields text[] := ARRAY[v_text];
    v_run_count bigint;
    v_hit_runs bigint[];
    v_hit_parts bigint[];
    v_hit_sizes integer[];
    v_hit_lexemes text[];
    v_mark_starts integer[];
    v_mark_ends integer[];
    v_mark_lexemes text[];
    v_first integer;
    v_start integer := 1;
    v_end integer;
    v_at integer;
    v_mark record;
    v_html text := '';
BEGIN
    SELECT array_agg(r.run ORDER BY r.n), array_agg(r.start ORDER BY r.n) INTO v_runs, v_starts
    FROM (
        SELECT
            m.n,
            -- joiners at the ends of a word are no part of it, but for the signs of c++ and c#
            rtrim(ltrim(m.hit[2], '-_./@:+#&'), '-_./@:&') AS run,
            (1 + sum(char_length(m.hit[1] || m.hit[2])) OVER (ORDER BY m.n) - char_length(ltrim(m.hit[2], '-_./@:+#&')))::integer AS start
        FROM regexp_matches(v_text COLLATE "C", '([\u0001-\u0022\u0024\u0025\u0027-\u002A\u002C\u003B-\u003F\u005B-\u005E\u0060\u007B-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF]*)([\u0E00-\u0EFF\u1000-\u109F\u1100-\u11FF\u1780-\u17FF\u2E80-\u2FDF\u3005-\u3007\u3021-\u3029\u3031-\u303C\u3040-\u30FA\u30FC-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uA960-\uA97F\uAC00-\uD7FF\uF900-\uFAFF\uFF66-\uFF9F\U0001B000-\U0001B16F\U00020000-\U0003FFFF]+|[^\u0001-\u0022\u0024\u0025\u0027-\u002A\u002C\u003B-\u003F\u005B-\u005E\u0060\u007B-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF\u0E00-\u0EFF\u1000-\u109F\u1100-\u11FF\u1780-\u17FF\u2E80-\u2FDF\u3005-\u3007\u3021-\u3029\u3031-\u303C\u3040-\u30FA\u30FC-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uA960-\uA97F\uAC00-\uD7FF\uF900-\uFAFF\uFF66-\uFF9F\U0001B000-\U0001B16F\U00020000-\U0003FFFF]+)', 'g') WITH ORDINALITY AS m (hit, n)
    ) AS r
    WHERE r.run <> '';
    LOOP
        SELECT count(DISTINCT w.run), array_agg(w.run) FILTER (WHERE w.is_hit), array_agg(w.part) FILTER (WHERE w.is_hit),
            array_agg(w.size) FILTER (WHERE w.is_hit), array_agg(w.lexeme) FILTER (WHERE w.is_hit)
        INTO v_run_count, v_hit_runs, v_hit_parts, v_hit_sizes, v_hit_lexemes
        FROM (
            SELECT
                CASE WHEN v_fields = v_runs AND cardinality(v_runs) > 1 THEN a.field ELSE dense_rank() OVER (ORDER BY a.n) END AS run,
                a.part, char_length(a.form) AS size, a.lexeme,
                -- they are thousands where the question is long: put into a hash once
                (a.lexeme || p_tag) COLLATE "C" IN (SELECT g.lexeme FROM unnest(p_lexemes) AS g (lexeme)) AS is_hit
            FROM kbsearch.analyze_kb_text_v1(v_fields, p_language) AS a
        ) AS w;
        EXIT WHEN v_run_count = cardinality(v_runs) OR v_fields = v_runs OR v_runs IS NULL;
        v_fields := v_runs;
    END LOOP;
    -- in a script without spaces a part is a character, and a lexeme one or two; a word is marked as a whole, and so is what folding lengthened or shortened
    SELECT array_agg(k.start ORDER BY k.start, k.stop), array_agg(k.stop ORDER BY k.start, k.stop), array_agg(k.lexeme ORDER BY k.start, k.stop)
    INTO v_mark_starts, v_mark_ends, v_mark_lexemes
    FROM (
        SELECT DISTINCT
            r.start + CASE WHEN r.is_unspaced THEN h.part - 1 ELSE 0 END AS start,
            r.start + CASE WHEN r.is_unspaced THEN least(h.part - 1 + h.size, char_length(r.run)) ELSE char_length(r.run) END AS stop,
            h.lexeme
        FROM (SELECT DISTINCT g.run, g.part, g.size, g.lexeme FROM unnest(v_hit_runs, v_hit_parts, v_hit_sizes, v_hit_lexemes) AS g (run, part, size, lexeme)) AS h
        INNER JOIN (
            SELECT u.n, u.run, u.start, u.run COLLATE "C" ~ '^[\u0E00-\u0EFF\u1000-\u109F\u1100-\u11FF\u1780-\u17FF\u2E80-\u2FDF\u3005-\u3007\u3021-\u3029\u3031-\u303C\u3040-\u30FA\u30FC-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uA960-\uA97F\uAC00-\uD7FF\uF900-\uFAFF\uFF66-\uFF9F\U0001B000-\U0001B16F\U00020000-\U0003FFFF]' AND char_length(kbsearch.fold_kb_text_v1(u.run)) = char_length(u.run) AS is_unspaced
            FROM unnest(v_runs, v_starts) WITH ORDINALITY AS u (run, start, n)
            OFFSET 0
        ) AS r ON r.n = h.run
        WHERE NOT r.is_unspaced OR h.part <= char_length(r.run)
    ) AS k;
    IF char_length(p_text) > p_length AND v_mark_starts IS NOT NULL THEN
        -- the window that shows most of the question's words, the first of these
        SELECT w.start INTO v_first
        FROM (SELECT DISTINCT u.start FROM unnest(v_mark_starts[1:100]) AS u (start)) AS w
        INNER JOIN unnest(v_mark_starts[1:1000], v_mark_lexemes[1:1000]) AS m (start, lexeme) ON m.start BETWEEN w.start AND w.start + p_length - c_context - 1
        GROUP BY w.start
        ORDER BY count(DISTINCT m.lexeme) DESC, w.start ASC
        LIMIT 1;
        IF v_first > c_context THEN
            -- from a run's beginning
            SELECT min(u.start) INTO v_start
            FROM unnest(v_starts) AS u (start)
            WHERE u.start >= greatest(1, least(v_first - c_context, char_length(v_text) - p_length + 1));
        END IF;
    END IF;
    v_end := least(v_start + p_length, char_length(p_text) + 1);
    v_at := v_start;
    FOR v_mark IN
        -- marks that touch are one
        SELECT min(i.start) AS start, max(i.stop) AS stop
        FROM (
            SELECT o.start, o.stop, sum(o.is_new) OVER (ORDER BY o.start, o.stop) AS island
            FROM (
                SELECT
                    m.start, m.stop,
                    (m.start > coalesce(max(m.stop) OVER (ORDER BY m.start, m.stop ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0))::integer AS is_new
                FROM unnest(v_mark_starts, v_mark_ends) AS m (start, stop)
                WHERE m.stop > v_start AND m.start < v_end
            ) AS o
        ) AS i
        GROUP BY i.island
        ORDER BY start ASC
    LOOP
        v_html := v_html
            || kbsearch.escape_kb_html_v1(substr(p_text, v_at, greatest(0, v_mark.start - v_at)))
            || '<mark>' || kbsearch.escape_kb_html_v1(substr(p_text, greatest(v_at, v_mark.start), least(v_mark.stop, v_end) - greatest(v_at, v_mark.start))) || '</mark>';
        v_at := least(v_mark.stop, v_end);
    END LOOP;
    RETURN CASE WHEN v_start > 1 THEN chr(8230) ELSE '' END
        || v_html || kbsearch.escape_kb_html_v1(substr(p_text, v_at, v_end - v_at))
        || CASE WHEN v_end <= char_length(p_text) THEN chr(8230) ELSE '' END;
END
$$;
COMMENT ON FUNCTION kbsearch.highlight_kb_text_v1(text, regconfig, text, text [], integer) IS
'At most p_length characters of the text (and an ellipsis where it is cut) as HTML: escaped, with the words of which a lexeme in p_language, followed by p_tag, is one of p_lexemes in <mark>. The place is the one that shows most different ones, the first of these; words after 16,384 characters are not looked at.';
