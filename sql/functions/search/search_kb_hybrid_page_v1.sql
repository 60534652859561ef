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
    v_decision text;
    v_manifest jsonb;
BEGIN
    v_plan := kbsearch.prepare_kb_search_v1(
        p_org_id, p_query_text, p_query_embedding, p_limit, p_offset, p_cursor, p_kinds, p_kind_quota, p_metadata,
        p_min_score, p_profile, p_space_id, p_exploratory, p_language, p_highlight
    );
    SELECT
        jsonb_agg(to_jsonb(r) - '{total,decision,manifest}'::text[] ORDER BY r.place), max(r.total), max(r.place), (array_agg(r.cursor ORDER BY r.place DESC))[1],
        max(r.decision), (array_agg(r.manifest))[1]
    INTO v_items, v_total, v_last_place, v_last_cursor, v_decision, v_manifest
    FROM kbsearch.list_kb_results_v1(v_plan, p_query_embedding) AS r;
    IF v_plan.fusion = 'arbitrate' THEN
        v_plan := CASE WHEN v_decision IS NULL THEN kbsearch.arbitrate_kb_plan_v1(v_plan, p_query_embedding, false) ELSE kbsearch.apply_kb_decision_v1(v_plan, v_decision, v_manifest) END;
    END IF;
    IF v_plan.verdict = 'escalated' THEN
        v_total := 0;
        v_last_place := 0;
    ELSIF v_total IS NULL THEN
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
    IF clock_timestamp() > v_plan.deadline THEN
        PERFORM kbsearch.refuse_kb_overtime_v1(v_plan.budget, 'answer');
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
        'verdict', v_plan.verdict,
        'manifest', v_plan.manifest,
        'legs', kbsearch.describe_kb_legs_v1(v_plan),
        'retrieval', kbsearch.describe_kb_retrieval_v1(v_plan, v_total, v_last_place >= v_total)
    );
END
$$;
COMMENT ON FUNCTION kbsearch.search_kb_hybrid_page_v1(
    bigint, text, vector, bigint, bigint, text, text [], jsonb, jsonb, double precision, text, bigint, boolean, text, boolean
) IS
'One page of search_kb_hybrid_v1 as one JSON document, for calls over HTTP. Writes nothing; one snapshot a call.

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
p_highlight: Whether excerpt_html is filled.

Returns:
items: The rows of search_kb_hybrid_v1 as objects, best first.
next_cursor: Pass as p_cursor for the next page; null after the last.
total: Number of articles in the whole result, after filters, floor and quota.
end_reached: Whether nothing follows.
profile: The ranking profile used, name@version.
space_id: The embedding space searched; null where the organisation has none.
function: The name of this function.
function_version: Its version, 1.
verdict: What an arbitration decided: rankings_agree, vector_only, keyword_only, vector_privileged, keyword_privileged, escalated (there are no items then), exploratory_fused, calibrated_fused, advisory or fused_within_limit; null where the profile''s fusion is another, and where neither leg found anything.
manifest: Its record, as build_kb_manifest_v1 makes it; on pages by cursor its manifest_digest alone; else null.
legs.vector.takes_part: Whether the vector leg contributed.
legs.vector.reason: Why it did not: no_embedding (the question has none), no_embedded_chunks, no_direction (no chunk''s vector has one), not_in_fusion (the profile does not use it), not_chosen (by an arbitration), found_nothing (so that the other leg alone was left to an arbitration); else null.
legs.vector.chunks_without_embedding: Number of searchable chunks without a vector in the space: they count 0 in this leg. null where the leg takes no part.
legs.vector.chunks_without_direction: Number of those whose vector has no direction. null where the leg takes no part.
legs.vector.chunks_with_stale_embedding: Number of searchable chunks whose vector is of what they said before their title, heading or content was changed: they are found by that. null where the leg takes no part.
legs.keyword.takes_part: Whether the keyword leg contributed.
legs.keyword.reason: Why it did not: empty_query, stop_words_only, only_exclusions, no_known_words, not_in_fusion, not_chosen, found_nothing; else null.
legs.keyword.languages: The text search configurations in which the question was analysed.
legs.keyword.words: Lexemes of the question that the organisation''s articles have.
legs.keyword.unknown_words: Lexemes of the question that they have not.
legs.keyword.ignored: Phrases and exclusions of the question without a word in them, which were not applied.
retrieval.mode: exact: all chunks were compared; ann: the articles in the windows of both legs.
retrieval.reason: Why a search that might be approximate was exact: few_chunks (auto), few_allowed (the filters leave so few articles that all of those were compared), no_index or index_invalid (auto), window_not_filled (the index gave too few articles), arbitrated, cursor (the page before was); else null.
retrieval.window: Articles in a leg''s window; null where the mode is exact.
retrieval.index: Identity of the approximate index; null where none was used.
retrieval.reachable: Articles that pages of this search can reach, as total.
retrieval.certain: How many of the first places are the exact ranking''s, whatever vectors the index missed.
retrieval.settled: How many are if the index''s window has the nearest vectors.
retrieval.window_exhausted: Whether the pages end here and the exact ranking goes on.

Errors: KBORG, KBLIM, KBFLT, KBPRF, KBQRY, KBLNG, KBSPC, KBDIM, KBVEC, KBANN, KBCUR, KBTMO.';
