CREATE FUNCTION kbsearch.find_kb_ranking_fault_v1(p_ids bigint [], p_ranks bigint []) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_rank bigint := 1;
BEGIN
    IF array_ndims(p_ids) > 1 OR array_lower(p_ids, 1) <> 1 OR array_ndims(p_ranks) > 1 OR array_lower(p_ranks, 1) <> 1 THEN
        RETURN 'a list is no plain array';
    ELSIF cardinality(p_ids) > 1000 THEN
        RETURN 'a list has more than 1000 ids';
    ELSIF array_position(p_ids, NULL) IS NOT NULL THEN
        RETURN 'an id is NULL';
    ELSIF (SELECT count(DISTINCT u.id) FROM unnest(p_ids) AS u (id)) <> cardinality(p_ids) THEN
        RETURN 'a list has an id twice';
    ELSIF p_ranks IS NULL THEN
        RETURN NULL;
    ELSIF cardinality(p_ranks) <> coalesce(cardinality(p_ids), 0) THEN
        RETURN 'a list has another number of ranks than of ids';
    END IF;
    FOR i IN 1 .. cardinality(p_ranks) LOOP
        IF p_ranks[i] = i THEN
            v_rank := i;
        ELSIF p_ranks[i] IS DISTINCT FROM v_rank OR i = 1 THEN
            RETURN 'the ranks are no competition ranks';
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.find_kb_ranking_fault_v1(bigint [], bigint []) IS
'What is wrong with a list of ids, best first, and their competition ranks (NULL: no ties); NULL where nothing is.';
