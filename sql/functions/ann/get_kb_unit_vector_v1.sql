-- Creating this function makes the session load pgvector's library, in a restored dump too, where functions come in the order of their names. Without it only
-- a superuser may create functions that SET hnsw.*.
CREATE FUNCTION kbsearch.get_kb_unit_vector_v1() RETURNS vector
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT '[1]'::vector;
END;
COMMENT ON FUNCTION kbsearch.get_kb_unit_vector_v1() IS 'The vector of one component, 1.';
