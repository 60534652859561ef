-- Three advisory locks an organisation. "writers": every statement that writes chunks holds it shared, a change of language or reference_length
-- exclusively, so that no entry is made with the old value after the change. "maintenance": compact, rebuild and merges, one at a time.
-- "cache": who stores vectors in the cache, one at a time.
CREATE FUNCTION kbsearch.lock_kb_corpus_v1(p_org_id bigint, p_lock text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT hashtextextended('kbsearch ' || p_lock || ' ' || p_org_id::text, 0);
END;
COMMENT ON FUNCTION kbsearch.lock_kb_corpus_v1(bigint, text) IS
'The key of an organisation''s advisory lock; p_lock: writers, maintenance or cache.';
