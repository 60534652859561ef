-- Everything that a search decides before it ranks. Errors are raised here, in this order: budget, organisation, limit and offset, filters, profile, question,
-- space and embedding, nothing to search with, cursor, rows for which it would be too long.
-- The question is analysed in every language in use (weigh_kb_terms_v1 says how they are scored).
CREATE FUNCTION kbsearch.prepare_kb_search_v1(
    p_org_id bigint, p_query_text text, p_query_embedding vector, p_limit bigint, p_offset bigint, p_cursor text, p_kinds text [], p_kind_quota jsonb,
    p_metadata jsonb, p_min_score double precision, p_profile text, p_space_id bigint, p_exploratory boolean, p_language text, p_highlight boolean
) RETURNS kbsearch.kb_search_plan
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET extra_float_digits = 1
SET enable_seqscan = off
AS $$
DECLARE
    v_plan kbsearch.kb_search_plan;
    v_entries numeric;
    v_reference_length integer;
    v_named regconfig;
    v_profile text;
    v_scorer text;
    v_policy text;
    v_has_languages boolean;
    v_has_vectors boolean;
    v_dimensions integer;
    v_given integer;
    v_question record;
    v_reason text;
    v_operator record;
    v_digest text;
    v_payload text;
    v_parts text[];
    v_required bigint[];
    v_excluded bigint[];
    v_retrieval text;
    v_window integer;
    v_counts text;
    v_frequencies text;
BEGIN
    -- budget
    v_plan.budget := kbsearch.get_kb_budget_v1();
    v_plan.deadline := CASE WHEN v_plan.budget > 0 THEN clock_timestamp() + make_interval(secs => v_plan.budget / 1000.0) END;

    -- organisation
    SELECT
        o.id, ARRAY[o.language], o.reference_length, coalesce(p_profile, o.ranking_profile), coalesce(p_space_id, o.active_space_id), e.dimensions,
        EXISTS (SELECT FROM kbsearch.count_kb_languages_v1(o.id)),
        EXISTS (
            SELECT FROM kbsearch.kb_article_embeddings AS v
            WHERE v.org_id = o.id AND v.space_id = coalesce(p_space_id, o.active_space_id) AND v.searchable AND v.has_direction
        ),
        p.profile, p.fusion, p.scorer, p.vector_weight, p.keyword_weight, p.rrf_k, p.kind_quota, p.policy,
        coalesce(p.retrieval, o.retrieval), coalesce(p.ann_window, o.ann_window)
    INTO
        v_plan.org_id, v_plan.configurations, v_reference_length, v_profile, v_plan.space_id, v_dimensions, v_has_languages, v_has_vectors,
        v_plan.profile, v_plan.fusion, v_scorer, v_plan.vector_weight, v_plan.keyword_weight, v_plan.rrf_k, v_plan.kind_quota, v_policy,
        v_retrieval, v_window
    FROM kbsearch.organizations AS o
    LEFT JOIN kbsearch.kb_embedding_spaces AS e ON e.id = coalesce(p_space_id, o.active_space_id)
    LEFT JOIN LATERAL kbsearch.resolve_kb_profile_v1(o.id, coalesce(p_profile, o.ranking_profile)) AS p ON true
    WHERE o.id = p_org_id;
    IF v_plan.org_id IS NULL THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations as p_org_id.';
    END IF;

    -- limit and offset
    IF p_limit IS NULL OR p_limit < 0 OR p_limit > 1000 THEN
        RAISE EXCEPTION 'p_limit is %, expected 0 to 1000', coalesce(p_limit::text, 'NULL')
            USING ERRCODE = 'KBLIM', DETAIL = jsonb_build_object('argument', 'p_limit', 'given', p_limit, 'minimum', 0, 'maximum', 1000)::text,
                HINT = 'Ask for at most 1000 articles and walk on with the cursor of the last one.';
    END IF;
    IF p_offset IS NULL OR p_offset < 0 THEN
        RAISE EXCEPTION 'p_offset is %, expected 0 or more', coalesce(p_offset::text, 'NULL')
            USING ERRCODE = 'KBLIM', DETAIL = jsonb_build_object('argument', 'p_offset', 'given', p_offset, 'minimum', 0)::text,
                HINT = 'Pass the number of articles to skip, 0 for the first page.';
    END IF;
    v_plan.row_limit := p_limit;
    v_plan.row_offset := p_offset;

    -- filters
    IF p_kinds IS NOT NULL THEN
        IF cardinality(p_kinds) = 0 OR array_ndims(p_kinds) > 1 OR array_position(ARRAY(SELECT k.kind FROM unnest(p_kinds) AS k (kind)), NULL) IS NOT NULL THEN
            RAISE EXCEPTION 'p_kinds is empty, has a NULL in it or is no simple list'
                USING ERRCODE = 'KBFLT', DETAIL = jsonb_build_object('argument', 'p_kinds', 'given', to_jsonb(p_kinds))::text,
                    HINT = 'Name at least one kind, or pass NULL for all kinds.';
        END IF;
    END IF;
    IF p_metadata IS NOT NULL THEN
        IF jsonb_typeof(p_metadata) NOT IN ('object', 'array')
            OR jsonb_typeof(p_metadata) = 'array' AND (
                jsonb_array_length(p_metadata) = 0 OR EXISTS (SELECT 1 FROM jsonb_array_elements(p_metadata) AS m (element) WHERE jsonb_typeof(m.element) <> 'object')
            ) THEN
            RAISE EXCEPTION 'p_metadata is neither an object nor a non-empty array of objects'
                USING ERRCODE = 'KBFLT', DETAIL = jsonb_build_object('argument', 'p_metadata', 'given', jsonb_typeof(p_metadata))::text,
                    HINT = 'Pass {"key": value} for articles whose metadata contains it, or an array of such objects for any of them.';
        END IF;
    END IF;
    IF cardinality(p_kinds) > 1000 THEN
        RAISE EXCEPTION 'p_kinds names % kinds, at most 1000', cardinality(p_kinds)
            USING ERRCODE = 'KBFLT', DETAIL = jsonb_build_object('argument', 'p_kinds', 'kinds', cardinality(p_kinds), 'maximum', 1000)::text,
                HINT = 'Name fewer kinds, or pass NULL for all kinds.';
    END IF;
    IF p_metadata @? '$.**{65}' OR octet_length(p_metadata::text) > 32768 THEN
        RAISE EXCEPTION 'p_metadata has % bytes, at most 32768, or is more than 64 levels deep', octet_length(p_metadata::text)
            USING ERRCODE = 'KBFLT', DETAIL = jsonb_build_object('argument', 'p_metadata', 'bytes', octet_length(p_metadata::text), 'maximum_bytes', 32768, 'maximum_depth', 64)::text,
                HINT = 'Filter by fewer keys, or by a key that stands for them.';
    END IF;
    IF p_kind_quota IS NOT NULL THEN
        IF (SELECT count(*) FROM jsonb_object_keys(CASE jsonb_typeof(p_kind_quota) WHEN 'object' THEN p_kind_quota ELSE '{}' END) AS q (kind)) > 1000 THEN
            RAISE EXCEPTION 'p_kind_quota names more than 1000 kinds'
                USING ERRCODE = 'KBFLT', DETAIL = jsonb_build_object('argument', 'p_kind_quota', 'maximum', 1000)::text,
                    HINT = 'Name fewer kinds; "*" is for kinds that are not named.';
        END IF;
        IF NOT kbsearch.is_kb_quota_v1(p_kind_quota) THEN
            RAISE EXCEPTION 'p_kind_quota is not an object of whole numbers from 0 to 999999999'
                USING ERRCODE = 'KBFLT', DETAIL = jsonb_build_object('argument', 'p_kind_quota', 'given', CASE WHEN octet_length(p_kind_quota::text) <= 200 THEN p_kind_quota ELSE to_jsonb(left(p_kind_quota::text, 200)) END)::text,
                    HINT = 'Pass for instance {"policy": 3, "faq": 2, "*": 0}; "*" is for kinds that are not named.';
        END IF;
    END IF;
    IF p_min_score = 'NaN' THEN
        RAISE EXCEPTION 'p_min_score is NaN'
            USING ERRCODE = 'KBFLT', DETAIL = jsonb_build_object('argument', 'p_min_score', 'given', 'NaN')::text,
                HINT = 'Pass a score, 0 to 1 for the default profile, or NULL for no floor.';
    END IF;
    v_plan.kind_quota := nullif(coalesce(p_kind_quota, v_plan.kind_quota), '{}');
    v_plan.min_score := p_min_score;

    -- profile
    IF v_plan.profile IS NULL THEN
        RAISE EXCEPTION 'there is no ranking profile %', quote_literal(v_profile)
            USING ERRCODE = 'KBPRF', DETAIL = jsonb_build_object('org_id', p_org_id, 'profile', v_profile)::text,
                HINT = 'Pass name@version of a built-in profile (weighted@1, rrf@1, vector@1, keyword@1, term_count@1) or of one that create_kb_ranking_profile_v1 returned.';
    END IF;
    v_plan.counts_terms := v_scorer = 'term_count';
    IF v_plan.fusion = 'arbitrate' THEN
        v_plan.policy := kbsearch.resolve_kb_policy_v1(p_org_id, v_policy);
        v_plan.exploratory := coalesce(p_exploratory, false);
        v_plan.query_text := p_query_text;
    END IF;

    -- question
    IF octet_length(p_query_text) > 32768 THEN
        RAISE EXCEPTION 'the question has % bytes, at most 32768 are searched', octet_length(p_query_text)
            USING ERRCODE = 'KBQRY', DETAIL = jsonb_build_object('argument', 'p_query_text', 'bytes', octet_length(p_query_text), 'maximum_bytes', 32768)::text,
                HINT = 'Send the part of the text that says what is looked for.';
    END IF;
    IF p_language IS NOT NULL THEN
        v_named := kbsearch.find_kb_language_v1(p_language);
        IF v_named IS NULL THEN
            RAISE EXCEPTION 'there is no text search configuration %', quote_literal(p_language)
                USING ERRCODE = 'KBLNG', DETAIL = jsonb_build_object('argument', 'p_language', 'given', p_language)::text,
                    HINT = 'Name one of pg_catalog.pg_ts_config, german for instance (outside of pg_catalog: schema.name), or NULL for every language in use.';
        END IF;
    END IF;
    v_plan.tags := ARRAY[''];
    v_plan.chunk_counts := ARRAY[0];
    IF v_has_languages THEN
        SELECT v_plan.tags || array_agg(u.tag ORDER BY u.tag), v_plan.chunk_counts || array_agg(u.chunk_count ORDER BY u.tag)
        INTO v_plan.tags, v_plan.chunk_counts
        FROM kbsearch.count_kb_languages_v1(p_org_id) AS u;
    END IF;
    IF p_cursor IS NOT NULL THEN
        -- what page 1 was scored by, whatever was written since
        v_payload := kbsearch.open_kb_cursor_v1(p_cursor, kbsearch.list_kb_cursor_keys_v1(p_org_id));
        v_parts := string_to_array(v_payload, ' ');
        IF v_parts[5] ~ '^[0-9]{1,18}(,([0-9a-f]{2})+:[0-9]{1,18})*$' THEN
            SELECT
                array_agg(CASE WHEN c.n = 1 THEN '' ELSE convert_from(decode(split_part(c.corpus, ':', 1), 'hex'), 'UTF8') END ORDER BY c.n),
                array_agg(split_part(c.corpus, ':', CASE WHEN c.n = 1 THEN 1 ELSE 2 END)::bigint ORDER BY c.n)
            INTO v_plan.tags, v_plan.chunk_counts
            FROM string_to_table(v_parts[5], ',') WITH ORDINALITY AS c (corpus, n);
        END IF;
    END IF;
    v_plan.tags[1] := '';
    IF cardinality(v_plan.tags) > 1 THEN
        v_plan.configurations := v_plan.configurations || ARRAY(SELECT kbsearch.find_kb_language_v1(substr(u.tag, 2)) FROM unnest(v_plan.tags[2:]) WITH ORDINALITY AS u (tag, n) ORDER BY u.n);
    END IF;
    IF array_position(v_plan.configurations, NULL) IS NOT NULL AND (p_cursor IS NULL OR kbsearch.count_kb_lost_languages_v1(p_org_id) > 0) THEN
        RAISE EXCEPTION 'organisation % has chunks in a text search configuration that does not exist any more', p_org_id
            USING ERRCODE = 'KBLNG', DETAIL = jsonb_build_object('org_id', p_org_id, 'languages', (
                    SELECT to_jsonb(array_agg(substr(u.tag, 2) ORDER BY u.n)) FROM unnest(v_plan.tags, v_plan.configurations) WITH ORDINALITY AS u (tag, configuration, n) WHERE u.configuration IS NULL
                ))::text,
                HINT = 'Was it renamed or dropped? Give it its name back, or its articles another language, and call kbsearch.reanalyze_kb_chunks_v1.';
    END IF;
    IF v_named <> ALL (v_plan.configurations) THEN
        v_plan.configurations := v_plan.configurations || v_named;
        v_plan.tags := v_plan.tags || (chr(31) || kbsearch.name_kb_language_v1(v_named));
        v_plan.chunk_counts := v_plan.chunk_counts || 0::bigint;
    END IF;
    v_question := kbsearch.analyze_kb_question_v1(p_query_text, v_plan.configurations, v_plan.tags, v_named, v_plan.deadline, v_plan.budget);
    IF v_question.operator_count > 32 THEN
        RAISE EXCEPTION 'the question has % different phrases and exclusions, at most 32 are searched', v_question.operator_count
            USING ERRCODE = 'KBQRY', DETAIL = jsonb_build_object('argument', 'p_query_text', 'operators', v_question.operator_count, 'maximum_operators', 32)::text,
                HINT = 'Leave some out, or take their quotation marks and minus signs away.';
    END IF;
    v_plan.languages := v_question.languages;
    v_plan.lexemes := v_question.lexemes;
    v_plan.term_counts := v_question.term_counts;
    v_plan.corpora := v_question.corpora;
    v_plan.operators := v_question.operators;
    v_plan.ignored := v_question.ignored;

    -- space and embedding
    IF v_plan.space_id IS NOT NULL AND v_dimensions IS NULL THEN
        RAISE EXCEPTION 'there is no embedding space %', v_plan.space_id
            USING ERRCODE = 'KBSPC', DETAIL = jsonb_build_object('space_id', v_plan.space_id)::text,
                HINT = 'Pass the id of a row of kbsearch.kb_embedding_spaces, or NULL for the organisation''s active space.';
    END IF;
    IF p_query_embedding IS NOT NULL THEN
        v_given := kbsearch.count_kb_dimensions_v1(p_query_embedding);
        IF v_given <> v_dimensions THEN
            RAISE EXCEPTION 'the question''s embedding has % dimensions, space % has %', v_given, v_plan.space_id, v_dimensions
                USING ERRCODE = 'KBDIM', DETAIL = jsonb_build_object('space_id', v_plan.space_id, 'given', v_given, 'expected', v_dimensions)::text,
                    HINT = 'Embed the question with the model of the space.';
        END IF;
        IF NOT kbsearch.has_kb_direction_v1(p_query_embedding) THEN
            RAISE EXCEPTION 'the question''s embedding has no direction: its norm is 0 or outside 1e-15 to 1e15'
                USING ERRCODE = 'KBVEC', DETAIL = jsonb_build_object('space_id', v_plan.space_id, 'dimensions', v_given)::text,
                    HINT = 'Check the embedder: it returned zeros or unscaled numbers. Without an embedding the question is searched by its words.';
        END IF;
    END IF;

    -- something to search with
    v_plan.vector_reason := CASE WHEN v_plan.fusion = 'keyword' THEN 'not_in_fusion' WHEN p_query_embedding IS NULL THEN 'no_embedding' END;
    v_plan.keyword_reason := CASE
        WHEN v_plan.fusion = 'vector' THEN 'not_in_fusion'
        ELSE v_question.reason
    END;
    IF v_plan.vector_reason IS NOT NULL AND v_plan.keyword_reason IS NOT NULL THEN
        RAISE EXCEPTION 'nothing to search with: vector leg %, keyword leg %', v_plan.vector_reason, v_plan.keyword_reason
            USING ERRCODE = 'KBQRY',
                DETAIL = jsonb_build_object('profile', v_plan.profile, 'vector', v_plan.vector_reason, 'keyword', v_plan.keyword_reason)::text,
                HINT = 'Pass a question with at least one word that is no stop word, or its embedding, for a profile that uses it.';
    END IF;

    -- cursor
    v_digest := kbsearch.digest_kb_request_v1(
        jsonb_build_array(p_query_text, v_plan.lexemes, v_reference_length, p_kinds, v_plan.kind_quota, p_metadata, p_min_score, v_plan.profile, v_plan.space_id, p_exploratory, CASE WHEN v_named IS NOT NULL THEN kbsearch.name_kb_language_v1(v_named) END), p_query_embedding
    );
    IF p_cursor IS NOT NULL THEN
        v_reason := CASE
            WHEN
                v_payload IS NULL OR cardinality(v_parts) <> 9 OR array_position(v_plan.configurations, NULL) IS NOT NULL
                OR v_parts[4] !~ '^[0-9a-f]{32}(/[1-9][0-9]{0,3}/([0-9a-f]{16}|-))?$'
                OR v_parts[5] !~ '^[0-9]{1,18}(,([0-9a-f]{2})+:[0-9]{1,18})*$' OR v_parts[6] !~ '^(([0-9]{1,9}:)?[0-9]{1,18}(,([0-9]{1,9}:)?[0-9]{1,18})*)?$'
                OR v_parts[7] !~ '^[v-][k-](:[a-z_]{1,40}:[01](\.[0-9]{1,6})?:[0-9a-f]{64})?$' OR v_parts[8] !~ '^-?[0-9]{1,18}$' OR v_parts[9] !~ '^[0-9]{1,18}$'
                THEN 'damaged'
            WHEN v_parts[1] <> '1' THEN 'of another function version'
            WHEN v_parts[2] <> p_org_id::text THEN 'of another organisation'
            WHEN v_parts[3] <> v_plan.profile THEN 'of another ranking profile'
            WHEN split_part(v_parts[4], '/', 1) <> v_digest THEN 'of another request, or of before a change of the organisation''s language or reference length'
            WHEN (v_plan.fusion = 'arbitrate') <> (v_parts[7] LIKE '%:%') THEN 'damaged'
            WHEN p_offset <> 0 THEN 'given together with an offset'
        END;
        IF v_reason IS NOT NULL THEN
            RAISE EXCEPTION 'the cursor is %', v_reason
                USING ERRCODE = 'KBCUR', DETAIL = jsonb_build_object('reason', v_reason)::text,
                    HINT = 'Repeat the request that returned the cursor with all its arguments, p_offset 0, and the cursor unchanged; or start again without it.';
        END IF;
        v_plan.uses_vector := v_parts[7] LIKE 'v%';
        v_plan.uses_keyword := v_parts[7] LIKE '_k%';
        v_plan.chunk_total := (SELECT sum(c.chunk_count) FROM unnest(v_plan.chunk_counts) AS c (chunk_count));
        SELECT coalesce(array_agg(coalesce(f.document_frequency, 0) ORDER BY q.n), '{}') INTO v_plan.document_frequencies
        FROM unnest(v_plan.lexemes) WITH ORDINALITY AS q (lexeme, n)
        LEFT JOIN (
            SELECT
                p.n + max(CASE WHEN strpos(p.pair, ':') > 0 THEN split_part(p.pair, ':', 1)::bigint - p.n ELSE 0 END) OVER (ORDER BY p.n) AS n,
                split_part(p.pair, ':', -1)::bigint AS document_frequency
            FROM string_to_table(v_parts[6], ',') WITH ORDINALITY AS p (pair, n)
        ) AS f ON f.n = q.n;
        v_plan.after_score := v_parts[8]::bigint;
        v_plan.after_article_id := v_parts[9]::bigint;
    ELSE
        SELECT
            (SELECT coalesce(sum(s.chunk_count), 0) FROM kbsearch.kb_corpus_stats AS s WHERE s.org_id = p_org_id),
            coalesce(array_agg(coalesce(d.document_frequency, 0) ORDER BY q.n), '{}')
        INTO v_plan.chunk_total, v_plan.document_frequencies
        FROM unnest(v_plan.lexemes) WITH ORDINALITY AS q (lexeme, n)
        LEFT JOIN kbsearch.count_kb_documents_v1(p_org_id, v_plan.lexemes) AS d ON d.lexeme = q.lexeme;
        v_plan.chunk_counts[1] := v_plan.chunk_total;
        IF cardinality(v_plan.chunk_counts) > 1 THEN
            v_plan.chunk_counts[1] := v_plan.chunk_total - (SELECT sum(c.chunk_count) FROM unnest(v_plan.chunk_counts[2:]) AS c (chunk_count));
        END IF;
    END IF;

    IF clock_timestamp() > v_plan.deadline THEN
        PERFORM kbsearch.refuse_kb_overtime_v1(v_plan.budget, 'words');
    END IF;

    -- words that the corpus knows, and what they weigh
    v_plan.keyword_bound := CASE WHEN v_plan.counts_terms THEN 1 ELSE 2200 END * 1e12::double precision;
    SELECT
        coalesce(array_agg(t.lexeme ORDER BY t.lexeme), '{}'), coalesce(array_agg(t.weight ORDER BY t.lexeme), '{}'),
        coalesce(sum(t.document_frequency) * 8 > v_plan.chunk_total, false), sum(t.document_frequency)
    INTO v_plan.known_lexemes, v_plan.term_weights, v_plan.dense, v_entries
    FROM kbsearch.weigh_kb_terms_v1(
        v_plan.lexemes, v_plan.term_counts, v_question.forms, v_plan.corpora, v_plan.document_frequencies, v_plan.chunk_counts, v_plan.counts_terms
    ) AS t;
    IF v_plan.deadline IS NOT NULL AND v_entries > v_plan.budget * 50000::numeric THEN
        -- no machine reads an entry in 20 nanoseconds
        RAISE EXCEPTION 'the question''s words stand in % places, which cannot be read within the budget of % ms', v_entries, v_plan.budget
            USING ERRCODE = 'KBTMO', DETAIL = jsonb_build_object('budget_ms', v_plan.budget, 'stage', 'ranking', 'entries', v_entries, 'maximum_entries', v_plan.budget * 50000::numeric)::text,
                HINT = 'Ask with fewer words, or give searches more time: SET kbsearch.search_budget_ms, in milliseconds, 0 for no budget.';
    END IF;
    IF v_plan.keyword_reason IS NULL AND cardinality(v_plan.known_lexemes) = 0 THEN
        v_plan.keyword_reason := 'no_known_words';
    END IF;
    IF v_plan.vector_reason IS NULL AND NOT v_has_vectors THEN
        v_plan.vector_reason := CASE WHEN kbsearch.has_kb_embeddings_v1(p_org_id, v_plan.space_id) THEN 'no_direction' ELSE 'no_embedded_chunks' END;
    END IF;
    IF p_cursor IS NULL THEN
        v_plan.uses_vector := v_plan.vector_reason IS NULL;
        v_plan.uses_keyword := v_plan.keyword_reason IS NULL;
    ELSE
        -- the legs of page 1, whatever was written since
        v_plan.vector_reason := CASE WHEN NOT v_plan.uses_vector THEN coalesce(v_plan.vector_reason, CASE WHEN v_plan.fusion <> 'arbitrate' THEN 'no_embedded_chunks' END) END;
        v_plan.keyword_reason := CASE WHEN NOT v_plan.uses_keyword THEN coalesce(v_plan.keyword_reason, CASE WHEN v_plan.fusion <> 'arbitrate' THEN 'no_known_words' END) END;
    END IF;

    -- articles that pass the filters
    IF v_plan.operators <> '[]' THEN
        IF clock_timestamp() > v_plan.deadline THEN
            PERFORM kbsearch.refuse_kb_overtime_v1(v_plan.budget, 'phrases');
        END IF;
        FOR v_operator IN SELECT f.shape, f.article_ids FROM kbsearch.find_kb_operators_v1(p_org_id, v_plan.operators, v_plan.configurations, v_plan.tags, v_plan.deadline, v_plan.budget) AS f LOOP
            IF v_operator.shape = 'phrase' THEN
                v_required := CASE WHEN v_required IS NULL THEN v_operator.article_ids ELSE ARRAY(SELECT unnest(v_required) INTERSECT SELECT unnest(v_operator.article_ids)) END;
            ELSE
                v_excluded := v_excluded || v_operator.article_ids;
            END IF;
        END LOOP;
    END IF;
    IF p_kinds IS NOT NULL OR p_metadata IS NOT NULL OR v_required IS NOT NULL OR v_excluded IS NOT NULL THEN
        IF clock_timestamp() > v_plan.deadline THEN
            PERFORM kbsearch.refuse_kb_overtime_v1(v_plan.budget, 'filters');
        END IF;
        v_plan.allowed := kbsearch.select_kb_articles_v1(p_org_id, p_kinds, p_metadata, v_required, v_excluded);
    END IF;

    v_plan.vector_unit := CASE WHEN v_plan.uses_keyword THEN v_plan.vector_weight ELSE 1 END * 1000;
    v_plan.keyword_unit := CASE WHEN v_plan.uses_vector THEN v_plan.keyword_weight ELSE 1 END * 1e9 / v_plan.keyword_bound;
    IF v_retrieval <> 'exact' OR v_parts[4] LIKE '%/%' THEN
        v_plan := kbsearch.window_kb_search_v1(v_plan, p_query_embedding, v_retrieval, v_window, substr(v_parts[4], 33));
    END IF;
    v_counts := v_plan.chunk_counts[1];
    IF cardinality(v_plan.chunk_counts) > 1 THEN
        v_counts := (
            SELECT string_agg(CASE WHEN c.n = 1 THEN '' ELSE encode(convert_to(c.tag, 'UTF8'), 'hex') || ':' END || c.chunk_count, ',' ORDER BY c.n)
            FROM unnest(v_plan.tags, v_plan.chunk_counts) WITH ORDINALITY AS c (tag, chunk_count, n)
            WHERE c.n = 1 OR c.chunk_count > 0
        );
    END IF;
    -- a number is of the word behind the one before it, unless it names another
    v_frequencies := array_to_string(v_plan.document_frequencies, ',');
    IF 0 = ANY (v_plan.document_frequencies) THEN
        v_frequencies := (
            SELECT string_agg(CASE WHEN f.n > f.last_n + 1 THEN f.n || ':' ELSE '' END || f.document_frequency, ',' ORDER BY f.n)
            FROM (
                SELECT d.n, d.document_frequency, lag(d.n, 1, 0::bigint) OVER (ORDER BY d.n) AS last_n
                FROM unnest(v_plan.document_frequencies) WITH ORDINALITY AS d (document_frequency, n)
                WHERE d.document_frequency > 0
            ) AS f
        );
    END IF;
    v_plan.cursor_prefix := concat_ws(' ', '1', p_org_id, v_plan.profile, concat(v_digest, v_plan.window_tag), v_counts, coalesce(v_frequencies, ''));
    IF p_limit * octet_length(v_plan.cursor_prefix) > 50331648 THEN
        -- each row has a cursor, so they are gigabytes for questions of thousands of words in many languages; in base64 this is 64 MiB
        RAISE EXCEPTION 'p_limit is %, at most % rows of so many words in so many languages have a cursor', p_limit, 50331648 / octet_length(v_plan.cursor_prefix)
            USING ERRCODE = 'KBLIM', DETAIL = jsonb_build_object('argument', 'p_limit', 'given', p_limit, 'minimum', 0, 'maximum', 50331648 / octet_length(v_plan.cursor_prefix), 'words', cardinality(v_plan.known_lexemes))::text,
                HINT = 'Ask for fewer articles at a time and walk on with the cursor of the last one; or with fewer words, or in one language (p_language).';
    END IF;
    v_plan.cursor_legs := CASE WHEN v_plan.uses_vector THEN 'v' ELSE '-' END || CASE WHEN v_plan.uses_keyword THEN 'k' ELSE '-' END;
    v_plan.highlight := p_highlight;
    IF v_plan.fusion = 'arbitrate' AND p_cursor IS NOT NULL THEN
        v_plan := kbsearch.apply_kb_decision_v1(v_plan, v_parts[7], jsonb_build_object('manifest_digest', split_part(v_parts[7], ':', 4)));
    END IF;
    RETURN v_plan;
END
$$;
COMMENT ON FUNCTION kbsearch.prepare_kb_search_v1(bigint, text, vector, bigint, bigint, text, text [], jsonb, jsonb, double precision, text, bigint, boolean, text, boolean) IS
'Checks the arguments of a search and resolves profile, space, words, statistics, filters and cursor. KBORG, KBLIM, KBFLT, KBPRF, KBQRY, KBLNG, KBSPC, KBDIM, KBVEC, KBANN, KBCUR, KBTMO.';
