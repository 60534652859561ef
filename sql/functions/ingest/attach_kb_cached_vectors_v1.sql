CREATE FUNCTION kbsearch.attach_kb_cached_vectors_v1(p_org_id bigint, p_space_id bigint, p_articles jsonb) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    WITH attached AS (
        INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, chunk_id, article_id, input_sha256, embedding)
        SELECT p_org_id, p_space_id, c.id, c.article_id, k.input_sha256, k.embedding
        FROM jsonb_to_recordset(p_articles) AS r (external_ref text, chunks jsonb)
        INNER JOIN kbsearch.kb_articles AS a ON a.org_id = p_org_id AND a.external_ref = r.external_ref
        CROSS JOIN LATERAL jsonb_array_elements(r.chunks) WITH ORDINALITY AS e (chunk, n)
        INNER JOIN kbsearch.kb_article_chunks AS c ON c.org_id = a.org_id AND c.article_id = a.id AND c.chunk_no = e.n - 1
        INNER JOIN kbsearch.kb_embedding_cache AS k
            ON k.org_id = p_org_id AND k.input_sha256 = decode(e.chunk ->> 'input_sha256', 'hex') AND k.space_id = p_space_id AND k.role = 'passage'
        ORDER BY c.id
        RETURNING 1
    )

    SELECT count(*) FROM attached;
END;
COMMENT ON FUNCTION kbsearch.attach_kb_cached_vectors_v1(bigint, bigint, jsonb) IS
'Gives the chunks that write_kb_articles_v1 has just written their vectors from the cache; returns how many got one.';
