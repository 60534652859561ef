CREATE FUNCTION kbsearch.count_kb_lost_languages_v1(p_org_id bigint) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT count(*)
    FROM kbsearch.count_kb_languages_v1(p_org_id) AS l
    WHERE kbsearch.find_kb_language_v1(substr(l.tag, 2)) IS NULL;
END;
COMMENT ON FUNCTION kbsearch.count_kb_lost_languages_v1(bigint) IS
'How many languages of an organisation''s searchable chunks are text search configurations that do not exist any more under that name.';
