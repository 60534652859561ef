CREATE FUNCTION kbsearch.build_kb_manifest_v1(
    p_query_text text, p_policy jsonb, p_query_class text, p_vector_ids bigint [], p_vector_ranks bigint [], p_keyword_ids bigint [],
    p_keyword_ranks bigint [], p_similarity_peak numeric, p_exploratory boolean, p_decision jsonb, p_chosen_ids bigint []
) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_fault text := kbsearch.find_kb_policy_fault_v1(p_policy, false);
    v_top_k integer;
    v_vector bigint[];
    v_keyword bigint[];
    v_manifest jsonb;
BEGIN
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION 'the arbitration policy is unusable: %', v_fault
            USING ERRCODE = 'KBPOL', DETAIL = jsonb_build_object('problem', v_fault)::text, HINT = 'Pass what resolve_kb_policy_v1 gives.';
    END IF;
    v_fault := CASE
        WHEN jsonb_typeof(coalesce(p_decision, 'null')) <> 'object' THEN 'the decision is no object'
        WHEN greatest(array_ndims(p_vector_ids), array_ndims(p_vector_ranks), array_ndims(p_keyword_ids), array_ndims(p_keyword_ranks), array_ndims(p_chosen_ids)) > 1
            THEN 'a ranking is no simple list'
    END;
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION 'there is nothing to record: %', v_fault
            USING ERRCODE = 'KBARB', DETAIL = jsonb_build_object('problem', v_fault)::text, HINT = 'Pass what arbitrate_kb_rankings_v1 gave and was given.';
    END IF;
    v_top_k := (p_policy ->> 'top_k')::integer;
    v_vector := coalesce(p_vector_ids[:v_top_k], '{}');
    v_keyword := coalesce(p_keyword_ids[:v_top_k], '{}');
    v_manifest := jsonb_build_object(
        'manifest_version', 1,
        'query_hash', kbsearch.hash_kb_text_v1(coalesce(p_query_text, '')),
        'query_class', p_query_class,
        'vector_ranking', to_jsonb(v_vector),
        'vector_ranks', to_jsonb(coalesce(p_vector_ranks[:v_top_k], ARRAY(SELECT generate_series(1, cardinality(v_vector)::bigint)))),
        'vector_ranking_hash', kbsearch.hash_kb_ranking_v1(v_vector),
        'keyword_ranking', to_jsonb(v_keyword),
        'keyword_ranks', to_jsonb(coalesce(p_keyword_ranks[:v_top_k], ARRAY(SELECT generate_series(1, cardinality(v_keyword)::bigint)))),
        'keyword_ranking_hash', kbsearch.hash_kb_ranking_v1(v_keyword),
        'chosen_ranking_hash', CASE WHEN p_decision ->> 'verdict' <> 'escalated' THEN kbsearch.hash_kb_ranking_v1(coalesce(p_chosen_ids[:v_top_k], '{}')) END,
        'semantic_similarity_peak', CASE WHEN v_vector <> '{}' THEN round(p_similarity_peak, 6)::text END,
        'policy', (p_policy ->> 'name') || '@' || (p_policy ->> 'version'),
        'policy_parameters', kbsearch.write_kb_decimals_v1(p_policy - 'name' - 'version' - 'class_rules')
        || jsonb_build_object('class_rules', (
            SELECT coalesce(jsonb_object_agg(c.key, kbsearch.write_kb_decimals_v1(c.value)), '{}') FROM jsonb_each(p_policy -> 'class_rules') AS c (key, value)
        )),
        'exploratory', coalesce(p_exploratory, false),
        'arbitration_rule_id', p_decision -> 'rule',
        'disagreement_magnitude', p_decision -> 'disagreement',
        'overlap', p_decision -> 'overlap',
        'verdict', p_decision -> 'verdict',
        'directive', p_decision -> 'directive'
    );
    RETURN v_manifest || jsonb_build_object('manifest_digest', kbsearch.hash_kb_text_v1(kbsearch.canonicalize_kb_json_v1(v_manifest)));
END
$$;
COMMENT ON FUNCTION kbsearch.build_kb_manifest_v1(text, jsonb, text, bigint [], bigint [], bigint [], bigint [], numeric, boolean, jsonb, bigint []) IS
'The record of an arbitration: what was decided on, by which rules, and the verdict, so that anyone can decide again.

Arguments:
p_query_text: The question; only its hash is kept. NULL is the empty text.
p_policy: As for arbitrate_kb_rankings_v1.
p_query_class: As for arbitrate_kb_rankings_v1.
p_vector_ids: As for arbitrate_kb_rankings_v1.
p_vector_ranks: As for arbitrate_kb_rankings_v1.
p_keyword_ids: As for arbitrate_kb_rankings_v1.
p_keyword_ranks: As for arbitrate_kb_rankings_v1.
p_similarity_peak: As for arbitrate_kb_rankings_v1.
p_exploratory: As for arbitrate_kb_rankings_v1.
p_decision: What arbitrate_kb_rankings_v1 gave for these arguments.
p_chosen_ids: The ranking that follows from it, best first; the first top_k are used.

Returns: {"manifest_version": 1, "query_hash", "query_class", "vector_ranking", "vector_ranks", "vector_ranking_hash", "keyword_ranking", "keyword_ranks", "keyword_ranking_hash", "chosen_ranking_hash", "semantic_similarity_peak", "policy", "policy_parameters", "exploratory", "arbitration_rule_id", "disagreement_magnitude", "overlap", "verdict", "directive", "manifest_digest"}. Rankings are the first top_k ids, their hashes are hash_kb_ranking_v1''s, decimals are strings. chosen_ranking_hash is null where the verdict is escalated, the peak without a vector leg. manifest_digest: sha256 of all the rest in canonical JSON (RFC 8785).

Errors: KBPOL, KBARB (no decision, no simple lists, a number in the decision that is no whole one).';
