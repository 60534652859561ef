CREATE FUNCTION kbsearch.explain_kb_search_v1(
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
    p_language text DEFAULT NULL
) RETURNS TABLE (
    place bigint, article_id bigint, score double precision, chunk_id bigint, kind text, title text, external_ref text, score_billionths bigint,
    vector_contribution bigint, keyword_contribution bigint, vector_rank bigint, keyword_rank bigint, vector_similarity double precision,
    keyword_score double precision, matches jsonb, other_chunk_count bigint, place_in_kind bigint, quota bigint, tied_with bigint,
    settled_by_identity boolean, tied_article_ids bigint [], explanation text, cursor text
)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET extra_float_digits = 1
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_plan kbsearch.kb_search_plan;
    v_pads CONSTANT bytea := (kbsearch.list_kb_cursor_keys_v1(p_org_id))[1];
BEGIN
    v_plan := kbsearch.prepare_kb_search_v1(
        p_org_id, p_query_text, p_query_embedding, p_limit, p_offset, p_cursor, p_kinds, p_kind_quota, p_metadata, p_min_score, p_profile, p_space_id,
        p_exploratory, p_language, false
    );
    v_plan := kbsearch.arbitrate_kb_plan_v1(v_plan, p_query_embedding, true);
    RETURN QUERY
    WITH page AS MATERIALIZED (
        SELECT
            c.place, c.article_id, c.chunk_id, c.score, c.similarity, c.raw, c.kind, c.place_in_kind, c.quota, c.tied_with, c.tied_article_ids
        FROM kbsearch.place_kb_candidates_v1(v_plan, p_query_embedding) AS c
        WHERE
            c.kept
            AND (v_plan.after_score IS NULL OR c.score < v_plan.after_score OR (c.score = v_plan.after_score AND c.article_id > v_plan.after_article_id))
        ORDER BY score DESC, article_id ASC
        LIMIT v_plan.row_limit OFFSET v_plan.row_offset
    ),
    legs AS MATERIALIZED (
        SELECT l.article_id, l.vector_rank, l.keyword_rank
        FROM kbsearch.rank_kb_legs_v1(
            p_org_id, v_plan.space_id, p_query_embedding, v_plan.known_lexemes, v_plan.term_weights, v_plan.counts_terms, v_plan.allowed,
            v_plan.uses_vector, v_plan.uses_keyword, v_plan.dense, v_plan.keyword_bound
        ) AS l
    ),
    parts AS (
        -- the same expressions as in the fusions
        SELECT
            p.place, p.article_id, p.chunk_id, p.score, p.similarity, p.raw, p.kind, p.place_in_kind, p.quota, p.tied_with, p.tied_article_ids,
            l.vector_rank,
            l.keyword_rank,
            CASE
                WHEN v_plan.fusion = 'rrf' THEN kbsearch.rrf_part_v1(v_plan.vector_weight, v_plan.rrf_k, l.vector_rank)
                ELSE coalesce(round(greatest(0, p.similarity) * v_plan.vector_unit)::bigint, 0)
            END AS vector_part,
            CASE
                WHEN v_plan.fusion = 'rrf' THEN kbsearch.rrf_part_v1(v_plan.keyword_weight, v_plan.rrf_k, l.keyword_rank)
                ELSE coalesce(round(p.raw * v_plan.keyword_unit)::bigint, 0)
            END AS keyword_part,
            coalesce(m.matches, '[]') AS matches,
            (
                SELECT count(*) FROM kbsearch.kb_article_chunks AS h
                WHERE h.org_id = p_org_id AND h.article_id = p.article_id AND h.id <> p.chunk_id AND h.searchable
            ) AS other_chunk_count
        FROM page AS p
        LEFT JOIN legs AS l ON l.article_id = p.article_id
        LEFT JOIN kbsearch.list_kb_matches_v1(v_plan, ARRAY(SELECT u.chunk_id FROM page AS u)) AS m ON m.chunk_id = p.chunk_id
    )
    SELECT
        p.place,
        p.article_id,
        p.score / 1e9::double precision,
        CASE WHEN coalesce(k.inspectable, true) THEN p.chunk_id END,
        p.kind,
        a.title,
        a.external_ref,
        p.score,
        p.vector_part,
        p.keyword_part,
        p.vector_rank,
        p.keyword_rank,
        p.similarity / 1e6::double precision,
        round(p.raw * 1e9::double precision / v_plan.keyword_bound) / 1e9::double precision,
        p.matches,
        p.other_chunk_count,
        p.place_in_kind,
        p.quota,
        p.tied_with,
        p.tied_with > 0,
        p.tied_article_ids,
        kbsearch.say_kb_place_v1(p.vector_rank, p.vector_part, p.keyword_rank, p.keyword_part, p.matches, p.other_chunk_count, p.tied_with),
        CASE
            WHEN (clock_timestamp() > v_plan.deadline) IS NOT TRUE OR kbsearch.refuse_kb_overtime_v1(v_plan.budget, 'answer') IS NULL
                THEN kbsearch.seal_kb_cursor_v1(v_plan.cursor_prefix || ' ' || v_plan.cursor_legs || ' ' || p.score || ' ' || p.article_id, v_pads)
        END
    FROM parts AS p
    INNER JOIN kbsearch.kb_articles AS a ON a.org_id = p_org_id AND a.id = p.article_id
    LEFT JOIN kbsearch.kb_source_kinds AS k ON k.kind = p.kind
    ORDER BY p.score DESC, p.article_id ASC;
    IF clock_timestamp() > v_plan.deadline THEN
        PERFORM kbsearch.refuse_kb_overtime_v1(v_plan.budget, 'answer');
    END IF;
END
$$;
COMMENT ON FUNCTION kbsearch.explain_kb_search_v1(
    bigint, text, vector, bigint, bigint, text, text [], jsonb, jsonb, double precision, text, bigint, boolean, text
) IS
'The rows of search_kb_hybrid_v1, in the same order, each with what made its score and its place. Writes nothing.

Arguments:
p_org_id: The organisation searched.
p_query_text: The question, at most 32,768 bytes. Words are OR-ed; "a phrase" must occur in one chunk of the article, its title included; -word and -"a phrase" exclude articles that have it. At most 32 different phrases and exclusions. NULL or empty: the vector leg alone.
p_query_embedding: The question''s vector, of the dimensions of the searched space. NULL: the keyword leg alone.
p_limit: Number of articles, 0 … 1000.
p_offset: Number of articles to skip, 0 or more; not together with a cursor.
p_cursor: The cursor of a row of the same request: the rows after it. Everything but p_limit must be as in that request.
p_kinds: Only articles of these kinds, at least one. NULL: all kinds.
p_kind_quota: At most so many articles of each kind, for instance {"policy": 3, "faq": 2, "*": 0}; "*" is every kind not named. The best of each kind are kept, after scores and ranks are computed. NULL: the profile''s, if it has one; {}: no quota.
p_metadata: Only articles whose metadata contain this object (as jsonb''s @> says); of an array of objects, any of them. NULL: all articles.
p_min_score: Only articles of at least this score, in the profile''s own scale. NULL: no floor.
p_profile: Ranking profile, name@version; a bare name is version 1. NULL: the one that the organisation pins (organizations.ranking_profile).
p_space_id: Embedding space. NULL: the organisation''s active one.
p_exploratory: Whether a profile that arbitrates fuses the legs however much they disagree.
p_language: The one text search configuration in which the question is analysed, for instance german. NULL: every language in use in the organisation.

Columns:
place: Place in the whole ranking, from 1.
article_id: The article.
score: What it is ranked by, exact to billionths; what it means is the profile''s matter: 0 … 1 for weighted, vector, keyword.
chunk_id: The article''s best chunk, of equally good ones the lowest id. NULL where the kind of the article has nothing to open (inspectable is false).
kind: The article''s kind.
title: The article''s title.
external_ref: The application''s own name of the article.
score_billionths: The score as it is compared: vector_contribution + keyword_contribution.
vector_contribution: What the vector leg gave, in billionths.
keyword_contribution: What the keyword leg gave, in billionths.
vector_rank: The article''s competition rank in the vector leg, by its best chunk there. NULL: not found by it.
keyword_rank: The article''s competition rank in the keyword leg, by its best chunk there. NULL: not found by it.
vector_similarity: Cosine similarity of the best chunk, -1 … 1, rounded to 6 decimals. NULL without one.
keyword_score: Keyword score of the best chunk, 0 … 1: its share of the highest score that the question''s known words could give. NULL without a matching word.
matches: The question''s words that the best chunk has, an array of objects: lexeme, language, document_frequency (chunks of that language with it), question_count, idf and impact in thousandths, share (10^-12 of all that the question''s words weigh) and contribution (share times impact; divided by 2200 * 10^12 their sum is keyword_score; with the scorer term_count, share, and 10^12).
other_chunk_count: How many other chunks the article has.
place_in_kind: Its place among the candidates of its kind.
quota: How many of its kind are kept. NULL: all.
tied_with: Number of other candidates of equal score, those on other pages or cut by a quota included.
settled_by_identity: Whether there are such, so that the article''s id alone decided its place among them.
tied_article_ids: Those it ties with, ascending, at most 100 of them.
explanation: The same in words.
cursor: Pass as p_cursor for the rows after this one.

Errors: KBORG, KBLIM, KBFLT, KBPRF, KBQRY, KBLNG, KBSPC, KBDIM, KBVEC, KBANN, KBESC, KBCUR, KBTMO.';
