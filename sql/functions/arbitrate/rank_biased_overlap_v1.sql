-- Whole multiples of 1 / (lcm of all depths * length of the shorter list) and powers of a decimal: exact, so that nothing but the last rounding rounds.
CREATE FUNCTION kbsearch.rank_biased_overlap_v1(p_left bigint [], p_right bigint [], p_persistence numeric DEFAULT 0.9) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_fault text := coalesce(
        kbsearch.find_kb_ranking_fault_v1(p_left, NULL), kbsearch.find_kb_ranking_fault_v1(p_right, NULL),
        CASE WHEN p_persistence IS NULL OR p_persistence <= 0 OR p_persistence >= 1 OR scale(trim_scale(p_persistence)) > 6
            THEN 'the persistence is not a decimal between 0 and 1 with at most 6 places' END
    );
    v_long bigint[] := coalesce(p_left, '{}');
    v_short bigint[] := coalesce(p_right, '{}');
    v_length integer;
    v_cut integer;
    v_overlap integer := 0;
    v_overlap_at_cut integer := 0;
    v_unit numeric := 1;
    v_power numeric := 1;
    v_sum numeric := 0;
BEGIN
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION 'the overlap cannot be measured: %', v_fault
            USING ERRCODE = 'KBARB', DETAIL = jsonb_build_object('problem', v_fault)::text,
                HINT = 'Pass lists of different ids, best first, at most 1000 each, and a persistence such as 0.9.';
    END IF;
    IF cardinality(v_long) < cardinality(v_short) THEN
        v_long := v_short;
        v_short := p_left;
    END IF;
    v_length := cardinality(v_long);
    v_cut := cardinality(coalesce(v_short, '{}'));
    IF v_cut = 0 THEN
        RETURN CASE WHEN v_length = 0 THEN 1 ELSE 0 END;
    END IF;
    FOR d IN 2 .. v_length LOOP
        v_unit := lcm(v_unit, d::numeric);
    END LOOP;
    v_unit := v_unit * v_cut;
    FOR d IN 1 .. v_length LOOP
        IF d <= v_cut THEN
            v_overlap := v_overlap + CASE
                WHEN v_long[d] = v_short[d] THEN 1
                ELSE (v_long[d] = ANY (v_short[:d]))::integer + (v_short[d] = ANY (v_long[:d]))::integer
            END;
            v_overlap_at_cut := v_overlap;
            v_sum := v_sum + v_overlap * div(v_unit, d) * v_power;
        ELSE
            v_overlap := v_overlap + (v_long[d] = ANY (v_short))::integer;
            v_sum := v_sum + (v_overlap * div(v_unit, d) + v_overlap_at_cut * (d - v_cut) * div(v_unit, v_cut::numeric * d)) * v_power;
        END IF;
        v_power := v_power * p_persistence;
    END LOOP;
    v_sum := (1 - p_persistence) * v_sum
        + ((v_overlap - v_overlap_at_cut) * div(v_unit, v_length) + v_overlap_at_cut * div(v_unit, v_cut)) * v_power;
    RETURN trim_scale(div(v_sum * 2e12 + v_unit, 2 * v_unit) * 1e-12);
END
$$;
COMMENT ON FUNCTION kbsearch.rank_biased_overlap_v1(bigint [], bigint [], numeric) IS
'Similarity of two rankings, the top weighing most: extrapolated rank-biased overlap (Webber, Moffat and Zobel 2010, A similarity measure for indefinite rankings, equation 32).

Arguments:
p_left: Ids, best first, at most 1000, no id twice; NULL is {}.
p_right: The other list.
p_persistence: How likely a reader goes on to the next place, between 0 and 1; at most 6 decimals.

Returns: 0 (nothing in common) … 1 (equal), computed exactly and rounded to 12 decimals. Two empty lists are equal.

Errors: KBARB.';
