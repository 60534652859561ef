CREATE FUNCTION kbsearch.list_kb_spaces_v1(p_org_id bigint)
RETURNS TABLE (
    space_id bigint, name text, model text, revision text, dimensions integer, recipe_sha256 text, is_active boolean,
    embedded bigint, lacking bigint, stale bigint, without_direction bigint, cached bigint
)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    RETURN QUERY
    SELECT
        s.id, s.name, s.model, s.revision, s.dimensions, s.recipe_sha256, s.id IS NOT DISTINCT FROM o.active_space_id,
        c.embedded, c.lacking, c.stale, c.without_direction,
        (SELECT count(*) FROM kbsearch.kb_embedding_cache AS k WHERE k.org_id = o.id AND k.space_id = s.id)
    FROM kbsearch.organizations AS o
    CROSS JOIN kbsearch.kb_embedding_spaces AS s
    CROSS JOIN LATERAL kbsearch.count_kb_space_v1(o.id, s.id) AS c
    WHERE
        o.id = p_org_id AND (
            s.id = o.active_space_id
            OR EXISTS (SELECT FROM kbsearch.kb_article_embeddings AS e WHERE e.org_id = o.id AND e.space_id = s.id)
            OR EXISTS (SELECT FROM kbsearch.kb_embedding_cache AS k WHERE k.org_id = o.id AND k.space_id = s.id)
        )
    ORDER BY s.id;
END
$$;
COMMENT ON FUNCTION kbsearch.list_kb_spaces_v1(bigint) IS
'The embedding spaces that an organisation uses or has vectors in, and how far each of them is.

Arguments:
p_org_id: The organisation.

Columns:
space_id: The space, in ascending order.
name: Its name.
model: The model''s published name.
revision: Which weights.
dimensions: Components of a vector.
recipe_sha256: sha256 of the recipe.
is_active: Whether searches use it.
embedded: Published chunks that have a vector in it.
lacking: Published chunks with something to embed that have none.
stale: Published chunks whose vector is of an older content.
without_direction: Published chunks whose vector has no direction.
cached: Vectors in the cache.

Errors: KBORG.';
