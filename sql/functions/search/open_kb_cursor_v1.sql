-- A cursor counts only as it was written: base64 has several spellings of the same bytes, so what was decoded is sealed again and compared.
CREATE FUNCTION kbsearch.open_kb_cursor_v1(p_cursor text, p_keys bytea [] DEFAULT '{}') RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_bytes bytea;
    v_pads bytea;
    v_payload text;
BEGIN
    IF p_cursor !~ '^[A-Za-z0-9_-]{13,}$' OR length(p_cursor) % 4 = 1 THEN
        RETURN NULL;
    END IF;
    v_bytes := decode(translate(p_cursor, '-_', '+/') || repeat('=', (4 - length(p_cursor) % 4) % 4), 'base64');
    IF p_keys = '{}' THEN
        IF substr(v_bytes, 1, 9) <> substr(sha256(substr(v_bytes, 10)), 1, 9) THEN
            RETURN NULL;
        END IF;
        v_payload := convert_from(substr(v_bytes, 10), 'UTF8');
    ELSE
        FOREACH v_pads IN ARRAY p_keys LOOP
            IF substr(v_bytes, 1, 18) = substr(sha256(substr(v_pads, 65) || sha256(substr(v_pads, 1, 64) || substr(v_bytes, 19))), 1, 18) THEN
                v_payload := convert_from(substr(v_bytes, 19), 'UTF8');
                EXIT;
            END IF;
        END LOOP;
    END IF;
    RETURN CASE WHEN kbsearch.seal_kb_cursor_v1(v_payload, CASE WHEN p_keys <> '{}' THEN v_pads END) = p_cursor THEN v_payload END;
END
$$;
COMMENT ON FUNCTION kbsearch.open_kb_cursor_v1(text, bytea []) IS
'The payload of a cursor made by seal_kb_cursor_v1, NULL when it was damaged or forged. p_keys: the keys of which one must have signed it, as list_kb_cursor_keys_v1 gives them; empty: it need not be signed.';
