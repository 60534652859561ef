CREATE FUNCTION kbsearch.kb_articles_guard_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    IF NEW.org_id <> OLD.org_id THEN
        RAISE EXCEPTION 'article % cannot be moved from organisation % to another', OLD.id, OLD.org_id
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', OLD.org_id, 'article_id', OLD.id)::text,
                HINT = 'Insert the article into the other organisation and delete this one.';
    END IF;
    NEW.version := OLD.version
        + (NEW.title IS DISTINCT FROM OLD.title OR NEW.published <> OLD.published OR NEW.language IS DISTINCT FROM OLD.language)::integer;
    IF NEW IS DISTINCT FROM OLD AND NEW.updated_at = OLD.updated_at THEN
        NEW.updated_at := now();
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_articles_guard_v1() IS
'Trigger, before update of kb_articles: refuses another org_id (KBORG), counts version up where title, published or language change (the chunks follow by their foreign key), and keeps updated_at.';
