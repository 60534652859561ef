CREATE FUNCTION kbsearch.upsert_kb_article_v1(
    p_org_id bigint,
    p_external_ref text DEFAULT NULL,
    p_title text DEFAULT NULL,
    p_body text DEFAULT NULL,
    p_kind text DEFAULT 'article',
    p_chunks jsonb DEFAULT NULL,
    p_published boolean DEFAULT true,
    p_metadata jsonb DEFAULT '{}',
    p_source_uri text DEFAULT NULL,
    p_language text DEFAULT NULL,
    p_content_sha256 text DEFAULT NULL,
    p_article_id bigint DEFAULT NULL,
    p_space_id bigint DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    v_org_id bigint;
    v_active_space_id bigint;
    v_article_id bigint;
    v_chunks jsonb := coalesce(p_chunks, CASE
        WHEN concat(p_title, p_body) COLLATE "C" !~ '[^\u0001-\u0020\u007F-\u00A0\u1680\u2000-\u200B\u2028\u2029\u202F\u205F\u3000\uFEFF]' THEN '[]' ELSE jsonb_build_array(jsonb_build_object('content', coalesce(p_body, '')))
    END);
    v_space_id bigint;
    v_language CONSTANT regconfig := kbsearch.find_kb_language_v1(p_language);
    v_problem text;
    v_chunk_no bigint;
    v_is_new boolean := true;
    v_given integer;
    v_dimensions integer;
BEGIN
    SELECT o.id, o.active_space_id INTO v_org_id, v_active_space_id FROM kbsearch.organizations AS o WHERE o.id = p_org_id;
    IF v_org_id IS NULL THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    v_problem := CASE
        WHEN coalesce(p_kind, '') IN ('', '*') THEN 'p_kind is empty, * or NULL'
        WHEN octet_length(p_external_ref) > 2000 THEN format('p_external_ref has %s bytes, at most 2000', octet_length(p_external_ref))
        WHEN octet_length(p_title) > 8192 THEN format('p_title has %s bytes, at most 8192', octet_length(p_title))
        WHEN p_article_id IS NOT NULL AND EXISTS (
            SELECT FROM kbsearch.kb_articles AS a WHERE a.org_id = p_org_id AND a.external_ref = p_external_ref AND a.id <> p_article_id
        ) THEN format('p_external_ref is the name of another article than p_article_id, %s', p_article_id)
        WHEN p_published IS NULL THEN 'p_published is NULL'
        WHEN jsonb_typeof(coalesce(p_metadata, 'null')) <> 'object' THEN 'p_metadata is no object'
        WHEN kbsearch.find_kb_metadata_fault_v1(p_metadata) IS NOT NULL THEN kbsearch.find_kb_metadata_fault_v1(p_metadata)
        WHEN jsonb_typeof(v_chunks) <> 'array' THEN 'p_chunks is no array'
    END;
    IF v_problem IS NULL THEN
        SELECT format('chunk %s: %s', c.n, c.problem) INTO v_problem
        FROM (
            SELECT e.n, CASE
                WHEN jsonb_typeof(e.chunk) <> 'object' THEN 'is no object'
                WHEN jsonb_typeof(coalesce(e.chunk -> 'content', 'null')) <> 'string' THEN 'has no content'
                WHEN p_chunks IS NOT NULL AND (e.chunk ->> 'content') COLLATE "C" !~ '[^\u0001-\u0020\u007F-\u00A0\u1680\u2000-\u200B\u2028\u2029\u202F\u205F\u3000\uFEFF]' THEN 'has blank content'
                WHEN jsonb_typeof(coalesce(e.chunk -> 'heading', 'null')) NOT IN ('string', 'null') THEN 'has a heading that is no text'
                WHEN jsonb_typeof(coalesce(e.chunk -> 'embedding', 'null')) NOT IN ('array', 'null') THEN 'has an embedding that is no array of numbers'
                WHEN jsonb_typeof(e.chunk -> 'embedding') = 'array' AND EXISTS (
                    SELECT FROM jsonb_array_elements(CASE jsonb_typeof(e.chunk -> 'embedding') WHEN 'array' THEN e.chunk -> 'embedding' END) AS x (component)
                    WHERE jsonb_typeof(x.component) <> 'number'
                ) THEN 'has an embedding that is no array of numbers'
                WHEN jsonb_typeof(e.chunk -> 'embedding') = 'array' AND EXISTS (
                    SELECT FROM jsonb_array_elements(CASE jsonb_typeof(e.chunk -> 'embedding') WHEN 'array' THEN e.chunk -> 'embedding' END) AS x (component)
                    WHERE CASE jsonb_typeof(x.component) WHEN 'number' THEN abs(x.component::numeric) > 3.4e38 END
                ) THEN 'has an embedding with a number outside of single precision (3.4e38)'
                WHEN coalesce(e.chunk ->> 'input_sha256', '') !~ '^([0-9a-f]{64})?$' THEN 'has an input_sha256 that is not 64 hexadecimal digits'
            END AS problem
            FROM jsonb_array_elements(v_chunks) WITH ORDINALITY AS e (chunk, n)
        ) AS c
        WHERE c.problem IS NOT NULL
        ORDER BY c.n
        LIMIT 1;
    END IF;
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION 'the article cannot be stored: %', v_problem
            USING ERRCODE = CASE WHEN v_problem LIKE '%single precision%' THEN 'KBVEC' ELSE 'KBART' END,
                DETAIL = jsonb_build_object('org_id', p_org_id, 'external_ref', p_external_ref, 'problem', v_problem)::text,
                HINT = 'p_chunks is an array of {"content": text, "heading": text or null, "embedding": numbers or null, "input_sha256": hex or null}; leave blank chunks out.';
    END IF;

    IF p_language IS NOT NULL AND v_language IS NULL THEN
        RAISE EXCEPTION 'there is no text search configuration %', quote_literal(p_language)
            USING ERRCODE = 'KBLNG', DETAIL = jsonb_build_object('argument', 'p_language', 'given', p_language)::text,
                HINT = 'Name one of pg_catalog.pg_ts_config, german for instance (outside of pg_catalog: schema.name), or NULL for the organisation''s.';
    END IF;

    IF p_space_id IS NOT NULL AND NOT EXISTS (SELECT FROM kbsearch.kb_embedding_spaces AS s WHERE s.id = p_space_id) THEN
        RAISE EXCEPTION 'there is no embedding space %', p_space_id
            USING ERRCODE = 'KBSPC', DETAIL = jsonb_build_object('org_id', p_org_id, 'space_id', p_space_id)::text,
                HINT = 'Pass the id of a row of kbsearch.kb_embedding_spaces, or NULL for the organisation''s active space.';
    END IF;

    -- the organisation's lock before the article's, as every change of the organisation has it; then the article, for what follows
    PERFORM pg_advisory_xact_lock_shared(kbsearch.lock_kb_corpus_v1(p_org_id, 'writers'));
    IF p_article_id IS NOT NULL THEN
        SELECT a.id INTO v_article_id FROM kbsearch.kb_articles AS a WHERE a.org_id = p_org_id AND a.id = p_article_id FOR UPDATE;
    ELSIF p_external_ref IS NOT NULL THEN
        -- Planned each time: a plan made while the table is empty knows no index from another, and would read all articles of the organisation until
        -- somebody analyses the table.
        EXECUTE 'SELECT a.id FROM kbsearch.kb_articles AS a WHERE a.org_id = $1 AND a.external_ref = $2 FOR UPDATE' INTO v_article_id USING p_org_id, p_external_ref;
    END IF;
    IF v_article_id IS NULL THEN
        IF p_article_id IS NOT NULL THEN
            RAISE EXCEPTION 'there is no article % in organisation %', p_article_id, p_org_id
                USING ERRCODE = 'KBART', DETAIL = jsonb_build_object('org_id', p_org_id, 'article_id', p_article_id)::text,
                    HINT = 'Leave p_article_id out to insert a new article.';
        END IF;
        INSERT INTO kbsearch.kb_articles (org_id, external_ref, kind, title, body, language, published, metadata, source_uri, content_sha256)
        VALUES (p_org_id, p_external_ref, p_kind, p_title, p_body, v_language, p_published, p_metadata, p_source_uri, p_content_sha256)
        ON CONFLICT ON CONSTRAINT kb_articles_org_id_external_ref_key DO NOTHING
        RETURNING id INTO v_article_id;
        IF v_article_id IS NULL THEN
            -- another transaction has just inserted it
            SELECT a.id INTO v_article_id
            FROM kbsearch.kb_articles AS a
            WHERE a.org_id = p_org_id AND a.external_ref = p_external_ref
            FOR UPDATE;
            v_is_new := false;
        END IF;
    ELSE
        v_is_new := false;
    END IF;
    IF NOT v_is_new THEN
        DELETE FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = p_org_id AND c.article_id = v_article_id;
        UPDATE kbsearch.kb_articles AS a
        SET
            external_ref = coalesce(p_external_ref, a.external_ref), kind = p_kind, title = p_title, body = p_body, language = v_language,
            published = p_published, metadata = p_metadata, source_uri = p_source_uri, content_sha256 = p_content_sha256
        WHERE a.org_id = p_org_id AND a.id = v_article_id;
    END IF;

    INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, chunk_no, heading, content)
    SELECT p_org_id, v_article_id, e.n - 1, e.chunk ->> 'heading', e.chunk ->> 'content'
    FROM jsonb_array_elements(v_chunks) WITH ORDINALITY AS e (chunk, n)
    ORDER BY e.n;

    IF EXISTS (SELECT FROM jsonb_array_elements(v_chunks) AS e (chunk) WHERE jsonb_typeof(e.chunk -> 'embedding') = 'array') THEN
        v_space_id := coalesce(p_space_id, v_active_space_id);
        IF v_space_id IS NULL THEN
            RAISE EXCEPTION 'embeddings were given, and neither p_space_id nor an active embedding space of the organisation'
                USING ERRCODE = 'KBSPC', DETAIL = jsonb_build_object('org_id', p_org_id, 'space_id', v_space_id)::text,
                    HINT = 'Insert a row into kbsearch.kb_embedding_spaces and pass its id as p_space_id; the first embedding activates the space.';
        END IF;
        SELECT e.n - 1, jsonb_array_length(e.chunk -> 'embedding'), s.dimensions INTO v_chunk_no, v_given, v_dimensions
        FROM jsonb_array_elements(v_chunks) WITH ORDINALITY AS e (chunk, n)
        INNER JOIN kbsearch.kb_embedding_spaces AS s ON s.id = v_space_id
        WHERE CASE jsonb_typeof(e.chunk -> 'embedding') WHEN 'array' THEN jsonb_array_length(e.chunk -> 'embedding') <> s.dimensions END
        ORDER BY e.n
        LIMIT 1;
        IF v_chunk_no IS NOT NULL THEN
            RAISE EXCEPTION 'the embedding of chunk % has % dimensions, space % has %', v_chunk_no, v_given, v_space_id, v_dimensions
                USING ERRCODE = 'KBDIM', DETAIL = jsonb_build_object('org_id', p_org_id, 'chunk_no', v_chunk_no, 'space_id', v_space_id,
                        'given', v_given, 'expected', v_dimensions)::text,
                    HINT = 'Embed with the model of the space, or insert a space for this model and pass its id as p_space_id.';
        END IF;
        PERFORM kbsearch.insert_kb_embeddings_v1(p_org_id, v_article_id, v_space_id, v_chunks);
    END IF;
    RETURN v_article_id;
END
$$;
COMMENT ON FUNCTION kbsearch.upsert_kb_article_v1(
    bigint, text, text, text, text, jsonb, boolean, jsonb, text, text, text, bigint, bigint
) IS
'Inserts an article with its chunks and embeddings, or replaces an article and all of them: the article of p_article_id, else the one of p_external_ref, else a new one. What is left out is replaced by its default, not kept (external_ref excepted). On an error nothing is stored.

Arguments:
p_org_id: The organisation that the article belongs to.
p_external_ref: The application''s own name of the article, unique in the organisation. NULL: a new article without one, or with p_article_id the name that it has.
p_title: Title; its words count three times in every chunk of the article.
p_body: The article''s text, kept as it is. Searched only where p_chunks is NULL.
p_kind: Kind, for p_kinds and p_kind_quota of searches; neither empty nor *.
p_chunks: Array of objects {"content": text, not blank; "heading": text or null; "embedding": array of numbers of the space''s dimensions, or null; "input_sha256": 64 hexadecimal digits or null}, in the order of the text. NULL: the body is the only chunk; without a body the title alone; with neither there is none.
p_published: Whether searches find it.
p_metadata: A JSON object, for p_metadata of searches.
p_source_uri: Where it comes from; only handed back.
p_language: Text search configuration in which its chunks are analysed, for instance german. NULL: the organisation''s.
p_content_sha256: Whatever the application wants to recognise its content by; reserve_kb_articles_v1 gives it back.
p_article_id: The article to replace, by id; it must exist. NULL: by p_external_ref.
p_space_id: Embedding space of the embeddings given. NULL: the organisation''s active one. The first embedding of an organisation makes its space the active one.

Returns: the article''s id.

Errors: KBORG, KBART, KBLNG, KBCHK, KBSPC, KBDIM, KBVEC.';
