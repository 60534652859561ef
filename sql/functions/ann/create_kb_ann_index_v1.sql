CREATE FUNCTION kbsearch.create_kb_ann_index_v1(
    p_org_id bigint, p_space_id bigint DEFAULT NULL, p_m integer DEFAULT NULL, p_ef_construction integer DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_index record;
BEGIN
    -- so that two at a time do not both make the last of 200
    PERFORM pg_advisory_xact_lock(hashtextextended('kbsearch approximate indexes', 0));
    SELECT d.index_name, d.state, d.create_statement, d.comment_statement, d.drop_statement INTO v_index
    FROM kbsearch.define_kb_ann_index_v1(p_org_id, p_space_id, p_m, p_ef_construction, false) AS d;
    IF v_index.state IS DISTINCT FROM 'ready' THEN
        EXECUTE v_index.drop_statement;
        EXECUTE v_index.create_statement;
        EXECUTE v_index.comment_statement;
    END IF;
    RETURN v_index.index_name;
END
$$;
COMMENT ON FUNCTION kbsearch.create_kb_ann_index_v1(bigint, bigint, integer, integer) IS
'Builds the index by which searches of one organisation find near vectors without comparing all: a partial HNSW index (Malkov and Yashunin 2018) over its vectors in one space, by cosine. Searches use it where organizations.retrieval or their profile says ann or auto. Whoever writes vectors, of any organisation, waits until the transaction ends: kbsearch ann create builds it beside writers. A build that was broken off is dropped and done again; one that is there already is left.

Arguments:
p_org_id: The organisation.
p_space_id: The embedding space. NULL: the one that searches use.
p_m: Neighbours of a vector in the graph, 2 … 100. NULL: 16.
p_ef_construction: Candidates for them, 4 … 1000, at least twice p_m: more find better neighbours and take longer. NULL: 128, or twice p_m.

Returns: the name of the index.

Errors: KBORG; KBSPC: there is no such space; KBANN: numbers out of range, there is one that was built otherwise, or there are 200 of them in this database.';
