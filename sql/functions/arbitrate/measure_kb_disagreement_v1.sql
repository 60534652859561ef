-- An id that a list does not have stands behind all that it has, and all such ids are tied there: the top-k list is a bucket order, whose distance K with
-- penalty p is defined for ties as well. A pair counts 1 where the lists order it in opposite ways, p where exactly one of them orders it, else 0.
CREATE FUNCTION kbsearch.measure_kb_disagreement_v1(
    p_left bigint [], p_right bigint [], p_penalty double precision, p_left_ranks bigint [], p_right_ranks bigint []
) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_left bigint[];
    v_right bigint[];
    v_distance numeric;
    v_unit numeric;
BEGIN
    -- the places of both lists' ids in each list
    SELECT
        array_agg(CASE WHEN u.n <= cardinality(p_left) THEN coalesce(p_left_ranks[u.n], u.n) ELSE 1001 END ORDER BY u.n),
        array_agg(coalesce(p_right_ranks[array_position(p_right, u.id)], array_position(p_right, u.id), 1001) ORDER BY u.n)
    INTO v_left, v_right
    FROM unnest(p_left || p_right) WITH ORDINALITY AS u (id, n)
    WHERE u.n <= cardinality(p_left) OR array_position(p_left, u.id) IS NULL;
    SELECT
        count(*) FILTER (WHERE (v_left[a.n] < v_left[b.n] AND v_right[a.n] > v_right[b.n]) OR (v_left[a.n] > v_left[b.n] AND v_right[a.n] < v_right[b.n]))
        + p_penalty::numeric * count(*) FILTER (WHERE (v_left[a.n] = v_left[b.n]) <> (v_right[a.n] = v_right[b.n])),
        count(*)
    INTO v_distance, v_unit
    FROM generate_series(1, cardinality(v_left)) AS a (n)
    CROSS JOIN LATERAL generate_series(a.n + 1, cardinality(v_left)) AS b (n);
    -- rounded once, halves up
    RETURN CASE WHEN v_unit = 0 THEN 0 ELSE trim_scale(div(v_distance * 2e12 + v_unit, 2 * v_unit) * 1e-12) END;
END
$$;
COMMENT ON FUNCTION kbsearch.measure_kb_disagreement_v1(bigint [], bigint [], double precision, bigint [], bigint []) IS
'What kendall_tau_top_k_v1 returns, of arguments that it has checked.';
