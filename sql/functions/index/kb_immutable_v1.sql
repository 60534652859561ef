CREATE FUNCTION kbsearch.kb_immutable_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    -- a generated column is not computed yet
    IF to_jsonb(NEW) - 'recipe_sha256' = to_jsonb(OLD) - 'recipe_sha256' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'rows of % never change', TG_TABLE_NAME
        USING ERRCODE = TG_ARGV[0], DETAIL = jsonb_build_object('table', TG_TABLE_NAME)::text, HINT = TG_ARGV[1];
END
$$;
COMMENT ON FUNCTION kbsearch.kb_immutable_v1() IS
'Trigger, before update of versioned rows: refuses the change with the SQLSTATE TG_ARGV[0] and the hint TG_ARGV[1].';
