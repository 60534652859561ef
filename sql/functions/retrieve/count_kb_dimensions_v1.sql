CREATE FUNCTION kbsearch.count_kb_dimensions_v1(p_embedding vector) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT vector_dims(p_embedding);
END;
COMMENT ON FUNCTION kbsearch.count_kb_dimensions_v1(vector) IS
'Number of dimensions of a vector. Bound when created, so it works wherever the extension vector is installed.';
