CREATE FUNCTION kbsearch.digest_kb_request_v1(p_request jsonb, p_embedding vector) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT left(encode(sha256(convert_to(p_request::text, 'UTF8') || coalesce('\x00'::bytea || vector_send(p_embedding), ''::bytea)), 'hex'), 32);
END;
COMMENT ON FUNCTION kbsearch.digest_kb_request_v1(jsonb, vector) IS
'32 hexadecimal digits that stand for everything in a request that decides its ranking: a cursor of another request is refused by it.';
