CREATE FUNCTION kbsearch.fetch_kb_page_v1(
    p_org_id bigint, p_snapshot uuid, p_limit bigint DEFAULT 10, p_offset bigint DEFAULT 0, p_cursor text DEFAULT NULL, p_highlight boolean DEFAULT false
) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET extra_float_digits = 1
SET enable_seqscan = off
AS $$
DECLARE
    v_snapshot record;
    v_parts text[];
    v_reason text;
    v_from bigint := p_offset;
    v_until bigint;
    v_items jsonb;
    v_shown bigint;
    v_prefix text;
    v_keys CONSTANT bytea[] := kbsearch.list_kb_cursor_keys_v1(p_org_id);
    v_pads CONSTANT bytea := v_keys[1];
    v_budget CONSTANT integer := kbsearch.get_kb_budget_v1();
    v_deadline CONSTANT timestamptz := CASE WHEN v_budget > 0 THEN clock_timestamp() + make_interval(secs => v_budget / 1000.0) END;
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations as p_org_id.';
    END IF;
    IF p_limit IS NULL OR p_limit < 0 OR p_limit > 1000 THEN
        RAISE EXCEPTION 'p_limit is %, expected 0 to 1000', coalesce(p_limit::text, 'NULL')
            USING ERRCODE = 'KBLIM', DETAIL = jsonb_build_object('argument', 'p_limit', 'given', p_limit, 'minimum', 0, 'maximum', 1000)::text,
                HINT = 'Ask for at most 1000 articles and walk on with next_cursor.';
    END IF;
    IF p_offset IS NULL OR p_offset < 0 THEN
        RAISE EXCEPTION 'p_offset is %, expected 0 or more', coalesce(p_offset::text, 'NULL')
            USING ERRCODE = 'KBLIM', DETAIL = jsonb_build_object('argument', 'p_offset', 'given', p_offset, 'minimum', 0)::text,
                HINT = 'Pass the number of places to skip, 0 for the first page.';
    END IF;
    SELECT s.total, s.answer, s.lexemes, s.kinds, s.metadata, s.expires_at INTO v_snapshot
    FROM kbsearch.kb_search_snapshots AS s
    WHERE s.org_id = p_org_id AND s.id = p_snapshot AND s.expires_at > now();
    IF v_snapshot.total IS NULL THEN
        RAISE EXCEPTION 'there is no snapshot % in organisation %', coalesce(p_snapshot::text, 'NULL'), p_org_id
            USING ERRCODE = 'KBSNP', DETAIL = jsonb_build_object('org_id', p_org_id, 'snapshot', p_snapshot, 'reason', 'not_found')::text,
                HINT = 'It has expired, was closed, or gave way to newer ones: open the search again with open_kb_search_v1.';
    END IF;
    v_prefix := concat_ws(' ', 'snapshot', '1', p_org_id, p_snapshot) || ' ';
    IF p_cursor IS NOT NULL THEN
        v_parts := string_to_array(kbsearch.open_kb_cursor_v1(p_cursor, v_keys), ' ');
        v_reason := CASE
            WHEN v_parts IS NULL OR cardinality(v_parts) <> 5 OR v_parts[1] <> 'snapshot' OR v_parts[5] !~ '^[0-9]{1,18}$' THEN 'damaged, or none of a snapshot'
            WHEN v_parts[2] <> '1' THEN 'of another function version'
            WHEN v_parts[3] <> p_org_id::text THEN 'of another organisation'
            WHEN v_parts[4] <> p_snapshot::text THEN 'of another snapshot'
            WHEN p_offset <> 0 THEN 'given together with an offset'
        END;
        IF v_reason IS NOT NULL THEN
            RAISE EXCEPTION 'the cursor is %', v_reason
                USING ERRCODE = 'KBCUR', DETAIL = jsonb_build_object('reason', v_reason)::text,
                    HINT = 'Pass a cursor of a page of this snapshot, unchanged and without an offset; or start again without it.';
        END IF;
        v_from := v_parts[5]::bigint;
    END IF;
    v_from := least(v_from, v_snapshot.total);
    v_until := least(v_from + p_limit, v_snapshot.total);
    SELECT coalesce(jsonb_agg(to_jsonb(r) ORDER BY r.place), '[]'), count(*) INTO v_items, v_shown
    FROM (
        SELECT
            p.place,
            p.article_id,
            p.score / 1e9::double precision AS score,
            CASE WHEN coalesce(k.inspectable, true) THEN c.id END AS chunk_id,
            a.kind,
            a.title,
            CASE WHEN char_length(c.content) <= 240 THEN c.content ELSE left(c.content, 239) || chr(8230) END AS excerpt,
            CASE WHEN p_highlight THEN kbsearch.highlight_kb_text_v1(
                c.content, c.language, CASE WHEN starts_with(c.lexemes[1], chr(31)) THEN c.lexemes[1] ELSE '' END, v_snapshot.lexemes, 240
            ) END AS excerpt_html,
            coalesce(k.inspectable, true) AS inspectable,
            a.external_ref,
            a.source_uri,
            a.metadata,
            p.similarity / 1e6::double precision AS vector_similarity,
            p.keyword_score / 1e9::double precision AS keyword_score,
            p.tied_with,
            p.tied_with > 0 AS settled_by_identity,
            CASE WHEN (clock_timestamp() > v_deadline) IS NOT TRUE OR kbsearch.refuse_kb_overtime_v1(v_budget, 'answer') IS NULL THEN kbsearch.seal_kb_cursor_v1(v_prefix || p.place, v_pads) END AS cursor
        FROM (
            SELECT b.block * 100::bigint + e.n AS place, e.article_id, e.chunk_id, e.score, e.similarity, e.keyword_score, e.tied_with
            FROM kbsearch.kb_search_snapshot_blocks AS b
            CROSS JOIN LATERAL unnest(b.article_ids, b.chunk_ids, b.scores, b.similarities, b.keyword_scores, b.ties)
                WITH ORDINALITY AS e (article_id, chunk_id, score, similarity, keyword_score, tied_with, n)
            WHERE b.org_id = p_org_id AND b.snapshot_id = p_snapshot AND b.block BETWEEN v_from / 100 AND v_until / 100
        ) AS p
        INNER JOIN kbsearch.kb_articles AS a ON a.org_id = p_org_id AND a.id = p.article_id AND a.published
            AND (v_snapshot.kinds IS NULL OR a.kind = ANY (v_snapshot.kinds))
            AND (
                v_snapshot.metadata IS NULL
                OR CASE jsonb_typeof(v_snapshot.metadata)
                    WHEN 'array' THEN EXISTS (SELECT 1 FROM jsonb_array_elements(v_snapshot.metadata) AS wanted (element) WHERE a.metadata @> wanted.element)
                    ELSE a.metadata @> v_snapshot.metadata
                END
            )
        LEFT JOIN kbsearch.kb_article_chunks AS c ON c.org_id = p_org_id AND c.id = p.chunk_id AND c.article_id = p.article_id
        LEFT JOIN kbsearch.kb_source_kinds AS k ON k.kind = a.kind
        WHERE p.place > v_from AND p.place <= v_until
    ) AS r;
    IF clock_timestamp() > v_deadline THEN
        PERFORM kbsearch.refuse_kb_overtime_v1(v_budget, 'answer');
    END IF;
    RETURN jsonb_build_object(
        'items', v_items,
        'gone', v_until - v_from - v_shown,
        'next_cursor', CASE WHEN v_until < v_snapshot.total THEN kbsearch.seal_kb_cursor_v1(v_prefix || v_until, v_pads) END,
        'total', v_snapshot.total,
        'end_reached', v_until >= v_snapshot.total,
        'snapshot', p_snapshot,
        'expires_at', v_snapshot.expires_at,
        'function', 'fetch_kb_page_v1',
        'function_version', 1
    ) || v_snapshot.answer || jsonb_build_object(
        'retrieval', v_snapshot.answer -> 'retrieval' || jsonb_build_object(
            'reachable', v_snapshot.total,
            'certain', coalesce((v_snapshot.answer #>> '{retrieval,certain}')::bigint, v_snapshot.total),
            'settled', coalesce((v_snapshot.answer #>> '{retrieval,settled}')::bigint, v_snapshot.total),
            'window_exhausted', v_until >= v_snapshot.total AND (v_snapshot.answer #>> '{retrieval,window_exhausted}')::boolean
        )
    );
END
$$;
COMMENT ON FUNCTION kbsearch.fetch_kb_page_v1(bigint, uuid, bigint, bigint, text, boolean) IS
'A page of a ranking that open_kb_search_v1 stored: its places one after the other, without those whose article was deleted or unpublished since, or left the kinds or metadata that the search asks for. What else was written since changes neither order nor scores; titles, excerpts and metadata are as they are now. Writes nothing.

Arguments:
p_org_id: The organisation that it is of.
p_snapshot: The snapshot.
p_limit: Number of places, 0 … 1000.
p_offset: Number of places to skip, 0 or more; not together with a cursor.
p_cursor: next_cursor of the page before, or the cursor of an item.
p_highlight: Whether excerpt_html is filled.

Returns:
items: Rows as those of search_kb_hybrid_v1; excerpt and chunk_id are null where the chunk was replaced since.
gone: How many places of the page are not shown, because their articles were deleted or unpublished since, or left what p_kinds and p_metadata of the search ask for.
next_cursor: Pass as p_cursor for the next page; null after the last.
total: Number of places of the ranking.
end_reached: Whether nothing follows.
snapshot: The snapshot.
expires_at: Until when it can be read.
profile: The ranking profile used, name@version.
space_id: The embedding space searched; null where the organisation had none.
function: The name of this function.
function_version: Its version, 1.
verdict: Reserved for arbitration; null.
legs: As search_kb_hybrid_page_v1 has it, of the time of the ranking.

Errors: KBORG, KBLIM, KBSNP, KBCUR, KBTMO.';
