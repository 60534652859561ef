CREATE FUNCTION kbsearch.seal_kb_cursor_v1(p_payload text, p_pads bytea DEFAULT NULL) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT translate(encode(
        CASE
            WHEN p_pads IS NULL THEN substr(sha256(convert_to(p_payload, 'UTF8')), 1, 9)
            ELSE substr(sha256(substr(p_pads, 65) || sha256(substr(p_pads, 1, 64) || convert_to(p_payload, 'UTF8'))), 1, 18)
        END || convert_to(p_payload, 'UTF8'), 'base64'
    ), E'+/\n=', '-_');
END;
COMMENT ON FUNCTION kbsearch.seal_kb_cursor_v1(text, bytea) IS
'A cursor: base64url of a digest and the payload. p_pads: a key, as in kb_cursor_keys; the digest is then the first 18 bytes of an HMAC-SHA-256. NULL: 9 bytes of a plain digest, which finds damage and is no protection against forgery.';
