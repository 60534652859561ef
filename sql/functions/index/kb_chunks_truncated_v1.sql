CREATE FUNCTION kbsearch.kb_chunks_truncated_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    IF TG_RELID <> 'kbsearch.kb_article_chunks'::regclass THEN
        PERFORM kbsearch.refuse_kb_trigger_v1(TG_RELID);
    END IF;
    BEGIN
        TRUNCATE kbsearch.kb_postings, kbsearch.kb_keyword_impacts, kbsearch.kb_keyword_blocks, kbsearch.kb_keyword_changes, kbsearch.kb_corpus_stats;
    EXCEPTION WHEN object_in_use THEN
        -- kb_corpus_stats is in the same TRUNCATE … CASCADE, and empty
        TRUNCATE kbsearch.kb_postings, kbsearch.kb_keyword_impacts, kbsearch.kb_keyword_blocks, kbsearch.kb_keyword_changes;
    END;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_chunks_truncated_v1() IS 'Trigger, after truncate of kb_article_chunks: empties the derived tables.';
