CREATE FUNCTION kbsearch.list_kb_organization_tables_v1() RETURNS TABLE (table_id regclass, key name, draft name, owned boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        c.oid::regclass,
        a.attname,
        (
            SELECT d.attname
            FROM pg_attribute AS d
            WHERE d.attrelid = c.oid AND d.attname IN ('published', 'searchable') AND d.atttypid = 'boolean'::regtype AND NOT d.attisdropped
        ),
        pg_has_role(c.relowner, 'USAGE')
    FROM pg_class AS c
    INNER JOIN pg_attribute AS a ON a.attrelid = c.oid AND NOT a.attisdropped
    WHERE
        c.relnamespace = (SELECT o.relnamespace FROM pg_class AS o WHERE o.oid = 'kbsearch.organizations'::regclass)
        AND c.relkind IN ('r', 'p')
        AND a.attname = CASE WHEN c.oid = 'kbsearch.organizations'::regclass THEN 'id' ELSE 'org_id' END
    ORDER BY c.oid::regclass::text COLLATE "C";
END;
COMMENT ON FUNCTION kbsearch.list_kb_organization_tables_v1() IS
'The tables with an organisation''s rows: the column that says whose a row is, the one that is false where a row is a draft (NULL: there are no drafts in it), and whether the caller owns the table.';
