CREATE FUNCTION kbsearch.open_kb_search_v1(
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
    p_language text DEFAULT NULL,
    p_expires_in interval DEFAULT '15 minutes'
) RETURNS TABLE (snapshot uuid, total bigint, expires_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET extra_float_digits = 1
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    IF current_setting('transaction_read_only') = 'on' THEN
        RAISE EXCEPTION 'a snapshot cannot be stored in a read-only transaction%', CASE WHEN pg_is_in_recovery() THEN ': this server is a replica' ELSE '' END
            USING ERRCODE = 'KBSNP', DETAIL = jsonb_build_object('org_id', p_org_id, 'reason', 'read_only', 'is_replica', pg_is_in_recovery())::text,
                HINT = 'Open it on the primary and read its pages here, or page by the cursors of search_kb_hybrid_v1, which writes nothing.';
    END IF;
    IF (CASE WHEN p_expires_in > interval '0' AND p_expires_in <= interval '1 day' THEN now() + p_expires_in <= now() OR now() + p_expires_in > now() + interval '1 day' ELSE true END) THEN
        RAISE EXCEPTION 'p_expires_in is %, expected more than 0 and at most 1 day', coalesce(p_expires_in::text, 'NULL')
            USING ERRCODE = 'KBLIM', DETAIL = jsonb_build_object('argument', 'p_expires_in', 'given', p_expires_in, 'maximum', '1 day')::text,
                HINT = 'Pass how long the pages are to be read, 15 minutes for instance.';
    END IF;
    snapshot := gen_random_uuid();
    expires_at := now() + p_expires_in;
    WITH ranked AS MATERIALIZED (
        SELECT r.block, r.article_ids, r.chunk_ids, r.scores, r.similarities, r.keyword_scores, r.ties, r.answer, r.lexemes
        FROM kbsearch.list_kb_ranking_v1(
            p_org_id, p_query_text, p_query_embedding, p_kinds, p_kind_quota, p_metadata, p_min_score, p_profile, p_space_id, p_exploratory, p_language
        ) AS r
    ),
    head AS (
        INSERT INTO kbsearch.kb_search_snapshots (org_id, id, expires_at, total, answer, lexemes, kinds, metadata)
        SELECT
            p_org_id, open_kb_search_v1.snapshot, open_kb_search_v1.expires_at,
            (SELECT coalesce(sum(cardinality(c.article_ids)), 0) FROM ranked AS c), r.answer, r.lexemes, p_kinds, p_metadata
        FROM ranked AS r
        WHERE r.block IS NULL
        RETURNING kb_search_snapshots.total
    ),
    body AS (
        INSERT INTO kbsearch.kb_search_snapshot_blocks (org_id, snapshot_id, block, article_ids, chunk_ids, scores, similarities, keyword_scores, ties)
        SELECT p_org_id, open_kb_search_v1.snapshot, r.block, r.article_ids, r.chunk_ids, r.scores, r.similarities, r.keyword_scores, r.ties
        FROM ranked AS r
        WHERE r.block IS NOT NULL
    )
    SELECT h.total INTO total FROM head AS h;
    PERFORM kbsearch.sweep_kb_searches_v1(p_org_id);
    -- those that another session is removing are left to it
    DELETE FROM kbsearch.kb_search_snapshots AS s
    WHERE s.org_id = p_org_id AND s.id IN (
        SELECT h.id
        FROM kbsearch.kb_search_snapshots AS h
        WHERE h.org_id = p_org_id AND h.id IN (
            SELECT l.id
            FROM kbsearch.kb_search_snapshots AS l
            WHERE l.org_id = p_org_id
            ORDER BY l.created_at DESC, l.id DESC
            OFFSET (SELECT o.snapshot_limit FROM kbsearch.organizations AS o WHERE o.id = p_org_id)
        )
        FOR UPDATE SKIP LOCKED
    );
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION kbsearch.open_kb_search_v1(
    bigint, text, vector, text [], jsonb, jsonb, double precision, text, bigint, boolean, text, interval
) IS
'Ranks once and stores the whole ranking, whose pages fetch_kb_page_v1 returns, whatever is written meanwhile. Removes the organisation''s expired snapshots, and its oldest where there are more than organizations.snapshot_limit (a few more may stand while several are opened at a time).

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
p_expires_in: How long it can be read, more than 0 and at most 1 day.

Columns:
snapshot: Pass as p_snapshot to fetch_kb_page_v1.
total: Number of articles in the ranking.
expires_at: Until when it can be read.

Errors: KBORG, KBLIM, KBFLT, KBPRF, KBQRY, KBLNG, KBSPC, KBDIM, KBVEC, KBANN, KBESC, KBTMO; KBSNP in a read-only transaction or on a replica.';
