CREATE FUNCTION kbsearch.measure_kb_recall_v1(
    p_org_id bigint, p_query_text text, p_query_embedding vector DEFAULT NULL, p_limit bigint DEFAULT 10, p_profile text DEFAULT NULL,
    p_window integer DEFAULT NULL
) RETURNS TABLE (mode text, reason text, wanted bigint, kept bigint, in_order bigint, certain bigint, settled bigint)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET extra_float_digits = 1
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_plan kbsearch.kb_search_plan;
    v_exact kbsearch.kb_search_plan;
    v_said jsonb;
BEGIN
    IF p_window NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'p_window is %, expected 1 to 1000', p_window
            USING ERRCODE = 'KBLIM', DETAIL = jsonb_build_object('argument', 'p_window', 'given', p_window, 'minimum', 1, 'maximum', 1000)::text,
                HINT = 'Leave it out for the window of the organisation''s searches.';
    END IF;
    v_plan := kbsearch.prepare_kb_search_v1(p_org_id, p_query_text, p_query_embedding, p_limit, 0, NULL, NULL, '{}', NULL, NULL, p_profile, NULL, false, NULL, false);
    v_exact := v_plan;
    IF v_plan.window_tag IS NOT NULL THEN
        v_exact.allowed := v_plan.filtered;
        v_exact.window_articles := NULL;
        v_exact.window_tag := NULL;
    END IF;
    IF v_plan.window_tag IS NULL OR p_window IS NOT NULL THEN
        v_plan := kbsearch.window_kb_search_v1(
            v_exact, p_query_embedding, 'ann', coalesce(p_window, (SELECT o.ann_window FROM kbsearch.organizations AS o WHERE o.id = p_org_id)), NULL
        );
    END IF;
    v_said := kbsearch.describe_kb_retrieval_v1(v_plan, NULL, false);
    mode := v_said ->> 'mode';
    reason := v_said ->> 'reason';
    certain := (v_said ->> 'certain')::bigint;
    settled := (v_said ->> 'settled')::bigint;
    SELECT count(*), count(w.article_id), count(*) FILTER (WHERE w.place = e.place) INTO wanted, kept, in_order
    FROM kbsearch.rank_kb_articles_v1(v_exact, p_query_embedding, p_limit, 0, NULL, NULL) AS e
    LEFT JOIN kbsearch.rank_kb_articles_v1(v_plan, p_query_embedding, p_limit, 0, NULL, NULL) AS w ON w.article_id = e.article_id;
    IF clock_timestamp() > v_plan.deadline THEN
        PERFORM kbsearch.refuse_kb_overtime_v1(v_plan.budget, 'answer');
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION kbsearch.measure_kb_recall_v1(bigint, text, vector, bigint, text, integer) IS
'One search twice, exactly and through windows: how much of the exact ranking''s beginning the other has. The organisation needs an index of create_kb_ann_index_v1; what its searches use does not matter. Writes nothing.

Arguments:
p_org_id: The organisation.
p_query_text: The question.
p_query_embedding: Its vector.
p_limit: How many of the first places count, 0 … 1000.
p_profile: Ranking profile, name@version. NULL: the one that the organisation pins.
p_window: Articles in a leg''s window, 1 … 1000. NULL: those of the organisation''s searches.

Columns:
mode: ann, or exact where there were no windows.
reason: Why it was exact, as search_kb_hybrid_page_v1 has it.
wanted: Articles in the first p_limit places of the exact ranking.
kept: How many of these the windowed ranking has in its first p_limit places: divided by wanted the recall.
in_order: How many of these stand in the same place.
certain: Places of the windowed ranking that are certainly the exact one''s; NULL where it was exact.
settled: Those that are if the index''s window has the nearest vectors; NULL where it was exact.

Errors: KBORG, KBLIM, KBPRF, KBQRY, KBSPC, KBDIM, KBVEC, KBANN, KBTMO.';
