CREATE FUNCTION kbsearch.attach_kb_cached_vectors_v1(p_org_id bigint, p_space_id bigint, p_article_ids bigint [], p_articles jsonb) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    WITH given AS MATERIALIZED (
        SELECT p_article_ids[r.n] AS article_id, e.n - 1 AS chunk_no, decode(e.chunk ->> 'input_sha256', 'hex') AS input_sha256
        FROM jsonb_array_elements(p_articles) WITH ORDINALITY AS r (article, n)
        CROSS JOIN LATERAL jsonb_array_elements(r.article -> 'chunks') WITH ORDINALITY AS e (chunk, n)
    ),

    written AS MATERIALIZED (
        SELECT c.id, c.article_id, c.chunk_no
        FROM kbsearch.kb_article_chunks AS c
        WHERE c.org_id = p_org_id AND c.article_id = ANY (p_article_ids)
    ),

    found AS MATERIALIZED (
        SELECT w.id, w.article_id, g.input_sha256, (
            SELECT k.embedding
            FROM kbsearch.kb_embedding_cache AS k
            WHERE k.org_id = p_org_id AND k.input_sha256 = g.input_sha256 AND k.space_id = p_space_id AND k.role = 'passage'
        ) AS embedding
        FROM written AS w
        INNER JOIN given AS g ON g.article_id = w.article_id AND g.chunk_no = w.chunk_no
    ),

    attached AS (
        INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, chunk_id, article_id, input_sha256, embedding)
        SELECT p_org_id, p_space_id, f.id, f.article_id, f.input_sha256, f.embedding
        FROM found AS f
        WHERE f.embedding IS NOT NULL
        ORDER BY f.id
        RETURNING 1
    )

    SELECT count(*) FROM attached;
END;
COMMENT ON FUNCTION kbsearch.attach_kb_cached_vectors_v1(bigint, bigint, bigint [], jsonb) IS
'Gives the chunks that write_kb_articles_v1 has just written their vectors from the cache; p_article_ids: the articles'' ids, in the order of p_articles. Returns how many got one.';
