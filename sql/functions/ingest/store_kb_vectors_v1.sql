CREATE FUNCTION kbsearch.store_kb_vectors_v1(p_org_id bigint, p_article_id bigint, p_space_id bigint, p_chunks jsonb) RETURNS SETOF bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, chunk_id, article_id, embedding, input_sha256)
    SELECT p_org_id, p_space_id, c.id, p_article_id, g.embedding, g.input_sha256
    FROM kbsearch.list_kb_given_vectors_v1(p_chunks) AS g
    INNER JOIN kbsearch.kb_article_chunks AS c ON c.org_id = p_org_id AND c.article_id = p_article_id AND c.chunk_no = g.chunk_no
    ORDER BY c.id
    RETURNING chunk_id;
END;
COMMENT ON FUNCTION kbsearch.store_kb_vectors_v1(bigint, bigint, bigint, jsonb) IS
'Inserts the embeddings in p_chunks for the article''s chunks of the same chunk_no; returns their chunk ids.';
