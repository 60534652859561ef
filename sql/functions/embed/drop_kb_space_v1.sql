CREATE FUNCTION kbsearch.drop_kb_space_v1(p_org_id bigint, p_space_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_active bigint;
    v_dropped bigint;
BEGIN
    -- so that nobody activates the space meanwhile
    SELECT o.active_space_id INTO v_active FROM kbsearch.organizations AS o WHERE o.id = p_org_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    IF p_space_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.kb_embedding_spaces AS s WHERE s.id = p_space_id) THEN
        RAISE EXCEPTION 'there is no embedding space %', coalesce(p_space_id::text, 'NULL')
            USING ERRCODE = 'KBSPC', DETAIL = jsonb_build_object('org_id', p_org_id, 'space_id', p_space_id)::text,
                HINT = 'Pass the id of a row of kbsearch.kb_embedding_spaces.';
    END IF;
    IF v_active = p_space_id THEN
        RAISE EXCEPTION 'searches of organisation % use embedding space %', p_org_id, p_space_id
            USING ERRCODE = 'KBSPC', DETAIL = jsonb_build_object('org_id', p_org_id, 'space_id', p_space_id)::text,
                HINT = 'Activate another space first: activate_kb_space_v1.';
    END IF;
    DELETE FROM kbsearch.kb_article_embeddings AS e WHERE e.org_id = p_org_id AND e.space_id = p_space_id;
    GET DIAGNOSTICS v_dropped = ROW_COUNT;
    DELETE FROM kbsearch.kb_embedding_cache AS k WHERE k.org_id = p_org_id AND k.space_id = p_space_id;
    DELETE FROM kbsearch.kb_embedding_counts AS n WHERE n.org_id = p_org_id AND n.space_id = p_space_id;
    DELETE FROM kbsearch.kb_embedding_inputs AS i
    WHERE
        i.org_id = p_org_id
        AND NOT EXISTS (SELECT FROM kbsearch.kb_embedding_cache AS k WHERE k.org_id = i.org_id AND k.input_sha256 = i.input_sha256);
    RETURN v_dropped;
END
$$;
COMMENT ON FUNCTION kbsearch.drop_kb_space_v1(bigint, bigint) IS
'Deletes an organisation''s vectors of an embedding space that its searches do not use, with what its cache has of it. The row of kb_embedding_spaces, which is everybody''s, stays.

Arguments:
p_org_id: The organisation.
p_space_id: The space.

Returns: the number of chunks that had a vector in it.

Errors: KBORG; KBSPC: there is no such space, or searches use it.';
