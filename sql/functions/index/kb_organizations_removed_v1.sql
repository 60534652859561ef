CREATE FUNCTION kbsearch.kb_organizations_removed_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    -- after compact and rebuild, which delete the same rows in another order
    PERFORM pg_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(r.id, 'maintenance')) FROM (SELECT g.id FROM removed AS g ORDER BY g.id) AS r;
    DELETE FROM kbsearch.kb_postings AS p USING removed AS r WHERE p.org_id = r.id;
    DELETE FROM kbsearch.kb_corpus_stats AS s USING removed AS r WHERE s.org_id = r.id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_organizations_removed_v1() IS
'Trigger, after delete from organizations: removes the derived rows. There is no foreign key for it, because the cascade to the chunks would then still write postings.';
