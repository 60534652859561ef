CREATE FUNCTION kbsearch.list_kb_ann_indexes_v1(p_org_id bigint)
RETURNS TABLE (space_id bigint, index_name text, state text, identity text, definition text, bytes bigint)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    IF p_org_id IS NULL THEN
        RAISE EXCEPTION 'organisation NULL does not exist'
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id that the indexes were made for.';
    END IF;
    RETURN QUERY
    SELECT
        split_part(c.relname, '_', 4)::bigint,
        c.relname::text,
        CASE
            WHEN p.pid IS NOT NULL THEN 'building'
            WHEN NOT d.is_finished THEN 'invalid'
            WHEN NOT d.is_ours THEN 'foreign'
            ELSE 'ready'
        END,
        d.identity,
        d.definition,
        pg_relation_size(c.oid)
    FROM pg_class AS c
    LEFT JOIN pg_stat_progress_create_index AS p ON p.index_relid = c.oid
    CROSS JOIN LATERAL kbsearch.describe_kb_ann_index_v1(c.oid, p_org_id, split_part(c.relname, '_', 4)::bigint) AS d
    WHERE c.relname ~ ('^kb_ann_' || p_org_id || '_[0-9]{1,18}$')
    ORDER BY 1;
END
$$;
COMMENT ON FUNCTION kbsearch.list_kb_ann_indexes_v1(bigint) IS
'The indexes for approximate search of an organisation, which need not exist any more.

Arguments:
p_org_id: The organisation.

Columns:
space_id: The embedding space whose vectors it has, in ascending order.
index_name: Its name, in the schema of the tables.
state: ready; building; invalid (a build that was broken off); foreign (of that name, and not what create_kb_ann_index_v1 makes).
identity: 16 hexadecimal digits, others once it is built again. Cursors carry it.
definition: What it is made of, from USING on.
bytes: Its size.

Errors: KBORG: p_org_id is NULL.';
