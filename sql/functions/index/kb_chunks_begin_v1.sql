-- A rebuild inside a statement that writes chunks (a change of reference_length in the same WITH, say) would count its rows, and the chunk triggers at
-- the end of the statement would count them once more. So such statements are counted while they run.
CREATE FUNCTION kbsearch.kb_chunks_begin_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    PERFORM set_config('kbsearch.chunk_statements', (kbsearch.count_kb_chunk_statements_v1() + TG_ARGV[0]::integer)::text, true);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_chunks_begin_v1() IS
'Trigger, first before (TG_ARGV[0] 1) and last after (-1) every statement that inserts, updates or deletes chunks: counts those that are running.';
