CREATE FUNCTION kbsearch.kb_organizations_guard_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    IF NEW.id <> OLD.id THEN
        RAISE EXCEPTION 'the id of organisation % cannot be changed', OLD.id
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', OLD.id, 'new_id', NEW.id)::text,
                HINT = 'Insert a new organisation and load its articles again.';
    END IF;
    IF NEW.language <> OLD.language OR NEW.reference_length <> OLD.reference_length THEN
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            RAISE EXCEPTION 'language and reference_length can be changed in a READ COMMITTED transaction only'
                USING ERRCODE = 'KBIDX', DETAIL = jsonb_build_object('org_id', OLD.id, 'isolation', current_setting('transaction_isolation'))::text,
                    HINT = 'Repeat the change in a READ COMMITTED transaction: the index is rebuilt from rows that a fixed snapshot would not see.';
        END IF;
        IF NEW.language = OLD.language THEN
            PERFORM pg_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(OLD.id, 'writers'));
        END IF;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION kbsearch.kb_organizations_guard_v1() IS
'Trigger, before update of organizations: refuses another id (KBORG); another language or reference_length outside READ COMMITTED (KBIDX); before another reference_length waits for writers and keeps them out until the end of the transaction.';
