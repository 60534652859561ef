CREATE FUNCTION kbsearch.search_kb_hybrid_page_v1(
    p_org_id bigint,
    p_query_text text,
    p_query_embedding vector DEFAULT NULL,
    p_limit bigint DEFAULT 10,
    p_offset bigint DEFAULT 0,
    p_cursor text DEFAULT NULL,
    p_kinds text [] DEFAULT NULL,
    p_kind_quota jsonb DEFAULT NULL,
    p_metadata jsonb DEFAULT NULL,
    p_min_score double precision DEFAULT NULL,
    p_profile text DEFAULT NULL,
    p_space_id bigint DEFAULT NULL,
    p_exploratory boolean DEFAULT false,
    p_language text DEFAULT NULL,
    p_highlight boolean DEFAULT false
) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET extra_float_digits = 1
SET enable_seqscan = off
AS $$
DECLARE
    v_plan kbsearch.kb_search_plan;
    v_items jsonb;
    v_total bigint;
    v_last_place bigint;
    v_last_cursor text;
    v_embedded bigint;
    v_without_direction bigint;
BEGIN
    v_plan := kbsearch.prepare_kb_search_v1(
        p_org_id, p_query_text, p_query_embedding, p_limit, p_offset, p_cursor, p_kinds, p_kind_quota, p_metadata,
        p_min_score, p_profile, p_space_id, p_exploratory, p_language, p_highlight
    );
    SELECT
        jsonb_agg(to_jsonb(r) - 'total' ORDER BY r.place), max(r.total), max(r.place), (array_agg(r.cursor ORDER BY r.place DESC))[1]
    INTO v_items, v_total, v_last_place, v_last_cursor
    FROM kbsearch.list_kb_results_v1(v_plan, p_query_embedding) AS r;
    IF v_total IS NULL THEN
        -- an empty page: limit 0, or past the end
        SELECT r.total, r.place - 1 INTO v_total, v_last_place
        FROM kbsearch.rank_kb_articles_v1(v_plan, p_query_embedding, 1, v_plan.row_offset, v_plan.after_score, v_plan.after_article_id) AS r;
        v_last_cursor := p_cursor;
        IF v_total IS NULL THEN
            SELECT r.total INTO v_total FROM kbsearch.rank_kb_articles_v1(v_plan, p_query_embedding, 1, 0, NULL, NULL) AS r;
            v_total := coalesce(v_total, 0);
            v_last_place := v_total;
        END IF;
    END IF;
    IF v_plan.uses_vector THEN
        SELECT c.embedded, c.without_direction INTO v_embedded, v_without_direction
        FROM kbsearch.count_kb_embeddings_v1(p_org_id, v_plan.space_id) AS c;
    END IF;
    RETURN jsonb_build_object(
        'items', coalesce(v_items, '[]'),
        'next_cursor', CASE WHEN v_last_place < v_total THEN v_last_cursor END,
        'total', v_total,
        'end_reached', v_last_place >= v_total,
        'profile', v_plan.profile,
        'space_id', v_plan.space_id,
        'function', 'search_kb_hybrid_page_v1',
        'function_version', 1,
        'verdict', NULL,
        'legs', jsonb_build_object(
            'vector', jsonb_build_object(
                'takes_part', v_plan.uses_vector,
                'reason', v_plan.vector_reason,
                'chunks_without_embedding', greatest(0, v_plan.chunk_total - v_embedded),
                'chunks_without_direction', v_without_direction
            ),
            'keyword', jsonb_build_object(
                'takes_part', v_plan.uses_keyword,
                'reason', v_plan.keyword_reason,
                'languages', to_jsonb(v_plan.languages),
                'words', to_jsonb(ARRAY(SELECT DISTINCT split_part(k.lexeme, chr(31), 1) COLLATE "C" AS word FROM unnest(v_plan.known_lexemes) AS k (lexeme) ORDER BY word)),
                'unknown_words', coalesce((
                    -- of the language that knows most of them
                    SELECT to_jsonb(coalesce(array_agg(split_part(q.lexeme, chr(31), 1) ORDER BY q.lexeme) FILTER (WHERE q.document_frequency = 0), '{}'))
                    FROM unnest(v_plan.lexemes, v_plan.document_frequencies) AS q (lexeme, document_frequency)
                    GROUP BY substr(q.lexeme, strpos(q.lexeme || chr(31), chr(31)))
                    ORDER BY count(*) FILTER (WHERE q.document_frequency > 0) DESC, substr(q.lexeme, strpos(q.lexeme || chr(31), chr(31))) COLLATE "C" ASC
                    LIMIT 1
                ), '[]'),
                'ignored', to_jsonb(v_plan.ignored)
            )
        )
    );
END
$$;
COMMENT ON FUNCTION kbsearch.search_kb_hybrid_page_v1(
    bigint, text, vector, bigint, bigint, text, text [], jsonb, jsonb, double precision, text, bigint, boolean, text, boolean
) IS
'One page of search_kb_hybrid_v1 as JSON: items (its rows), next_cursor (NULL at the end), total (articles in the whole result), end_reached, profile, space_id, function, function_version, legs (for vector and keyword: takes_part, reason when not, chunks_without_embedding, chunks_without_direction; languages that the words were analysed in, words that are known, unknown_words in the language that knows most of them, ignored operators), verdict (NULL). Arguments and errors as there. Writes nothing.';
