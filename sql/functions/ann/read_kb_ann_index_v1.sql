-- Dynamic: neither a type modifier nor the predicate of a partial index can be a parameter. One of the functions that set hnsw.ef_search calls it.
CREATE FUNCTION kbsearch.read_kb_ann_index_v1(
    p_org_id bigint, p_space_id bigint, p_embedding vector, p_allowed bigint [], p_window integer, OUT article_ids bigint [],
    OUT chunk_ids bigint [], OUT similarities integer []
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_extension text;
    v_distance text;
    v_row record;
BEGIN
    SELECT quote_ident(n.nspname) INTO v_extension
    FROM pg_attribute AS a
    INNER JOIN pg_type AS t ON t.oid = a.atttypid
    INNER JOIN pg_namespace AS n ON n.oid = t.typnamespace
    WHERE a.attrelid = 'kbsearch.kb_article_embeddings'::regclass AND a.attname = 'embedding';
    v_distance := format('(e.embedding::%1$s.vector(%2$s) OPERATOR(%1$s.<=>) $1)', v_extension, kbsearch.count_kb_dimensions_v1(p_embedding));
    article_ids := '{}';
    chunk_ids := '{}';
    similarities := '{}';
    FOR v_row IN EXECUTE format(
        'SELECT e.article_id, e.chunk_id, round((1::float8 - %1$s) * 1000000::float8)::integer AS similarity FROM kbsearch.kb_article_embeddings AS e '
        'WHERE e.org_id = %2$s AND e.space_id = %3$s AND e.searchable AND e.has_direction AND ($2 IS NULL OR e.article_id = ANY ($2)) ORDER BY %1$s',
        v_distance, p_org_id, p_space_id
    ) USING p_embedding, p_allowed LOOP
        chunk_ids := chunk_ids || v_row.chunk_id;
        similarities := similarities || v_row.similarity;
        IF v_row.article_id <> ALL (article_ids) THEN
            article_ids := article_ids || v_row.article_id;
            EXIT WHEN cardinality(article_ids) >= p_window;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION kbsearch.read_kb_ann_index_v1(bigint, bigint, vector, bigint [], integer) IS
'The nearest chunks by the organisation''s index for approximate search, in that order, until they are of p_window different articles, with their cosine similarities in millionths; and these articles, in the order of their first chunks. p_allowed: articles, NULL for all.';
