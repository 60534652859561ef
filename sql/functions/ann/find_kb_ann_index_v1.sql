-- As list_kb_ann_indexes_v1 has it, by its name, for searches. A build that goes on counts as invalid here: looking at builds costs more than the rest.
CREATE FUNCTION kbsearch.find_kb_ann_index_v1(p_org_id bigint, p_space_id bigint) RETURNS TABLE (is_ready boolean, identity text)
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 1
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT
        i.indisvalid AND i.indisready
        AND d.definition ~ '^USING hnsw \(\(embedding\)::[^()]*\(\d+\)\) vector_cosine_ops (WITH \([^()]*\) )?WHERE '
        AND d.definition LIKE format('%% WHERE ((org_id = %s) AND (space_id = %s))', p_org_id, p_space_id),
        left(encode(sha256(convert_to(concat_ws(' ', c.relname, d.definition, obj_description(c.oid, 'pg_class'), c.relfilenode), 'UTF8')), 'hex'), 16)
    FROM pg_class AS c
    INNER JOIN pg_index AS i ON i.indexrelid = c.oid
    INNER JOIN pg_am AS m ON m.oid = c.relam
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
        c.oid = to_regclass(format('kbsearch.kb_ann_%s_%s', p_org_id, p_space_id)) AND i.indrelid = 'kbsearch.kb_article_embeddings'::regclass
        -- the catalog has no row-level security
        AND (NOT row_security_active('kbsearch.organizations') OR EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id));
END
$$;
COMMENT ON FUNCTION kbsearch.find_kb_ann_index_v1(bigint, bigint) IS
'Whether an organisation''s index for approximate search in a space can be used, and its identity; no row: there is none.';
