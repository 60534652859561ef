CREATE FUNCTION kbsearch.decide_kb_rankings_v1(
    p_policy jsonb, p_query_class text, p_vector_ids bigint [], p_vector_ranks bigint [], p_keyword_ids bigint [], p_keyword_ranks bigint [],
    p_similarity_peak numeric, p_exploratory boolean
) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_vector CONSTANT bigint[] := coalesce(p_vector_ids, '{}');
    v_keyword CONSTANT bigint[] := coalesce(p_keyword_ids, '{}');
    v_own CONSTANT jsonb := coalesce(p_policy -> 'class_rules' -> p_query_class, '{}');
    v_rules jsonb;
    v_places bigint[];
    v_disagreement numeric;
    v_verdict text;
    v_rule text;
    v_weight numeric;
BEGIN
    -- what the class has of its own goes before what holds for all
    v_rules := p_policy || v_own;
    IF v_vector = '{}' THEN
        v_verdict := 'keyword_only';
        v_rule := 'one_leg.keyword';
        v_weight := 0;
    ELSIF v_keyword = '{}' THEN
        v_verdict := 'vector_only';
        v_rule := 'one_leg.vector';
        v_weight := 1;
    ELSE
        v_places := ARRAY(SELECT generate_series(1, cardinality(v_vector)::bigint));
        v_disagreement := kbsearch.measure_kb_disagreement_v1(v_vector, v_keyword, (v_rules ->> 'penalty')::double precision, p_vector_ranks, p_keyword_ranks);
        IF p_exploratory THEN
            v_verdict := 'exploratory_fused';
            v_rule := 'exploratory';
        ELSIF (v_rules ->> 'calibrated')::boolean THEN
            v_verdict := 'calibrated_fused';
            v_rule := 'calibrated';
        ELSIF v_rules ->> 'advisory_leg' IS NOT NULL THEN
            v_verdict := 'advisory';
            v_rule := 'advisory.' || (v_rules ->> 'advisory_leg');
            v_weight := (v_rules ->> 'advisory_leg' = 'keyword')::integer;
        ELSIF v_vector = v_keyword AND coalesce(p_vector_ranks, v_places) = coalesce(p_keyword_ranks, v_places) THEN
            v_verdict := 'rankings_agree';
            v_rule := 'agree';
        ELSE
            v_rule := CASE WHEN v_disagreement > (v_rules ->> 'max_disagreement')::numeric THEN 'severe' ELSE 'moderate' END;
            v_rule := v_rule || '.' || (v_rules ->> (v_rule || '_rule'));
            IF v_rule IN ('moderate.fuse', 'severe.fuse') THEN
                v_verdict := 'fused_within_limit';
            ELSIF v_rule = 'severe.escalate' THEN
                v_verdict := 'escalated';
            ELSIF round(p_similarity_peak, 6) >= (v_rules ->> 'similarity_threshold')::numeric THEN
                v_verdict := 'vector_privileged';
                v_rule := v_rule || '.vector';
                v_weight := (v_rules ->> 'privilege')::numeric;
            ELSE
                v_verdict := 'keyword_privileged';
                v_rule := v_rule || '.keyword';
                v_weight := 1 - (v_rules ->> 'privilege')::numeric;
            END IF;
        END IF;
    END IF;
    IF v_verdict <> 'escalated' AND v_weight IS NULL THEN
        v_weight := (v_rules ->> 'vector_weight')::numeric;
    END IF;
    RETURN jsonb_build_object(
        'verdict', v_verdict,
        'rule', v_rule || CASE
            WHEN v_own <> '{}' AND kbsearch.write_kb_decimals_v1(v_rules) <> kbsearch.write_kb_decimals_v1(p_policy) THEN '@' || p_query_class
            ELSE ''
        END,
        'disagreement', trim_scale(v_disagreement)::text,
        'overlap', CASE WHEN v_disagreement IS NOT NULL THEN kbsearch.rank_biased_overlap_v1(v_vector, v_keyword)::text END,
        'vector_weight', trim_scale(v_weight)::text,
        'keyword_weight', trim_scale(1 - v_weight)::text,
        'directive', CASE v_verdict
            WHEN 'rankings_agree' THEN 'Both legs rank the same articles alike: they are fused.'
            WHEN 'vector_only' THEN 'Only the vector leg answered: its ranking is the answer.'
            WHEN 'keyword_only' THEN 'Only the keyword leg answered: its ranking is the answer.'
            WHEN 'vector_privileged' THEN 'The legs disagree and the best similarity reaches the threshold: the vector leg is trusted.'
            WHEN 'keyword_privileged' THEN 'The legs disagree and the best similarity is below the threshold: the keyword leg is trusted.'
            WHEN 'escalated' THEN 'The legs disagree by more than the limit: there is no answer until somebody decides.'
            WHEN 'exploratory_fused' THEN 'The search is exploratory: the legs are fused.'
            WHEN 'calibrated_fused' THEN 'The legs are known to converge: they are fused.'
            WHEN 'advisory' THEN CASE v_rules ->> 'advisory_leg'
                WHEN 'vector' THEN 'The vector leg never decides: the keyword leg''s ranking is the answer.'
                ELSE 'The keyword leg never decides: the vector leg''s ranking is the answer.'
            END
            ELSE CASE v_rule
                WHEN 'severe.fuse' THEN 'The legs disagree by more than the limit, and the rule is to fuse them all the same.'
                ELSE 'The legs disagree within the limit: they are fused.'
            END
        END
    );
END
$$;
COMMENT ON FUNCTION kbsearch.decide_kb_rankings_v1(jsonb, text, bigint [], bigint [], bigint [], bigint [], numeric, boolean) IS
'What arbitrate_kb_rankings_v1 returns, of arguments that it has checked and rankings of at most top_k.';
