-- The text is cut into pieces as the analysis cuts it: words with their joiners, single characters of scripts without spaces, and what is between. Every
-- word is analysed as a field of its own and so keeps its place; a character of a script without spaces together with the next, since their pairs
-- are what is searched.
CREATE FUNCTION kbsearch.highlight_kb_text_v1(p_text text, p_language regconfig, p_tag text, p_lexemes text [], p_length integer) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
DECLARE
    c_context CONSTANT integer := 60;
    v_text CONSTANT text := left(p_text, 16384);
    v_start integer;
    v_marked text;
BEGIN
    WITH pieces AS MATERIALIZED (
        SELECT
            p.n,
            p.piece,
            p.shape,
            lead(p.piece) OVER (ORDER BY p.n) AS next_piece,
            lead(p.shape) OVER (ORDER BY p.n) AS next_shape,
            1 + coalesce(sum(char_length(p.piece)) OVER (ORDER BY p.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS start
        FROM (
            SELECT m.n, coalesce(m.hit[1], m.hit[2], m.hit[3]) AS piece, CASE WHEN m.hit[1] IS NOT NULL THEN 'gap' WHEN m.hit[2] IS NOT NULL THEN 'character' ELSE 'word' END AS shape
            FROM regexp_matches(
                v_text COLLATE "C",
                '([\u0001-\u0022\u0024\u0025\u0027-\u002A\u002C\u003B-\u003F\u005B-\u005E\u0060\u007B-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF]+)|([\u0E00-\u0EFF\u1000-\u109F\u1100-\u11FF\u1780-\u17FF\u2E80-\u2FDF\u3005-\u3007\u3021-\u3029\u3031-\u303C\u3040-\u30FA\u30FC-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uA960-\uA97F\uAC00-\uD7FF\uF900-\uFAFF\uFF66-\uFF9F\U0001B000-\U0001B16F\U00020000-\U0003FFFF])|([^\u0001-\u0022\u0024\u0025\u0027-\u002A\u002C\u003B-\u003F\u005B-\u005E\u0060\u007B-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF\u0E00-\u0EFF\u1000-\u109F\u1100-\u11FF\u1780-\u17FF\u2E80-\u2FDF\u3005-\u3007\u3021-\u3029\u3031-\u303C\u3040-\u30FA\u30FC-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uA960-\uA97F\uAC00-\uD7FF\uF900-\uFAFF\uFF66-\uFF9F\U0001B000-\U0001B16F\U00020000-\U0003FFFF]+)',
                'g'
            ) WITH ORDINALITY AS m (hit, n)
        ) AS p
    ),
    fields AS MATERIALIZED (
        SELECT
            p.n,
            p.start,
            p.piece,
            p.shape,
            p.next_shape = 'character' AS has_pair,
            CASE WHEN p.shape = 'character' AND p.next_shape = 'character' THEN p.piece || p.next_piece ELSE p.piece END AS content,
            row_number() OVER (ORDER BY p.n) AS field
        FROM pieces AS p
        WHERE p.shape <> 'gap'
    ),
    hits AS MATERIALIZED (
        SELECT f.n + CASE WHEN f.shape = 'character' AND f.has_pair THEN a.part - 1 ELSE 0 END AS n, a.lexeme, char_length(a.form) > 1 AND f.shape = 'character' AND f.has_pair AS is_pair
        FROM kbsearch.analyze_kb_text_v1(ARRAY(SELECT f.content FROM fields AS f ORDER BY f.field), p_language) AS a
        INNER JOIN fields AS f ON f.field = a.field
        WHERE a.lexeme || p_tag = ANY (p_lexemes)
    ),
    marks AS MATERIALIZED (
        SELECT h.n, h.lexeme FROM hits AS h
        UNION
        SELECT h.n + 1, h.lexeme FROM hits AS h WHERE h.is_pair
    ),
    -- the window that shows most of the question's words, the first of these
    best AS (
        SELECT w.start
        FROM (
            SELECT f.n, f.start
            FROM fields AS f
            WHERE f.n IN (SELECT m.n FROM marks AS m)
            ORDER BY f.n ASC
            LIMIT 200
        ) AS w
        INNER JOIN fields AS g ON g.start BETWEEN w.start AND w.start + p_length - c_context - 1
        INNER JOIN marks AS m ON m.n = g.n
        GROUP BY w.n, w.start
        ORDER BY count(DISTINCT m.lexeme) DESC, w.n ASC
        LIMIT 1
    ),
    placed AS (
        -- from the beginning where all fits or the beginning is near; else from a word's beginning
        SELECT CASE
            WHEN char_length(p_text) <= p_length OR b.start <= c_context THEN 1
            ELSE (SELECT min(p.start) FROM pieces AS p WHERE p.shape <> 'gap' AND p.start >= least(b.start - c_context, char_length(v_text) - p_length + 1))
        END::integer AS start
        FROM best AS b
    ),
    shown AS (
        SELECT
            p.n,
            left(p.piece, (s.start + p_length - p.start)::integer) AS piece,
            p.shape <> 'gap' AND EXISTS (SELECT FROM marks AS m WHERE m.n = p.n) AS is_marked
        FROM pieces AS p
        CROSS JOIN (SELECT coalesce((SELECT d.start FROM placed AS d), 1) AS start) AS s
        WHERE p.start >= s.start AND p.start < s.start + p_length
    )
    SELECT
        coalesce((SELECT d.start FROM placed AS d), 1),
        replace(string_agg(
            -- joiners at the ends of a word are no part of it, but for the signs of c++ and c#
            CASE WHEN t.is_marked
                THEN kbsearch.escape_kb_html_v1(left(t.piece, char_length(t.piece) - char_length(ltrim(t.piece, '-_./@:+#&'))))
                    || '<mark>' || kbsearch.escape_kb_html_v1(rtrim(ltrim(t.piece, '-_./@:+#&'), '-_./@:&')) || '</mark>'
                    || kbsearch.escape_kb_html_v1(substr(t.piece, char_length(rtrim(t.piece, '-_./@:&')) + 1))
                ELSE kbsearch.escape_kb_html_v1(t.piece)
            END, '' ORDER BY t.n
        ), '</mark><mark>', '')
    INTO v_start, v_marked
    FROM shown AS t;
    RETURN CASE WHEN v_start > 1 THEN chr(8230) ELSE '' END
        || coalesce(v_marked, '')
        || CASE WHEN v_start + p_length <= char_length(p_text) THEN chr(8230) ELSE '' END;
END
$$;
COMMENT ON FUNCTION kbsearch.highlight_kb_text_v1(text, regconfig, text, text [], integer) IS
'At most p_length characters of the text (and an ellipsis where it is cut) as HTML: escaped, with the words of which a lexeme in p_language, followed by p_tag, is one of p_lexemes in <mark>. The place is the one that shows most different ones, the first of these; words after 16,384 characters are not looked at.';
