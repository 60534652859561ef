-- The identity has what tells a rebuilt index from the one before it: the build id in its comment, and the number of its file, which REINDEX, VACUUM FULL and
-- a restored dump change.
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
            WHEN NOT (i.indisvalid AND i.indisready) THEN 'invalid'
            WHEN
                d.definition !~ '^USING hnsw \(\(embedding\)::[^()]*\(\d+\)\) vector_cosine_ops (WITH \([^()]*\) )?WHERE '
                OR d.definition NOT LIKE format('%% WHERE ((org_id = %s) AND (space_id = %s))', p_org_id, split_part(c.relname, '_', 4))
                THEN 'foreign'
            ELSE 'ready'
        END,
        left(encode(sha256(convert_to(concat_ws(' ', c.relname, d.definition, obj_description(c.oid, 'pg_class'), c.relfilenode), 'UTF8')), 'hex'), 16),
        d.definition,
        pg_relation_size(c.oid)
    FROM pg_class AS c
    INNER JOIN pg_index AS i ON i.indexrelid = c.oid
    INNER JOIN pg_am AS m ON m.oid = c.relam
    LEFT JOIN pg_stat_progress_create_index AS p ON p.index_relid = c.oid
    INNER JOIN pg_opclass AS k ON k.oid = i.indclass[0]
    CROSS JOIN LATERAL (
        -- pg_get_indexdef looks where the statement's snapshot does not, and fails where an index goes meanwhile
        SELECT
            concat_ws(
                ' ', 'USING', m.amname, '(' || pg_get_expr(i.indexprs, i.indrelid) || ')', k.opcname, 'WITH (' || array_to_string(c.reloptions, ', ') || ')',
                'WHERE ' || pg_get_expr(i.indpred, i.indrelid)
            ) AS definition
        OFFSET 0
    ) AS d
    WHERE
        i.indrelid = 'kbsearch.kb_article_embeddings'::regclass AND c.relname ~ ('^kb_ann_' || p_org_id || '_[0-9]{1,18}$')
        -- the catalog has no row-level security
        AND (NOT row_security_active('kbsearch.organizations') OR EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id))
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
