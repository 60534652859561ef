CREATE FUNCTION kbsearch.describe_kb_legs_v1(p_plan kbsearch.kb_search_plan) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    v_embedded bigint;
    v_without_direction bigint;
    v_stale bigint;
    v_words CONSTANT text[] := ARRAY(SELECT DISTINCT split_part(k.lexeme, chr(31), 1) COLLATE "C" AS word FROM unnest(p_plan.known_lexemes) AS k (lexeme) ORDER BY word);
BEGIN
    IF p_plan.uses_vector THEN
        SELECT c.embedded, c.without_direction, c.stale INTO v_embedded, v_without_direction, v_stale
        FROM kbsearch.count_kb_embeddings_v1(p_plan.org_id, p_plan.space_id) AS c;
    END IF;
    RETURN jsonb_build_object(
        'vector', jsonb_build_object(
            'takes_part', p_plan.uses_vector,
            'reason', p_plan.vector_reason,
            'chunks_without_embedding', greatest(0, p_plan.chunk_total - v_embedded),
            'chunks_without_direction', v_without_direction,
            'chunks_with_stale_embedding', v_stale
        ),
        'keyword', jsonb_build_object(
            'takes_part', p_plan.uses_keyword,
            'reason', p_plan.keyword_reason,
            'languages', to_jsonb(ARRAY(SELECT kbsearch.name_kb_language_v1(l.configuration) FROM unnest(p_plan.languages) WITH ORDINALITY AS l (configuration, n) ORDER BY l.n)),
            'words', to_jsonb(v_words),
            'unknown_words', coalesce((
                -- of the language that knows most of them
                SELECT to_jsonb(coalesce(array_agg(split_part(q.lexeme, chr(31), 1) ORDER BY q.lexeme) FILTER (WHERE q.document_frequency = 0 AND split_part(q.lexeme, chr(31), 1) NOT IN (SELECT w.word FROM unnest(v_words) AS w (word))), '{}'))
                FROM unnest(p_plan.lexemes, p_plan.document_frequencies) AS q (lexeme, document_frequency)
                GROUP BY substr(q.lexeme, strpos(q.lexeme || chr(31), chr(31)))
                ORDER BY count(*) FILTER (WHERE q.document_frequency > 0) DESC, substr(q.lexeme, strpos(q.lexeme || chr(31), chr(31))) COLLATE "C" ASC
                LIMIT 1
            ), '[]'),
            'ignored', to_jsonb(p_plan.ignored)
        )
    );
END
$$;
COMMENT ON FUNCTION kbsearch.describe_kb_legs_v1(kbsearch.kb_search_plan) IS
'What each leg of a search does or why it does nothing, as search_kb_hybrid_page_v1 has it under legs.';
