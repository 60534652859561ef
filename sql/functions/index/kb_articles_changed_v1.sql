-- Postings are made by the chunk triggers alone; this one only passes on what chunks copy. It compares chunks with the articles as they are
-- now, so a statement that changes article and chunk together cannot leave either behind.
CREATE FUNCTION kbsearch.kb_articles_changed_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    UPDATE kbsearch.kb_article_chunks AS c
    SET searchable = n.published
    FROM new_rows AS n
    INNER JOIN old_rows AS o ON o.org_id = n.org_id AND o.id = n.id
    WHERE
        c.org_id = n.org_id AND c.article_id = n.id
        AND (o.title IS DISTINCT FROM n.title OR o.published <> n.published OR o.language IS DISTINCT FROM n.language);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_articles_changed_v1() IS
'Trigger, after update of kb_articles: updates the chunks of articles whose title, published or language changed, so that they copy them again.';
