-- The index gives its rows in the order of their distance, so there is nothing to sort; with sorts and other scans off a plan without it is the last choice.
CREATE FUNCTION kbsearch.walk_kb_ann_1000_v1(
    p_org_id bigint, p_space_id bigint, p_embedding vector, p_allowed bigint [], p_window integer, OUT article_ids bigint [],
    OUT chunk_ids bigint [], OUT similarities integer []
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET "hnsw.ef_search" = 1000
SET "hnsw.iterative_scan" = 'strict_order'
SET "hnsw.max_scan_tuples" = 20000
SET work_mem = '64MB'
SET jit = off
SET enable_seqscan = off
SET enable_indexscan = on
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_incremental_sort = off
SET max_parallel_workers_per_gather = 0
AS $$
BEGIN
    SELECT r.article_ids, r.chunk_ids, r.similarities INTO article_ids, chunk_ids, similarities
    FROM kbsearch.read_kb_ann_index_v1(p_org_id, p_space_id, p_embedding, p_allowed, p_window) AS r;
END
$$;
COMMENT ON FUNCTION kbsearch.walk_kb_ann_1000_v1(bigint, bigint, vector, bigint [], integer) IS
'read_kb_ann_index_v1 with an hnsw.ef_search of 1,000, the scan goes on in strict order, for at most 20,000 vectors.';
