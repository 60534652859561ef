CREATE FUNCTION kbsearch.insert_kb_embeddings_v1(p_org_id bigint, p_article_id bigint, p_space_id bigint, p_chunks jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_chunk_no bigint;
BEGIN
    SELECT min(d.chunk_no) INTO v_chunk_no FROM kbsearch.list_kb_given_vectors_v1(p_chunks) AS d WHERE NOT d.has_direction;
    IF v_chunk_no IS NOT NULL THEN
        RAISE EXCEPTION 'the embedding of chunk % has no direction: its norm is 0 or outside 1e-15 to 1e15', v_chunk_no
            USING ERRCODE = 'KBVEC', DETAIL = jsonb_build_object('org_id', p_org_id, 'article_id', p_article_id, 'chunk_no', v_chunk_no)::text,
                HINT = 'Check the embedder: it returned zeros or unscaled numbers. A chunk without an embedding is found by its words.';
    END IF;
    PERFORM kbsearch.store_kb_vectors_v1(p_org_id, p_article_id, p_space_id, p_chunks);
END
$$;
COMMENT ON FUNCTION kbsearch.insert_kb_embeddings_v1(bigint, bigint, bigint, jsonb) IS
'Stores the embeddings of upsert_kb_article_v1''s p_chunks for the chunks just inserted. KBVEC: one has no direction; KBDIM.';
