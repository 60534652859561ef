CREATE FUNCTION kbsearch.name_kb_language_v1(p_language regconfig) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE n.nspname WHEN 'pg_catalog' THEN c.cfgname::text ELSE n.nspname || '.' || c.cfgname END COLLATE "C"
    FROM pg_catalog.pg_ts_config AS c
    INNER JOIN pg_catalog.pg_namespace AS n ON n.oid = c.cfgnamespace
    WHERE c.oid = p_language;
END;
COMMENT ON FUNCTION kbsearch.name_kb_language_v1(regconfig) IS
'The name of a text search configuration, the same under every search_path: german, or schema.name outside of pg_catalog.';
