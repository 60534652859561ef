-- PostgreSQL escapes in strings what RFC 8785 escapes, in the same way. Scalars and lists of ids are written where they stand: a call is for what else has members.
CREATE FUNCTION kbsearch.canonicalize_kb_json_v1(p_value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_type text := jsonb_typeof(p_value);
    v_is_high boolean := v_type = 'object' AND p_value::text COLLATE "C" ~ '[\uE000-\uFFFF]';
BEGIN
    IF v_type IN ('object', 'array') AND p_value @? '$.**{65}' THEN
        RAISE EXCEPTION 'the JSON value is more than 64 levels deep'
            USING ERRCODE = 'KBARB', DETAIL = jsonb_build_object('maximum_depth', 64)::text, HINT = 'Pass a flatter value.';
    END IF;
    IF v_type = 'object' THEN
        RETURN (
            SELECT '{' || coalesce(string_agg(to_json(m.key)::text || ':' || CASE
                WHEN jsonb_typeof(m.value) IN ('string', 'boolean', 'null') OR m.value::text ~ '^([0-9]{1,15}|[{]})$' THEN m.value::text
                WHEN m.value::text ~ '^\[([0-9]{1,15}(, [0-9]{1,15})*)?]$' THEN replace(m.value::text, ' ', '')
                ELSE kbsearch.canonicalize_kb_json_v1(m.value)
            END, ',' ORDER BY CASE
                -- in UTF-16 the characters beyond U+FFFF stand before U+E000 … U+FFFF
                WHEN v_is_high THEN ARRAY(
                    SELECT ascii(c.letter) + CASE WHEN ascii(c.letter) BETWEEN 57344 AND 65535 THEN 2000000 ELSE 0 END
                    FROM string_to_table(m.key, NULL) WITH ORDINALITY AS c (letter, n)
                    ORDER BY c.n
                )
            END, m.key COLLATE "C"), '') || '}'
            FROM jsonb_each(p_value) AS m (key, value)
        );
    ELSIF v_type = 'array' THEN
        RETURN (
            SELECT '[' || coalesce(string_agg(CASE
                WHEN jsonb_typeof(e.value) IN ('string', 'boolean', 'null') OR e.value::text ~ '^[0-9]{1,15}$' THEN e.value::text
                ELSE kbsearch.canonicalize_kb_json_v1(e.value)
            END, ',' ORDER BY e.n), '') || ']'
            FROM jsonb_array_elements(p_value) WITH ORDINALITY AS e (value, n)
        );
    ELSIF v_type = 'number' AND (p_value::text !~ '^-?[0-9]{1,16}$' OR abs(p_value::text::numeric) > 9007199254740991) THEN
        RAISE EXCEPTION 'the number % has no place in canonical JSON', left(p_value::text, 100)
            USING ERRCODE = 'KBARB', DETAIL = jsonb_build_object('number', left(p_value::text, 100))::text,
                HINT = 'Whole numbers of at most 2^53 - 1 are numbers; write others as strings.';
    END IF;
    RETURN p_value::text;
END
$$;
COMMENT ON FUNCTION kbsearch.canonicalize_kb_json_v1(jsonb) IS
'The one way to write a JSON value (RFC 8785, JSON Canonicalization Scheme): no blanks, keys sorted by their UTF-16 code units.

Arguments:
p_value: Strings, booleans, null, whole numbers of at most 2^53 - 1, arrays and objects of these, at most 64 levels deep.

Returns: the text; NULL for NULL.

Errors: KBARB (another number: a decimal is written as a string; a deeper value).';
