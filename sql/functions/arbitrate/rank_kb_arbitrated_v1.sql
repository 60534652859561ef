-- One scan of the legs for all: their best articles, the decision, and the ranking that it asks for. What rank_kb_articles_v1 would rank by the decided
-- plan, row by row; so are its settings. A leg's best articles are looked for among its best chunks, and among all where those are too few to tell.
CREATE FUNCTION kbsearch.rank_kb_arbitrated_v1(p_plan kbsearch.kb_search_plan, p_embedding vector, p_limit bigint, p_offset bigint)
RETURNS TABLE (
    place bigint, article_id bigint, chunk_id bigint, score bigint, similarity integer, raw double precision, tied_with bigint, total bigint, decision text,
    manifest jsonb
)
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 10
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
#variable_conflict use_column
DECLARE
    v_org_id CONSTANT bigint := p_plan.org_id;
    v_space_id CONSTANT bigint := p_plan.space_id;
    v_known_lexemes CONSTANT text[] := p_plan.known_lexemes;
    v_term_weights CONSTANT double precision[] := p_plan.term_weights;
    v_counts_terms CONSTANT boolean := p_plan.counts_terms;
    v_allowed CONSTANT bigint[] := p_plan.allowed;
    v_uses_vector CONSTANT boolean := p_plan.uses_vector;
    v_uses_keyword CONSTANT boolean := p_plan.uses_keyword;
    v_dense CONSTANT boolean := p_plan.dense;
    v_keyword_bound CONSTANT double precision := p_plan.keyword_bound;
    v_billionth CONSTANT double precision := 1e9::double precision / p_plan.keyword_bound;
    v_min_score CONSTANT double precision := p_plan.min_score;
    v_kind_quota CONSTANT jsonb := p_plan.kind_quota;
    v_policy CONSTANT jsonb := p_plan.policy;
    v_query_text CONSTANT text := p_plan.query_text;
    v_query_class CONSTANT text := kbsearch.classify_kb_query_v1(v_query_text);
    v_exploratory CONSTANT boolean := p_plan.exploratory;
    v_top_k CONSTANT bigint := v_policy ->> 'top_k';
    v_some CONSTANT bigint := 4 * v_top_k + 40;
    v_page_has_them CONSTANT boolean := v_kind_quota IS NULL AND p_offset = 0 AND (p_limit IS NULL OR p_limit >= v_top_k);
BEGIN
    RETURN QUERY
    WITH chunks AS MATERIALIZED (
        SELECT f.article_id, f.chunk_id, f.similarity, f.raw
        FROM kbsearch.fuse_kb_weighted_v1(
            v_org_id, v_space_id, p_embedding, v_known_lexemes, v_term_weights, v_counts_terms, v_allowed, v_uses_vector, v_uses_keyword, v_dense, 1, 1
        ) AS f
    ),
    vector_some AS MATERIALIZED (
        SELECT c.article_id, greatest(0, c.similarity)::bigint AS score FROM chunks AS c WHERE c.similarity IS NOT NULL
        ORDER BY score DESC, article_id ASC, c.chunk_id ASC
        LIMIT v_some
    ),
    vector_enough AS MATERIALIZED (
        SELECT count(*) < v_some OR count(DISTINCT s.article_id) FILTER (WHERE s.score > (SELECT min(m.score) FROM vector_some AS m)) >= v_top_k AS enough
        FROM vector_some AS s
    ),
    vector_best AS MATERIALIZED (
        SELECT b.article_id, max(b.score) AS score, rank() OVER (ORDER BY max(b.score) DESC) AS leg_rank
        FROM (
            SELECT s.article_id, s.score FROM vector_some AS s
            WHERE (SELECT e.enough FROM vector_enough AS e)
            UNION ALL
            SELECT c.article_id, greatest(0, c.similarity)::bigint FROM chunks AS c
            WHERE c.similarity IS NOT NULL AND NOT (SELECT e.enough FROM vector_enough AS e)
        ) AS b
        GROUP BY b.article_id
        ORDER BY score DESC, article_id ASC
        LIMIT v_top_k
    ),
    keyword_some AS MATERIALIZED (
        SELECT c.article_id, round(c.raw * v_billionth)::bigint AS score FROM chunks AS c WHERE c.raw IS NOT NULL
        ORDER BY score DESC, article_id ASC, c.chunk_id ASC
        LIMIT v_some
    ),
    keyword_enough AS MATERIALIZED (
        SELECT count(*) < v_some OR count(DISTINCT s.article_id) FILTER (WHERE s.score > (SELECT min(m.score) FROM keyword_some AS m)) >= v_top_k AS enough
        FROM keyword_some AS s
    ),
    keyword_best AS MATERIALIZED (
        SELECT b.article_id, max(b.score) AS score, rank() OVER (ORDER BY max(b.score) DESC) AS leg_rank
        FROM (
            SELECT s.article_id, s.score FROM keyword_some AS s
            WHERE (SELECT e.enough FROM keyword_enough AS e)
            UNION ALL
            SELECT c.article_id, round(c.raw * v_billionth)::bigint FROM chunks AS c
            WHERE c.raw IS NOT NULL AND NOT (SELECT e.enough FROM keyword_enough AS e)
        ) AS b
        GROUP BY b.article_id
        ORDER BY score DESC, article_id ASC
        LIMIT v_top_k
    ),
    legs AS MATERIALIZED (
        SELECT v.article_ids AS vector_ids, v.ranks AS vector_ranks, k.article_ids AS keyword_ids, k.ranks AS keyword_ranks, v.peak
        FROM (
            SELECT
                array_agg(b.article_id ORDER BY b.score DESC, b.article_id ASC) AS article_ids,
                array_agg(b.leg_rank ORDER BY b.score DESC, b.article_id ASC) AS ranks,
                -- the best similarity, also where it is below 0
                CASE WHEN max(b.score) > 0 THEN max(b.score) ELSE (SELECT max(c.similarity) FROM chunks AS c) END * 0.000001 AS peak
            FROM vector_best AS b
        ) AS v
        CROSS JOIN (
            SELECT
                array_agg(b.article_id ORDER BY b.score DESC, b.article_id ASC) AS article_ids,
                array_agg(b.leg_rank ORDER BY b.score DESC, b.article_id ASC) AS ranks
            FROM keyword_best AS b
        ) AS k
    ),
    decided AS MATERIALIZED (
        SELECT
            d.decision,
            u.uses_vector,
            u.uses_keyword,
            -- the expressions of apply_kb_decision_v1
            CASE WHEN u.uses_keyword THEN (d.decision ->> 'vector_weight')::double precision ELSE 1 END * 1000 AS vector_unit,
            CASE WHEN u.uses_vector THEN (d.decision ->> 'keyword_weight')::double precision ELSE 1 END * 1e9 / v_keyword_bound AS keyword_unit
        FROM (
            SELECT CASE
                WHEN l.vector_ids IS NOT NULL OR l.keyword_ids IS NOT NULL
                    THEN kbsearch.arbitrate_kb_rankings_v1(
                        v_policy, v_query_class, l.vector_ids, l.vector_ranks, l.keyword_ids, l.keyword_ranks, l.peak, v_exploratory
                    )
            END AS decision
            FROM legs AS l
            OFFSET 0 -- decided once, and not wherever it is named
        ) AS d
        CROSS JOIN LATERAL (
            SELECT (d.decision ->> 'vector_weight')::numeric > 0 AS uses_vector, (d.decision ->> 'keyword_weight')::numeric > 0 AS uses_keyword
        ) AS u
    ),
    candidates AS MATERIALIZED (
        SELECT s.article_id, s.chunk_id, s.score, s.similarity, s.raw
        FROM (
            SELECT DISTINCT ON (f.article_id) f.article_id, f.chunk_id, f.score, f.similarity, f.raw
            FROM (
                SELECT
                    c.article_id, c.chunk_id,
                    -- the expressions of fuse_kb_weighted_v1
                    coalesce(round(greatest(0, u.similarity) * d.vector_unit)::bigint, 0) + coalesce(round(u.raw * d.keyword_unit)::bigint, 0) AS score,
                    u.similarity,
                    u.raw
                FROM chunks AS c
                CROSS JOIN decided AS d
                CROSS JOIN LATERAL (
                    SELECT CASE WHEN d.uses_vector THEN c.similarity END AS similarity, CASE WHEN d.uses_keyword THEN c.raw END AS raw
                ) AS u
                WHERE u.similarity IS NOT NULL OR u.raw IS NOT NULL
            ) AS f
            ORDER BY f.article_id ASC, f.score DESC, f.chunk_id ASC
        ) AS s
        WHERE v_min_score IS NULL OR s.score / 1e9::double precision >= v_min_score
    ),
    cut AS (
        SELECT q.article_id
        FROM (
            SELECT c.article_id, a.kind, row_number() OVER (PARTITION BY a.kind ORDER BY c.score DESC, c.article_id ASC) AS place_in_kind
            FROM candidates AS c
            INNER JOIN kbsearch.kb_articles AS a ON a.org_id = v_org_id AND a.id = c.article_id
        ) AS q
        WHERE q.place_in_kind > coalesce((v_kind_quota ->> q.kind)::bigint, (v_kind_quota ->> '*')::bigint, q.place_in_kind)
    ),
    counted AS MATERIALIZED (
        SELECT count(*) AS total
        FROM candidates AS c
        WHERE v_kind_quota IS NULL OR c.article_id NOT IN (SELECT u.article_id FROM cut AS u)
    ),
    page AS MATERIALIZED (
        SELECT c.article_id, c.chunk_id, c.score, c.similarity, c.raw
        FROM candidates AS c
        WHERE v_kind_quota IS NULL OR c.article_id NOT IN (SELECT u.article_id FROM cut AS u)
        ORDER BY score DESC, article_id ASC
        LIMIT p_limit OFFSET p_offset
    ),
    chosen AS (
        SELECT array_agg(b.article_id ORDER BY b.score DESC, b.article_id ASC) AS article_ids
        FROM (
            SELECT u.article_id, u.score
            FROM (
                SELECT p.article_id, p.score FROM page AS p WHERE v_page_has_them
                UNION ALL
                SELECT c.article_id, c.score FROM candidates AS c WHERE NOT v_page_has_them
            ) AS u
            ORDER BY score DESC, article_id ASC
            LIMIT v_top_k
        ) AS b
    ),
    record AS MATERIALIZED (
        SELECT CASE WHEN d.decision IS NOT NULL THEN kbsearch.build_kb_manifest_v1(
            v_query_text, v_policy, v_query_class, l.vector_ids, l.vector_ranks, l.keyword_ids, l.keyword_ranks, l.peak, v_exploratory, d.decision,
            h.article_ids
        ) END AS manifest
        FROM decided AS d
        CROSS JOIN legs AS l
        CROSS JOIN chosen AS h
    ),
    recorded AS MATERIALIZED (
        SELECT
            r.manifest,
            CASE WHEN d.decision IS NULL THEN '--' ELSE concat(
                CASE WHEN d.uses_vector THEN 'v' ELSE '-' END, CASE WHEN d.uses_keyword THEN 'k' ELSE '-' END, ':', d.decision ->> 'verdict', ':',
                d.decision ->> 'vector_weight', ':', r.manifest ->> 'manifest_digest'
            ) END AS decision
        FROM decided AS d
        CROSS JOIN record AS r
    ),
    groups AS MATERIALIZED (
        SELECT c.score, count(*) AS size
        FROM candidates AS c
        WHERE c.score BETWEEN (SELECT min(p.score) FROM page AS p) AND (SELECT max(p.score) FROM page AS p)
        GROUP BY c.score
    )
    SELECT
        p_offset + row_number() OVER (ORDER BY p.score DESC, p.article_id ASC),
        p.article_id, p.chunk_id, p.score, p.similarity, p.raw, p.tied_with, counted.total, r.decision, r.manifest
    FROM recorded AS r
    CROSS JOIN counted
    LEFT JOIN (
        SELECT g.article_id, g.chunk_id, g.score, g.similarity, g.raw, t.size - 1 AS tied_with
        FROM page AS g
        INNER JOIN groups AS t ON t.score = g.score
    ) AS p ON true
    ORDER BY score DESC, article_id ASC;
END
$$;
COMMENT ON FUNCTION kbsearch.rank_kb_arbitrated_v1(kbsearch.kb_search_plan, vector, bigint, bigint) IS
'The articles of a search whose legs are arbitrated, as rank_kb_articles_v1 has them, with the decision (apply_kb_decision_v1) and the manifest (build_kb_manifest_v1; NULL where neither leg found anything). At least one row: where the page is empty, one without an article.';
