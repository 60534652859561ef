"""What the derived tables and copied columns must be, computed from the source tables; every difference is a fault."""

from __future__ import annotations

from typing import Any

import psycopg

_FAULTS = """
WITH
net AS (
    SELECT p.org_id, p.lexeme, e.entry, sum(p.sign) AS copies
    FROM kbsearch.kb_postings AS p
    CROSS JOIN LATERAL unnest(p.entries) AS e (entry)
    GROUP BY p.org_id, p.lexeme, e.entry
    HAVING sum(p.sign) <> 0
),
wanted AS (
    SELECT o.id AS org_id, l.lexeme, l.entry, count(*) AS copies
    FROM kbsearch.organizations AS o
    CROSS JOIN LATERAL kbsearch.list_kb_entries_v1(o.id) AS l
    GROUP BY o.id, l.lexeme, l.entry
),
counted AS (
    SELECT o.id AS org_id, count(c.id) AS chunk_count, coalesce(sum(c.occurrence_count), 0) AS occurrence_count
    FROM kbsearch.organizations AS o
    LEFT JOIN kbsearch.kb_article_chunks AS c ON c.org_id = o.id AND c.searchable
    GROUP BY o.id
),
summed AS (
    SELECT s.org_id, sum(s.chunk_count) AS chunk_count, sum(s.occurrence_count) AS occurrence_count
    FROM kbsearch.kb_corpus_stats AS s
    GROUP BY s.org_id
),
clean AS (
    SELECT b.org_id, b.block_no, u.chunk_id, u.slot
    FROM kbsearch.kb_keyword_blocks AS b
    CROSS JOIN LATERAL unnest(b.chunk_ids) WITH ORDINALITY AS u (chunk_id, slot)
    WHERE NOT EXISTS (SELECT FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = b.org_id AND u.chunk_id = ANY (g.chunk_ids))
),
impacts AS (
    SELECT c.org_id, i.lexeme, c.chunk_id << 12 | round(e.impact / i.idf)::bigint AS entry
    FROM kbsearch.kb_keyword_impacts AS i
    CROSS JOIN LATERAL (
        SELECT d.impact::float8, d.slot FROM unnest(i.dense::real []) WITH ORDINALITY AS d (impact, slot)
        UNION ALL
        SELECT split_part(s.element, ':', 2)::float8, split_part(s.element, ':', 1)::bigint
        FROM string_to_table(split_part(substr(i.sparse::text, 2), '}', 1), ',') AS s (element)
        WHERE s.element <> ''
    ) AS e (impact, slot)
    INNER JOIN clean AS c ON c.org_id = i.org_id AND c.block_no = i.block_no AND c.slot = e.slot
    WHERE e.impact > 0
),
blocked AS (
    SELECT w.org_id, w.lexeme, w.entry
    FROM wanted AS w
    INNER JOIN clean AS c ON c.org_id = w.org_id AND c.chunk_id = w.entry >> 12
    WHERE w.entry & 4095 > 0 AND EXISTS (SELECT FROM kbsearch.kb_keyword_impacts AS i WHERE i.org_id = w.org_id AND i.lexeme = w.lexeme)
)
SELECT 'posting: is ' || coalesce(n.copies, 0) || ' times, must be ' || coalesce(w.copies, 0) || ' times',
    jsonb_build_object('org_id', coalesce(n.org_id, w.org_id), 'lexeme', coalesce(n.lexeme, w.lexeme), 'chunk_id', coalesce(n.entry, w.entry) >> 12,
        'impact', coalesce(n.entry, w.entry) & 4095)
FROM net AS n
FULL JOIN wanted AS w ON w.org_id = n.org_id AND w.lexeme = n.lexeme AND w.entry = n.entry
WHERE n.copies IS DISTINCT FROM w.copies
UNION ALL
SELECT CASE WHEN i.entry IS NULL THEN 'impact that a block lacks' ELSE 'impact of a block that is none' END,
    jsonb_build_object('org_id', coalesce(i.org_id, b.org_id), 'lexeme', coalesce(i.lexeme, b.lexeme), 'chunk_id', coalesce(i.entry, b.entry) >> 12,
        'impact', coalesce(i.entry, b.entry) & 4095)
FROM impacts AS i
FULL JOIN blocked AS b ON b.org_id = i.org_id AND b.lexeme = i.lexeme AND b.entry = i.entry
WHERE i.entry IS NULL OR b.entry IS NULL
UNION ALL
SELECT 'chunk neither in a block nor changed', jsonb_build_object('org_id', c.org_id, 'chunk_id', c.id)
FROM kbsearch.kb_article_chunks AS c
WHERE
    c.searchable AND EXISTS (SELECT FROM kbsearch.kb_keyword_blocks AS b WHERE b.org_id = c.org_id)
    AND NOT EXISTS (SELECT FROM clean AS k WHERE k.org_id = c.org_id AND k.chunk_id = c.id)
    AND NOT EXISTS (SELECT FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = c.org_id AND c.id = ANY (g.chunk_ids))
UNION ALL
SELECT 'statistics: sums of an organisation', jsonb_build_object('org_id', coalesce(c.org_id, s.org_id), 'is', to_jsonb(s), 'must', to_jsonb(c))
FROM counted AS c
FULL JOIN summed AS s ON s.org_id = c.org_id
WHERE (coalesce(s.chunk_count, 0), coalesce(s.occurrence_count, 0)) IS DISTINCT FROM (c.chunk_count::numeric, c.occurrence_count::numeric)
UNION ALL
SELECT 'rows of an organisation that is gone', jsonb_build_object('org_id', g.org_id, 'table', g.relation)
FROM (
    SELECT DISTINCT p.org_id, 'kb_postings' AS relation FROM kbsearch.kb_postings AS p
    UNION ALL
    SELECT DISTINCT s.org_id, 'kb_corpus_stats' FROM kbsearch.kb_corpus_stats AS s
    UNION ALL
    SELECT DISTINCT b.org_id, 'kb_keyword_blocks' FROM kbsearch.kb_keyword_blocks AS b
    UNION ALL
    SELECT DISTINCT i.org_id, 'kb_keyword_impacts' FROM kbsearch.kb_keyword_impacts AS i
) AS g
WHERE NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = g.org_id)
UNION ALL
SELECT 'shape of a block', to_jsonb(p)
FROM kbsearch.kb_postings AS p
WHERE
    p.entry_count <> cardinality(p.entries) OR p.entry_count NOT BETWEEN 1 AND 200
    OR p.first_chunk_id <> p.entries[1] >> 12
    OR p.max_impact <> (SELECT max(e.entry & 4095) FROM unnest(p.entries) AS e (entry))
    OR p.entries <> ARRAY(SELECT e.entry FROM unnest(p.entries) AS e (entry) ORDER BY e.entry)
UNION ALL
SELECT 'copies on a chunk', jsonb_build_object('org_id', c.org_id, 'chunk_id', c.id,
    'is', jsonb_build_array(c.article_version, c.title, c.language, c.searchable, c.lexemes, c.term_counts, c.occurrence_count,
        c.phrase_text),
    'must', jsonb_build_array(a.version, a.title, coalesce(a.language, o.language), a.published, d.lexemes, d.term_counts,
        d.occurrence_count, d.phrase_text))
FROM kbsearch.kb_article_chunks AS c
LEFT JOIN kbsearch.kb_articles AS a ON a.org_id = c.org_id AND a.id = c.article_id
LEFT JOIN kbsearch.organizations AS o ON o.id = c.org_id
CROSS JOIN LATERAL kbsearch.describe_kb_chunk_v1(a.title, c.heading, c.content, coalesce(a.language, o.language),
    CASE WHEN a.language <> o.language THEN chr(31) || kbsearch.name_kb_language_v1(a.language) ELSE '' END) AS d
WHERE (c.article_version, c.title, c.language, c.searchable, c.lexemes, c.term_counts, c.occurrence_count, c.phrase_text)
    IS DISTINCT FROM (a.version, a.title, coalesce(a.language, o.language), a.published, d.lexemes, d.term_counts, d.occurrence_count, d.phrase_text)
UNION ALL
SELECT 'searchable of an embedding', jsonb_build_object('org_id', e.org_id, 'chunk_id', e.chunk_id, 'is', e.searchable, 'must', c.searchable)
FROM kbsearch.kb_article_embeddings AS e
LEFT JOIN kbsearch.kb_article_chunks AS c ON c.org_id = e.org_id AND c.article_id = e.article_id AND c.id = e.chunk_id
WHERE e.searchable IS DISTINCT FROM c.searchable
UNION ALL
SELECT 'digest of a chunk', jsonb_build_object('org_id', c.org_id, 'chunk_id', c.id)
FROM kbsearch.kb_article_chunks AS c
WHERE c.content_digest <> kbsearch.digest_kb_chunk_v1(c.title, c.heading, c.content)
UNION ALL
SELECT 'staleness of an embedding', jsonb_build_object('org_id', e.org_id, 'chunk_id', e.chunk_id, 'is', e.is_stale)
FROM kbsearch.kb_article_embeddings AS e
INNER JOIN kbsearch.kb_article_chunks AS c ON c.org_id = e.org_id AND c.article_id = e.article_id AND c.id = e.chunk_id
WHERE e.is_stale <> coalesce(e.chunk_digest <> kbsearch.digest_kb_chunk_v1(c.title, c.heading, c.content), false)
LIMIT 20
"""


def faults(connection: psycopg.Connection[Any]) -> list[tuple[str, Any]]:
    """Differences between what is stored and what a rebuild would store, at most 20; empty when all is right."""
    return [(str(what), where) for what, where in connection.execute(_FAULTS).fetchall()]
