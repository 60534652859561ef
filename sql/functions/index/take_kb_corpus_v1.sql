-- A plain UPDATE has its rows before the triggers of chunks ask for the lock "writers". So who changes all chunks takes the lock and all rows at once or, where
-- somebody has one of them, gives all back and waits for that row, holding nothing that its holder could want. Where rows are taken again and again, it
-- stops giving way after twenty times: then a deadlock may end one of both.
CREATE FUNCTION kbsearch.take_kb_corpus_v1(p_org_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_attempt integer := 0;
    v_article_id bigint;
    v_chunk_id bigint;
BEGIN
    LOOP
        v_attempt := v_attempt + 1;
        v_article_id := NULL;
        v_chunk_id := NULL;
        BEGIN
            PERFORM pg_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(p_org_id, 'writers'));
            EXIT WHEN v_attempt > 20;
            SELECT a.id INTO v_article_id
            FROM kbsearch.kb_articles AS a
            WHERE a.org_id = p_org_id AND a.id NOT IN (
                SELECT l.id FROM (SELECT t.id FROM kbsearch.kb_articles AS t WHERE t.org_id = p_org_id FOR KEY SHARE SKIP LOCKED) AS l
            )
            LIMIT 1;
            IF v_article_id IS NULL THEN
                SELECT c.id INTO v_chunk_id
                FROM kbsearch.kb_article_chunks AS c
                WHERE c.org_id = p_org_id AND c.id NOT IN (
                    SELECT l.id FROM (SELECT t.id FROM kbsearch.kb_article_chunks AS t WHERE t.org_id = p_org_id FOR NO KEY UPDATE SKIP LOCKED) AS l
                )
                LIMIT 1;
            END IF;
            EXIT WHEN v_article_id IS NULL AND v_chunk_id IS NULL;
            RAISE triggered_action_exception;
        EXCEPTION
            WHEN triggered_action_exception THEN
                NULL;  -- all locks of the block are given back
        END;
        BEGIN
            PERFORM FROM kbsearch.kb_articles AS a WHERE a.org_id = p_org_id AND a.id = v_article_id FOR KEY SHARE;
            PERFORM FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = p_org_id AND c.id = v_chunk_id FOR NO KEY UPDATE;
            RAISE triggered_action_exception;
        EXCEPTION
            WHEN triggered_action_exception THEN
                NULL;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION kbsearch.take_kb_corpus_v1(bigint) IS
'Waits for the writers of an organisation''s chunks, keeps them out until the end of the transaction and locks all articles (FOR KEY SHARE) and chunks (FOR NO KEY UPDATE).';
