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
    SELECT d.is_finished AND d.is_ours, d.identity
    FROM kbsearch.describe_kb_ann_index_v1(to_regclass(format('kbsearch.kb_ann_%s_%s', p_org_id, p_space_id)), p_org_id, p_space_id) AS d;
END
$$;
COMMENT ON FUNCTION kbsearch.find_kb_ann_index_v1(bigint, bigint) IS
'Whether an organisation''s index for approximate search in a space can be used, and its identity; no row: there is none.';
