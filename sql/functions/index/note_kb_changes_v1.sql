-- A transaction whose snapshot is older than the blocks does not see them, so it always notes.
CREATE FUNCTION kbsearch.note_kb_changes_v1(p_org_id bigint, p_chunk_ids bigint []) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    INSERT INTO kbsearch.kb_keyword_changes (org_id, segment_id, chunk_count, chunk_ids)
    SELECT p_org_id, nextval('kbsearch.kb_segment_seq'), cardinality(p_chunk_ids), p_chunk_ids
    WHERE
        current_setting('transaction_isolation') <> 'read committed'
        OR EXISTS (SELECT FROM kbsearch.kb_keyword_blocks AS b WHERE b.org_id = p_org_id);
END;
COMMENT ON FUNCTION kbsearch.note_kb_changes_v1(bigint, bigint []) IS
'Notes chunks that are written, so that searches look them up elsewhere than in the organisation''s blocks; nothing where it has none.';
