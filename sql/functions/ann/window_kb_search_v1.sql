-- The ranking of a windowed search is the exact one of the articles in its windows: every chunk of theirs has its true score in both legs. So allowed, by
-- which explanations rank exactly, is those articles, and window_… are the same candidates, for rank_kb_window_v1.
-- Settings: joins by hash.
CREATE FUNCTION kbsearch.window_kb_search_v1(p_plan kbsearch.kb_search_plan, p_embedding vector, p_retrieval text, p_window integer, p_tag text)
RETURNS kbsearch.kb_search_plan
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
SET enable_memoize = off
SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
    v_plan kbsearch.kb_search_plan := p_plan;
    -- variables are read faster than fields, and some are read for every row
    v_org_id CONSTANT bigint := p_plan.org_id;
    v_space_id CONSTANT bigint := p_plan.space_id;
    v_allowed CONSTANT bigint[] := p_plan.allowed;
    v_uses_vector CONSTANT boolean := p_plan.uses_vector;
    v_vector_unit CONSTANT double precision := p_plan.vector_unit;
    v_keyword_unit CONSTANT double precision := p_plan.keyword_unit;
    v_rrf_k CONSTANT integer := p_plan.rrf_k;
    v_tagged CONSTANT boolean := coalesce(p_tag LIKE '/%', false);
    v_window CONSTANT integer := CASE WHEN p_tag LIKE '/%' THEN split_part(p_tag, '/', 2)::integer ELSE p_window END;
    v_reason text;
    v_index record;
    v_identity text := '-';
    v_near bigint[] := '{}';
    v_near_chunks bigint[] := '{}';
    v_near_similarities integer[] := '{}';
    v_last_similarity integer;
    v_given bigint[];
    v_last_raw double precision;
    v_article_ids bigint[];
    v_chunk_ids bigint[];
    v_similarities integer[];
    v_raws double precision[];
    v_certain bigint := -1;
    v_settled bigint := -1;
BEGIN
    v_plan.filtered := v_allowed;
    IF p_plan.fusion = 'arbitrate' THEN
        v_reason := 'arbitrated';
    ELSIF p_tag IS NULL AND p_retrieval = 'auto' AND p_plan.chunk_total <= 20000 THEN
        v_reason := 'few_chunks';
    ELSIF cardinality(v_allowed) <= v_window OR cardinality(v_allowed)::double precision ^ 2 <= 4::double precision * v_window * p_plan.chunk_total THEN
        -- comparing these costs less than an index whose neighbours are mostly others
        v_reason := 'few_allowed';
        v_given := v_allowed;
    ELSIF p_tag = '' THEN
        v_reason := 'cursor';
    ELSIF v_uses_vector OR p_retrieval = 'auto' THEN
        SELECT f.is_ready, f.identity INTO v_index FROM kbsearch.find_kb_ann_index_v1(v_org_id, v_space_id) AS f;
        IF v_tagged AND v_uses_vector AND (v_index.is_ready IS NOT TRUE OR v_index.identity <> split_part(p_tag, '/', 3)) THEN
            RAISE EXCEPTION 'the cursor is of another approximate index'
                USING ERRCODE = 'KBCUR', DETAIL = jsonb_build_object('reason', 'of another approximate index')::text,
                    HINT = 'The index was built again or dropped, and what it finds may be something else: start again without the cursor.';
        END IF;
        v_reason := CASE WHEN v_index.is_ready IS NULL THEN 'no_index' WHEN NOT v_index.is_ready THEN 'index_invalid' END;
        IF v_reason IS NOT NULL AND v_uses_vector AND p_retrieval = 'ann' THEN
            RAISE EXCEPTION 'organisation % has % for approximate search in embedding space %',
                v_org_id, CASE v_reason WHEN 'no_index' THEN 'no index' ELSE 'an index that is not finished' END, v_space_id
                USING ERRCODE = 'KBANN', DETAIL = jsonb_build_object('org_id', v_org_id, 'space_id', v_space_id, 'reason', v_reason)::text,
                    HINT = 'Build it: kbsearch ann create, or create_kb_ann_index_v1. With retrieval auto such searches are exact.';
        END IF;
        IF v_reason IS NULL AND v_uses_vector THEN
            SELECT w.article_ids, w.chunk_ids, w.similarities INTO v_near, v_near_chunks, v_near_similarities
            FROM kbsearch.walk_kb_ann_v1(v_org_id, v_space_id, p_embedding, v_allowed, v_window, p_plan.chunk_total) AS w;
            v_last_similarity := v_near_similarities[cardinality(v_near_similarities)];
            IF cardinality(v_near) < v_window THEN
                v_reason := 'window_not_filled';
            END IF;
            v_identity := v_index.identity;
        END IF;
    END IF;
    v_plan.retrieval := jsonb_build_object('mode', CASE WHEN v_reason IS NULL THEN 'ann' ELSE 'exact' END, 'reason', v_reason);
    IF v_reason IS NOT NULL AND v_given IS NULL THEN
        RETURN v_plan;
    END IF;

    SELECT w.article_ids, w.chunk_ids, w.similarities, w.raws, w.last_raw
    INTO v_article_ids, v_chunk_ids, v_similarities, v_raws, v_last_raw
    FROM kbsearch.gather_kb_window_v1(p_plan, p_embedding, v_window, v_given, v_near, v_near_chunks, v_near_similarities) AS w;

    -- fused and collapsed: the same expressions as in the fusions
    IF p_plan.fusion <> 'rrf' THEN
        SELECT
            array_agg(b.article_id), array_agg(b.chunk_id), array_agg(b.score), array_agg(b.similarity), array_agg(b.raw)
        INTO v_plan.window_articles, v_plan.window_chunks, v_plan.window_scores, v_plan.window_similarities, v_plan.window_raws
        FROM (
            SELECT c.article_id, c.chunk_id, c.score, c.similarity, c.raw
            FROM (
                SELECT DISTINCT ON (f.article_id) f.article_id, f.chunk_id, f.score, f.similarity, f.raw
                FROM (
                    SELECT
                        u.article_id, u.chunk_id, u.similarity, u.raw,
                        coalesce(round(greatest(0, u.similarity) * v_vector_unit)::bigint, 0) + coalesce(round(u.raw * v_keyword_unit)::bigint, 0) AS score
                    FROM unnest(v_article_ids, v_chunk_ids, v_similarities, v_raws) AS u (article_id, chunk_id, similarity, raw)
                ) AS f
                ORDER BY f.article_id ASC, f.score DESC, f.chunk_id ASC
            ) AS c
            ORDER BY score DESC, article_id ASC
        ) AS b;
        IF v_given IS NULL AND (v_uses_vector OR v_last_raw IS NOT NULL) THEN
            v_certain := coalesce(round(v_last_raw * v_keyword_unit)::bigint, 0);
            v_settled := v_certain + CASE WHEN v_uses_vector THEN round(greatest(0, v_last_similarity) * v_vector_unit)::bigint ELSE 0 END;
            v_certain := v_certain + CASE WHEN v_uses_vector THEN round(1000000 * v_vector_unit)::bigint ELSE 0 END;
        END IF;
    ELSE
        WITH chunks AS (
            SELECT u.article_id, u.chunk_id, u.similarity, u.raw
            FROM unnest(v_article_ids, v_chunk_ids, v_similarities, v_raws) AS u (article_id, chunk_id, similarity, raw)
        ),
        vector_leg AS (
            SELECT b.article_id, b.chunk_id, b.similarity, rank() OVER (ORDER BY greatest(0, b.similarity) DESC) AS leg_rank
            FROM (
                SELECT DISTINCT ON (c.article_id) c.article_id, c.chunk_id, c.similarity
                FROM chunks AS c
                WHERE c.similarity IS NOT NULL
                ORDER BY c.article_id ASC, greatest(0, c.similarity) DESC, c.chunk_id ASC
            ) AS b
        ),
        keyword_leg AS (
            SELECT b.article_id, b.chunk_id, b.raw, b.score, rank() OVER (ORDER BY b.score DESC) AS leg_rank
            FROM (
                SELECT DISTINCT ON (c.article_id) c.article_id, c.chunk_id, c.raw, c.score
                FROM (
                    SELECT r.article_id, r.chunk_id, r.raw, round(r.raw * (1e9::double precision / p_plan.keyword_bound))::bigint AS score
                    FROM chunks AS r
                    WHERE r.raw IS NOT NULL
                ) AS c
                ORDER BY c.article_id ASC, c.score DESC, c.chunk_id ASC
            ) AS b
        ),
        parts AS (
            SELECT
                coalesce(v.article_id, k.article_id) AS article_id, v.chunk_id AS vector_chunk_id, k.chunk_id AS keyword_chunk_id, v.similarity, k.raw,
                kbsearch.rrf_part_v1(p_plan.vector_weight, v_rrf_k, v.leg_rank) AS vector_part,
                kbsearch.rrf_part_v1(p_plan.keyword_weight, v_rrf_k, k.leg_rank) AS keyword_part
            FROM vector_leg AS v
            FULL JOIN keyword_leg AS k ON k.article_id = v.article_id
        ),
        fused AS (
            SELECT
                p.article_id,
                CASE
                    WHEN p.vector_part > p.keyword_part THEN p.vector_chunk_id
                    WHEN p.vector_part < p.keyword_part THEN p.keyword_chunk_id
                    ELSE least(p.vector_chunk_id, p.keyword_chunk_id)
                END AS chunk_id,
                p.vector_part + p.keyword_part AS score,
                p.similarity,
                p.raw,
                -- what articles outside of the windows cannot lower: a rank within a window
                CASE WHEN p.similarity >= v_last_similarity OR NOT v_uses_vector OR v_given IS NOT NULL THEN p.vector_part ELSE 0 END
                + CASE WHEN p.raw >= v_last_raw OR v_last_raw IS NULL THEN p.keyword_part ELSE 0 END AS least_score
            FROM parts AS p
        ),
        unsettled AS (
            SELECT max(f.score) AS score
            FROM (
                SELECT
                    d.score, d.least_score, d.article_id, lead(d.score) OVER (ORDER BY d.score DESC, d.article_id ASC) AS next_score,
                    lead(d.article_id) OVER (ORDER BY d.score DESC, d.article_id ASC) AS next_id
                FROM fused AS d
            ) AS f
            WHERE
                v_given IS NULL AND (
                    f.least_score < f.next_score OR (f.least_score = f.next_score AND f.article_id > f.next_id)
                    OR f.least_score <= (
                        -- one outside may tie with the last of a window
                        SELECT
                            CASE WHEN v_uses_vector THEN kbsearch.rrf_part_v1(
                                p_plan.vector_weight, v_rrf_k,
                                (SELECT 1 + count(*) FROM vector_leg AS v WHERE greatest(0, v.similarity) > greatest(0, v_last_similarity))
                            ) ELSE 0 END
                            + CASE WHEN v_last_raw IS NOT NULL THEN kbsearch.rrf_part_v1(
                                p_plan.keyword_weight, v_rrf_k,
                                (SELECT 1 + count(*) FROM keyword_leg AS k WHERE k.score > round(v_last_raw * (1e9::double precision / p_plan.keyword_bound))::bigint)
                            ) ELSE 0 END
                    )
                )
        )
        SELECT
            array_agg(b.article_id), array_agg(b.chunk_id), array_agg(b.score), array_agg(b.similarity), array_agg(b.raw),
            coalesce((SELECT u.score FROM unsettled AS u), -1)
        INTO v_plan.window_articles, v_plan.window_chunks, v_plan.window_scores, v_plan.window_similarities, v_plan.window_raws, v_settled
        FROM (
            SELECT f.article_id, f.chunk_id, f.score, f.similarity, f.raw
            FROM fused AS f
            ORDER BY score DESC, article_id ASC
        ) AS b;
        v_certain := CASE WHEN v_uses_vector AND v_given IS NULL THEN 9223372036854775807 ELSE v_settled END;
    END IF;
    v_plan.window_articles := coalesce(v_plan.window_articles, '{}');
    v_plan.allowed := coalesce(v_given, v_plan.window_articles);
    IF v_reason IS NULL THEN
        v_plan.window_tag := format('/%s/%s', v_window, v_identity);
        v_plan.retrieval := v_plan.retrieval || jsonb_build_object(
            'window', v_window, 'index', nullif(v_identity, '-'), 'is_cut', v_uses_vector OR v_last_raw IS NOT NULL, 'certain_above', v_certain, 'settled_above', v_settled
        );
    END IF;
    RETURN v_plan;
END
$$;
COMMENT ON FUNCTION kbsearch.window_kb_search_v1(kbsearch.kb_search_plan, vector, text, integer, text) IS
'The plan of a search with the windows of its legs, or as it is, with the reason, where it is exact. p_retrieval: exact, ann or auto; p_window: articles in a leg''s window; p_tag: what the cursor says of it: /window/index, nothing for an exact search, NULL without a cursor. certain_above: every article with a higher score, in billionths, stands where the exact ranking has it, whatever the index missed (a vector outside of its window counts as the question''s own); settled_above: the same if the window has the nearest vectors: the threshold of Fagin, Lotem and Naor (2003) over both legs. KBANN, KBCUR.';
