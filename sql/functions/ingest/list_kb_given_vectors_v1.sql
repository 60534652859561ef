CREATE FUNCTION kbsearch.list_kb_given_vectors_v1(p_chunks jsonb)
RETURNS TABLE (chunk_no bigint, embedding vector, input_sha256 bytea, has_direction boolean)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT e.n - 1, v.embedding, decode(e.chunk ->> 'input_sha256', 'hex'), kbsearch.has_kb_direction_v1(v.embedding)
    FROM jsonb_array_elements(p_chunks) WITH ORDINALITY AS e (chunk, n)
    CROSS JOIN LATERAL (SELECT (e.chunk ->> 'embedding')::vector AS embedding) AS v
    WHERE jsonb_typeof(e.chunk -> 'embedding') = 'array';
END;
COMMENT ON FUNCTION kbsearch.list_kb_given_vectors_v1(jsonb) IS 'The embeddings in upsert_kb_article_v1''s p_chunks; chunk_no from 0.';
