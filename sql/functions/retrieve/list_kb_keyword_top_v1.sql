-- MaxScore (Turtle and Flood 1995) with a threshold guessed from a sample: the score of the last place among the chunks of some ranges of ids. Words whose
-- highest impacts together stay well below it are only looked up, for chunks that the other words bring far enough. A threshold too high shows afterwards:
-- fewer chunks reach it than asked for. Then all is read, as where there is little to read.
-- Where much is to be read for all that, the vectors of kb_keyword_blocks are asked, which large organisations have.
-- Settings: sums by hash, whatever the planner thinks of the number of rows.
CREATE FUNCTION kbsearch.list_kb_keyword_top_v1(
    p_org_id bigint, p_lexemes text [], p_weights double precision [], p_counts_terms boolean, p_limit bigint, p_others bigint [] DEFAULT NULL
) RETURNS TABLE (chunk_id bigint, raw double precision)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET work_mem = '64MB'
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = on
SET enable_hashagg = on
SET enable_sort = off
SET enable_nestloop = off
SET enable_mergejoin = off
SET enable_memoize = off
SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    v_words record;
    v_threshold double precision;
    v_read integer;
    v_breadth bigint;
    v_width bigint;
    v_lows bigint[];
    v_chunk_ids bigint[];
    v_raws double precision[];
BEGIN
    -- words in descending order of the most that they can give
    SELECT
        array_agg(b.lexeme ORDER BY b.n) AS lexemes, array_agg(b.weight ORDER BY b.n) AS weights, array_agg(b.rest ORDER BY b.n) AS rests,
        array_agg(b.entry_count ORDER BY b.n) AS entry_counts,
        coalesce(sum(b.entry_count), 0)::bigint AS entry_count, min(b.first_chunk_id) AS first_chunk_id
    INTO v_words
    FROM (
        SELECT
            s.lexeme, s.weight, s.entry_count, s.first_chunk_id, row_number() OVER (ORDER BY s.bound DESC, s.lexeme ASC) AS n,
            sum(s.bound) OVER (ORDER BY s.bound ASC, s.lexeme DESC) - s.bound AS rest
        FROM (
            SELECT
                w.lexeme, w.weight, w.weight * CASE WHEN p_counts_terms THEN 1 ELSE g.max_impact END AS bound,
                g.entry_count, g.first_chunk_id
            FROM unnest(p_lexemes, p_weights) AS w (lexeme, weight)
            INNER JOIN (
                SELECT
                    p.lexeme, sum(p.entry_count) AS entry_count, max(p.max_impact) AS max_impact, min(p.first_chunk_id) AS first_chunk_id
                FROM kbsearch.kb_postings AS p
                WHERE p.org_id = p_org_id AND p.lexeme = ANY (p_lexemes)
                GROUP BY p.lexeme
            ) AS g ON g.lexeme = w.lexeme
        ) AS s
    ) AS b;
    IF v_words.entry_count <= 20000 THEN
        IF p_others IS NULL THEN
            RETURN QUERY
            SELECT m.chunk_id, m.raw
            FROM kbsearch.match_kb_keyword_v1(p_org_id, p_lexemes, p_weights, p_counts_terms) AS m
            ORDER BY raw DESC, chunk_id ASC
            LIMIT p_limit;
        ELSE
            RETURN QUERY
            WITH matched AS MATERIALIZED (
                SELECT m.chunk_id, m.raw FROM kbsearch.match_kb_keyword_v1(p_org_id, p_lexemes, p_weights, p_counts_terms) AS m
            ),
            first_ones AS MATERIALIZED (
                SELECT m.chunk_id, m.raw FROM matched AS m ORDER BY raw DESC, chunk_id ASC LIMIT p_limit
            )
            SELECT f.chunk_id, f.raw FROM first_ones AS f
            UNION ALL
            SELECT m.chunk_id, m.raw
            FROM matched AS m
            WHERE m.chunk_id IN (SELECT u.id FROM unnest(p_others) AS u (id)) AND m.chunk_id NOT IN (SELECT f.chunk_id FROM first_ones AS f);
        END IF;
        RETURN;
    END IF;

    IF NOT p_counts_terms THEN
        -- pruning hardly ever leaves less than an eighth
        RETURN QUERY
        SELECT t.chunk_id, t.raw FROM kbsearch.list_kb_block_top_v1(p_org_id, p_lexemes, p_weights, v_words.entry_count / 8, p_limit, p_others) AS t;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;

    -- the last chunk there is may be before those that the entries tell of
    v_breadth := greatest(1, (SELECT max(c.id) FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = p_org_id) - v_words.first_chunk_id + 1);
    -- of a sample: what the last place has, rather less than more
    v_width := div(v_breadth::numeric * least(6000, v_words.entry_count / 16), v_words.entry_count * 4)::bigint + 1;
    v_lows := ARRAY(SELECT v_words.first_chunk_id + v_breadth * g.n / 4 FROM generate_series(0, 3) AS g (n));
    WITH sampled AS MATERIALIZED (
        SELECT m.raw, m.entry_count
        FROM kbsearch.match_kb_keyword_ranges_v1(p_org_id, v_words.lexemes, v_words.weights, p_counts_terms, v_lows, v_width) AS m
    )
    SELECT s.raw INTO v_threshold
    FROM sampled AS s
    ORDER BY s.raw DESC
    OFFSET (SELECT ceil(1.5 * p_limit * sum(e.entry_count) / v_words.entry_count) + 1 FROM sampled AS e)
    LIMIT 1;
    -- some of the words may be in no chunk any more
    v_read := cardinality(v_words.lexemes);
    IF v_threshold > 0 THEN
        v_read := (SELECT min(r.n) FROM unnest(v_words.rests) WITH ORDINALITY AS r (rest, n) WHERE 5 * r.rest <= 2 * v_threshold);
    END IF;
    IF NOT p_counts_terms THEN
        RETURN QUERY
        SELECT t.chunk_id, t.raw
        FROM kbsearch.list_kb_block_top_v1(
            p_org_id, p_lexemes, p_weights, (SELECT sum(r.entry_count)::bigint FROM unnest(v_words.entry_counts[:v_read]) AS r (entry_count)), p_limit,
            p_others
        ) AS t;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    v_width := least(v_breadth, div(v_breadth::numeric * 30000, v_words.entry_count)::bigint + 1);
    v_lows := ARRAY(SELECT g.low FROM generate_series(v_words.first_chunk_id, v_words.first_chunk_id + v_breadth - 1, v_width) AS g (low));
    IF v_read = cardinality(v_words.lexemes) THEN
        SELECT array_agg(f.chunk_id), array_agg(f.raw) INTO v_chunk_ids, v_raws
        FROM (
            SELECT m.chunk_id, m.raw
            FROM kbsearch.match_kb_keyword_ranges_v1(p_org_id, v_words.lexemes, v_words.weights, p_counts_terms, v_lows, v_width) AS m
            WHERE v_threshold IS NULL OR m.raw >= v_threshold
            ORDER BY raw DESC, chunk_id ASC
            LIMIT p_limit
        ) AS f;
    ELSE
        SELECT array_agg(m.chunk_id), array_agg(m.raw) INTO v_chunk_ids, v_raws
        FROM kbsearch.match_kb_keyword_ranges_v1(p_org_id, v_words.lexemes[:v_read], v_words.weights[:v_read], p_counts_terms, v_lows, v_width) AS m
        WHERE m.raw >= v_threshold - v_words.rests[v_read];
        SELECT array_agg(f.chunk_id), array_agg(f.raw) INTO v_chunk_ids, v_raws
        FROM (
            SELECT c.chunk_id, c.raw + coalesce(r.raw, 0) AS raw
            FROM unnest(v_chunk_ids, v_raws) AS c (chunk_id, raw)
            LEFT JOIN kbsearch.look_up_kb_keyword_v1(
                p_org_id, v_words.lexemes[v_read + 1:], v_words.weights[v_read + 1:], p_counts_terms, v_chunk_ids
            ) AS r ON r.chunk_id = c.chunk_id
            WHERE c.raw + coalesce(r.raw, 0) >= v_threshold
            ORDER BY raw DESC, chunk_id ASC
            LIMIT p_limit
        ) AS f;
    END IF;
    IF v_threshold IS NOT NULL AND cardinality(v_chunk_ids) IS DISTINCT FROM p_limit THEN
        -- guessed too high
        IF NOT p_counts_terms THEN
            RETURN QUERY
            SELECT t.chunk_id, t.raw FROM kbsearch.list_kb_block_top_v1(p_org_id, p_lexemes, p_weights, v_words.entry_count, p_limit, p_others) AS t;
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
        SELECT array_agg(f.chunk_id), array_agg(f.raw) INTO v_chunk_ids, v_raws
        FROM (
            SELECT m.chunk_id, m.raw
            FROM kbsearch.match_kb_keyword_ranges_v1(p_org_id, v_words.lexemes, v_words.weights, p_counts_terms, v_lows, v_width) AS m
            ORDER BY raw DESC, chunk_id ASC
            LIMIT p_limit
        ) AS f;
    END IF;
    RETURN QUERY SELECT u.chunk_id, u.raw FROM unnest(v_chunk_ids, v_raws) AS u (chunk_id, raw);
    IF p_others IS NOT NULL THEN
        RETURN QUERY
        SELECT l.chunk_id, l.raw
        FROM kbsearch.look_up_kb_keyword_v1(
            p_org_id, p_lexemes, p_weights, p_counts_terms,
            ARRAY(SELECT u.id FROM unnest(p_others) AS u (id) WHERE u.id NOT IN (SELECT c.id FROM unnest(v_chunk_ids) AS c (id)))
        ) AS l;
    END IF;
END
$$;
COMMENT ON FUNCTION kbsearch.list_kb_keyword_top_v1(bigint, text [], double precision [], boolean, bigint, bigint []) IS
'The first p_limit rows of match_kb_keyword_v1 by raw score, of equal ones those of the lowest ids, in that order: the same as by reading all of them. Then those of the chunks p_others (different ones) that are not among these, in any order: they cost little beside. MaxScore (Turtle and Flood 1995).';
