CREATE FUNCTION kbsearch.seal_kb_cursor_v1(p_payload text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT translate(encode(substr(sha256(convert_to(p_payload, 'UTF8')), 1, 9) || convert_to(p_payload, 'UTF8'), 'base64'), E'+/\n=', '-_');
END;
COMMENT ON FUNCTION kbsearch.seal_kb_cursor_v1(text) IS
'A cursor: base64url of a 9-byte digest and the payload. The digest finds damage; it is no protection against forgery.';
