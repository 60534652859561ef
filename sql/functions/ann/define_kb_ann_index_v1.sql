CREATE FUNCTION kbsearch.define_kb_ann_index_v1(
    p_org_id bigint, p_space_id bigint DEFAULT NULL, p_m integer DEFAULT NULL, p_ef_construction integer DEFAULT NULL, p_concurrently boolean DEFAULT true
) RETURNS TABLE (space_id bigint, index_name text, state text, create_statement text, comment_statement text, drop_statement text)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_m CONSTANT integer := coalesce(p_m, 16);
    v_ef_construction CONSTANT integer := coalesce(p_ef_construction, greatest(128, 2 * least(greatest(v_m, 0), 100)));
    v_space_id bigint;
    v_dimensions integer;
    v_extension text;
    v_definition text;
    v_count bigint;
BEGIN
    SELECT coalesce(p_space_id, o.active_space_id) INTO v_space_id FROM kbsearch.organizations AS o WHERE o.id = p_org_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    SELECT s.dimensions INTO v_dimensions FROM kbsearch.kb_embedding_spaces AS s WHERE s.id = v_space_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no embedding space %', coalesce(v_space_id::text, 'that searches of the organisation use')
            USING ERRCODE = 'KBSPC', DETAIL = jsonb_build_object('org_id', p_org_id, 'space_id', v_space_id)::text,
                HINT = 'Pass the id of a row of kbsearch.kb_embedding_spaces, or embed the organisation''s chunks first.';
    END IF;
    IF v_m NOT BETWEEN 2 AND 100 OR v_ef_construction NOT BETWEEN 4 AND 1000 OR v_ef_construction < 2 * v_m THEN
        RAISE EXCEPTION 'm is % and ef_construction %, expected 2 to 100, and 4 to 1000 and at least twice m', v_m, v_ef_construction
            USING ERRCODE = 'KBANN', DETAIL = jsonb_build_object('m', v_m, 'ef_construction', v_ef_construction)::text, HINT = 'Leave both out for 16 and 128.';
    END IF;
    SELECT quote_ident(n.nspname) INTO v_extension
    FROM pg_attribute AS a
    INNER JOIN pg_type AS t ON t.oid = a.atttypid
    INNER JOIN pg_namespace AS n ON n.oid = t.typnamespace
    WHERE a.attrelid = 'kbsearch.kb_article_embeddings'::regclass AND a.attname = 'embedding';
    space_id := v_space_id;
    index_name := format('kb_ann_%s_%s', p_org_id, v_space_id);
    SELECT l.state, l.definition INTO state, v_definition FROM kbsearch.list_kb_ann_indexes_v1(p_org_id) AS l WHERE l.space_id = v_space_id;
    IF state IS NULL AND to_regclass('kbsearch.' || index_name) IS NOT NULL THEN
        state := 'foreign';
    END IF;
    IF state = 'foreign' THEN
        RAISE EXCEPTION 'there is a % that is no index for approximate search', index_name
            USING ERRCODE = 'KBANN', DETAIL = jsonb_build_object('index', index_name, 'definition', v_definition)::text, HINT = 'Rename or drop it.';
    END IF;
    IF state = 'ready' AND v_definition !~ format(' WITH \(m=%s, ef_construction=%s\)', coalesce(p_m::text, '\d+'), coalesce(p_ef_construction::text, '\d+')) THEN
        RAISE EXCEPTION 'there is such an index already, built otherwise'
            USING ERRCODE = 'KBANN', DETAIL = jsonb_build_object('index', index_name, 'definition', v_definition)::text,
                HINT = 'Drop it first: kbsearch ann drop, or drop_kb_ann_index_v1.';
    END IF;
    SELECT count(*) INTO v_count
    FROM pg_index AS i
    INNER JOIN pg_class AS c ON c.oid = i.indexrelid
    WHERE i.indrelid = 'kbsearch.kb_article_embeddings'::regclass AND c.relname ~ '^kb_ann_[0-9]+_[0-9]+$' AND c.relname <> index_name;
    IF v_count >= 200 THEN
        RAISE EXCEPTION 'there are % indexes for approximate search, and at most 200 may be', v_count
            USING ERRCODE = 'KBANN', DETAIL = jsonb_build_object('count', v_count, 'maximum', 200)::text,
                HINT = 'Each costs every search and every write a little. Drop those of smaller organisations, which are fast without.';
    END IF;
    create_statement := format(
        'CREATE INDEX %s%s ON kbsearch.kb_article_embeddings USING hnsw ((embedding::%s.vector(%s)) %s.vector_cosine_ops) WITH (m = %s, ef_construction = %s) WHERE org_id = %s AND space_id = %s',
        CASE WHEN p_concurrently THEN 'CONCURRENTLY ' ELSE '' END, index_name, v_extension, v_dimensions, v_extension, v_m, v_ef_construction, p_org_id, v_space_id
    );
    comment_statement := format('COMMENT ON INDEX kbsearch.%s IS %L', index_name, 'Approximate search; build ' || gen_random_uuid());
    drop_statement := format('DROP INDEX %sIF EXISTS kbsearch.%s', CASE WHEN p_concurrently THEN 'CONCURRENTLY ' ELSE '' END, index_name);
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION kbsearch.define_kb_ann_index_v1(bigint, bigint, integer, integer, boolean) IS
'What there is to run for an index of create_kb_ann_index_v1, which cannot be built CONCURRENTLY by a function: create_statement, then comment_statement, each outside of a transaction.

Arguments:
p_org_id: The organisation.
p_space_id: The embedding space. NULL: the one that searches use.
p_m: Neighbours of a vector in the graph, 2 … 100. NULL: 16.
p_ef_construction: Candidates for them, 4 … 1000, at least twice p_m. NULL: 128, or twice p_m.
p_concurrently: Whether writers go on meanwhile.

Columns:
space_id: The space.
index_name: The index''s name.
state: ready (nothing is to be done), building, invalid (drop_statement comes first), or NULL: there is none.
create_statement: Builds it.
comment_statement: Notes which build it is.
drop_statement: Drops it.

Errors: KBORG; KBSPC; KBANN: numbers out of range, there is one that was built otherwise, or there are 200.';
