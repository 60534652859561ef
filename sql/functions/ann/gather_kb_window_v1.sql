-- Looking up rows is what takes the time: what the walk through the index and the list of the best keyword scores say of a chunk is not asked again.
-- Runs under the settings of window_kb_search_v1.
CREATE FUNCTION kbsearch.gather_kb_window_v1(
    p_plan kbsearch.kb_search_plan, p_embedding vector, p_window integer, p_given bigint [], p_near bigint [], p_near_chunks bigint [],
    p_near_similarities integer [], OUT article_ids bigint [], OUT chunk_ids bigint [], OUT similarities integer [], OUT raws double precision [],
    OUT last_raw double precision
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    -- variables are read faster than fields
    v_org_id CONSTANT bigint := p_plan.org_id;
    v_space_id CONSTANT bigint := p_plan.space_id;
    v_known_lexemes CONSTANT text[] := p_plan.known_lexemes;
    v_term_weights CONSTANT double precision[] := p_plan.term_weights;
    v_counts_terms CONSTANT boolean := p_plan.counts_terms;
    v_allowed CONSTANT bigint[] := p_plan.allowed;
    v_depth bigint;
    v_has_more boolean;
    v_found bigint;
    v_matching bigint[];
    v_scored bigint[];
    v_scores double precision[];
    v_unscored bigint[];
    v_compared bigint[];
BEGIN
    -- every chunk of the articles whose vectors are near, or of the given ones
    SELECT array_agg(c.article_id), array_agg(c.id) INTO article_ids, chunk_ids
    FROM kbsearch.kb_article_chunks AS c
    WHERE c.org_id = v_org_id AND c.article_id = ANY (coalesce(p_given, p_near)) AND coalesce(c.searchable, false);
    v_unscored := CASE WHEN p_plan.uses_keyword THEN chunk_ids END;
    v_compared := coalesce(p_given, ARRAY(
        SELECT DISTINCT u.article_id
        FROM unnest(article_ids, chunk_ids) AS u (article_id, chunk_id)
        WHERE u.chunk_id NOT IN (SELECT n.id FROM unnest(p_near_chunks) AS n (id))
    ));

    -- the articles that words find, and the keyword scores of those chunks
    v_depth := CASE WHEN p_plan.uses_keyword AND p_given IS NULL THEN p_window + p_window / 4 + 1 ELSE 0 END;
    WHILE v_depth > 0 LOOP
        IF clock_timestamp() > p_plan.deadline THEN
            PERFORM kbsearch.refuse_kb_overtime_v1(p_plan.budget, 'window');
        END IF;
        SELECT array_agg(t.chunk_id ORDER BY t.raw DESC, t.chunk_id ASC), array_agg(t.raw ORDER BY t.raw DESC, t.chunk_id ASC) INTO v_scored, v_scores
        FROM kbsearch.list_kb_keyword_top_v1(v_org_id, v_known_lexemes, v_term_weights, v_counts_terms, v_depth + 1, v_unscored) AS t;
        v_has_more := cardinality(v_scored) > v_depth;
        WITH ranked AS MATERIALIZED (
            SELECT f.article_id, f.raw, row_number() OVER (ORDER BY f.raw DESC, f.chunk_id ASC) AS n
            FROM (
                SELECT DISTINCT ON (h.article_id) h.article_id, t.raw, t.chunk_id
                FROM unnest(v_scored[:v_depth], v_scores[:v_depth]) AS t (chunk_id, raw)
                INNER JOIN (
                    SELECT c.id, c.article_id FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = v_org_id AND c.id = ANY (v_scored[:v_depth]) OFFSET 0
                ) AS h ON h.id = t.chunk_id
                WHERE v_allowed IS NULL OR h.article_id IN (SELECT u.id FROM unnest(v_allowed) AS u (id))
                ORDER BY h.article_id ASC, t.raw DESC, t.chunk_id ASC
            ) AS f
        )
        SELECT
            (SELECT count(*) FROM ranked AS r), (SELECT r.raw FROM ranked AS r WHERE r.n = p_window),
            ARRAY(SELECT r.article_id FROM ranked AS r WHERE r.n <= p_window AND r.article_id NOT IN (SELECT u.id FROM unnest(p_near) AS u (id)))
        INTO v_found, last_raw, v_matching;
        EXIT WHEN v_found >= p_window OR v_has_more IS NOT TRUE;
        -- as many more as articles have chunks, or filters leave out, and half as many again
        v_depth := greatest(4 * v_depth, 3 * v_depth / 2 * p_window / greatest(v_found, 1));
    END LOOP;
    IF v_found < p_window OR (v_found = p_window AND v_has_more IS NOT TRUE) THEN
        last_raw := NULL;
    END IF;
    IF v_depth > 0 THEN
        v_compared := v_compared || v_matching;
        SELECT array_agg(c.article_id), array_agg(c.id) INTO v_matching, v_unscored
        FROM kbsearch.kb_article_chunks AS c
        WHERE c.org_id = v_org_id AND c.article_id = ANY (v_matching) AND coalesce(c.searchable, false);
        article_ids := article_ids || v_matching;
        chunk_ids := chunk_ids || v_unscored;
        v_unscored := ARRAY(SELECT u.id FROM unnest(v_unscored) AS u (id) WHERE u.id NOT IN (SELECT t.id FROM unnest(v_scored) AS t (id)));
    END IF;

    SELECT array_agg(c.article_id), array_agg(c.chunk_id), array_agg(coalesce(w.similarity, n.similarity)), array_agg(coalesce(t.raw, k.raw))
    INTO article_ids, chunk_ids, similarities, raws
    FROM unnest(article_ids, chunk_ids) AS c (article_id, chunk_id)
    LEFT JOIN unnest(p_near_chunks, p_near_similarities) AS w (chunk_id, similarity) ON w.chunk_id = c.chunk_id
    LEFT JOIN kbsearch.compare_kb_articles_v1(v_org_id, v_space_id, p_embedding, CASE WHEN p_plan.uses_vector THEN v_compared END) AS n
        ON n.chunk_id = c.chunk_id
    LEFT JOIN unnest(v_scored, v_scores) AS t (chunk_id, raw) ON t.chunk_id = c.chunk_id
    LEFT JOIN (
        SELECT l.chunk_id, l.raw
        FROM kbsearch.look_up_kb_keyword_v1(v_org_id, v_known_lexemes, v_term_weights, v_counts_terms, v_unscored) AS l
        WHERE cardinality(v_unscored) > 0
    ) AS k ON k.chunk_id = c.chunk_id
    WHERE w.similarity IS NOT NULL OR n.similarity IS NOT NULL OR t.raw IS NOT NULL OR k.raw IS NOT NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.gather_kb_window_v1(kbsearch.kb_search_plan, vector, integer, bigint [], bigint [], bigint [], integer []) IS
'Every chunk of the articles in the windows of a search, or of p_given instead, with its true similarity (millionths) and raw keyword score. p_window: articles in a leg''s window; p_near, p_near_chunks, p_near_similarities: as walk_kb_ann_v1 has them, empty where no vectors take part; last_raw: the score of the last article in the keyword leg''s window, NULL where nothing was cut. KBTMO.';
