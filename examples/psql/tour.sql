-- kbsearch from psql: write articles, search them, page to the end.
--
--     psql "$DATABASE_URL" -X -f tour.sql
--
-- Everything happens in one transaction that is rolled back at the end, so it can be run as often as you like. Write COMMIT there to keep it.

\set ON_ERROR_STOP on
\pset footer off
\pset null -
BEGIN;

\echo '== An organisation, and the space that its vectors belong to =='
-- Vectors come from the model of your choice, asked by your application. These have three numbers, made up: mountains, city, money.
INSERT INTO kbsearch.organizations (name) VALUES ('Bicycle shop') RETURNING id AS org_id \gset
INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES ('tour', 'made up', 3) RETURNING id AS space_id \gset

\echo '== Articles: one call writes an article with its passages and vectors, or replaces it =='
SELECT kbsearch.upsert_kb_article_v1(
    p_org_id => :org_id, p_external_ref => 'tyre/alpine', p_kind => 'product', p_title => 'Alpine winter tyre', p_space_id => :space_id,
    p_metadata => '{"brand": "Norrland"}',
    p_chunks => '[
        {"content": "A winter tyre with studs for ice and packed snow.", "embedding": [0.9, 0.1, 0.1]},
        {"content": "Change tyres before the first frost.", "heading": "Care", "embedding": [0.7, 0.3, 0.1]}
    ]'
) AS article_id \gset
SELECT kbsearch.upsert_kb_article_v1(
    p_org_id => :org_id, p_external_ref => 'tyre/commuter', p_kind => 'product', p_title => 'Commuter tyre', p_space_id => :space_id,
    p_metadata => '{"brand": "Kettle"}',
    p_chunks => '[{"content": "Rolls fast on tarmac, the whole year. In winter it holds on wet roads, without studs.", "embedding": [0.2, 0.9, 0.1]}]'
) AS article_id \gset
SELECT kbsearch.upsert_kb_article_v1(
    p_org_id => :org_id, p_external_ref => 'tyre/quiet', p_kind => 'product', p_title => 'Quiet winter tyre', p_space_id => :space_id,
    p_metadata => '{"brand": "Kettle"}',
    p_chunks => '[{"content": "Soft rubber grips in the cold. No studs, no noise.", "embedding": [0.8, 0.5, 0.1]}]'
) AS article_id \gset
SELECT kbsearch.upsert_kb_article_v1(
    p_org_id => :org_id, p_external_ref => 'faq/fitting', p_kind => 'faq', p_title => 'Do you fit tyres?', p_space_id => :space_id,
    p_chunks => '[{"content": "We fit any tyre bought here for free.", "embedding": [0.1, 0.5, 0.8]}]'
) AS article_id \gset
SELECT kbsearch.upsert_kb_article_v1(
    p_org_id => :org_id, p_external_ref => 'faq/reifen', p_kind => 'faq', p_title => 'Wann soll ich Winterreifen aufziehen?', p_space_id => :space_id,
    p_language => 'german',
    p_chunks => '[{"content": "Winterreifen gehören von Oktober bis Ostern ans Rad.", "embedding": [0.8, 0.2, 0.3]}]'
) AS article_id \gset

\echo '== The same with plain INSERTs: triggers keep the index, in this transaction =='
INSERT INTO kbsearch.kb_articles (org_id, external_ref, kind, title) VALUES (:org_id, 'policy/returns', 'policy', 'Returns')
RETURNING id AS article_id \gset
INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, chunk_no, content)
VALUES (:org_id, :article_id, 0, 'A tyre that was never fitted can be returned within 30 days.')
RETURNING id AS chunk_id \gset
INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, article_id, chunk_id, embedding)
VALUES (:org_id, :space_id, :article_id, :chunk_id, '[0.1, 0.3, 0.9]');

\echo '== Hybrid search: words and meaning =='
\set question 'winter tyres'
\set vector '[0.9, 0.3, 0.1]'
SELECT found.place, found.title, round(found.score::numeric, 3) AS score, round(found.vector_similarity::numeric, 3) AS by_meaning,
    round(found.keyword_score::numeric, 3) AS by_words
FROM kbsearch.search_kb_hybrid_v1(p_org_id => :org_id, p_query_text => :'question', p_query_embedding => :'vector') AS found
ORDER BY found.place;

\echo '== Words alone, and where they stand =='
SELECT found.place, found.title, found.excerpt_html
FROM kbsearch.search_kb_hybrid_v1(p_org_id => :org_id, p_query_text => 'studs', p_highlight => true) AS found
ORDER BY found.place;

\echo '== "A phrase" must occur, -word excludes =='
SELECT found.place, found.title
FROM kbsearch.search_kb_hybrid_v1(p_org_id => :org_id, p_query_text => '"winter tyre" -noise') AS found
ORDER BY found.place;

\echo '== Two products, one answer, nothing else; then only one brand =='
SELECT found.place, found.kind, found.title
FROM kbsearch.search_kb_hybrid_v1(
    p_org_id => :org_id, p_query_text => :'question', p_query_embedding => :'vector', p_kind_quota => '{"product": 2, "faq": 1, "*": 0}'
) AS found
ORDER BY found.place;
SELECT found.place, found.kind, found.title
FROM kbsearch.search_kb_hybrid_v1(
    p_org_id => :org_id, p_query_text => :'question', p_query_embedding => :'vector', p_metadata => '{"brand": "Kettle"}'
) AS found
ORDER BY found.place;

\echo '== Languages: each article is read in its own, the question in all of them or in one =='
SELECT found.place, found.title
FROM kbsearch.search_kb_hybrid_v1(p_org_id => :org_id, p_query_text => 'winterreifen fitting') AS found
ORDER BY found.place;
SELECT found.place, found.title
FROM kbsearch.search_kb_hybrid_v1(p_org_id => :org_id, p_query_text => 'winterreifen fitting', p_language => 'german') AS found
ORDER BY found.place;

\echo '== Pages of two, by cursor, to the end =='
CREATE TEMPORARY TABLE read (place bigint, article_id bigint) ON COMMIT DROP;
\set cursor ''
\ir page.sql

\echo '== Put end to end, the pages are the ranking =='
SELECT array_agg(read.article_id ORDER BY read.place) = (
    SELECT array_agg(found.article_id ORDER BY found.place)
    FROM kbsearch.search_kb_hybrid_v1(p_org_id => :org_id, p_query_text => :'question', p_query_embedding => :'vector', p_limit => 1000) AS found
) AS partition, count(*) AS articles
FROM pg_temp.read;

ROLLBACK;
