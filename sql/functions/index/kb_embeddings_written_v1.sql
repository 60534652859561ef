CREATE FUNCTION kbsearch.kb_embeddings_written_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    UPDATE kbsearch.organizations AS o
    SET active_space_id = f.space_id
    FROM (SELECT w.org_id, min(w.space_id) AS space_id FROM written AS w GROUP BY w.org_id) AS f
    WHERE o.id = f.org_id AND o.active_space_id IS NULL;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_embeddings_written_v1() IS
'Trigger, after insert of embeddings, once a statement: an organisation without an active space gets the space of its first embedding.';
