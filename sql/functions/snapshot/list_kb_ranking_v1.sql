-- STABLE, so that the checks, the filters and the ranking see what the calling statement sees: one snapshot of the data.
CREATE FUNCTION kbsearch.list_kb_ranking_v1(
    p_org_id bigint, p_query_text text, p_query_embedding vector, p_kinds text [], p_kind_quota jsonb, p_metadata jsonb, p_min_score double precision,
    p_profile text, p_space_id bigint, p_exploratory boolean, p_language text
) RETURNS TABLE (
    block integer, article_ids bigint [], chunk_ids bigint [], scores bigint [], similarities integer [], keyword_scores integer [], ties integer [],
    answer jsonb, lexemes text []
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_plan kbsearch.kb_search_plan;
BEGIN
    v_plan := kbsearch.prepare_kb_search_v1(
        p_org_id, p_query_text, p_query_embedding, 0, 0, NULL, p_kinds, p_kind_quota, p_metadata, p_min_score, p_profile, p_space_id, p_exploratory,
        p_language, false
    );
    v_plan := kbsearch.arbitrate_kb_plan_v1(v_plan, p_query_embedding, true);
    answer := jsonb_build_object('profile', v_plan.profile, 'space_id', v_plan.space_id, 'legs', kbsearch.describe_kb_legs_v1(v_plan), 'verdict', v_plan.verdict, 'manifest', v_plan.manifest,
        'retrieval', kbsearch.describe_kb_retrieval_v1(v_plan, NULL, true));
    lexemes := v_plan.lexemes;
    RETURN NEXT;
    RETURN QUERY
    SELECT
        ((r.place - 1) / 100)::integer,
        array_agg(r.article_id ORDER BY r.place),
        array_agg(r.chunk_id ORDER BY r.place),
        array_agg(r.score ORDER BY r.place),
        array_agg(r.similarity ORDER BY r.place),
        array_agg(round(r.raw * 1e9::double precision / v_plan.keyword_bound)::integer ORDER BY r.place),
        array_agg(r.tied_with::integer ORDER BY r.place),
        NULL::jsonb,
        NULL::text[]
    FROM kbsearch.rank_kb_articles_v1(v_plan, p_query_embedding, NULL, 0, NULL, NULL) AS r
    GROUP BY (r.place - 1) / 100;
    IF clock_timestamp() > v_plan.deadline THEN
        PERFORM kbsearch.refuse_kb_overtime_v1(v_plan.budget, 'answer');
    END IF;
END
$$;
COMMENT ON FUNCTION kbsearch.list_kb_ranking_v1(
    bigint, text, vector, text [], jsonb, jsonb, double precision, text, bigint, boolean, text
) IS
'A whole ranking in blocks of 100 places, as kb_search_snapshot_blocks has them, in no order; and a row without a block that has what its pages say of the whole (answer) and the question''s words.';
