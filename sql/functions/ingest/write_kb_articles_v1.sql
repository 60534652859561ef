-- One statement writes the chunks of all articles: their postings are merged once, which is several times faster than article by article. Rows are
-- looked up by ids and by subqueries: a join could read all of the organisation's, while statistics know nothing of what was loaded a moment ago.
CREATE FUNCTION kbsearch.write_kb_articles_v1(p_org_id bigint, p_articles jsonb, p_space_id bigint DEFAULT NULL, p_chunk_ids bigint [] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_fault text;
    v_language text;
    v_article_ids bigint[];
    v_written bigint;
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    IF jsonb_typeof(coalesce(p_articles, 'null')) <> 'array' THEN
        RAISE EXCEPTION 'the articles cannot be stored: p_articles is no array'
            USING ERRCODE = 'KBART', DETAIL = jsonb_build_object('org_id', p_org_id, 'argument', 'p_articles')::text,
                HINT = 'Pass an array of objects; a single article is for upsert_kb_article_v1.';
    END IF;
    IF p_space_id IS NOT NULL AND NOT EXISTS (SELECT FROM kbsearch.kb_embedding_spaces AS s WHERE s.id = p_space_id) THEN
        RAISE EXCEPTION 'there is no embedding space %', p_space_id
            USING ERRCODE = 'KBSPC', DETAIL = jsonb_build_object('org_id', p_org_id, 'space_id', p_space_id)::text,
                HINT = 'Pass the id of a row of kbsearch.kb_embedding_spaces, or NULL to store no vectors.';
    END IF;
    SELECT min(r.article ->> 'language') INTO v_language
    FROM jsonb_array_elements(p_articles) AS r (article)
    WHERE r.article ->> 'language' IS NOT NULL AND kbsearch.find_kb_language_v1(r.article ->> 'language') IS NULL;
    IF v_language IS NOT NULL THEN
        RAISE EXCEPTION 'there is no text search configuration %', quote_literal(v_language)
            USING ERRCODE = 'KBLNG', DETAIL = jsonb_build_object('argument', 'p_articles', 'given', v_language)::text,
                HINT = 'Name one of pg_catalog.pg_ts_config, german for instance (outside of pg_catalog: schema.name), or NULL for the organisation''s.';
    END IF;
    v_fault := kbsearch.find_kb_articles_fault_v1(p_articles);
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION 'the articles cannot be stored: %', v_fault
            USING ERRCODE = 'KBART', DETAIL = jsonb_build_object('org_id', p_org_id, 'argument', 'p_articles', 'problem', v_fault)::text,
                HINT = 'p_articles is an array of objects as the function''s COMMENT has them, each external_ref once.';
    END IF;

    IF p_chunk_ids IS NOT NULL AND (
        array_ndims(p_chunk_ids) > 1 OR array_position(p_chunk_ids, NULL) IS NOT NULL
        OR cardinality(p_chunk_ids) <> (SELECT coalesce(sum(jsonb_array_length(r.article -> 'chunks')), 0) FROM jsonb_array_elements(p_articles) AS r (article))
    ) THEN
        RAISE EXCEPTION 'p_chunk_ids is no simple list of an id for each chunk'
            USING ERRCODE = 'KBART', DETAIL = jsonb_build_object('org_id', p_org_id, 'argument', 'p_chunk_ids', 'given', cardinality(p_chunk_ids))::text,
                HINT = 'Take as many ids from the sequence of kb_article_chunks.id as there are chunks, or pass NULL.';
    END IF;

    -- the organisation's lock before the articles', and those in the order of their ids
    PERFORM pg_advisory_xact_lock_shared(kbsearch.lock_kb_corpus_v1(p_org_id, 'writers'));
    v_article_ids := ARRAY(
        SELECT (SELECT a.id FROM kbsearch.kb_articles AS a WHERE a.org_id = p_org_id AND a.external_ref = r.article ->> 'external_ref')
        FROM jsonb_array_elements(p_articles) WITH ORDINALITY AS r (article, n)
        ORDER BY r.n
    );
    PERFORM 1
    FROM kbsearch.kb_articles AS a
    WHERE a.org_id = p_org_id AND a.id = ANY (v_article_ids)
    ORDER BY a.id
    FOR UPDATE;
    -- without those that were deleted while this waited for them
    v_article_ids := ARRAY(
        SELECT (SELECT a.id FROM kbsearch.kb_articles AS a WHERE a.org_id = p_org_id AND a.id = w.id)
        FROM unnest(v_article_ids) WITH ORDINALITY AS w (id, n)
        ORDER BY w.n
    );
    DELETE FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = p_org_id AND c.article_id = ANY (v_article_ids);
    UPDATE kbsearch.kb_articles AS a
    SET
        kind = r.kind, title = r.title, body = r.body, language = CASE WHEN r.language IS NOT NULL THEN kbsearch.find_kb_language_v1(r.language) END, published = r.published,
        metadata = r.metadata, source_uri = r.source_uri, content_sha256 = r.content_sha256
    FROM jsonb_to_recordset(p_articles) AS r (
        external_ref text, kind text, title text, body text, language text, published boolean, metadata jsonb, source_uri text, content_sha256 text
    )
    WHERE a.org_id = p_org_id AND a.id = ANY (v_article_ids) AND a.external_ref = r.external_ref;
    IF p_chunk_ids IS NULL THEN
        INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, chunk_no, heading, content)
        SELECT p_org_id, v_article_ids[r.n], e.n - 1, e.chunk ->> 'heading', e.chunk ->> 'content'
        FROM jsonb_array_elements(p_articles) WITH ORDINALITY AS r (article, n)
        CROSS JOIN LATERAL jsonb_array_elements(r.article -> 'chunks') WITH ORDINALITY AS e (chunk, n)
        WHERE v_article_ids[r.n] IS NOT NULL
        ORDER BY v_article_ids[r.n], e.n;
    ELSE
        INSERT INTO kbsearch.kb_article_chunks (org_id, id, article_id, chunk_no, heading, content)
        SELECT p_org_id, p_chunk_ids[g.place], v_article_ids[g.article_n], g.n - 1, g.chunk ->> 'heading', g.chunk ->> 'content'
        FROM (
            SELECT r.n AS article_n, e.n, e.chunk, row_number() OVER (ORDER BY r.n, e.n) AS place
            FROM jsonb_array_elements(p_articles) WITH ORDINALITY AS r (article, n)
            CROSS JOIN LATERAL jsonb_array_elements(r.article -> 'chunks') WITH ORDINALITY AS e (chunk, n)
        ) AS g
        WHERE v_article_ids[g.article_n] IS NOT NULL
        ORDER BY v_article_ids[g.article_n], g.n;
    END IF;
    GET DIAGNOSTICS v_written = ROW_COUNT;
    RETURN CASE WHEN p_space_id IS NULL THEN v_written ELSE kbsearch.attach_kb_cached_vectors_v1(p_org_id, p_space_id, v_article_ids, p_articles) END;
END
$$;
COMMENT ON FUNCTION kbsearch.write_kb_articles_v1(bigint, jsonb, bigint, bigint []) IS
'Writes many articles at once, with their chunks, and vectors from the cache: what kbsearch ingest does. They replace those of the same external_ref, which reserve_kb_articles_v1 has made; others are passed over. On an error nothing is stored. The first article that cannot be stored is named by its number.

Arguments:
p_org_id: The organisation that the articles belong to.
p_articles: Array of objects {"external_ref", "kind", "title", "body", "language", "published", "metadata", "source_uri", "content_sha256", "chunks"}, all given, each external_ref once; chunks are an array of {"content", "heading", "input_sha256"}, the last in hexadecimal digits, as upsert_kb_article_v1 has them.
p_space_id: Embedding space in which chunks with an input_sha256 get the vector that the cache has of it. NULL: no vectors.
p_chunk_ids: Ids of the chunks, in the order in which they are given, as many as there are; taken from the sequence of kb_article_chunks.id before, so that they do not depend on which of several writers is first. NULL: as they come.

Returns: the number of chunks that were written; with p_space_id, of those that got a vector.

Errors: KBORG, KBART, KBSPC, KBLNG, KBCHK, KBDIM.';
