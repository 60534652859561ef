CREATE FUNCTION kbsearch.get_kb_source_v1(p_org_id bigint, p_article_id bigint, p_chunk_id bigint DEFAULT NULL)
RETURNS TABLE (
    article_id bigint, chunk_id bigint, chunk_no integer, heading text, content text, kind text, title text, external_ref text, source_uri text,
    metadata jsonb
)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_reason text;
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations as p_org_id.';
    END IF;
    -- a draft is not there
    SELECT CASE WHEN coalesce(k.inspectable, true) THEN 'found' ELSE 'not_inspectable' END INTO v_reason
    FROM kbsearch.kb_articles AS a
    LEFT JOIN kbsearch.kb_source_kinds AS k ON k.kind = a.kind
    WHERE a.org_id = p_org_id AND a.id = p_article_id AND a.published;
    IF v_reason IS NULL OR (v_reason = 'found' AND p_chunk_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = p_org_id AND c.id = p_chunk_id AND c.article_id = p_article_id
    )) THEN
        v_reason := 'not_found';
    END IF;
    IF v_reason <> 'found' THEN
        RAISE EXCEPTION '%', CASE v_reason
            WHEN 'not_inspectable' THEN format('article %s is of a kind that has nothing to open', p_article_id)
            ELSE format('there is no published article %s%s in organisation %s', coalesce(p_article_id::text, 'NULL'), ' with a chunk ' || p_chunk_id, p_org_id)
        END
            USING ERRCODE = 'KBSRC', DETAIL = jsonb_build_object('org_id', p_org_id, 'article_id', p_article_id, 'chunk_id', p_chunk_id, 'reason', v_reason)::text,
                HINT = 'Open what a search returned with inspectable true, by its article_id and chunk_id.';
    END IF;
    RETURN QUERY
    SELECT c.article_id, c.id, c.chunk_no, c.heading, c.content, a.kind, a.title, a.external_ref, a.source_uri, a.metadata
    FROM kbsearch.kb_article_chunks AS c
    INNER JOIN kbsearch.kb_articles AS a ON a.org_id = c.org_id AND a.id = c.article_id
    WHERE c.org_id = p_org_id AND c.article_id = p_article_id AND (p_chunk_id IS NULL OR c.id = p_chunk_id)
    ORDER BY c.chunk_no ASC, c.id ASC;
END
$$;
COMMENT ON FUNCTION kbsearch.get_kb_source_v1(bigint, bigint, bigint) IS
'Opens what a search found: a passage of a published article, or all of them in the order of the text. Refuses articles of kinds that have nothing to open (kb_source_kinds.inspectable). Writes nothing.

Arguments:
p_org_id: The organisation that the article belongs to.
p_article_id: The article.
p_chunk_id: The passage. NULL: all of them.

Columns:
article_id: The article.
chunk_id: The passage.
chunk_no: Its number within the article.
heading: The heading it stands under.
content: Its text.
kind: The article''s kind.
title: The article''s title.
external_ref: The application''s own name of the article.
source_uri: Where the article comes from.
metadata: The article''s metadata, an object.

Errors: KBORG; KBSRC where there is nothing to open.';
