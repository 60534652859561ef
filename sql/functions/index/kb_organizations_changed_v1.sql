-- A plain UPDATE has its rows before the triggers of chunks ask for the lock "writers". So another language takes the lock and all rows at once or, where
-- somebody has one of them, gives all back and waits for that row, holding nothing that its holder could want. Where rows are taken again and again, it
-- stops giving way after twenty times: then a deadlock may end one of both.
CREATE FUNCTION kbsearch.kb_organizations_changed_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_acting CONSTANT text := coalesce(current_setting('kbsearch.acting_org_id', true), '');
    v_attempt integer := 0;
    v_article_id bigint;
    v_chunk_id bigint;
BEGIN
    PERFORM set_config('kbsearch.acting_org_id', NEW.id::text, true);
    IF NEW.language <> OLD.language THEN
        LOOP
            v_attempt := v_attempt + 1;
            v_article_id := NULL;
            v_chunk_id := NULL;
            BEGIN
                PERFORM pg_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(NEW.id, 'writers'));
                EXIT WHEN v_attempt > 20;
                SELECT a.id INTO v_article_id
                FROM kbsearch.kb_articles AS a
                WHERE a.org_id = NEW.id AND a.id NOT IN (
                    SELECT l.id FROM (SELECT t.id FROM kbsearch.kb_articles AS t WHERE t.org_id = NEW.id FOR KEY SHARE SKIP LOCKED) AS l
                )
                LIMIT 1;
                IF v_article_id IS NULL THEN
                    SELECT c.id INTO v_chunk_id
                    FROM kbsearch.kb_article_chunks AS c
                    WHERE c.org_id = NEW.id AND c.id NOT IN (
                        SELECT l.id FROM (SELECT t.id FROM kbsearch.kb_article_chunks AS t WHERE t.org_id = NEW.id FOR NO KEY UPDATE SKIP LOCKED) AS l
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
                PERFORM FROM kbsearch.kb_articles AS a WHERE a.org_id = NEW.id AND a.id = v_article_id FOR KEY SHARE;
                PERFORM FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = NEW.id AND c.id = v_chunk_id FOR NO KEY UPDATE;
                RAISE triggered_action_exception;
            EXCEPTION
                WHEN triggered_action_exception THEN
                    NULL;
            END;
        END LOOP;
        UPDATE kbsearch.kb_article_chunks AS c
        SET language = NULL
        WHERE c.org_id = NEW.id;
    END IF;
    IF NEW.reference_length <> OLD.reference_length THEN
        PERFORM kbsearch.rebuild_kb_index_v1(NEW.id);
    END IF;
    PERFORM set_config('kbsearch.acting_org_id', v_acting, true);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_organizations_changed_v1() IS
'Trigger, after update of organizations: another language waits for writers, keeps them out until the end of the transaction and analyses all chunks again, another reference_length rebuilds the postings.';
