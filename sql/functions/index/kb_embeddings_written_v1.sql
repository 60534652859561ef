CREATE FUNCTION kbsearch.kb_embeddings_written_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_acting CONSTANT text := coalesce(current_setting('kbsearch.acting_org_id', true), '');
    v_first record;
BEGIN
    IF TG_RELID <> 'kbsearch.kb_article_embeddings'::regclass THEN
        PERFORM kbsearch.refuse_kb_trigger_v1(TG_RELID);
    END IF;
    FOR v_first IN SELECT w.org_id, min(w.space_id) AS space_id FROM written AS w GROUP BY w.org_id ORDER BY w.org_id LOOP
        PERFORM set_config('kbsearch.acting_org_id', v_first.org_id::text, true);
        UPDATE kbsearch.organizations AS o SET active_space_id = v_first.space_id WHERE o.id = v_first.org_id AND o.active_space_id IS NULL;
    END LOOP;
    PERFORM set_config('kbsearch.acting_org_id', v_acting, true);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_embeddings_written_v1() IS
'Trigger, after insert of embeddings, once a statement: an organisation without an active space gets the space of its first embedding.';
