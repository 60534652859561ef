-- IMMUTABLE although convert_to() is not: kbsearch is for databases in UTF8, where the bytes are the text's own.
CREATE FUNCTION kbsearch.hash_kb_text_v1(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT encode(sha256(convert_to(p_text, 'UTF8')), 'hex');
END;
COMMENT ON FUNCTION kbsearch.hash_kb_text_v1(text) IS 'sha256 of the text in UTF-8, 64 hexadecimal digits.';
