-- Ids are handed out in the order of the references, so that what is ingested, and not when, decides ties.
CREATE FUNCTION kbsearch.reserve_kb_articles_v1(p_org_id bigint, p_external_refs text [])
RETURNS TABLE (external_ref text, article_id bigint, content_sha256 text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    IF p_external_refs IS NULL OR array_ndims(p_external_refs) > 1 OR EXISTS (SELECT FROM unnest(p_external_refs) AS given (external_ref) WHERE given.external_ref IS NULL) THEN
        RAISE EXCEPTION 'p_external_refs is NULL, has a NULL in it or is no simple list'
            USING ERRCODE = 'KBART', DETAIL = jsonb_build_object('argument', 'p_external_refs')::text, HINT = 'Pass the external reference of every article.';
    END IF;
    IF EXISTS (SELECT FROM unnest(p_external_refs) AS given (external_ref) WHERE octet_length(given.external_ref) > 2000) THEN
        RAISE EXCEPTION 'an external reference has more than 2000 bytes'
            USING ERRCODE = 'KBART', DETAIL = jsonb_build_object('argument', 'p_external_refs', 'maximum_bytes', 2000)::text, HINT = 'Refer to articles by shorter names, a hash of the long one for instance.';
    END IF;
    INSERT INTO kbsearch.kb_articles AS a (org_id, external_ref, published)
    SELECT p_org_id, r.external_ref, false
    FROM (SELECT DISTINCT given.external_ref COLLATE "C" AS external_ref FROM unnest(p_external_refs) AS given (external_ref)) AS r
    WHERE NOT EXISTS (SELECT FROM kbsearch.kb_articles AS e WHERE e.org_id = p_org_id AND e.external_ref = r.external_ref)
    ORDER BY r.external_ref
    ON CONFLICT ON CONSTRAINT kb_articles_org_id_external_ref_key DO NOTHING;
    RETURN QUERY
    SELECT a.external_ref, a.id, a.content_sha256
    FROM kbsearch.kb_articles AS a
    WHERE a.org_id = p_org_id AND a.external_ref = ANY (p_external_refs)
    ORDER BY a.external_ref COLLATE "C" ASC, a.id ASC;
END
$$;
COMMENT ON FUNCTION kbsearch.reserve_kb_articles_v1(bigint, text []) IS
'Gives articles their ids before they are written, in "C" order of their references, so that no id, and so no settled tie, depends on which document was read first. New ones are inserted unpublished and empty; upsert_kb_article_v1 fills them.

Arguments:
p_org_id: The organisation that the articles belong to.
p_external_refs: The application''s own names of the articles; no NULL among them; repeated ones count once.

Columns:
external_ref: The name, in "C" order.
article_id: The article''s id.
content_sha256: What the last upsert stored as p_content_sha256. NULL for an article that was only reserved.

Errors: KBORG, KBART.';
