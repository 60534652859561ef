-- The clock is looked at for each word, for there can be millions.
-- All chunks at once: the words of a long question are thousands, and are put into a hash once. The settings are those of rank_kb_articles_v1.
CREATE FUNCTION kbsearch.list_kb_matches_v1(p_plan kbsearch.kb_search_plan, p_chunk_ids bigint [])
RETURNS TABLE (chunk_id bigint, matches jsonb)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET work_mem = '64MB'
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = on
SET enable_hashagg = on
SET enable_nestloop = off
SET enable_mergejoin = off
SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    v_org_id CONSTANT bigint := p_plan.org_id;
    v_counts_terms CONSTANT boolean := p_plan.counts_terms;
    v_lexemes CONSTANT text[] := p_plan.lexemes;
    v_document_frequencies CONSTANT bigint[] := p_plan.document_frequencies;
    v_term_counts CONSTANT bigint[] := p_plan.term_counts;
    v_corpora CONSTANT integer[] := p_plan.corpora;
    v_chunk_counts CONSTANT bigint[] := p_plan.chunk_counts;
    v_known_lexemes CONSTANT text[] := CASE WHEN p_plan.uses_keyword THEN p_plan.known_lexemes ELSE '{}' END;
    v_term_weights CONSTANT double precision[] := p_plan.term_weights;
    v_deadline CONSTANT timestamptz := p_plan.deadline;
    v_reference_length integer;
BEGIN
    IF clock_timestamp() > v_deadline THEN
        PERFORM kbsearch.refuse_kb_overtime_v1(p_plan.budget, 'explanation');
    END IF;
    SELECT o.reference_length INTO v_reference_length FROM kbsearch.organizations AS o WHERE o.id = v_org_id;
    RETURN QUERY
    WITH terms AS MATERIALIZED (
        SELECT k.lexeme, k.weight, q.document_frequency, q.term_count, kbsearch.kb_idf_v1(v_chunk_counts[q.corpus], q.document_frequency) AS idf
        FROM unnest(v_known_lexemes, v_term_weights) AS k (lexeme, weight)
        INNER JOIN unnest(v_lexemes, v_document_frequencies, v_term_counts, v_corpora) AS q (lexeme, document_frequency, term_count, corpus)
            ON q.lexeme = k.lexeme
        WHERE k.lexeme IS NOT NULL
    ),
    shown AS MATERIALIZED (
        SELECT c.id, c.lexemes, c.term_counts, c.occurrence_count, kbsearch.name_kb_language_v1(c.language) AS language
        FROM kbsearch.kb_article_chunks AS c
        WHERE c.org_id = v_org_id AND c.id = ANY (p_chunk_ids)
    )
    SELECT
        m.chunk_id,
        jsonb_agg(
            CASE WHEN (clock_timestamp() > v_deadline) IS NOT TRUE OR kbsearch.refuse_kb_overtime_v1(p_plan.budget, 'explanation') IS NULL THEN jsonb_build_object(
                'lexeme', split_part(m.lexeme, chr(31), 1),
                'language', m.language,
                'document_frequency', m.document_frequency,
                'question_count', m.term_count,
                'idf', m.idf,
                'impact', m.impact,
                'share', m.weight,
                'contribution', m.weight * CASE WHEN v_counts_terms THEN 1 ELSE m.impact END
            ) END ORDER BY m.lexeme COLLATE "C"
        )
    FROM (
        SELECT
            s.id AS chunk_id, k.lexeme, s.language, k.document_frequency, k.term_count, k.idf, k.weight,
            kbsearch.bm25_impact_v1(t.term_count, s.occurrence_count, v_reference_length) AS impact
        FROM shown AS s
        CROSS JOIN LATERAL unnest(s.lexemes, s.term_counts) AS t (lexeme, term_count)
        INNER JOIN terms AS k ON k.lexeme = t.lexeme
        OFFSET 0
    ) AS m
    WHERE (clock_timestamp() > v_deadline) IS NOT TRUE OR kbsearch.refuse_kb_overtime_v1(p_plan.budget, 'explanation') IS NULL
    GROUP BY m.chunk_id;
END
$$;
COMMENT ON FUNCTION kbsearch.list_kb_matches_v1(kbsearch.kb_search_plan, bigint []) IS
'The words of a question that chunks have: for each chunk with one an array of objects in the order of the lexemes ("C"): lexeme, language, document_frequency, question_count, idf (thousandths), impact (thousandths, 0 … 2200), share (10^-12 of all that the question''s words weigh) and contribution, share * impact (or share), of which the chunk''s raw keyword score is the sum.';
