-- An id that a list does not have stands behind all that it has, and all such ids are tied there: the top-k list is a bucket order, whose distance K with
-- penalty p is defined for ties as well. A pair counts 1 where the lists order it in opposite ways, p where exactly one of them orders it, else 0.
CREATE FUNCTION kbsearch.kendall_tau_top_k_v1(
    p_left bigint [], p_right bigint [], p_penalty double precision DEFAULT 0.5, p_left_ranks bigint [] DEFAULT NULL, p_right_ranks bigint [] DEFAULT NULL
) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_fault text := coalesce(kbsearch.find_kb_ranking_fault_v1(p_left, p_left_ranks), kbsearch.find_kb_ranking_fault_v1(p_right, p_right_ranks));
    v_distance numeric;
    v_unit numeric;
BEGIN
    IF v_fault IS NOT NULL OR p_penalty IS NULL OR NOT p_penalty BETWEEN 0 AND 1 THEN
        RAISE EXCEPTION 'the distance cannot be measured: %', coalesce(v_fault, 'the penalty is not from 0 to 1')
            USING ERRCODE = 'KBARB', DETAIL = jsonb_build_object('problem', coalesce(v_fault, 'the penalty is not from 0 to 1'))::text,
                HINT = 'Pass lists of different ids, best first, at most 1000 each, with competition ranks where there are ties.';
    END IF;
    WITH places AS MATERIALIZED (
        SELECT coalesce(l.id, r.id) AS id, coalesce(l.place, 1001) AS left_place, coalesce(r.place, 1001) AS right_place
        FROM (SELECT u.id, coalesce(u.rank, u.n) AS place FROM ROWS FROM (unnest(p_left), unnest(p_left_ranks)) WITH ORDINALITY AS u (id, rank, n)) AS l
        FULL JOIN (
            SELECT u.id, coalesce(u.rank, u.n) AS place FROM ROWS FROM (unnest(p_right), unnest(p_right_ranks)) WITH ORDINALITY AS u (id, rank, n)
        ) AS r ON r.id = l.id
    )
    SELECT
        count(*) FILTER (WHERE (a.left_place < b.left_place AND a.right_place > b.right_place) OR (a.left_place > b.left_place AND a.right_place < b.right_place))
        + p_penalty::numeric * count(*) FILTER (WHERE (a.left_place = b.left_place) <> (a.right_place = b.right_place)),
        count(*)
    INTO v_distance, v_unit
    FROM places AS a
    INNER JOIN places AS b ON b.id > a.id;
    -- rounded once, halves up
    RETURN CASE WHEN v_unit = 0 THEN 0 ELSE trim_scale(div(v_distance * 2e12 + v_unit, 2 * v_unit) * 1e-12) END;
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
