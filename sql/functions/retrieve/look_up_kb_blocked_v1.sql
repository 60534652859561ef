CREATE FUNCTION kbsearch.look_up_kb_blocked_v1(
    p_org_id bigint, p_lexemes text [], p_weights double precision [], p_chunk_ids bigint []
) RETURNS TABLE (chunk_id bigint, raw double precision)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = on
SET enable_hashagg = on
SET enable_sort = off
SET enable_nestloop = on
SET enable_mergejoin = off
SET enable_memoize = off
SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    v_blocked record;
    v_changed_ids bigint[];
BEGIN
    SELECT s.lexemes, s.weights, s.other_lexemes, s.other_weights, s.changed_ids INTO v_blocked FROM kbsearch.split_kb_lexemes_v1(p_org_id, p_lexemes, p_weights) AS s;
    IF v_blocked.lexemes IS NULL THEN
        RETURN QUERY SELECT l.chunk_id, l.raw FROM kbsearch.look_up_kb_postings_v1(p_org_id, p_lexemes, p_weights, false, p_chunk_ids) AS l;
        RETURN;
    END IF;
    v_changed_ids := ARRAY(SELECT u.id FROM unnest(p_chunk_ids) AS u (id) WHERE u.id IN (SELECT g.id FROM unnest(v_blocked.changed_ids) AS g (id)));
    RETURN QUERY
    SELECT f.chunk_id, sum(f.raw)
    FROM (
        SELECT b.chunk_id, b.raw
        FROM kbsearch.look_up_kb_blocks_v1(
            p_org_id, v_blocked.lexemes, v_blocked.weights, ARRAY(SELECT u.id FROM unnest(p_chunk_ids) AS u (id) WHERE u.id NOT IN (SELECT g.id FROM unnest(v_changed_ids) AS g (id)))
        ) AS b
        UNION ALL
        SELECT l.chunk_id, l.raw
        FROM kbsearch.look_up_kb_postings_v1(p_org_id, v_blocked.other_lexemes, v_blocked.other_weights, false, p_chunk_ids) AS l
        UNION ALL
        SELECT l.chunk_id, l.raw
        FROM kbsearch.look_up_kb_postings_v1(p_org_id, v_blocked.lexemes, v_blocked.weights, false, v_changed_ids) AS l
    ) AS f
    GROUP BY f.chunk_id;
END
$$;
COMMENT ON FUNCTION kbsearch.look_up_kb_blocked_v1(bigint, text [], double precision [], bigint []) IS
'The rows of match_kb_keyword_v1 of the given chunks, by impact: of lexemes that stand in kb_keyword_impacts by the blocks, of others and of chunks written since by the postings. p_chunk_ids: different ones, in any order.';
