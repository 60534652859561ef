-- The clock is looked at for each row, where its cursor is made: of a long question cursors and highlights are most of the work.
CREATE FUNCTION kbsearch.list_kb_results_v1(p_plan kbsearch.kb_search_plan, p_embedding vector)
RETURNS TABLE (
    place bigint, article_id bigint, score double precision, chunk_id bigint, kind text, title text, excerpt text, excerpt_html text, inspectable boolean,
    external_ref text, source_uri text, metadata jsonb, vector_similarity double precision, keyword_score double precision, tied_with bigint,
    settled_by_identity boolean, cursor text, total bigint, decision text, manifest jsonb
)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH sealing AS MATERIALIZED (
        SELECT (SELECT k.pads FROM kbsearch.kb_cursor_keys AS k WHERE k.org_id = (p_plan).org_id ORDER BY k.id DESC LIMIT 1) AS pads
    )

    SELECT
        r.place,
        r.article_id,
        r.score / 1e9::double precision,
        CASE WHEN coalesce(k.inspectable, true) THEN r.chunk_id END,
        a.kind,
        a.title,
        CASE WHEN char_length(c.content) <= 240 THEN c.content ELSE left(c.content, 239) || U&'\2026' END,
        CASE WHEN (p_plan).highlight THEN kbsearch.highlight_kb_text_v1(c.content, c.language, CASE WHEN starts_with(c.lexemes[1], chr(31)) THEN c.lexemes[1] ELSE '' END, (p_plan).lexemes, 240) END,
        coalesce(k.inspectable, true),
        a.external_ref,
        a.source_uri,
        a.metadata,
        r.similarity / 1e6::double precision,
        round(r.raw * 1e9::double precision / (p_plan).keyword_bound) / 1e9::double precision,
        r.tied_with,
        r.tied_with > 0,
        CASE
            WHEN (clock_timestamp() > (p_plan).deadline) IS NOT TRUE OR kbsearch.refuse_kb_overtime_v1((p_plan).budget, 'answer') IS NULL
                THEN kbsearch.seal_kb_cursor_v1((p_plan).cursor_prefix || ' ' || coalesce(r.decision, (p_plan).cursor_legs) || ' ' || r.score || ' ' || r.article_id, s.pads)
        END,
        r.total,
        r.decision,
        r.manifest
    FROM kbsearch.rank_kb_articles_v1(
        p_plan, p_embedding, (p_plan).row_limit, (p_plan).row_offset, (p_plan).after_score, (p_plan).after_article_id
    ) AS r
    INNER JOIN kbsearch.kb_articles AS a ON a.org_id = (p_plan).org_id AND a.id = r.article_id
    INNER JOIN kbsearch.kb_article_chunks AS c ON c.org_id = (p_plan).org_id AND c.id = r.chunk_id
    LEFT JOIN kbsearch.kb_source_kinds AS k ON k.kind = a.kind
    CROSS JOIN sealing AS s;
END;
COMMENT ON FUNCTION kbsearch.list_kb_results_v1(kbsearch.kb_search_plan, vector) IS
'A page of ranked articles, in no order, with what is shown of them; columns as in search_kb_hybrid_v1, and total, the number of articles in the whole result, decision and manifest, as in rank_kb_articles_v1.';
