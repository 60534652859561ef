CREATE FUNCTION kbsearch.search_kb_hybrid_v1(
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
) RETURNS TABLE (
    place bigint, article_id bigint, score double precision, chunk_id bigint, kind text, title text, excerpt text, excerpt_html text, inspectable boolean,
    external_ref text, source_uri text, metadata jsonb, vector_similarity double precision, keyword_score double precision, tied_with bigint,
    settled_by_identity boolean, cursor text
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
        p_org_id, p_query_text, p_query_embedding, p_limit, p_offset, p_cursor, p_kinds, p_kind_quota, p_metadata,
        p_min_score, p_profile, p_space_id, p_exploratory, p_language, p_highlight
    );
    RETURN QUERY
    SELECT
        r.place, r.article_id, r.score, r.chunk_id, r.kind, r.title, r.excerpt, r.excerpt_html, r.inspectable, r.external_ref, r.source_uri, r.metadata,
        r.vector_similarity, r.keyword_score, r.tied_with, r.settled_by_identity, r.cursor
    FROM kbsearch.list_kb_results_v1(v_plan, p_query_embedding) AS r
    ORDER BY score DESC, article_id ASC;
    IF NOT FOUND THEN
        -- was it escalated?
        v_plan := kbsearch.arbitrate_kb_plan_v1(v_plan, p_query_embedding, true);
    END IF;
    IF clock_timestamp() > v_plan.deadline THEN
        PERFORM kbsearch.refuse_kb_overtime_v1(v_plan.budget, 'answer');
    END IF;
END
$$;
COMMENT ON FUNCTION kbsearch.search_kb_hybrid_v1(
    bigint, text, vector, bigint, bigint, text, text [], jsonb, jsonb, double precision, text, bigint, boolean, text, boolean
) IS
'Ranks the published articles of an organisation by meaning and by words: one row an article, in a total order (score descending, then article id). Writes nothing; one snapshot a call.

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

Columns:
place: Place in the whole ranking, from 1.
article_id: The article.
score: What it is ranked by, exact to billionths; what it means is the profile''s matter: 0 … 1 for weighted, vector, keyword.
chunk_id: The article''s best chunk, of equally good ones the lowest id. NULL where the kind of the article has nothing to open (inspectable is false).
kind: The article''s kind.
title: The article''s title.
excerpt: The beginning of the best chunk, at most 240 characters.
excerpt_html: The part of the best chunk around the question''s words, HTML-escaped, the words in <mark>. NULL unless p_highlight.
inspectable: False where no interface may offer to open the article.
external_ref: The application''s own name of the article.
source_uri: Where the article comes from.
metadata: The article''s metadata, an object.
vector_similarity: Cosine similarity of the best chunk, -1 … 1, rounded to 6 decimals. NULL without one.
keyword_score: Keyword score of the best chunk, 0 … 1: its share of the highest score that the question''s known words could give. NULL without a matching word.
tied_with: Number of other candidates of equal score, those on other pages or cut by a quota included.
settled_by_identity: Whether there are such, so that the article''s id alone decided its place among them.
cursor: Pass as p_cursor for the rows after this one.

Errors: KBORG, KBLIM, KBFLT, KBPRF, KBQRY, KBLNG, KBSPC, KBDIM, KBVEC, KBANN, KBESC, KBCUR, KBTMO.';
