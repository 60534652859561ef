CREATE FUNCTION kbsearch.find_kb_language_v1(p_name text) RETURNS regconfig
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT c.oid::regconfig
    FROM pg_catalog.pg_ts_config AS c
    INNER JOIN pg_catalog.pg_namespace AS n ON n.oid = c.cfgnamespace
    WHERE n.nspname || '.' || c.cfgname = p_name OR (n.nspname = 'pg_catalog' AND c.cfgname = p_name)
    ORDER BY n.nspname ASC, c.cfgname ASC
    LIMIT 1;
END;
COMMENT ON FUNCTION kbsearch.find_kb_language_v1(text) IS
'The text search configuration of this name, NULL if there is none: german is that of pg_catalog; others are named schema.name.';
