-- Runs under the settings of walk_kb_ann_v1.
CREATE FUNCTION kbsearch.walk_kb_ann_250_v1(
    p_org_id bigint, p_space_id bigint, p_embedding vector, p_allowed bigint [], p_window integer, OUT article_ids bigint [],
    OUT chunk_ids bigint [], OUT similarities integer []
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET "hnsw.ef_search" = 250
AS $$
BEGIN
    SELECT r.article_ids, r.chunk_ids, r.similarities INTO article_ids, chunk_ids, similarities
    FROM kbsearch.read_kb_ann_index_v1(p_org_id, p_space_id, p_embedding, p_allowed, p_window) AS r;
END
$$;
COMMENT ON FUNCTION kbsearch.walk_kb_ann_250_v1(bigint, bigint, vector, bigint [], integer) IS
'read_kb_ann_index_v1 with an hnsw.ef_search of 250.';
