-- Scalars are cast to text and back where a set would read them otherwise: a subscript of another kind of value is an error, a CASE is not.
CREATE FUNCTION kbsearch.find_kb_articles_fault_v1(p_articles jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
DECLARE
    v_fault text;
BEGIN
    IF p_articles IS NULL OR jsonb_typeof(p_articles) <> 'array' THEN
        RETURN 'p_articles is no array';
    END IF;
    SELECT format('article %s: %s', f.n, f.fault) INTO v_fault
    FROM (
        SELECT a.n, CASE
            WHEN jsonb_typeof(a.article) <> 'object' THEN 'is no object'
            WHEN jsonb_typeof(coalesce(a.article -> 'external_ref', 'null')) <> 'string' THEN 'has no external_ref'
            WHEN octet_length(a.article ->> 'external_ref') > 2000 THEN format('its external_ref has %s bytes, at most 2000', octet_length(a.article ->> 'external_ref'))
            WHEN octet_length(a.article ->> 'title') > 8192 THEN format('its title has %s bytes, at most 8192', octet_length(a.article ->> 'title'))
            WHEN jsonb_typeof(coalesce(a.article -> 'kind', 'null')) <> 'string' OR a.article ->> 'kind' IN ('', '*') THEN 'its kind is empty, * or no text'
            WHEN jsonb_typeof(coalesce(a.article -> 'published', 'null')) <> 'boolean' THEN 'its published is not true or false'
            WHEN jsonb_typeof(coalesce(a.article -> 'chunks', 'null')) <> 'array' THEN 'its chunks are no array'
            ELSE kbsearch.find_kb_metadata_fault_v1(a.article -> 'metadata')
        END AS fault
        FROM jsonb_array_elements(p_articles) WITH ORDINALITY AS a (article, n)
    ) AS f
    WHERE f.fault IS NOT NULL
    ORDER BY f.n
    LIMIT 1;
    IF v_fault IS NULL THEN
        SELECT format('article %s, chunk %s: %s', f.article_n, f.n, f.fault) INTO v_fault
        FROM (
            SELECT a.n AS article_n, c.n, CASE
                WHEN jsonb_typeof(c.chunk) <> 'object' THEN 'is no object'
                WHEN jsonb_typeof(coalesce(c.chunk -> 'content', 'null')) <> 'string' THEN 'has no content'
                WHEN jsonb_typeof(coalesce(c.chunk -> 'heading', 'null')) NOT IN ('string', 'null') THEN 'has a heading that is no text'
                WHEN coalesce(c.chunk ->> 'input_sha256', '') !~ '^([0-9a-f]{64})?$' THEN 'has an input_sha256 that is not 64 hexadecimal digits'
            END AS fault
            FROM jsonb_array_elements(p_articles) WITH ORDINALITY AS a (article, n)
            CROSS JOIN LATERAL jsonb_array_elements(a.article -> 'chunks') WITH ORDINALITY AS c (chunk, n)
        ) AS f
        WHERE f.fault IS NOT NULL
        ORDER BY f.article_n, f.n
        LIMIT 1;
    END IF;
    IF v_fault IS NULL THEN
        SELECT 'external_ref ' || quote_literal(min(r.external_ref)) || ' is given twice' INTO v_fault
        FROM (
            SELECT (a.article ->> 'external_ref') COLLATE "C" AS external_ref FROM jsonb_array_elements(p_articles) AS a (article) GROUP BY 1 HAVING count(*) > 1
        ) AS r;
    END IF;
    RETURN v_fault;
END
$$;
COMMENT ON FUNCTION kbsearch.find_kb_articles_fault_v1(jsonb) IS
'What is wrong with the articles of write_kb_articles_v1, as far as they themselves show it; NULL where nothing is. Articles and chunks are counted from 1.';
