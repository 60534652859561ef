CREATE FUNCTION kbsearch.explain_kb_article_v1(
    p_org_id bigint,
    p_query_text text,
    p_query_embedding vector DEFAULT NULL,
    p_article_id bigint DEFAULT NULL,
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
    v_article record;
    v_placed record;
    v_operators jsonb;
    v_quota bigint;
    v_total bigint;
    v_last_score bigint;
    v_first_place bigint;
    v_last_place bigint;
    v_status text;
    v_detail jsonb := '{}';
    v_explanation text;
BEGIN
    v_plan := kbsearch.prepare_kb_search_v1(
        p_org_id, p_query_text, p_query_embedding, p_limit, p_offset, p_cursor, p_kinds, p_kind_quota, p_metadata, p_min_score, p_profile, p_space_id,
        p_exploratory, p_language, false
    );
    v_plan := kbsearch.arbitrate_kb_plan_v1(v_plan, p_query_embedding, true);
    SELECT a.id, a.kind, a.title, a.external_ref, a.published INTO v_article FROM kbsearch.kb_articles AS a WHERE a.org_id = p_org_id AND a.id = p_article_id;
    v_quota := coalesce((v_plan.kind_quota ->> v_article.kind)::bigint, (v_plan.kind_quota ->> '*')::bigint);
    SELECT jsonb_agg(jsonb_build_object('shape', f.shape, 'text', o.given) ORDER BY f.n) INTO v_operators
    FROM kbsearch.find_kb_operators_v1(p_org_id, v_plan.operators, v_plan.configurations, v_plan.tags, v_plan.deadline, v_plan.budget) AS f
    CROSS JOIN LATERAL (
        SELECT min(e.element ->> 'text') AS given FROM jsonb_array_elements(v_plan.operators) AS e (element) WHERE (e.element -> 'n')::integer = f.n
    ) AS o
    WHERE (f.shape = 'phrase') <> (p_article_id = ANY (f.article_ids));
    IF v_article.id IS NULL THEN
        v_status := 'not_in_organization';
        v_explanation := 'The organisation has no such article.';
    ELSIF NOT v_article.published THEN
        v_status := 'unpublished';
        v_explanation := 'It is not published.';
    ELSIF p_kinds IS NOT NULL AND v_article.kind <> ALL (p_kinds) THEN
        v_status := 'filtered';
        v_detail := jsonb_build_object('by', 'kinds', 'kind', v_article.kind);
        v_explanation := format('Its kind, %s, is not one of those asked for.', v_article.kind);
    ELSIF p_metadata IS NOT NULL AND p_article_id <> ALL (kbsearch.select_kb_articles_v1(p_org_id, NULL, p_metadata, ARRAY[p_article_id], NULL)) THEN
        v_status := 'filtered';
        v_detail := jsonb_build_object('by', 'metadata');
        v_explanation := 'Its metadata do not contain what is asked for.';
    ELSIF v_quota = 0 THEN
        v_status := 'outside_quota';
        v_detail := jsonb_build_object('kind', v_article.kind, 'quota', 0);
        v_explanation := format('The quota takes none of its kind, %s.', v_article.kind);
    ELSIF v_operators IS NOT NULL THEN
        v_status := 'excluded';
        v_detail := jsonb_build_object('by', v_operators);
        v_explanation := CASE v_operators -> 0 ->> 'shape'
            WHEN 'phrase' THEN format('None of its passages has %s.', v_operators -> 0 ->> 'text')
            ELSE format('One of its passages has what %s excludes.', v_operators -> 0 ->> 'text')
        END;
    ELSIF v_plan.window_tag IS NOT NULL AND p_article_id <> ALL (v_plan.allowed) THEN
        v_status := 'outside_window';
        v_detail := jsonb_build_object('window', v_plan.retrieval -> 'window');
        v_explanation := format('It is not among the first %s articles of either leg, which is all that an approximate search ranks.', v_plan.retrieval ->> 'window');
    ELSE
        SELECT c.article_id, c.chunk_id, c.kind, c.score, c.quota, c.place_in_kind, c.kept, c.place, c.tied_with, c.is_tie_cut, c.tied_article_ids INTO v_placed
        FROM kbsearch.place_kb_candidates_v1(v_plan, p_query_embedding) AS c
        WHERE c.article_id = p_article_id;
        IF v_placed.article_id IS NULL THEN
            IF v_plan.min_score IS NULL THEN
                v_status := 'not_found';
            ELSE
                v_plan.min_score := NULL;
                SELECT c.article_id, c.chunk_id, c.kind, c.score, c.quota, c.place_in_kind, c.kept, c.place, c.tied_with, c.is_tie_cut, c.tied_article_ids INTO v_placed
                FROM kbsearch.place_kb_candidates_v1(v_plan, p_query_embedding) AS c
                WHERE c.article_id = p_article_id;
                v_status := CASE WHEN v_placed.article_id IS NULL THEN 'not_found' ELSE 'below_floor' END;
            END IF;
            IF v_status = 'not_found' THEN
                v_explanation := 'No passage of it has a word of the question or a vector to compare.';
            ELSE
                v_detail := jsonb_build_object('score', v_placed.score / 1e9::double precision, 'min_score', p_min_score);
                v_explanation := format('Its score, %s, is below the floor, %s.', v_placed.score / 1e9::double precision, p_min_score);
            END IF;
        ELSIF NOT v_placed.kept THEN
            v_status := 'outside_quota';
            v_detail := jsonb_build_object(
                'kind', v_placed.kind, 'quota', v_placed.quota, 'place_in_kind', v_placed.place_in_kind, 'score', v_placed.score / 1e9::double precision,
                'is_tie_cut', v_placed.is_tie_cut
            );
            v_explanation := format('The quota takes %s of its kind, %s, and it stands at place %s of them.', v_placed.quota, v_placed.kind, v_placed.place_in_kind)
                || CASE WHEN v_placed.is_tie_cut THEN ' It shares its score with some that were taken; which of them is by id and says nothing about relevance.' ELSE '' END;
        ELSE
            v_status := 'ranked';
            SELECT r.total, min(r.place), max(r.place), min(r.score) INTO v_total, v_first_place, v_last_place, v_last_score
            FROM kbsearch.rank_kb_articles_v1(v_plan, p_query_embedding, v_plan.row_limit, v_plan.row_offset, v_plan.after_score, v_plan.after_article_id) AS r
            GROUP BY r.total;
            v_detail := jsonb_build_object(
                'place', v_placed.place, 'score', v_placed.score / 1e9::double precision, 'on_page', coalesce(v_placed.place BETWEEN v_first_place AND v_last_place, false),
                'gap_to_page', CASE WHEN v_placed.place > v_last_place THEN (v_last_score - v_placed.score) / 1e9::double precision END,
                'tied_with', v_placed.tied_with, 'settled_by_identity', v_placed.tied_with > 0, 'tied_article_ids', to_jsonb(v_placed.tied_article_ids),
                'matches', coalesce((SELECT m.matches FROM kbsearch.list_kb_matches_v1(v_plan, ARRAY[v_placed.chunk_id]) AS m), '[]')
            );
            v_explanation := format('It stands at place %s', v_placed.place) || CASE
                WHEN v_first_place IS NULL THEN '.'
                WHEN v_placed.place < v_first_place THEN ', before this page.'
                WHEN v_placed.place <= v_last_place THEN ', on this page.'
                WHEN v_placed.score = v_last_score THEN ', after this page, with the score of its last article; their order is by id and says nothing about relevance.'
                ELSE format(', after this page; the last article there has %s more.', (v_last_score - v_placed.score) / 1e9::double precision)
            END;
        END IF;
    END IF;
    IF clock_timestamp() > v_plan.deadline THEN
        PERFORM kbsearch.refuse_kb_overtime_v1(v_plan.budget, 'answer');
    END IF;
    RETURN jsonb_build_object('article_id', p_article_id, 'title', CASE WHEN v_status NOT IN ('not_in_organization', 'unpublished') THEN v_article.title END, 'status', v_status, 'explanation', v_explanation)
        || v_detail;
END
$$;
COMMENT ON FUNCTION kbsearch.explain_kb_article_v1(
    bigint, text, vector, bigint, bigint, bigint, text, text [], jsonb, jsonb, double precision, text, bigint, boolean, text
) IS
'Why an article is where it is in a search, or why it is not there, as one JSON object. Writes nothing.

Arguments:
p_org_id: The organisation searched.
p_query_text: The question, at most 32,768 bytes. Words are OR-ed; "a phrase" must occur in one chunk of the article, its title included; -word and -"a phrase" exclude articles that have it. At most 32 different phrases and exclusions. NULL or empty: the vector leg alone.
p_query_embedding: The question''s vector, of the dimensions of the searched space. NULL: the keyword leg alone.
p_article_id: The article asked about.
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

Returns:
article_id: The article.
title: Its title; null where it is not there or not published.
status: The first of these that holds: not_in_organization, unpublished, filtered (its kind or its metadata), outside_quota where the quota of its kind is 0, excluded (it lacks a phrase or has what -word excludes), outside_window (of an approximate search), not_found (no leg found it), below_floor, outside_quota, ranked.
explanation: The same in words.
by: Of filtered: kinds or metadata; of excluded: the phrases that it lacks and the exclusions that it has.
window: Of outside_window: articles in a leg''s window.
place: Of ranked: its place, with score, on_page, gap_to_page (how much more the last article of the page has, null where it is not after the page), tied_with, settled_by_identity, tied_article_ids and matches as in explain_kb_search_v1.
score: Of below_floor, outside_quota and ranked: its score; with min_score, or with kind, quota, place_in_kind and is_tie_cut.

Errors: KBORG, KBLIM, KBFLT, KBPRF, KBQRY, KBLNG, KBSPC, KBDIM, KBVEC, KBANN, KBESC, KBCUR, KBTMO.';
