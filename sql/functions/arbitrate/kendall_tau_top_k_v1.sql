CREATE FUNCTION kbsearch.kendall_tau_top_k_v1(
    p_left bigint [], p_right bigint [], p_penalty double precision DEFAULT 0.5, p_left_ranks bigint [] DEFAULT NULL, p_right_ranks bigint [] DEFAULT NULL
) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_fault CONSTANT text := coalesce(
        kbsearch.find_kb_ranking_fault_v1(p_left, p_left_ranks), kbsearch.find_kb_ranking_fault_v1(p_right, p_right_ranks),
        CASE WHEN p_penalty IS NULL OR NOT p_penalty BETWEEN 0 AND 1 THEN 'the penalty is not from 0 to 1' END
    );
BEGIN
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION 'the distance cannot be measured: %', v_fault
            USING ERRCODE = 'KBARB', DETAIL = jsonb_build_object('problem', v_fault)::text,
                HINT = 'Pass lists of different ids, best first, at most 1000 each, with competition ranks where there are ties.';
    END IF;
    RETURN kbsearch.measure_kb_disagreement_v1(p_left, p_right, p_penalty, p_left_ranks, p_right_ranks);
END
$$;
COMMENT ON FUNCTION kbsearch.kendall_tau_top_k_v1(bigint [], bigint [], double precision, bigint [], bigint []) IS
'Disagreement of two top-k lists: the Kendall tau distance K with penalty p (Fagin, Kumar and Sivakumar 2003, Comparing top k lists; with ties: Fagin, Kumar, Mahdian, Sivakumar and Vee 2004, Comparing and aggregating rankings with ties) divided by the number of pairs of the union. An id that a list does not have stands behind all that it has. Equal lists 0, a list and its reverse 1, disjoint lists of 5 at p = 1/2 .777….

Arguments:
p_left: Ids, best first, at most 1000, no id twice; NULL is {}.
p_right: The other list.
p_penalty: What a pair counts that one list orders and the other leaves undecided (it has neither, or they are tied), 0 … 1.
p_left_ranks: Competition ranks of p_left: ties share the rank of their first. NULL: no ties.
p_right_ranks: Competition ranks of p_right.

Returns: 0 … 1, computed exactly and rounded to 12 decimals; 0 where the union has fewer than two ids.

Errors: KBARB.';
