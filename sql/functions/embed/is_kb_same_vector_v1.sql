CREATE FUNCTION kbsearch.is_kb_same_vector_v1(p_embedding vector, p_other vector) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT p_embedding = p_other;
END;
COMMENT ON FUNCTION kbsearch.is_kb_same_vector_v1(vector, vector) IS
'Whether two vectors have the same components. Bound when created, so it works wherever the extension vector is installed.';
