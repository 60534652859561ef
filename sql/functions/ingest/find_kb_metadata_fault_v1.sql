-- A path goes no deeper than it is asked to, so that a value of any depth is measured safely.
CREATE FUNCTION kbsearch.find_kb_metadata_fault_v1(p_metadata jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE
        WHEN jsonb_typeof(coalesce(p_metadata, 'null')) <> 'object' THEN 'the metadata are no object'
        WHEN p_metadata @? '$.**{65}' THEN 'the metadata are more than 64 levels deep'
        WHEN octet_length(p_metadata::text) > 262144 THEN format('the metadata have %s bytes, at most 262144', octet_length(p_metadata::text))
    END;
END;
COMMENT ON FUNCTION kbsearch.find_kb_metadata_fault_v1(jsonb) IS
'What is wrong with the metadata of an article; NULL where nothing is. They are an object of at most 64 levels and 262,144 bytes as text.';
