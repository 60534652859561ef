CREATE FUNCTION kbsearch.explain_kb_candidates_v1(
    p_org_id bigint,
    p_query_text text,
    p_query_embedding vector DEFAULT NULL,
    p_kinds text [] DEFAULT NULL,
    p_kind_quota jsonb DEFAULT NULL,
    p_metadata jsonb DEFAULT NULL,
    p_min_score double precision DEFAULT NULL,
    p_profile text DEFAULT NULL,
    p_space_id bigint DEFAULT NULL,
    p_exploratory boolean DEFAULT false,
    p_language text DEFAULT NULL
) RETURNS TABLE (
    kind text, place_in_kind bigint, article_id bigint, chunk_id bigint, title text, external_ref text, score double precision, quota bigint,
    kept boolean, place bigint, tied_in_kind bigint, is_tie_cut boolean, tied_with bigint
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
BEGIN
    v_plan := kbsearch.prepare_kb_search_v1(
        p_org_id, p_query_text, p_query_embedding, 0, 0, NULL, p_kinds, p_kind_quota, p_metadata, p_min_score, p_profile, p_space_id, p_exploratory,
        p_language, false
    );
    v_plan := kbsearch.arbitrate_kb_plan_v1(v_plan, p_query_embedding, true);
    RETURN QUERY
    SELECT
        c.kind, c.place_in_kind, c.article_id, CASE WHEN coalesce(k.inspectable, true) THEN c.chunk_id END, a.title, a.external_ref,
        c.score / 1e9::double precision, c.quota, c.kept, c.place, c.tied_in_kind, c.is_tie_cut, c.tied_with
    FROM kbsearch.place_kb_candidates_v1(v_plan, p_query_embedding) AS c
    INNER JOIN kbsearch.kb_articles AS a ON a.org_id = p_org_id AND a.id = c.article_id
    LEFT JOIN kbsearch.kb_source_kinds AS k ON k.kind = c.kind
    ORDER BY c.kind COLLATE "C" ASC, c.score DESC, c.article_id ASC;
    IF clock_timestamp() > v_plan.deadline THEN
        PERFORM kbsearch.refuse_kb_overtime_v1(v_plan.budget, 'answer');
    END IF;
END
$$;
COMMENT ON FUNCTION kbsearch.explain_kb_candidates_v1(
    bigint, text, vector, text [], jsonb, jsonb, double precision, text, bigint, boolean, text
) IS
'Every candidate that the ranking of a search saw, kind by kind: those that the quota kept and those that it cut. Writes nothing.

Arguments:
p_org_id: The organisation searched.
p_query_text: The question, at most 32,768 bytes. Words are OR-ed; "a phrase" must occur in one chunk of the article, its title included; -word and -"a phrase" exclude articles that have it. At most 32 different phrases and exclusions. NULL or empty: the vector leg alone.
p_query_embedding: The question''s vector, of the dimensions of the searched space. NULL: the keyword leg alone.
p_kinds: Only articles of these kinds, at least one. NULL: all kinds.
p_kind_quota: At most so many articles of each kind, for instance {"policy": 3, "faq": 2, "*": 0}; "*" is every kind not named. The best of each kind are kept, after scores and ranks are computed. NULL: the profile''s, if it has one; {}: no quota.
p_metadata: Only articles whose metadata contain this object (as jsonb''s @> says); of an array of objects, any of them. NULL: all articles.
p_min_score: Only articles of at least this score, in the profile''s own scale. NULL: no floor.
p_profile: Ranking profile, name@version; a bare name is version 1. NULL: the one that the organisation pins (organizations.ranking_profile).
p_space_id: Embedding space. NULL: the organisation''s active one.
p_exploratory: Whether a profile that arbitrates fuses the legs however much they disagree.
p_language: The one text search configuration in which the question is analysed, for instance german. NULL: every language in use in the organisation.

Columns:
kind: The article''s kind.
place_in_kind: Its place among the candidates of its kind, from 1.
article_id: The article.
chunk_id: The article''s best chunk, of equally good ones the lowest id. NULL where the kind of the article has nothing to open (inspectable is false).
title: The article''s title.
external_ref: The application''s own name of the article.
score: What it is ranked by, exact to billionths; what it means is the profile''s matter: 0 … 1 for weighted, vector, keyword.
quota: How many of its kind are kept. NULL: all.
kept: Whether it was kept.
place: Its place in the ranking, from 1. NULL where the quota cut it.
tied_in_kind: Number of other candidates of its kind of equal score.
is_tie_cut: Whether the quota cuts through the tie it is in, so that ids alone decided which of them were kept.
tied_with: Number of other candidates of equal score, of any kind.

Errors: KBORG, KBLIM, KBFLT, KBPRF, KBQRY, KBLNG, KBSPC, KBDIM, KBVEC, KBANN, KBESC, KBTMO.';
