CREATE FUNCTION kbsearch.count_kb_chunk_statements_v1() RETURNS integer
LANGUAGE sql STABLE PARALLEL RESTRICTED
BEGIN ATOMIC
    SELECT coalesce(nullif(current_setting('kbsearch.chunk_statements', true), ''), '0')::integer;
END;
COMMENT ON FUNCTION kbsearch.count_kb_chunk_statements_v1() IS
'How many statements that write chunks are running in this session, triggers of theirs included.';
