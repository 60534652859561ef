-- A policy compares with a sub-select that depends on nothing in the row, so it is computed once a statement and is as good for an index as a parameter.
-- FORCE: most applications connect as the owner. Foreign keys are checked and cascade without it (PostgreSQL sees to that).
CREATE FUNCTION kbsearch.enable_kb_row_security_v1(p_source text DEFAULT 'setting', p_claim text DEFAULT 'org_id') RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_table record;
    v_bound text;
    v_count bigint := 0;
BEGIN
    IF p_source IS NULL OR p_source NOT IN ('setting', 'claim') THEN
        RAISE EXCEPTION 'p_source is %, expected setting or claim', coalesce(quote_literal(p_source), 'NULL')
            USING ERRCODE = 'KBSEC', DETAIL = jsonb_build_object('argument', 'p_source', 'given', p_source)::text,
                HINT = 'setting: the application sets kbsearch.org_id; claim: PostgREST sets request.jwt.claims.';
    END IF;
    IF p_claim IS NULL OR p_claim !~ '^[A-Za-z0-9_:/-]{1,100}([.][A-Za-z0-9_:/-]{1,100})*$' THEN
        RAISE EXCEPTION 'p_claim is no name of a claim'
            USING ERRCODE = 'KBSEC', DETAIL = jsonb_build_object('argument', 'p_claim', 'given', p_claim)::text,
                HINT = 'Pass the name of the claim that has the organisation''s id: org_id; or its path: app_metadata.org_id.';
    END IF;
    PERFORM kbsearch.disable_kb_row_security_v1();
    v_bound := format('(SELECT kbsearch.find_kb_bound_organization_v1(%L::text, %L::text))', p_source, p_claim);
    FOR v_table IN SELECT t.table_id, t.key, t.draft FROM kbsearch.list_kb_organization_tables_v1() AS t LOOP
        EXECUTE format('CREATE POLICY kb_bound ON %s USING (%I = %s) WITH CHECK (%I = %s)', v_table.table_id, v_table.key, v_bound, v_table.key, v_bound);
        IF v_table.draft IS NOT NULL THEN
            EXECUTE format(
                'CREATE POLICY kb_drafts ON %s AS RESTRICTIVE FOR SELECT USING (%I OR (SELECT has_table_privilege(%L::regclass, ''UPDATE'')))',
                v_table.table_id, v_table.draft, v_table.table_id
            );
        END IF;
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', v_table.table_id);
        v_count := v_count + 1;
    END LOOP;
    -- who makes and removes organisations is bound to none of them
    CREATE POLICY kb_directory ON kbsearch.organizations
    USING ((SELECT coalesce(current_setting('kbsearch.org_id', true), '') = '*' AND has_table_privilege('kbsearch.organizations'::regclass, 'INSERT')));
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION kbsearch.enable_kb_row_security_v1(text, text) IS
'Switches row-level security on, forced, for every table with an organisation''s rows: whoever is bound to an organisation sees and writes its rows only, who is bound to none sees none. The owner of the tables is bound like everybody else; superusers and roles with BYPASSRLS are not. A role without UPDATE on a table sees no drafts in it. Roles that may insert organisations see and change all rows of organizations, and no other table''s, with SET kbsearch.org_id = ''*''. Called again, it replaces what it did before. For the owner of the tables.

Arguments:
p_source: What binds a caller: setting, the setting kbsearch.org_id; or claim, a claim of the JWT that PostgREST and Supabase hand over in request.jwt.claims.
p_claim: Name of the claim, or its path: app_metadata.org_id. Of no meaning to setting.

Returns: the number of tables.

Errors: KBSEC (no such source or claim; the caller does not own the tables).';
