-- With 150 blocks (285,000 chunks) the postings of a frequent word have become more to pass over than its vectors are to read.
CREATE FUNCTION kbsearch.look_up_kb_keyword_v1(
    p_org_id bigint, p_lexemes text [], p_weights double precision [], p_counts_terms boolean, p_chunk_ids bigint []
) RETURNS TABLE (chunk_id bigint, raw double precision)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
BEGIN
    IF p_counts_terms OR NOT EXISTS (SELECT FROM kbsearch.kb_keyword_blocks AS b WHERE b.org_id = p_org_id AND b.block_no = 149) THEN
        RETURN QUERY SELECT l.chunk_id, l.raw FROM kbsearch.look_up_kb_postings_v1(p_org_id, p_lexemes, p_weights, p_counts_terms, p_chunk_ids) AS l;
    ELSE
        RETURN QUERY SELECT l.chunk_id, l.raw FROM kbsearch.look_up_kb_blocked_v1(p_org_id, p_lexemes, p_weights, p_chunk_ids) AS l;
    END IF;
END
$$;
COMMENT ON FUNCTION kbsearch.look_up_kb_keyword_v1(bigint, text [], double precision [], boolean, bigint []) IS
'The rows of match_kb_keyword_v1 of the given chunks, without reading what the lexemes'' other chunks have. p_chunk_ids: different ones, in any order.';
