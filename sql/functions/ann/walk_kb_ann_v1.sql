-- The index gives its rows in the order of their distance, so there is nothing to sort; with sorts and other scans off a plan without it is the last choice.
-- A setting of a function is a constant, so there is a function for each hnsw.ef_search. A scan that is read past its ef_search begins another, which costs as
-- much again, and loops read 50 rows ahead: so it is a quarter wider than the window. The more vectors there are, the more of the nearest
-- are missed at the same width (docs/how-to/approximate-search.md).
CREATE FUNCTION kbsearch.walk_kb_ann_v1(
    p_org_id bigint, p_space_id bigint, p_embedding vector, p_allowed bigint [], p_window integer, p_chunk_total bigint,
    OUT article_ids bigint [], OUT chunk_ids bigint [], OUT similarities integer []
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
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
DECLARE
    v_width CONSTANT integer := greatest(p_window * 5 / 4, CASE WHEN p_chunk_total <= 200000 THEN 250 WHEN p_chunk_total <= 500000 THEN 500 ELSE 1000 END);
BEGIN
    IF v_width <= 250 THEN
        SELECT w.article_ids, w.chunk_ids, w.similarities INTO article_ids, chunk_ids, similarities
        FROM kbsearch.walk_kb_ann_250_v1(p_org_id, p_space_id, p_embedding, p_allowed, p_window) AS w;
    ELSIF v_width <= 500 THEN
        SELECT w.article_ids, w.chunk_ids, w.similarities INTO article_ids, chunk_ids, similarities
        FROM kbsearch.walk_kb_ann_500_v1(p_org_id, p_space_id, p_embedding, p_allowed, p_window) AS w;
    ELSE
        SELECT w.article_ids, w.chunk_ids, w.similarities INTO article_ids, chunk_ids, similarities
        FROM kbsearch.walk_kb_ann_1000_v1(p_org_id, p_space_id, p_embedding, p_allowed, p_window) AS w;
    END IF;
END
$$;
COMMENT ON FUNCTION kbsearch.walk_kb_ann_v1(bigint, bigint, vector, bigint [], integer, bigint) IS
'read_kb_ann_index_v1 with the hnsw.ef_search that a window of p_window articles among p_chunk_total chunks needs: 250, 500 or 1,000. The scan goes on in strict order, for at most 20,000 vectors.';
