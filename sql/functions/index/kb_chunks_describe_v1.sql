-- A chunk's postings are a function of its own row, so the row takes what it needs from the article, under a lock that keeps the article's
-- version until commit: a concurrent change of the article waits and then updates this chunk too.
CREATE FUNCTION kbsearch.kb_chunks_describe_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_acting CONSTANT text := coalesce(current_setting('kbsearch.acting_org_id', true), '');
    v_title text;
    v_language regconfig;
    v_tag text;
    v_exists boolean;
    v_published boolean;
    v_described record;
BEGIN
    IF TG_RELID <> 'kbsearch.kb_article_chunks'::regclass THEN
        PERFORM kbsearch.refuse_kb_trigger_v1(TG_RELID);
    END IF;
    IF TG_OP = 'UPDATE' THEN
        IF NEW.org_id <> OLD.org_id OR NEW.id <> OLD.id THEN
            RAISE EXCEPTION 'org_id and id of chunk % cannot be changed', OLD.id
                USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', OLD.org_id, 'chunk_id', OLD.id)::text,
                    HINT = 'Insert a new chunk and delete this one.';
        END IF;
    END IF;
    IF octet_length(NEW.content) + coalesce(octet_length(NEW.heading), 0) > 262144 THEN
        RAISE EXCEPTION 'a chunk of % bytes is too large: at most 262144 bytes of content and heading', octet_length(NEW.content) + octet_length(coalesce(NEW.heading, ''))
            USING ERRCODE = 'KBCHK', DETAIL = jsonb_build_object('org_id', NEW.org_id, 'article_id', NEW.article_id, 'chunk_no', NEW.chunk_no,
                    'bytes', octet_length(NEW.content) + octet_length(coalesce(NEW.heading, '')), 'maximum_bytes', 262144)::text,
                HINT = 'Split the text into several chunks, a few paragraphs each.';
    END IF;
    -- its rows are seen, whoever writes (find_kb_bound_organization_v1)
    PERFORM set_config('kbsearch.acting_org_id', '?' || NEW.org_id, true);
    -- Another language of the organisation waits for this transaction, or this statement for it and then reads the new one. The setting says that
    -- the lock is held; both end with the transaction, or with the savepoint since which they were made.
    IF current_setting('kbsearch.locked_org_id', true) IS DISTINCT FROM NEW.org_id::text THEN
        PERFORM pg_advisory_xact_lock_shared(kbsearch.lock_kb_corpus_v1(NEW.org_id, 'writers'));
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            -- a snapshot older than the change fails here (40001)
            PERFORM 1 FROM kbsearch.organizations AS o WHERE o.id = NEW.org_id FOR SHARE;
        END IF;
        PERFORM set_config('kbsearch.locked_org_id', NEW.org_id::text, true);
    END IF;
    SELECT
        a.version, a.title, coalesce(a.language, o.language), a.published,
        CASE WHEN a.language <> o.language THEN chr(31) || kbsearch.name_kb_language_v1(a.language) ELSE '' END,
        EXISTS (SELECT FROM pg_ts_config AS g WHERE g.oid = coalesce(a.language, o.language))
    INTO NEW.article_version, v_title, v_language, v_published, v_tag, v_exists
    FROM kbsearch.kb_articles AS a
    INNER JOIN kbsearch.organizations AS o ON o.id = a.org_id
    WHERE a.org_id = NEW.org_id AND a.id = NEW.article_id
    FOR KEY SHARE OF a;
    IF NOT FOUND AND NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = NEW.org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(NEW.org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', NEW.org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    NEW.article_version := coalesce(NEW.article_version, 0);
    NEW.searchable := coalesce(v_published, false);
    NEW.content_digest := kbsearch.digest_kb_chunk_v1(v_title, NEW.heading, NEW.content);
    IF
        TG_OP = 'UPDATE' AND NEW.language IS NOT NULL AND NEW.content = OLD.content AND NEW.heading IS NOT DISTINCT FROM OLD.heading
        AND v_title IS NOT DISTINCT FROM OLD.title AND v_language IS NOT DISTINCT FROM OLD.language
        AND (v_tag <> '') IS NOT DISTINCT FROM coalesce(starts_with(OLD.lexemes[1], chr(31)), false)
    THEN
        NEW.title := OLD.title;
        NEW.language := OLD.language;
        NEW.lexemes := OLD.lexemes;
        NEW.term_counts := OLD.term_counts;
        NEW.occurrence_count := OLD.occurrence_count;
        NEW.phrase_text := OLD.phrase_text;
        PERFORM set_config('kbsearch.acting_org_id', v_acting, true);
        RETURN NEW;
    END IF;
    IF NOT v_exists THEN
        RAISE EXCEPTION 'the text search configuration of article % does not exist any more (oid %)', NEW.article_id, v_language::oid
            USING ERRCODE = 'KBLNG', DETAIL = jsonb_build_object('org_id', NEW.org_id, 'article_id', NEW.article_id, 'language', v_language::oid::bigint)::text,
                HINT = 'Give the article, or the organisation where the article has none, another language.';
    END IF;
    NEW.title := v_title;
    NEW.language := v_language;
    v_described := kbsearch.describe_kb_chunk_v1(v_title, NEW.heading, NEW.content, v_language, v_tag);
    NEW.lexemes := v_described.lexemes;
    NEW.term_counts := v_described.term_counts;
    NEW.occurrence_count := v_described.occurrence_count;
    NEW.phrase_text := v_described.phrase_text;
    IF NEW.occurrence_count > 16000 THEN
        RAISE EXCEPTION 'a chunk of % words is too large: at most 16000, its title and heading included', NEW.occurrence_count
            USING ERRCODE = 'KBCHK', DETAIL = jsonb_build_object('org_id', NEW.org_id, 'article_id', NEW.article_id, 'chunk_no', NEW.chunk_no,
                    'words', NEW.occurrence_count, 'maximum_words', 16000)::text,
                HINT = 'Split the text into several chunks, a few paragraphs each.';
    END IF;
    PERFORM set_config('kbsearch.acting_org_id', v_acting, true);
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_chunks_describe_v1() IS
'Trigger, before insert or update of a chunk: keeps out changes of the organisation''s language, locks the article''s key, which its version is part of, copies its version, title, language (the organisation''s if it has none) and published, and fills lexemes, term_counts, occurrence_count, phrase_text and content_digest. KBLNG: its language is gone; KBCHK: over 262,144 bytes or 16,000 words; KBORG: another org_id or id.';
