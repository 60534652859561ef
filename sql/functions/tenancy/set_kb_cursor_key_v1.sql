-- A random key is made of three version 4 UUIDs, 366 bits of the server's strong random numbers. PostgreSQL has no XOR of bytea; pads are computed once, when
-- a key is set.
CREATE FUNCTION kbsearch.set_kb_cursor_key_v1(p_org_id bigint, p_key bytea DEFAULT NULL, p_keep integer DEFAULT 1) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_key bytea := coalesce(p_key, sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));
    v_id bigint;
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    IF octet_length(v_key) NOT BETWEEN 32 AND 64 THEN
        RAISE EXCEPTION 'the key has % bytes, expected 32 to 64', octet_length(v_key)
            USING ERRCODE = 'KBSEC', DETAIL = jsonb_build_object('argument', 'p_key', 'bytes', octet_length(v_key), 'minimum', 32, 'maximum', 64)::text,
                HINT = 'Pass 32 random bytes, or NULL to have them made.';
    END IF;
    IF p_keep IS NULL OR p_keep NOT BETWEEN 0 AND 9 THEN
        RAISE EXCEPTION 'p_keep is %, expected 0 to 9', coalesce(p_keep::text, 'NULL')
            USING ERRCODE = 'KBSEC', DETAIL = jsonb_build_object('argument', 'p_keep', 'given', p_keep, 'minimum', 0, 'maximum', 9)::text,
                HINT = 'Pass how many keys before this one still open cursors: 1, so that readers can page on.';
    END IF;
    v_key := v_key || decode(repeat('00', 64 - octet_length(v_key)), 'hex');
    INSERT INTO kbsearch.kb_cursor_keys (org_id, pads)
    SELECT p_org_id, decode(string_agg(lpad(to_hex(get_byte(v_key, b.n) # 54), 2, '0'), '' ORDER BY b.n) || string_agg(lpad(to_hex(get_byte(v_key, b.n) # 92), 2, '0'), '' ORDER BY b.n), 'hex')
    FROM generate_series(0, 63) AS b (n)
    RETURNING id INTO v_id;
    DELETE FROM kbsearch.kb_cursor_keys AS k
    WHERE k.org_id = p_org_id AND k.id NOT IN (
        SELECT l.id FROM kbsearch.kb_cursor_keys AS l WHERE l.org_id = p_org_id ORDER BY l.id DESC LIMIT p_keep + 1
    );
    RETURN v_id;
END
$$;
COMMENT ON FUNCTION kbsearch.set_kb_cursor_key_v1(bigint, bytea, integer) IS
'Authenticates an organisation''s cursors, of searches and of stored rankings, by HMAC-SHA-256 (RFC 2104) with a key: from now on one that was not made by this database for this organisation is refused (KBCUR). Called again it changes the key, and cursors signed by the one before still count. Those from before the first key are refused. Deleting the organisation''s rows of kb_cursor_keys switches it off. For the owner of the tables, and admins.

Arguments:
p_org_id: The organisation.
p_key: The key, 32 … 64 bytes. NULL: a random one.
p_keep: How many keys before this one still open cursors, 0 … 9.

Returns: id of the key.

Errors: KBORG, KBSEC (the key is too short or too long; p_keep).';
