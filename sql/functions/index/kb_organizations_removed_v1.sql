CREATE FUNCTION kbsearch.kb_organizations_removed_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_acting CONSTANT text := coalesce(current_setting('kbsearch.acting_org_id', true), '');
    v_org_id bigint;
BEGIN
    IF TG_RELID <> 'kbsearch.organizations'::regclass THEN
        PERFORM kbsearch.refuse_kb_trigger_v1(TG_RELID);
    END IF;
    -- after compact and rebuild, which delete the same rows in another order
    PERFORM pg_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(r.id, 'maintenance')) FROM (SELECT g.id FROM removed AS g ORDER BY g.id) AS r;
    FOR v_org_id IN SELECT r.id FROM removed AS r ORDER BY r.id LOOP
        PERFORM set_config('kbsearch.acting_org_id', v_org_id::text, true);
        DELETE FROM kbsearch.kb_postings AS p WHERE p.org_id = v_org_id;
        DELETE FROM kbsearch.kb_corpus_stats AS s WHERE s.org_id = v_org_id;
        DELETE FROM kbsearch.kb_keyword_impacts AS i WHERE i.org_id = v_org_id;
        DELETE FROM kbsearch.kb_keyword_blocks AS b WHERE b.org_id = v_org_id;
        DELETE FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = v_org_id;
    END LOOP;
    PERFORM set_config('kbsearch.acting_org_id', v_acting, true);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_organizations_removed_v1() IS
'Trigger, after delete from organizations: removes the derived rows. There is no foreign key for it, because the cascade to the chunks would then still write postings.';
