CREATE FUNCTION kbsearch.reanalyze_kb_chunks_v1(p_org_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_count bigint;
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    -- writers lock articles and chunks in another order
    PERFORM kbsearch.take_kb_corpus_v1(p_org_id);
    -- the trigger analyses a chunk again where its language is taken away, and gives it back
    UPDATE kbsearch.kb_article_chunks AS c SET language = NULL WHERE c.org_id = p_org_id;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    PERFORM kbsearch.compact_kb_postings_v1(p_org_id);
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION kbsearch.reanalyze_kb_chunks_v1(bigint) IS
'Analyses all chunks of an organisation again: after a change of a text search dictionary, or of the PostgreSQL major version where that brought another one. Changes nothing where the dictionaries are the same. For the owner of the tables.

Arguments:
p_org_id: The organisation.

Returns: the number of chunks.

Errors: KBORG.';
