CREATE FUNCTION kbsearch.kb_organizations_changed_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_acting CONSTANT text := coalesce(current_setting('kbsearch.acting_org_id', true), '');
BEGIN
    IF TG_RELID <> 'kbsearch.organizations'::regclass THEN
        PERFORM kbsearch.refuse_kb_trigger_v1(TG_RELID);
    END IF;
    PERFORM set_config('kbsearch.acting_org_id', NEW.id::text, true);
    IF NEW.language <> OLD.language THEN
        PERFORM kbsearch.take_kb_corpus_v1(NEW.id);
        UPDATE kbsearch.kb_article_chunks AS c
        SET language = NULL
        WHERE c.org_id = NEW.id;
    END IF;
    IF NEW.reference_length <> OLD.reference_length THEN
        PERFORM kbsearch.rebuild_kb_index_v1(NEW.id);
    END IF;
    PERFORM set_config('kbsearch.acting_org_id', v_acting, true);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_organizations_changed_v1() IS
'Trigger, after update of organizations: another language waits for writers, keeps them out until the end of the transaction and analyses all chunks again, another reference_length rebuilds the postings.';
