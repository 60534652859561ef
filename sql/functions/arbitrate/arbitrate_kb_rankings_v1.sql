CREATE FUNCTION kbsearch.arbitrate_kb_rankings_v1(
    p_policy jsonb, p_query_class text, p_vector_ids bigint [], p_vector_ranks bigint [], p_keyword_ids bigint [], p_keyword_ranks bigint [],
    p_similarity_peak numeric, p_exploratory boolean
) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_fault text := kbsearch.find_kb_policy_fault_v1(p_policy, false);
    v_top_k integer;
    v_vector bigint[];
    v_keyword bigint[];
BEGIN
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION 'the arbitration policy is unusable: %', v_fault
            USING ERRCODE = 'KBPOL', DETAIL = jsonb_build_object('problem', v_fault)::text, HINT = 'Pass what resolve_kb_policy_v1 gives.';
    END IF;
    v_top_k := (p_policy ->> 'top_k')::integer;
    v_vector := coalesce(p_vector_ids[:v_top_k], '{}');
    v_keyword := coalesce(p_keyword_ids[:v_top_k], '{}');
    v_fault := CASE
        WHEN p_query_class IS NULL OR p_query_class NOT IN ('identifier', 'quoted', 'keywords', 'question', 'empty')
            THEN 'the class is not identifier, quoted, keywords, question or empty'
        WHEN v_vector = '{}' AND v_keyword = '{}' THEN 'no leg answered'
        WHEN v_vector <> '{}' AND (p_similarity_peak IS NULL OR p_similarity_peak NOT BETWEEN -1 AND 1) THEN 'the peak of the similarities is not from -1 to 1'
        ELSE coalesce(
            kbsearch.find_kb_ranking_fault_v1(v_vector, p_vector_ranks[:v_top_k]), kbsearch.find_kb_ranking_fault_v1(v_keyword, p_keyword_ranks[:v_top_k])
        )
    END;
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION 'nothing to arbitrate: %', v_fault
            USING ERRCODE = 'KBARB', DETAIL = jsonb_build_object('problem', v_fault)::text,
                HINT = 'Pass each leg''s articles, best first and none twice, with their competition ranks, and the class of classify_kb_query_v1.';
    END IF;
    RETURN kbsearch.decide_kb_rankings_v1(
        p_policy, p_query_class, v_vector, p_vector_ranks[:v_top_k], v_keyword, p_keyword_ranks[:v_top_k], p_similarity_peak, p_exploratory
    );
END
$$;COMMENT ON FUNCTION kbsearch.arbitrate_kb_rankings_v1(jsonb, text, bigint [], bigint [], bigint [], bigint [], numeric, boolean) IS
'Which leg of a search to trust, by the first of these that holds: one leg alone answered; the search is exploratory; the policy is calibrated; it has an advisory leg; both legs rank the same articles alike; they disagree by more than max_disagreement (severe rule); else (moderate rule). Nothing but the arguments decides.

Arguments:
p_policy: What resolve_kb_policy_v1 gives.
p_query_class: What classify_kb_query_v1 gives: its class_rules go before the policy''s.
p_vector_ids: Articles of the vector leg, best first; the first top_k are used. NULL or {}: the leg did not answer.
p_vector_ranks: Their competition ranks: ties share the rank of their first. NULL: no ties.
p_keyword_ids: Articles of the keyword leg.
p_keyword_ranks: Their competition ranks.
p_similarity_peak: Cosine of the best chunk, rounded to 6 decimals; of no meaning without a vector leg.
p_exploratory: Whether the search is exploratory.

Returns: {"verdict", "rule", "disagreement" (kendall_tau_top_k_v1), "overlap" (rank_biased_overlap_v1), "vector_weight", "keyword_weight", "directive"}. Decimals are strings; disagreement and overlap are null where one leg alone answered, the weights where the verdict is escalated. verdict: rankings_agree, vector_only, keyword_only, vector_privileged, keyword_privileged, escalated, exploratory_fused, calibrated_fused, advisory or fused_within_limit (a severe rule fuse as well). rule ends in @class where the class has rules that differ.

Errors: KBPOL, KBARB (neither leg answered, an id twice, ranks that are none).';
