CREATE FUNCTION kbsearch.kb_embeddings_check_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_acting CONSTANT text := coalesce(current_setting('kbsearch.acting_org_id', true), '');
    v_dimensions integer;
    v_given integer;
BEGIN
    IF TG_RELID <> 'kbsearch.kb_article_embeddings'::regclass THEN
        PERFORM kbsearch.refuse_kb_trigger_v1(TG_RELID);
    END IF;
    IF TG_OP = 'UPDATE' THEN
        IF NEW.org_id <> OLD.org_id THEN
            RAISE EXCEPTION 'an embedding of organisation % cannot be moved to another', OLD.org_id
                USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', OLD.org_id, 'chunk_id', OLD.chunk_id)::text,
                    HINT = 'Insert a new embedding and delete this one.';
        END IF;
    END IF;
    PERFORM set_config('kbsearch.acting_org_id', '?' || NEW.org_id, true);
    SELECT s.dimensions INTO v_dimensions FROM kbsearch.kb_embedding_spaces AS s WHERE s.id = NEW.space_id;
    v_given := kbsearch.count_kb_dimensions_v1(NEW.embedding);
    IF v_given <> v_dimensions THEN
        RAISE EXCEPTION 'an embedding has % dimensions, space % has %', v_given, NEW.space_id, v_dimensions
            USING ERRCODE = 'KBDIM', DETAIL = jsonb_build_object('org_id', NEW.org_id, 'chunk_id', NEW.chunk_id, 'space_id', NEW.space_id,
                    'given', v_given, 'expected', v_dimensions)::text,
                HINT = 'Embed with the model of the space, or insert a space for this model.';
    END IF;
    -- the lock keeps the chunk's key, which searchable and content_digest are part of: who changes them waits and then updates this row too
    -- (article_id, which the foreign key asks for anyway, so that any index of chunks leads to the row at once)
    SELECT c.searchable, c.content_digest INTO NEW.searchable, NEW.current_digest
    FROM kbsearch.kb_article_chunks AS c
    WHERE c.org_id = NEW.org_id AND c.article_id = NEW.article_id AND c.id = NEW.chunk_id
    FOR KEY SHARE OF c;
    NEW.searchable := coalesce(NEW.searchable, false);
    NEW.current_digest := coalesce(NEW.current_digest, '');
    -- Who stores a vector may say what it is of, which may be what the chunk said before; else it is of what the chunk says now. One that stays is of
    -- what it was.
    IF TG_OP = 'INSERT' THEN
        NEW.chunk_digest := coalesce(NEW.chunk_digest, NEW.current_digest);
    ELSIF NEW.chunk_digest IS NOT DISTINCT FROM OLD.chunk_digest THEN
        IF NEW.chunk_id <> OLD.chunk_id OR NEW.input_sha256 IS DISTINCT FROM OLD.input_sha256 OR NOT kbsearch.is_kb_same_vector_v1(NEW.embedding, OLD.embedding) THEN
            NEW.chunk_digest := NEW.current_digest;
        END IF;
    ELSE
        NEW.chunk_digest := coalesce(NEW.chunk_digest, NEW.current_digest);
    END IF;
    PERFORM set_config('kbsearch.acting_org_id', v_acting, true);
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_embeddings_check_v1() IS
'Trigger, before insert or update of an embedding: compares its dimensions with the space''s (KBDIM), refuses another org_id (KBORG), copies the chunk''s searchable and content_digest and, where none is given, notes the digest of what the chunk says, which stays as long as the vector does.';
