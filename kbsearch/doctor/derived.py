"""Derived rows against what a rebuild would make of the source rows, organisation by organisation."""

from __future__ import annotations

from kbsearch.doctor.base import Examination, Organization, Outcome, Report, about, check, number
from kbsearch.doctor.rights import DERIVED

SAMPLE = 100
"""Chunks of an organisation that are analysed again unless all are."""
EXAMPLES = 5

_FINGERPRINTS = """SELECT
    (
        SELECT jsonb_build_array(coalesce(sum(p.sign * pg_catalog.hashtextextended(p.lexeme, e.entry)), 0), coalesce(sum(p.sign), 0))
        FROM kbsearch.kb_postings AS p
        CROSS JOIN LATERAL unnest(p.entries) AS e (entry)
        WHERE p.org_id = %(org_id)s
    ),
    (
        SELECT jsonb_build_array(coalesce(sum(pg_catalog.hashtextextended(l.lexeme COLLATE "C", l.entry)), 0), count(*))
        FROM kbsearch.list_kb_entries_v1(%(org_id)s) AS l
    )"""
"""Two order-free sums that are equal where the entries are: one pass, no sorting. Entries themselves are compared only where these differ."""

_ENTRIES = """WITH
net AS (
    SELECT p.lexeme, e.entry, sum(p.sign) AS copies
    FROM kbsearch.kb_postings AS p
    CROSS JOIN LATERAL unnest(p.entries) AS e (entry)
    WHERE p.org_id = %(org_id)s
    GROUP BY p.lexeme, e.entry
    HAVING sum(p.sign) <> 0
),
wanted AS (
    SELECT l.lexeme, l.entry, count(*) AS copies
    FROM kbsearch.list_kb_entries_v1(%(org_id)s) AS l
    GROUP BY l.lexeme, l.entry
),
differences AS (
    SELECT
        coalesce(n.lexeme, w.lexeme) AS lexeme, coalesce(n.entry, w.entry) AS entry,
        coalesce(n.copies, 0) AS present, coalesce(w.copies, 0) AS wanted
    FROM net AS n
    FULL JOIN wanted AS w ON w.lexeme = n.lexeme AND w.entry = n.entry
    WHERE n.copies IS DISTINCT FROM w.copies
)
SELECT
    count(*) FILTER (WHERE d.present > d.wanted),
    count(*) FILTER (WHERE d.present < d.wanted),
    (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'lexeme', f.lexeme, 'chunk_id', f.entry >> 12, 'impact', f.entry & 4095, 'is', f.present, 'must', f.wanted
        )), '[]')
        FROM (SELECT g.lexeme, g.entry, g.present, g.wanted FROM differences AS g ORDER BY g.lexeme, g.entry LIMIT %(examples)s) AS f
    )
FROM differences AS d"""

_SHAPES = """SELECT count(*)
FROM kbsearch.kb_postings AS p
WHERE p.org_id = %(org_id)s AND (
    p.entry_count <> cardinality(p.entries) OR p.entry_count NOT BETWEEN 1 AND 200 OR p.first_chunk_id <> p.entries[1] >> 12
    OR p.max_impact <> (SELECT max(e.entry & 4095) FROM unnest(p.entries) AS e (entry))
    OR p.entries <> ARRAY(SELECT e.entry FROM unnest(p.entries) AS e (entry) ORDER BY e.entry)
)"""


def _rebuild(organization: Organization) -> str:
    return f"SELECT kbsearch.rebuild_kb_index_v1({organization.id});"


@check("derived.postings", "the postings of every organisation add up to the entries of its chunks")
def postings(ex: Examination, report: Report) -> Outcome:
    """Postings, netted, are what list_kb_entries_v1 says; blocks are well formed."""
    bad = False
    for organization in ex.each_organization("derived.postings"):
        present, wanted = ex.row(_FINGERPRINTS, org_id=organization.id)
        if present != wanted:
            # another snapshot: what was written meanwhile is in both or in neither
            many, few, examples = ex.row(_ENTRIES, org_id=organization.id, examples=EXAMPLES)
            if many or few:
                bad = True
                some = "; ".join(
                    f"{one['lexeme']!r} in chunk {one['chunk_id']} is {one['is']} times, must be {one['must']}"
                    for one in examples[:2]
                )
                yield about(
                    report.problem(
                        f"of the entries {few:,} missing, {many:,} too many: {some}",
                        _rebuild(organization),
                        details={"missing": few, "too_many": many, "examples": examples},
                    ),
                    organization,
                )
                continue
        misshapen = ex.value(_SHAPES, org_id=organization.id)
        if misshapen:
            bad = True
            yield about(
                report.problem(
                    f"{number(misshapen, 'block')} with a wrong count, bound or order",
                    _rebuild(organization),
                    details={"blocks": misshapen},
                ),
                organization,
            )
    if not bad:
        yield report.ok(f"equal in {number(len(ex.organizations), 'organisation')}")


_IMPACTS = """WITH
clean AS MATERIALIZED (
    SELECT b.block_no, u.chunk_id, u.slot
    FROM kbsearch.kb_keyword_blocks AS b
    CROSS JOIN LATERAL unnest(b.chunk_ids) WITH ORDINALITY AS u (chunk_id, slot)
    WHERE b.org_id = %(org_id)s AND u.chunk_id NOT IN (
        SELECT unnest(g.chunk_ids) FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = %(org_id)s
    )
),
impacts AS (
    SELECT i.lexeme, i.block_no, e.slot, round(e.impact / i.idf) AS impact
    FROM kbsearch.kb_keyword_impacts AS i
    CROSS JOIN LATERAL (
        SELECT d.impact::float8, d.slot FROM unnest(i.dense::real []) WITH ORDINALITY AS d (impact, slot)
        UNION ALL
        SELECT split_part(s.element, ':', 2)::float8, split_part(s.element, ':', 1)::bigint
        FROM string_to_table(split_part(substr(i.sparse::text, 2), '}', 1), ',') AS s (element)
        WHERE s.element <> ''
    ) AS e (impact, slot)
    WHERE i.org_id = %(org_id)s AND e.impact > 0
)
SELECT
    (
        SELECT jsonb_build_array(coalesce(sum(pg_catalog.hashtextextended(i.lexeme, c.chunk_id << 12 | i.impact::bigint)), 0), count(*))
        FROM impacts AS i
        INNER JOIN clean AS c ON c.block_no = i.block_no AND c.slot = i.slot
    ),
    (
        SELECT jsonb_build_array(coalesce(sum(pg_catalog.hashtextextended(l.lexeme COLLATE "C", l.entry)), 0), count(*))
        FROM kbsearch.list_kb_entries_v1(%(org_id)s) AS l
        INNER JOIN clean AS c ON c.chunk_id = l.entry >> 12
        WHERE l.entry & 4095 > 0 AND l.lexeme IN (SELECT DISTINCT i.lexeme FROM kbsearch.kb_keyword_impacts AS i WHERE i.org_id = %(org_id)s)
    ),
    (
        SELECT count(*)
        FROM kbsearch.kb_article_chunks AS k
        WHERE
            k.org_id = %(org_id)s AND k.searchable
            AND k.id NOT IN (SELECT c.chunk_id FROM clean AS c)
            AND k.id NOT IN (SELECT unnest(g.chunk_ids) FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = %(org_id)s)
    )"""


@check("derived.blocks", "the vectors of frequent words have the impacts of the chunks that they stand for")
def blocks(ex: Examination, report: Report) -> Outcome:
    """kb_keyword_impacts is what list_kb_entries_v1 says of the chunks of kb_keyword_blocks not in kb_keyword_changes; no chunk is in neither."""
    bad, looked = False, 0
    owners = {
        org_id for (org_id,) in ex.rows("SELECT b.org_id FROM kbsearch.kb_keyword_blocks AS b WHERE b.block_no = 0")
    }
    for organization in ex.each_organization("derived.blocks"):
        if organization.id not in owners:
            continue
        looked += 1
        present, wanted, missed = ex.row(_IMPACTS, org_id=organization.id)
        if present != wanted or missed:
            bad = True
            yield about(
                report.problem(
                    f"vectors with {present[1]:,} impacts, of {wanted[1]:,} or of others; {number(missed, 'chunk')} in no block and not noted",
                    _rebuild(organization),
                    details={"is": present[1], "must": wanted[1], "missed": missed},
                ),
                organization,
            )
    if not bad:
        yield report.ok(f"equal in {number(looked, 'organisation')}" if looked else "no organisation is so large")


@check("derived.statistics", "the statistics of every organisation are the sums over its searchable chunks")
def statistics(ex: Examination, report: Report) -> Outcome:
    """kb_corpus_stats adds up to the chunks."""
    rows = ex.rows(
        """SELECT o.id, o.name, c.chunk_count, c.occurrence_count, s.chunk_count, s.occurrence_count
FROM kbsearch.organizations AS o
CROSS JOIN LATERAL (
    SELECT count(*) AS chunk_count, coalesce(sum(c.occurrence_count), 0) AS occurrence_count
    FROM kbsearch.kb_article_chunks AS c
    WHERE c.org_id = o.id AND c.searchable
) AS c
CROSS JOIN LATERAL (
    SELECT coalesce(sum(s.chunk_count), 0) AS chunk_count, coalesce(sum(s.occurrence_count), 0) AS occurrence_count
    FROM kbsearch.kb_corpus_stats AS s
    WHERE s.org_id = o.id
) AS s
WHERE (%(org_name)s::pg_catalog.text IS NULL OR o.name = %(org_name)s::pg_catalog.text)
    AND (c.chunk_count <> s.chunk_count OR c.occurrence_count <> s.occurrence_count)
ORDER BY o.id""",
        org_name=ex.org_name,
    )
    for org_id, name, chunks, words, noted_chunks, noted_words in rows:
        organization = Organization(org_id, name, None)
        yield about(
            report.problem(
                f"noted are {noted_chunks:,} chunks of {noted_words:,} words, there are {chunks:,} of {words:,}",
                _rebuild(organization),
                details={"is": [int(noted_chunks), int(noted_words)], "must": [int(chunks), int(words)]},
            ),
            organization,
        )
    if not rows:
        yield report.ok(f"equal in {number(len(ex.organizations), 'organisation')}")


@check("derived.leftovers", "no derived rows of organisations that are gone")
def leftovers(ex: Examination, report: Report) -> Outcome:
    """Nothing is left of deleted organisations; the ids are found by hopping along the keys."""
    bad = False
    for table in DERIVED:
        gone = [
            org_id
            for (org_id,) in ex.rows(
                f"""WITH RECURSIVE ids AS (
    (SELECT t.org_id FROM kbsearch.{table} AS t ORDER BY t.org_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.org_id FROM kbsearch.{table} AS t WHERE t.org_id > i.org_id ORDER BY t.org_id LIMIT 1)
    FROM ids AS i
    WHERE i.org_id IS NOT NULL
)
SELECT i.org_id
FROM ids AS i
WHERE i.org_id IS NOT NULL AND NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = i.org_id)
ORDER BY i.org_id"""
            )
        ]
        if gone:
            bad = True
            some = ", ".join(map(str, gone[:EXAMPLES]))
            yield report.warning(
                f"rows in {table} of {number(len(gone), 'organisation')} that are gone: {some}",
                f"DELETE FROM kbsearch.{table} AS t WHERE NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = t.org_id);",
                details={"table": table, "org_ids": gone},
            )
    if not bad:
        yield report.ok("none")


_COPIES = """SELECT
    count(*) FILTER (WHERE a.id IS NULL),
    count(*) FILTER (WHERE c.article_version <> a.version),
    count(*) FILTER (WHERE a.id IS NOT NULL AND c.title IS DISTINCT FROM a.title),
    count(*) FILTER (WHERE a.id IS NOT NULL AND c.language IS DISTINCT FROM coalesce(a.language, o.language)),
    count(*) FILTER (WHERE c.searchable <> a.published),
    count(*) FILTER (WHERE c.content_digest <> kbsearch.digest_kb_chunk_v1(c.title, c.heading, c.content)),
    (array_agg(c.id ORDER BY c.id))[:%(examples)s]
FROM kbsearch.kb_article_chunks AS c
INNER JOIN kbsearch.organizations AS o ON o.id = c.org_id
LEFT JOIN kbsearch.kb_articles AS a ON a.org_id = c.org_id AND a.id = c.article_id
WHERE c.org_id = %(org_id)s AND (
    (c.article_version, c.title, c.language, c.searchable) IS DISTINCT FROM (a.version, a.title, coalesce(a.language, o.language), a.published)
    OR c.content_digest <> kbsearch.digest_kb_chunk_v1(c.title, c.heading, c.content)
)"""


@check("derived.chunks", "every chunk has its article's version, title, language and publication")
def chunks(ex: Examination, report: Report) -> Outcome:
    """What chunks copy of their article is what the article has."""
    bad = False
    for organization in ex.each_organization("derived.chunks"):
        orphans, *counts, ids = ex.row(_COPIES, org_id=organization.id, examples=EXAMPLES)
        stale = {
            name: count
            for name, count in zip(("version", "title", "language", "publication", "digest"), counts, strict=True)
            if count
        }
        details = {"without_article": orphans, **stale, "chunk_ids": ids or []}
        if orphans:
            bad = True
            yield about(
                report.problem(
                    f"{number(orphans, 'chunk')} of articles that are gone: chunk {', '.join(map(str, ids))}",
                    f"DELETE FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = {organization.id}"
                    " AND NOT EXISTS (SELECT FROM kbsearch.kb_articles AS a WHERE a.org_id = c.org_id AND a.id = c.article_id);\n"
                    + _rebuild(organization),
                    details=details,
                ),
                organization,
            )
        if stale:
            bad = True
            yield about(
                report.problem(
                    "chunks with another "
                    + ", ".join(f"{name} ({count:,})" for name, count in stale.items())
                    + f" than their article: chunk {', '.join(map(str, ids))}",
                    f"UPDATE kbsearch.kb_article_chunks SET heading = heading WHERE org_id = {organization.id};\n"
                    + _rebuild(organization),
                    details=details,
                ),
                organization,
            )
    if not bad:
        yield report.ok(f"equal in {number(len(ex.organizations), 'organisation')}")


_ANALYSED = """WITH chosen AS (
    SELECT c.id, c.org_id, c.article_id, c.heading, c.content, c.lexemes, c.term_counts, c.occurrence_count, c.phrase_text
    FROM kbsearch.kb_article_chunks AS c
    WHERE c.org_id = %(org_id)s AND (%(deep)s OR c.id IN (
        SELECT (
            SELECT n.id FROM kbsearch.kb_article_chunks AS n
            WHERE n.org_id = %(org_id)s AND n.id >= b.first_id + (b.last_id - b.first_id) * step.n / %(sample)s ORDER BY n.id LIMIT 1
        )
        FROM (
            SELECT min(e.id) AS first_id, max(e.id) AS last_id FROM kbsearch.kb_article_chunks AS e WHERE e.org_id = %(org_id)s
        ) AS b
        CROSS JOIN generate_series(0, %(sample)s) AS step (n)
    ))
)
SELECT count(*), count(*) FILTER (WHERE s.is_stale), (array_agg(s.id ORDER BY s.id) FILTER (WHERE s.is_stale))[:%(examples)s]
FROM (
    SELECT c.id, (c.lexemes, c.term_counts, c.occurrence_count, c.phrase_text)
        IS DISTINCT FROM (d.lexemes, d.term_counts, d.occurrence_count, d.phrase_text) AS is_stale
    FROM chosen AS c
    INNER JOIN kbsearch.organizations AS o ON o.id = c.org_id
    INNER JOIN kbsearch.kb_articles AS a ON a.org_id = c.org_id AND a.id = c.article_id
    CROSS JOIN LATERAL kbsearch.describe_kb_chunk_v1(
        a.title, c.heading, c.content, coalesce(a.language, o.language),
        CASE WHEN a.language <> o.language THEN pg_catalog.chr(31) || kbsearch.name_kb_language_v1(a.language) ELSE '' END
    ) AS d
) AS s"""


@check("derived.lexemes", "an analysis of the chunks today gives the lexemes that are stored")
def lexemes(ex: Examination, report: Report) -> Outcome:
    """Dictionaries and their files, or the server's major version, did not change under the stored lexemes."""
    bad, total = False, 0
    for organization in ex.each_organization("derived.lexemes"):
        looked, stale, ids = ex.row(_ANALYSED, org_id=organization.id, deep=ex.deep, sample=SAMPLE, examples=EXAMPLES)
        total += looked
        if stale:
            bad = True
            yield about(
                report.problem(
                    f"{stale:,} of {number(looked, 'chunk')} would be analysed otherwise today, so questions miss them: "
                    f"chunk {', '.join(map(str, ids))}",
                    f"SELECT kbsearch.reanalyze_kb_chunks_v1({organization.id});\n{_rebuild(organization)}",
                    details={"looked_at": looked, "stale": stale, "chunk_ids": ids},
                ),
                organization,
            )
    if not bad:
        yield report.ok(f"{number(total, 'chunk')} analysed again{'' if ex.deep else ', a sample (--deep: all)'}")


_EMBEDDINGS = """SELECT
    count(*) FILTER (WHERE c.id IS NULL),
    count(*) FILTER (WHERE e.searchable <> c.searchable),
    count(*) FILTER (WHERE e.current_digest <> c.content_digest),
    count(*) FILTER (WHERE kbsearch.count_kb_dimensions_v1(e.embedding) <> s.dimensions)
FROM kbsearch.kb_article_embeddings AS e
LEFT JOIN kbsearch.kb_article_chunks AS c ON c.org_id = e.org_id AND c.article_id = e.article_id AND c.id = e.chunk_id
LEFT JOIN kbsearch.kb_embedding_spaces AS s ON s.id = e.space_id
WHERE e.org_id = %(org_id)s"""


@check("derived.embeddings", "every embedding has its chunk's publication and digest, and its space's dimensions")
def embeddings(ex: Examination, report: Report) -> Outcome:
    """What embeddings copy of their chunk is what the chunk has, and each has as many dimensions as its space."""
    bad = False
    for organization in ex.each_organization("derived.embeddings"):
        orphans, stale, outdated, misfits = ex.row(_EMBEDDINGS, org_id=organization.id)
        if orphans:
            bad = True
            yield about(
                report.problem(
                    f"{number(orphans, 'embedding')} of chunks that are gone",
                    f"DELETE FROM kbsearch.kb_article_embeddings AS e WHERE e.org_id = {organization.id} AND NOT EXISTS"
                    " (SELECT FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = e.org_id AND c.article_id = e.article_id AND c.id = e.chunk_id);",
                    details={"without_chunk": orphans},
                ),
                organization,
            )
        if stale:
            bad = True
            yield about(
                report.problem(
                    f"{number(stale, 'embedding')} with another publication than their chunk: found though unpublished, or the reverse",
                    f"UPDATE kbsearch.kb_article_embeddings SET input_sha256 = input_sha256 WHERE org_id = {organization.id};",
                    details={"stale": stale},
                ),
                organization,
            )
        if outdated:
            bad = True
            yield about(
                report.problem(
                    f"{number(outdated, 'embedding')} with another digest than their chunk: the number of stale vectors is wrong",
                    f"UPDATE kbsearch.kb_article_embeddings SET input_sha256 = input_sha256 WHERE org_id = {organization.id};",
                    details={"outdated": outdated},
                ),
                organization,
            )
        if misfits:
            bad = True
            yield about(
                report.problem(
                    f"{number(misfits, 'embedding')} of other dimensions than their space: searches by vector fail",
                    f"DELETE FROM kbsearch.kb_article_embeddings AS e USING kbsearch.kb_embedding_spaces AS s WHERE e.org_id = {organization.id}"
                    " AND s.id = e.space_id AND kbsearch.count_kb_dimensions_v1(e.embedding) <> s.dimensions;\n"
                    "-- then embed those chunks again",
                    details={"misfits": misfits},
                ),
                organization,
            )
    if not bad:
        yield report.ok(f"equal in {number(len(ex.organizations), 'organisation')}")
