CREATE FUNCTION kbsearch.delete_kb_article_v1(p_org_id bigint, p_article_id bigint DEFAULT NULL, p_external_ref text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    IF (p_article_id IS NULL) = (p_external_ref IS NULL) THEN
        RAISE EXCEPTION 'one of p_article_id and p_external_ref names the article, not both and not neither'
            USING ERRCODE = 'KBART', DETAIL = jsonb_build_object('org_id', p_org_id, 'article_id', p_article_id, 'external_ref', p_external_ref)::text,
                HINT = 'Pass the article''s id or its external reference.';
    END IF;
    -- the organisation's lock before the article's, which the removal of its chunks would take after it
    PERFORM pg_advisory_xact_lock_shared(kbsearch.lock_kb_corpus_v1(p_org_id, 'writers'));
    DELETE FROM kbsearch.kb_articles AS a
    WHERE a.org_id = p_org_id AND (a.id = p_article_id OR a.external_ref = p_external_ref);
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION kbsearch.delete_kb_article_v1(bigint, bigint, text) IS
'Deletes an article with its chunks and embeddings.

Arguments:
p_org_id: The organisation that the article belongs to.
p_article_id: The article''s id; either this or p_external_ref.
p_external_ref: The application''s own name of the article.

Returns: whether there was one.

Errors: KBORG, KBART.';
