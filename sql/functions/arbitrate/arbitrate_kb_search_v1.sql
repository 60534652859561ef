CREATE FUNCTION kbsearch.arbitrate_kb_search_v1(
    p_org_id bigint,
    p_query_text text,
    p_query_embedding vector DEFAULT NULL,
    p_kinds text [] DEFAULT NULL,
    p_metadata jsonb DEFAULT NULL,
    p_min_score double precision DEFAULT NULL,
    p_profile text DEFAULT NULL,
    p_space_id bigint DEFAULT NULL,
    p_exploratory boolean DEFAULT false,
    p_language text DEFAULT NULL
) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET extra_float_digits = 1
SET enable_seqscan = off
AS $$
DECLARE
    v_plan kbsearch.kb_search_plan;
BEGIN
    v_plan := kbsearch.prepare_kb_search_v1(
        p_org_id, p_query_text, p_query_embedding, 0, 0, NULL, p_kinds, NULL, p_metadata, p_min_score, p_profile, p_space_id, p_exploratory, p_language, false
    );
    IF v_plan.fusion <> 'arbitrate' THEN
        RAISE EXCEPTION 'ranking profile % arbitrates nothing: its fusion is %', v_plan.profile, v_plan.fusion
            USING ERRCODE = 'KBPRF', DETAIL = jsonb_build_object('org_id', p_org_id, 'profile', v_plan.profile, 'fusion', v_plan.fusion)::text,
                HINT = 'Pass a profile whose fusion is arbitrate, arbitrate@1 for instance.';
    END IF;
    v_plan := kbsearch.arbitrate_kb_plan_v1(v_plan, p_query_embedding, false);
    IF clock_timestamp() > v_plan.deadline THEN
        PERFORM kbsearch.refuse_kb_overtime_v1(v_plan.budget, 'answer');
    END IF;
    RETURN v_plan.manifest;
END
$$;
COMMENT ON FUNCTION kbsearch.arbitrate_kb_search_v1(bigint, text, vector, text [], jsonb, double precision, text, bigint, boolean, text) IS
'What the arbitration of a search decides, without its rows: the manifest that search_kb_hybrid_page_v1 has. Writes nothing; one snapshot a call.

Arguments:
p_org_id: The organisation searched.
p_query_text: The question, at most 32,768 bytes. Words are OR-ed; "a phrase" must occur in one chunk of the article, its title included; -word and -"a phrase" exclude articles that have it. At most 32 different phrases and exclusions. NULL or empty: the vector leg alone.
p_query_embedding: The question''s vector, of the dimensions of the searched space. NULL: the keyword leg alone.
p_kinds: Only articles of these kinds, at least one. NULL: all kinds.
p_metadata: Only articles whose metadata contain this object (as jsonb''s @> says); of an array of objects, any of them. NULL: all articles.
p_min_score: Only articles of at least this score, in the profile''s own scale. NULL: no floor.
p_profile: Ranking profile whose fusion is arbitrate, name@version. NULL: the one that the organisation pins (organizations.ranking_profile).
p_space_id: Embedding space. NULL: the organisation''s active one.
p_exploratory: Whether the legs are fused however much they disagree.
p_language: The one text search configuration in which the question is analysed, for instance german. NULL: every language in use in the organisation.

Returns: The manifest of build_kb_manifest_v1; NULL where neither leg found anything.

Errors: KBORG, KBFLT, KBPRF, KBQRY, KBLNG, KBSPC, KBDIM, KBVEC, KBTMO.';
