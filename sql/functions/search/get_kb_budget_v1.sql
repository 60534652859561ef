CREATE FUNCTION kbsearch.get_kb_budget_v1() RETURNS integer
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_budget CONSTANT text := coalesce(nullif(current_setting('kbsearch.search_budget_ms', true), ''), '10000');
BEGIN
    IF v_budget !~ '^[0-9]{1,9}$' THEN
        RAISE EXCEPTION 'kbsearch.search_budget_ms is %, expected 0 to 999999999', quote_literal(v_budget)
            USING ERRCODE = 'KBLIM', DETAIL = jsonb_build_object('setting', 'kbsearch.search_budget_ms', 'given', v_budget, 'minimum', 0, 'maximum', 999999999)::text,
                HINT = 'SET kbsearch.search_budget_ms to a number of milliseconds; 0 is no budget.';
    END IF;
    RETURN v_budget;
END
$$;
COMMENT ON FUNCTION kbsearch.get_kb_budget_v1() IS
'The milliseconds that a call may take, as kbsearch.search_budget_ms has them, 10000 where it is not set; 0: any number. KBLIM where that is no such number.';
