-- The lock "writers" is held exclusively: who writes chunks waits, so that what was counted is so when the switch commits. It comes before the
-- organisation's row, which writers of postings hold by their foreign key.
CREATE FUNCTION kbsearch.activate_kb_space_v1(p_org_id bigint, p_space_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_before bigint;
    v_lacking bigint;
    v_stale bigint;
    v_without_direction bigint;
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    IF p_space_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.kb_embedding_spaces AS s WHERE s.id = p_space_id) THEN
        RAISE EXCEPTION 'there is no embedding space %', coalesce(p_space_id::text, 'NULL')
            USING ERRCODE = 'KBSPC', DETAIL = jsonb_build_object('org_id', p_org_id, 'space_id', p_space_id)::text,
                HINT = 'Pass the id of a row of kbsearch.kb_embedding_spaces.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'an embedding space can be activated in a READ COMMITTED transaction only'
            USING ERRCODE = 'KBIDX', DETAIL = jsonb_build_object('org_id', p_org_id, 'isolation', current_setting('transaction_isolation'))::text,
                HINT = 'Repeat it in a READ COMMITTED transaction: a fixed snapshot would not see chunks that others have just written.';
    END IF;
    PERFORM pg_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(p_org_id, 'writers'));
    SELECT o.active_space_id INTO v_before FROM kbsearch.organizations AS o WHERE o.id = p_org_id FOR NO KEY UPDATE;
    IF v_before = p_space_id THEN
        RETURN v_before;
    END IF;
    SELECT c.lacking, c.stale, c.without_direction INTO v_lacking, v_stale, v_without_direction
    FROM kbsearch.count_kb_space_v1(p_org_id, p_space_id) AS c;
    IF v_lacking + v_stale + v_without_direction > 0 THEN
        RAISE EXCEPTION 'embedding space % is not whole: of the published chunks % have no vector in it, % one of an older content, % one without a direction',
            p_space_id, v_lacking, v_stale, v_without_direction
            USING ERRCODE = 'KBSPC', DETAIL = jsonb_build_object('org_id', p_org_id, 'space_id', p_space_id, 'active_space_id', v_before,
                    'lacking', v_lacking, 'stale', v_stale, 'without_direction', v_without_direction)::text,
                HINT = 'Embed them: kbsearch reembed with the space''s embedder. What its model cannot embed is to be changed or unpublished.';
    END IF;
    UPDATE kbsearch.organizations AS o SET active_space_id = p_space_id WHERE o.id = p_org_id;
    RETURN v_before;
END
$$;
COMMENT ON FUNCTION kbsearch.activate_kb_space_v1(bigint, bigint) IS
'Lets an organisation''s searches use another embedding space, from one moment to the next: in one transaction, which waits for those that write chunks and keeps others waiting. Refused while the space is not whole. The vectors of the space before stay, so that activating it again takes the switch back.

Arguments:
p_org_id: The organisation.
p_space_id: The space. It must have a vector, of what the chunk says now and with a direction, for every published chunk with something to embed.

Returns: the id of the space that searches used before; NULL where there was none.

Errors: KBORG; KBSPC: there is no such space, or it is not whole; KBIDX: the transaction is not READ COMMITTED.';
