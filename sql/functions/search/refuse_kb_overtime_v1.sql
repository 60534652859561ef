-- PostgreSQL cannot change the time of a statement that runs, so a search looks at the clock itself: before each of its parts and in their loops, by
-- IF clock_timestamp() > deadline, which costs a tenth of a microsecond. What runs between two looks is ended by statement_timeout only.
CREATE FUNCTION kbsearch.refuse_kb_overtime_v1(p_budget integer, p_stage text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'the search is over its budget of % ms, before its %', p_budget, p_stage
        USING ERRCODE = 'KBTMO', DETAIL = jsonb_build_object('budget_ms', p_budget, 'stage', p_stage)::text,
            HINT = 'Ask with fewer words or for fewer rows, or later; or give searches more time: SET kbsearch.search_budget_ms, in milliseconds, 0 for no budget.';
END
$$;
COMMENT ON FUNCTION kbsearch.refuse_kb_overtime_v1(integer, text) IS
'Ends a search whose time is up: KBTMO. p_budget: milliseconds; p_stage: what would have been next: analysis, words, phrases, filters, window, ranking, explanation, answer.';
