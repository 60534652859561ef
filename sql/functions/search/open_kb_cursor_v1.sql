-- A cursor counts only as it was written: base64 has several spellings of the same bytes, so what was decoded is sealed again and compared.
CREATE FUNCTION kbsearch.open_kb_cursor_v1(p_cursor text) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_bytes bytea;
    v_payload text;
BEGIN
    IF p_cursor !~ '^[A-Za-z0-9_-]{13,}$' OR length(p_cursor) % 4 = 1 THEN
        RETURN NULL;
    END IF;
    v_bytes := decode(translate(p_cursor, '-_', '+/') || repeat('=', (4 - length(p_cursor) % 4) % 4), 'base64');
    IF substr(v_bytes, 1, 9) <> substr(sha256(substr(v_bytes, 10)), 1, 9) THEN
        RETURN NULL;
    END IF;
    v_payload := convert_from(substr(v_bytes, 10), 'UTF8');
    RETURN CASE WHEN kbsearch.seal_kb_cursor_v1(v_payload) = p_cursor THEN v_payload END;
END
$$;
COMMENT ON FUNCTION kbsearch.open_kb_cursor_v1(text) IS 'The payload of a cursor made by seal_kb_cursor_v1, NULL when it was damaged.';
