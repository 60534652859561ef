-- The identity has what tells a rebuilt index from the one before it: the build id in its comment, and the number of its file, which REINDEX, VACUUM FULL and
-- a restored dump change. pg_get_indexdef looks where the statement's snapshot does not, and fails where an index goes meanwhile.
CREATE FUNCTION kbsearch.describe_kb_ann_index_v1(p_index_id oid, p_org_id bigint, p_space_id bigint)
RETURNS TABLE (is_finished boolean, is_ours boolean, identity text, definition text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        d.is_finished,
        d.definition ~ '^USING hnsw \(\(embedding\)::[^()]*\(\d+\)\) vector_cosine_ops (WITH \([^()]*\) )?WHERE '
        AND d.definition LIKE format('%% WHERE ((org_id = %s) AND (space_id = %s))', p_org_id, p_space_id),
        left(encode(sha256(convert_to(concat_ws(' ', d.relname, d.definition, obj_description(d.oid, 'pg_class'), d.relfilenode), 'UTF8')), 'hex'), 16),
        d.definition
    FROM (
        SELECT
            c.oid, c.relname, c.relfilenode, i.indisvalid AND i.indisready AS is_finished,
            concat_ws(
                ' ', 'USING', m.amname, '(' || pg_get_expr(i.indexprs, i.indrelid) || ')', k.opcname, 'WITH (' || array_to_string(c.reloptions, ', ') || ')',
                'WHERE ' || pg_get_expr(i.indpred, i.indrelid)
            ) AS definition
        FROM pg_class AS c
        INNER JOIN pg_index AS i ON i.indexrelid = c.oid
        INNER JOIN pg_am AS m ON m.oid = c.relam
        INNER JOIN pg_opclass AS k ON k.oid = i.indclass[0]
        WHERE
            c.oid = p_index_id AND i.indrelid = 'kbsearch.kb_article_embeddings'::regclass
            -- the catalog has no row-level security
            AND (NOT row_security_active('kbsearch.organizations') OR EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id))
        OFFSET 0
    ) AS d;
END;
COMMENT ON FUNCTION kbsearch.describe_kb_ann_index_v1(oid, bigint, bigint) IS
'What an index of vectors is: whether its build is finished, whether it is what create_kb_ann_index_v1 makes for the organisation and the space, its identity (16 hexadecimal digits) and what it is made of, from USING on. No row: there is no such index, or the caller may not see the organisation.';
