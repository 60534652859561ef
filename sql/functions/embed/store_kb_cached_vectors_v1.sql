-- Vectors are looked up one by one: a join could read all of the cache, while statistics know nothing of it yet. The lock on the chunks: one that is deleted meanwhile is passed over, too, and its foreign key does not fail the others.
CREATE FUNCTION kbsearch.store_kb_cached_vectors_v1(
    p_org_id bigint, p_space_id bigint, p_article_ids bigint [], p_chunk_ids bigint [], p_chunk_digests bytea [], p_input_sha256 bytea []
) RETURNS SETOF bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    INSERT INTO kbsearch.kb_article_embeddings AS e (org_id, space_id, chunk_id, article_id, chunk_digest, input_sha256, embedding)
    SELECT p_org_id, p_space_id, f.id, f.article_id, f.chunk_digest, f.input_sha256, f.embedding
    FROM (
        SELECT c.id, c.article_id, g.chunk_digest, g.input_sha256, (
            SELECT k.embedding
            FROM kbsearch.kb_embedding_cache AS k
            WHERE k.org_id = p_org_id AND k.input_sha256 = g.input_sha256 AND k.space_id = p_space_id AND k.role = 'passage'
        ) AS embedding
        FROM unnest(p_article_ids, p_chunk_ids, p_chunk_digests, p_input_sha256) AS g (article_id, chunk_id, chunk_digest, input_sha256)
        INNER JOIN kbsearch.kb_article_chunks AS c ON c.id = g.chunk_id AND c.article_id = g.article_id
        WHERE
            c.org_id = p_org_id AND c.id = ANY (p_chunk_ids)
            AND kbsearch.digest_kb_chunk_v1(c.title, c.heading, c.content) = g.chunk_digest
        ORDER BY c.id
        FOR KEY SHARE OF c
    ) AS f
    WHERE f.embedding IS NOT NULL
    ON CONFLICT (org_id, article_id, chunk_id, space_id) DO UPDATE
    SET embedding = excluded.embedding, input_sha256 = excluded.input_sha256, chunk_digest = excluded.chunk_digest
    WHERE e.chunk_digest IS DISTINCT FROM excluded.chunk_digest OR e.input_sha256 IS DISTINCT FROM excluded.input_sha256 OR NOT e.has_direction
    RETURNING e.chunk_id;
END;
COMMENT ON FUNCTION kbsearch.store_kb_cached_vectors_v1(bigint, bigint, bigint [], bigint [], bytea [], bytea []) IS
'Gives chunks their vectors from the cache, in a space; the arrays have an element a chunk. p_chunk_digests: digest_kb_chunk_v1 of the chunks as they were read: one that says something else by now is passed over, and so is one that has this vector. Returns the ids of the others.';
