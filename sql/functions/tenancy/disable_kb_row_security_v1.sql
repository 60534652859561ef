-- Searches read organizations before any other table, so whoever has that alone waits for no search that waits for him. Whoever else has a table is given
-- way to: all locks are given back, a little later all are asked for again. After a minute it waits like everybody else.
CREATE FUNCTION kbsearch.disable_kb_row_security_v1() RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_table record;
    v_policy name;
    v_count bigint := 0;
    v_attempt integer := 0;
    v_is_alone boolean;
BEGIN
    IF EXISTS (SELECT FROM kbsearch.list_kb_organization_tables_v1() AS t WHERE NOT t.owned) THEN
        RAISE EXCEPTION 'row-level security is for the owner of the tables to switch'
            USING ERRCODE = 'KBSEC', DETAIL = jsonb_build_object('role', current_user)::text, HINT = 'Call it as the role that installed kbsearch.';
    END IF;
    LOOP
        v_attempt := v_attempt + 1;
        v_is_alone := false;
        BEGIN
            LOCK TABLE kbsearch.organizations IN ACCESS EXCLUSIVE MODE;
            v_is_alone := true;
            EXIT WHEN v_attempt > 50;
            FOR v_table IN SELECT t.table_id FROM kbsearch.list_kb_organization_tables_v1() AS t LOOP
                EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE NOWAIT', v_table.table_id);
            END LOOP;
            EXIT;
        EXCEPTION
            WHEN lock_not_available THEN
                IF NOT v_is_alone THEN
                    RAISE;  -- the caller's own lock_timeout
                END IF;
        END;
        PERFORM pg_sleep(0.05 * v_attempt);
    END LOOP;
    FOR v_table IN SELECT t.table_id FROM kbsearch.list_kb_organization_tables_v1() AS t LOOP
        FOR v_policy IN
            SELECT p.polname FROM pg_policy AS p WHERE p.polrelid = v_table.table_id AND p.polname IN ('kb_bound', 'kb_directory', 'kb_drafts') ORDER BY p.polname
        LOOP
            EXECUTE format('DROP POLICY %I ON %s', v_policy, v_table.table_id);
        END LOOP;
        IF EXISTS (SELECT FROM pg_class AS c WHERE c.oid = v_table.table_id AND c.relrowsecurity)
            AND NOT EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = v_table.table_id)
        THEN
            EXECUTE format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY', v_table.table_id);
            v_count := v_count + 1;
        END IF;
    END LOOP;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION kbsearch.disable_kb_row_security_v1() IS
'Takes back what enable_kb_row_security_v1 did: its policies go, and row-level security is off for tables that have no other. For the owner of the tables.

Returns: the number of tables whose row-level security was switched off.

Errors: KBSEC (the caller does not own the tables).';
