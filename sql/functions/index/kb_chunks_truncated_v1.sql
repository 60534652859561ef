CREATE FUNCTION kbsearch.kb_chunks_truncated_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    TRUNCATE kbsearch.kb_postings;
    -- may be in the same TRUNCATE … CASCADE, where it cannot be truncated again
    DELETE FROM kbsearch.kb_corpus_stats AS s WHERE true;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_chunks_truncated_v1() IS 'Trigger, after truncate of kb_article_chunks: empties the derived tables.';
