-- A weight is idf by a number that all words of a language share, times the occurrences in the question, and idfs move little from one making of the blocks
-- to the next. So vectors are only added up, and the threshold allows for the widest of the factors; where they lie apart they are multiplied.
-- A chunk outside of the candidates has none of the other lexemes, is unchanged, and its sum is at most the threshold. So the first places are
-- certain where the last of them is above it by more than what sums of 500 float4 can be wrong.
CREATE FUNCTION kbsearch.list_kb_block_top_v1(
    p_org_id bigint, p_lexemes text [], p_weights double precision [], p_entry_count bigint, p_limit bigint, p_others bigint []
) RETURNS TABLE (chunk_id bigint, raw double precision)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET work_mem = '64MB'
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = on
SET enable_hashagg = on
SET enable_sort = off
SET enable_nestloop = on
SET enable_mergejoin = off
SET enable_memoize = off
SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    v_block_count CONSTANT bigint := (SELECT count(*) FROM kbsearch.kb_keyword_blocks AS b WHERE b.org_id = p_org_id);
    v_step CONSTANT integer := greatest(1, least(v_block_count / 3, p_limit / 24));  -- some 24 of the sample are among the first p_limit
    v_split record;
    v_hits record;
    v_unit double precision;
    v_repeated record;
    v_candidates bigint[];
    v_chunk_ids bigint[];
    v_raws double precision[];
BEGIN
    -- adding a vector costs what some 35 entries do, looking up a chunk with a rare word three entries a word
    IF v_block_count = 0 OR p_entry_count < 10000 + v_block_count * (60 + 35 * cardinality(p_lexemes)) THEN
        RETURN;
    END IF;
    SELECT s.lexemes, s.factors, s.other_lexemes, s.other_weights, s.changed_ids INTO v_split FROM kbsearch.split_kb_lexemes_v1(p_org_id, p_lexemes, p_weights) AS s;
    IF v_split.lexemes IS NULL OR p_entry_count < 3 * cardinality(p_lexemes) * (
        SELECT sum(p.entry_count) FROM kbsearch.kb_postings AS p WHERE p.org_id = p_org_id AND p.lexeme = ANY (v_split.other_lexemes)
    ) THEN
        RETURN;
    END IF;
    v_unit := (SELECT min(f.factor) FROM unnest(v_split.factors) AS f (factor));
    SELECT array_agg(r.lexeme) AS lexemes, max(r.factor / r.times) AS factor INTO v_repeated
    FROM (
        SELECT u.lexeme, u.factor, round(u.factor / nullif(v_unit, 0)) AS times FROM unnest(v_split.lexemes, v_split.factors) AS u (lexeme, factor)
    ) AS r
    CROSS JOIN LATERAL generate_series(1, least(r.times, 10)::integer) AS n
    HAVING max(r.times) < 10 AND max(r.factor / r.times) < 1.03 * v_unit;
    SELECT h.chunk_ids, h.threshold * coalesce(v_repeated.factor, 1) AS threshold INTO v_hits
    FROM kbsearch.list_kb_block_hits_v1(
        p_org_id, coalesce(v_repeated.lexemes, v_split.lexemes), CASE WHEN v_repeated.lexemes IS NULL THEN v_split.factors END, v_step,
        1 + ceil(1.5 * p_limit * ((v_block_count - 1) / v_step + 1) / v_block_count)::bigint
    ) AS h;
    IF v_hits.threshold <= 0 OR cardinality(v_hits.chunk_ids) > 2000 + 5 * p_limit THEN
        RETURN;
    END IF;
    v_candidates := ARRAY(
        SELECT u.id FROM unnest(v_hits.chunk_ids) AS u (id)
        UNION
        SELECT u.id FROM unnest(v_split.changed_ids) AS u (id)
        UNION
        SELECT u.id FROM unnest(p_others) AS u (id)
        UNION
        SELECT m.chunk_id FROM kbsearch.match_kb_keyword_v1(p_org_id, v_split.other_lexemes, v_split.other_weights, false) AS m
    );
    SELECT array_agg(f.chunk_id), array_agg(f.raw) INTO v_chunk_ids, v_raws
    FROM (
        SELECT l.chunk_id, l.raw
        FROM kbsearch.look_up_kb_keyword_v1(p_org_id, p_lexemes, p_weights, false, v_candidates) AS l
        ORDER BY raw DESC, chunk_id ASC
    ) AS f;
    IF cardinality(v_chunk_ids) >= p_limit AND v_raws[p_limit] > v_hits.threshold * 1.0001 THEN
        RETURN QUERY
        SELECT u.chunk_id, u.raw
        FROM unnest(v_chunk_ids, v_raws) WITH ORDINALITY AS u (chunk_id, raw, n)
        WHERE u.n <= p_limit OR u.chunk_id IN (SELECT o.id FROM unnest(p_others) AS o (id));
    END IF;
END
$$;
COMMENT ON FUNCTION kbsearch.list_kb_block_top_v1(bigint, text [], double precision [], bigint, bigint, bigint []) IS
'The rows of list_kb_keyword_top_v1 by the blocks of kb_keyword_blocks; no rows where they are of no use or not certain. p_entry_count: entries that would be read otherwise.';
