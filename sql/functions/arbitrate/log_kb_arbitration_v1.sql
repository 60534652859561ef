CREATE FUNCTION kbsearch.log_kb_arbitration_v1(p_org_id bigint, p_manifest jsonb, p_query_text text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_keeps text := (SELECT o.arbitration_log FROM kbsearch.organizations AS o WHERE o.id = p_org_id);
    v_digest text;
    v_problem text;
    v_id bigint;
BEGIN
    IF v_keeps IS NULL THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    IF v_keeps = 'off' THEN
        RAISE EXCEPTION 'organisation % keeps no log of arbitrations', p_org_id
            USING ERRCODE = 'KBARB', DETAIL = jsonb_build_object('org_id', p_org_id, 'problem', 'the log is off')::text,
                HINT = 'UPDATE kbsearch.organizations SET arbitration_log = ''hash'' (or ''text'', to keep the questions, too).';
    END IF;
    v_problem := kbsearch.find_kb_manifest_fault_v1(p_manifest);
    IF v_problem IS NULL AND p_query_text IS NOT NULL AND kbsearch.hash_kb_text_v1(p_query_text) <> p_manifest ->> 'query_hash' THEN
        v_problem := 'the text is not the question of the manifest';
    END IF;
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION 'the arbitration cannot be logged: %', v_problem
            USING ERRCODE = 'KBARB', DETAIL = jsonb_build_object('org_id', p_org_id, 'problem', v_problem)::text,
                HINT = 'Pass the manifest of a search as it came, with the text that was searched for.';
    END IF;
    INSERT INTO kbsearch.kb_arbitration_log (org_id, manifest, query_text)
    VALUES (p_org_id, p_manifest, CASE WHEN v_keeps = 'text' THEN p_query_text END)
    RETURNING id INTO v_id;
    RETURN v_id;
END
$$;
COMMENT ON FUNCTION kbsearch.log_kb_arbitration_v1(bigint, jsonb, text) IS
'Writes what a search decided into the organisation''s log, where it keeps one (organizations.arbitration_log).

Arguments:
p_org_id: The organisation that was searched.
p_manifest: The manifest that came with the search.
p_query_text: The question; kept where the organisation keeps texts, and checked against the manifest''s hash everywhere. NULL: not kept.

Returns: id of the row.

Errors: KBORG, KBARB (there is no log; the manifest was changed; the text is another search''s).';
