-- GRANT only warns where the caller owns nothing to grant, so that is asked first.
CREATE FUNCTION kbsearch.grant_kb_rights_v1(p_right text, p_role text, p_create boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_grant text;
BEGIN
    IF p_right IS NULL OR p_right NOT IN ('reader', 'writer', 'admin') THEN
        RAISE EXCEPTION 'p_right is %, expected reader, writer or admin', coalesce(quote_literal(p_right), 'NULL')
            USING ERRCODE = 'KBSEC', DETAIL = jsonb_build_object('argument', 'p_right', 'given', p_right)::text,
                HINT = 'A reader searches, a writer writes articles too, an admin maintains and makes organisations.';
    END IF;
    IF EXISTS (SELECT FROM kbsearch.list_kb_organization_tables_v1() AS t WHERE NOT t.owned) THEN
        RAISE EXCEPTION 'rights are for the owner of the tables to grant'
            USING ERRCODE = 'KBSEC', DETAIL = jsonb_build_object('role', current_user)::text, HINT = 'Call it as the role that installed kbsearch.';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = p_role) THEN
        IF NOT coalesce(p_create, false) OR NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = current_user AND (r.rolsuper OR r.rolcreaterole)) THEN
            RAISE EXCEPTION 'there is no role %', coalesce(quote_literal(p_role), 'NULL')
                USING ERRCODE = 'KBSEC', DETAIL = jsonb_build_object('argument', 'p_role', 'given', p_role, 'may_create', p_create AND EXISTS (
                        SELECT FROM pg_roles AS r WHERE r.rolname = current_user AND (r.rolsuper OR r.rolcreaterole)
                    ))::text,
                    HINT = CASE WHEN p_create THEN 'This role may not create roles; somebody who may runs: CREATE ROLE ' || coalesce(quote_ident(p_role), 'reader') || ' NOLOGIN;'
                        ELSE 'Name a role of this server, or pass p_create => true.' END;
        END IF;
        EXECUTE format('CREATE ROLE %I NOLOGIN', p_role);
    END IF;
    FOREACH v_grant IN ARRAY ARRAY[
        'USAGE ON SCHEMA kbsearch',
        'EXECUTE ON ALL FUNCTIONS IN SCHEMA kbsearch',
        'SELECT ON kbsearch.organizations, kbsearch.kb_embedding_spaces, kbsearch.kb_source_kinds, kbsearch.kb_builtin_profiles, kbsearch.kb_ranking_profiles, '
        || 'kbsearch.kb_builtin_policies, kbsearch.kb_arbitration_policies, kbsearch.kb_articles, kbsearch.kb_article_chunks, kbsearch.kb_article_embeddings, '
        || 'kbsearch.kb_postings, kbsearch.kb_corpus_stats, kbsearch.kb_keyword_blocks, kbsearch.kb_keyword_impacts, kbsearch.kb_keyword_changes, '
        || 'kbsearch.kb_cursor_keys',
        -- stored rankings: the columns that are named are there to be locked
        'SELECT, INSERT, DELETE, UPDATE (expires_at) ON kbsearch.kb_search_snapshots',
        'SELECT, INSERT ON kbsearch.kb_search_snapshot_blocks'
    ]
    || CASE WHEN p_right IN ('writer', 'admin') THEN ARRAY[
        'INSERT, UPDATE, DELETE ON kbsearch.kb_articles, kbsearch.kb_article_chunks, kbsearch.kb_article_embeddings',
        'USAGE ON SEQUENCE kbsearch.kb_article_chunks_id_seq',
        'SELECT, INSERT, UPDATE, DELETE ON kbsearch.kb_embedding_inputs, kbsearch.kb_embedding_cache, kbsearch.kb_embedding_counts, kbsearch.kb_ingest_sources, '
        || 'kbsearch.kb_gold_sets, kbsearch.kb_gold_questions, kbsearch.kb_gold_judgements',
        'INSERT, DELETE ON kbsearch.kb_ranking_profiles, kbsearch.kb_arbitration_policies',
        'SELECT, INSERT, DELETE ON kbsearch.kb_arbitration_log',
        'UPDATE (name, active_space_id, ranking_profile, retrieval, ann_window, arbitration_log) ON kbsearch.organizations'
    ] ELSE '{}' END
    || CASE WHEN p_right = 'admin' THEN ARRAY[
        'INSERT, UPDATE, DELETE ON kbsearch.organizations, kbsearch.kb_embedding_spaces, kbsearch.kb_source_kinds',
        'INSERT, DELETE ON kbsearch.kb_postings, kbsearch.kb_corpus_stats, kbsearch.kb_keyword_blocks, kbsearch.kb_keyword_impacts, '
        || 'kbsearch.kb_keyword_changes, kbsearch.kb_cursor_keys',
        'USAGE ON SEQUENCE kbsearch.kb_segment_seq'
    ] ELSE '{}' END
    LOOP
        EXECUTE format('GRANT %s TO %I', v_grant, p_role);
    END LOOP;
    -- those act as the owner: nobody else is to make triggers of them
    FOR v_grant IN
        SELECT format('EXECUTE ON FUNCTION %s', p.oid::regprocedure)
        FROM pg_proc AS p
        WHERE p.pronamespace = (SELECT c.relnamespace FROM pg_class AS c WHERE c.oid = 'kbsearch.organizations'::regclass) AND p.prorettype = 'trigger'::regtype
            AND p.proowner <> (SELECT r.oid FROM pg_roles AS r WHERE r.rolname = p_role)
        ORDER BY p.proname COLLATE "C" ASC
    LOOP
        EXECUTE format('REVOKE %s FROM %I', v_grant, p_role);
    END LOOP;
END
$$;
COMMENT ON FUNCTION kbsearch.grant_kb_rights_v1(text, text, boolean) IS
'Grants a role what it needs and nothing more. A reader searches, explains, opens articles and stores rankings; it cannot read the embedding cache, logs and sources of ingests and, under row-level security, drafts. A writer writes articles, vectors, profiles and logs too, and not the derived tables, which triggers keep. An admin makes and removes organisations, embedding spaces and kinds, and compacts, rebuilds and calibrates. None may make triggers of the trigger functions, which act as the owner. Takes nothing else away. For the owner of the tables.

Arguments:
p_right: reader, writer or admin.
p_role: The role.
p_create: Whether it is created (NOLOGIN) where there is none, which takes CREATEROLE.

Errors: KBSEC (no such right or role; the caller does not own the tables).';
