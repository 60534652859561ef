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
END
$$;
COMMENT ON FUNCTION kbsearch.search_kb_hybrid_v1(
    bigint, text, vector, bigint, bigint, text, text [], jsonb, jsonb, double precision, text, bigint, boolean, text, boolean
) IS
'Ranks the published articles of an organisation by meaning and by words; one row an article, in a total order: score descending, then article id. place: from 1 in the whole ranking; score: depends on the profile, 0 … 1 for weighted; vector_similarity: cosine -1 … 1, 6 decimals, NULL without; keyword_score: share of the highest possible BM25 in the chunk''s language, 0 … 1, NULL without a matching word; tied_with: other candidates of equal score, those on other pages or cut by a quota too; settled_by_identity: there are such; cursor: pass as p_cursor for the rows after this one. p_limit 0 … 1000; p_metadata: containment, an array at the top is any of; p_kind_quota: {"kind": most articles, "*": others}; p_language: the one language that the words are analysed in, a text search configuration''s name, NULL for every language in use; p_highlight: fill excerpt_html. Errors: KBORG, KBLIM, KBFLT, KBPRF, KBQRY, KBLNG, KBSPC, KBDIM, KBVEC, KBCUR. Writes nothing.';
