-- A page of the search for :question and :vector, from :cursor on, and then the pages after it: psql has no loop, so the file includes itself.

SELECT kbsearch.search_kb_hybrid_page_v1(
    p_org_id => :org_id, p_query_text => :'question', p_query_embedding => :'vector', p_limit => 2, p_cursor => nullif(:'cursor', '')
) AS page \gset

INSERT INTO pg_temp.read
SELECT (item.value ->> 'place')::bigint, (item.value ->> 'article_id')::bigint
FROM jsonb_array_elements(:'page'::jsonb -> 'items') AS item;

SELECT item.value ->> 'place' AS place, item.value ->> 'title' AS title, :'page'::jsonb ->> 'total' AS total
FROM jsonb_array_elements(:'page'::jsonb -> 'items') AS item;

-- NULL after the last page: \gset then unsets the variable.
SELECT :'page'::jsonb ->> 'next_cursor' AS cursor \gset
\if :{?cursor}
    \ir page.sql
\endif
