CREATE FUNCTION kbsearch.has_kb_direction_v1(p_embedding vector) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT vector_norm(p_embedding) BETWEEN 1e-15::double precision AND 1e15::double precision;
END;
COMMENT ON FUNCTION kbsearch.has_kb_direction_v1(vector) IS
'Whether a cosine with this vector means anything: false for the zero vector and for norms outside 1e-15 … 1e15, where single precision under- or overflows.';
