CREATE FUNCTION kbsearch.count_kb_space_v1(p_org_id bigint, p_space_id bigint)
RETURNS TABLE (embedded bigint, lacking bigint, stale bigint, without_direction bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        count(e.chunk_id),
        count(*) FILTER (WHERE e.chunk_id IS NULL AND concat(c.title, c.heading, c.content) COLLATE "C" ~ '[^\u0001-\u0020\u007F-\u00A0\u1680\u2000-\u200B\u2028\u2029\u202F\u205F\u3000\uFEFF]'),
        count(*) FILTER (WHERE e.chunk_digest <> kbsearch.digest_kb_chunk_v1(c.title, c.heading, c.content)),
        count(*) FILTER (WHERE NOT e.has_direction)
    FROM kbsearch.kb_article_chunks AS c
    LEFT JOIN kbsearch.kb_article_embeddings AS e
        ON e.org_id = c.org_id AND e.article_id = c.article_id AND e.chunk_id = c.id AND e.space_id = p_space_id
    WHERE c.org_id = p_org_id AND c.searchable;
END;
COMMENT ON FUNCTION kbsearch.count_kb_space_v1(bigint, bigint) IS
'Of an organisation''s searchable chunks: how many have a vector in the space; how many with something to embed have none; how many have one of another content than they have now; how many have one without a direction.';
