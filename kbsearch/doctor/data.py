"""Rows that are allowed and not what anybody wants: articles that nothing finds, vectors that nothing compares, postings to compact."""

from __future__ import annotations

from kbsearch.doctor.base import Examination, Outcome, Report, check, number
from kbsearch.maintenance import BLOCKS_DUE, LOOSE_POSTINGS, LOOSE_ROWS

BLANK = r"[^\u0001-\u0020\u007F-\u00A0\u1680\u2000-\u200B\u2028\u2029\u202F\u205F\u3000\uFEFF]"
"""A character that is not blank, as upsert_kb_article_v1 has it: a chunk without one need not be embedded."""
EXAMPLES = 5
NEAR = 0.8
MAX_BYTES, MAX_WORDS = 262_144, 16_000
CALIBRATED = 2.0
"""Factor between reference_length and what calibrating would give from which a word is said."""
CALIBRATED_CHUNKS = 100
DEAD_SHARE, DEAD_ROWS = 0.2, 10_000
LARGE_TABLE = 10_000

_WANTED = "(%(org_name)s::pg_catalog.text IS NULL OR o.name = %(org_name)s::pg_catalog.text)"


@check(
    "data.vectors",
    "every searchable chunk with text embedded in its organisation's active space, every vector with a direction",
)
def vectors(ex: Examination, report: Report) -> Outcome:
    """Where an organisation searches by vectors, its chunks have them."""
    bad = False
    for org_id, name, space, embedded, missing, pointless, ids in ex.rows(
        f"""SELECT
    o.id, o.name, o.active_space_id,
    count(e.chunk_id),
    count(*) FILTER (WHERE e.chunk_id IS NULL AND c.content COLLATE "C" ~ %(blank)s),
    count(*) FILTER (WHERE NOT e.has_direction),
    (array_agg(DISTINCT c.article_id ORDER BY c.article_id) FILTER (
        WHERE NOT e.has_direction OR (e.chunk_id IS NULL AND c.content COLLATE "C" ~ %(blank)s)
    ))[:%(examples)s]
FROM kbsearch.organizations AS o
INNER JOIN kbsearch.kb_article_chunks AS c ON c.org_id = o.id AND c.searchable
LEFT JOIN kbsearch.kb_article_embeddings AS e
    ON e.org_id = c.org_id AND e.article_id = c.article_id AND e.chunk_id = c.id AND e.space_id = o.active_space_id
WHERE o.active_space_id IS NOT NULL AND {_WANTED}
GROUP BY o.id
ORDER BY o.id""",
        org_name=ex.org_name,
        blank=BLANK,
        examples=EXAMPLES,
    ):
        articles = ", ".join(map(str, ids or []))
        if not embedded:
            bad = True
            yield report.problem(
                f"no chunk has a vector in the active space {space}: searches go by words alone",
                f"Embed its articles in space {space}, or name the space that they are embedded in:"
                f" UPDATE kbsearch.organizations SET active_space_id = … WHERE id = {org_id};",
                organization=name,
                details={"space_id": space, "without": missing},
            )
        elif missing:
            bad = True
            yield report.warning(
                f"{number(missing, 'chunk')} without a vector in the active space {space}, which count 0 for meaning: article {articles}",
                "Embed them: kbsearch ingest --embed-missing with its embedder, or upsert_kb_article_v1 with an embedding for each chunk.",
                organization=name,
                details={"space_id": space, "without": missing, "article_ids": ids},
            )
        if pointless:
            bad = True
            yield report.warning(
                f"{number(pointless, 'vector')} without a direction (zero, or a norm outside 1e-15 to 1e15), which nothing compares: "
                f"article {articles}",
                "Embed those chunks again; an embedder that returns zeros failed.\n"
                f"SELECT e.chunk_id FROM kbsearch.kb_article_embeddings AS e WHERE e.org_id = {org_id} AND e.space_id = {space}"
                " AND NOT e.has_direction;",
                organization=name,
                details={"space_id": space, "without_direction": pointless, "article_ids": ids},
            )
    if not bad:
        yield report.ok("all embedded, or organisations that search by words alone")


@check("data.spaces", "vectors in the organisation's active space only")
def spaces(ex: Examination, report: Report) -> Outcome:
    """No vectors lie in spaces that the organisation does not search, and an organisation with vectors searches one."""
    bad = False
    for org_id, name, active, space, model, count in ex.rows(
        f"""SELECT o.id, o.name, o.active_space_id, s.id, s.name, e.vectors
FROM kbsearch.organizations AS o
INNER JOIN (
    SELECT v.org_id, v.space_id, count(*) AS vectors FROM kbsearch.kb_article_embeddings AS v GROUP BY v.org_id, v.space_id
) AS e ON e.org_id = o.id
INNER JOIN kbsearch.kb_embedding_spaces AS s ON s.id = e.space_id
WHERE e.space_id IS DISTINCT FROM o.active_space_id AND {_WANTED}
ORDER BY o.id, e.vectors DESC, s.id""",
        org_name=ex.org_name,
    ):
        bad = True
        if active is None:
            yield report.problem(
                f"{number(count, 'vector')} in space {space} ({model}), and no active space: searches go by words alone",
                f"UPDATE kbsearch.organizations SET active_space_id = {space} WHERE id = {org_id};",
                expected="an active space where there are vectors",
                organization=name,
                details={"space_id": space, "vectors": count},
            )
        else:
            yield report.warning(
                f"{number(count, 'vector')} in space {space} ({model}), which is not the active one ({active})",
                f"SELECT kbsearch.drop_kb_space_v1({org_id}, {space});"
                "  -- unless a change to that space is under way, or the way back to it is to stay open",
                organization=name,
                details={"space_id": space, "vectors": count},
            )
    if not bad:
        yield report.ok("none elsewhere")


@check("data.articles", "every published article has something to be found by")
def articles(ex: Examination, report: Report) -> Outcome:
    """Published articles have chunks, and one of them has words or a vector of the active space."""
    bad = False
    for _, name, empty, blank, ids in ex.rows(
        f"""SELECT o.id, o.name, count(*) FILTER (WHERE NOT f.has_chunks), count(*) FILTER (WHERE f.has_chunks),
    (array_agg(a.id ORDER BY a.id))[:%(examples)s]
FROM kbsearch.organizations AS o
INNER JOIN kbsearch.kb_articles AS a ON a.org_id = o.id AND a.published
CROSS JOIN LATERAL (
    SELECT
        EXISTS (SELECT FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = a.org_id AND c.article_id = a.id) AS has_chunks,
        EXISTS (SELECT FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = a.org_id AND c.article_id = a.id AND c.lexemes <> '{{}}') AS has_words,
        EXISTS (
            SELECT FROM kbsearch.kb_article_embeddings AS e
            WHERE e.org_id = a.org_id AND e.article_id = a.id AND e.space_id = o.active_space_id AND e.has_direction
        ) AS has_vector
) AS f
WHERE NOT f.has_words AND NOT f.has_vector AND {_WANTED}
GROUP BY o.id
ORDER BY o.id""",
        org_name=ex.org_name,
        examples=EXAMPLES,
    ):
        bad = True
        parts = [
            *([f"{number(empty, 'published article')} without chunks"] if empty else []),
            *([f"{number(blank, 'published article')} without a word in any chunk"] if blank else []),
        ]
        yield report.warning(
            f"{', '.join(parts)}, which no search finds: article {', '.join(map(str, ids))}",
            "Write them again with their text (upsert_kb_article_v1), or delete or unpublish them.",
            organization=name,
            details={"without_chunks": empty, "without_words": blank, "article_ids": ids},
        )
    if not bad:
        yield report.ok("all of them")


@check("data.limits", f"chunks well below {MAX_BYTES:,} bytes and {MAX_WORDS:,} words")
def limits(ex: Examination, report: Report) -> Outcome:
    """No chunk is so near a limit that a longer title or heading will be refused (KBCHK)."""
    bad = False
    for _, name, count, most_bytes, most_words, ids in ex.rows(
        f"""SELECT o.id, o.name, count(*), max(octet_length(c.content) + coalesce(octet_length(c.heading), 0)), max(c.occurrence_count),
    (array_agg(c.id ORDER BY c.id))[:%(examples)s]
FROM kbsearch.organizations AS o
INNER JOIN kbsearch.kb_article_chunks AS c ON c.org_id = o.id
WHERE (octet_length(c.content) + coalesce(octet_length(c.heading), 0) > %(bytes)s OR c.occurrence_count > %(words)s) AND {_WANTED}
GROUP BY o.id
ORDER BY o.id""",
        org_name=ex.org_name,
        examples=EXAMPLES,
        bytes=int(NEAR * MAX_BYTES),
        words=int(NEAR * MAX_WORDS),
    ):
        bad = True
        yield report.warning(
            f"{number(count, 'chunk')} near a limit (up to {most_bytes:,} bytes, {most_words:,} words): a longer title or heading "
            f"will be refused: chunk {', '.join(map(str, ids))}",
            "Split their text into chunks of a few paragraphs.",
            organization=name,
            details={"chunks": count, "bytes": most_bytes, "words": most_words, "chunk_ids": ids},
        )
    if not bad:
        yield report.ok("all of them")


@check("data.postings", f"at most {LOOSE_POSTINGS} times the rows that the postings need")
def postings(ex: Examination, report: Report) -> Outcome:
    """Postings are merged, so that a search reads few rows a word."""
    bad = False
    for org_id, name, count, fewest in ex.rows(
        f"""SELECT o.id, o.name, w.row_count, w.fewest
FROM kbsearch.organizations AS o
INNER JOIN (
    SELECT l.org_id, sum(l.row_count)::bigint AS row_count, sum(l.fewest)::bigint AS fewest
    FROM (
        SELECT p.org_id, count(*) AS row_count, (greatest(sum(p.sign * p.entry_count), 0) + 199) / 200 AS fewest
        FROM kbsearch.kb_postings AS p
        WHERE %(ids)s::bigint [] IS NULL OR p.org_id = ANY (%(ids)s::bigint [])
        GROUP BY p.org_id, p.lexeme
    ) AS l
    GROUP BY l.org_id
) AS w ON w.org_id = o.id
WHERE w.row_count > %(loose)s * w.fewest + %(rows)s AND {_WANTED}
ORDER BY o.id""",
        org_name=ex.org_name,
        ids=ex.org_ids,
        loose=LOOSE_POSTINGS,
        rows=LOOSE_ROWS,
    ):
        bad = True
        yield report.warning(
            f"{count:,} rows of postings where {fewest:,} would do: searches read them all",
            f"SELECT kbsearch.compact_kb_postings_v1({org_id});\nkbsearch db maintain  -- for all, once a day",
            organization=name,
            details={"rows": count, "fewest": fewest},
        )
    if not bad:
        yield report.ok("merged")


@check("data.blocks", "large organisations have vectors of their frequent words, and few chunks written since")
def blocks(ex: Examination, report: Report) -> Outcome:
    """Searches of frequent words are fast where compacting has made vectors of them, as long as not too much has been written since."""
    bad = False
    for org_id, name, changed in ex.rows(
        f"""SELECT o.id, o.name, (SELECT sum(g.chunk_count)::bigint FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = o.id)
FROM kbsearch.organizations AS o
WHERE {BLOCKS_DUE.format(org="o.id")} AND {_WANTED}
ORDER BY o.id""",
        org_name=ex.org_name,
    ):
        bad = True
        yield report.warning(
            f"{number(changed, 'chunk')} written since the vectors of frequent words were made: searches look them up one by one, from 2,000 on all"
            if changed
            else "no vectors of frequent words yet: searches add up all their entries",
            f"SELECT kbsearch.compact_kb_postings_v1({org_id});\nkbsearch db maintain  -- for all, once a day",
            organization=name,
            details={"changed": changed},
        )
    if not bad:
        yield report.ok("made, where there are 20,000 chunks")


@check("data.reference_length", "reference_length near 0.85 times the mean length of the chunks")
def reference_length(ex: Examination, report: Report) -> Outcome:
    """The length that BM25 takes for normal is about what the organisation's chunks have."""
    bad = False
    for org_id, name, stored, calibrated in ex.rows(
        f"""SELECT o.id, o.name, o.reference_length, c.calibrated
FROM kbsearch.organizations AS o
INNER JOIN (
    SELECT s.org_id, least(100000, greatest(1, round(0.85 * sum(s.occurrence_count) / sum(s.chunk_count))))::integer AS calibrated
    FROM kbsearch.kb_corpus_stats AS s
    GROUP BY s.org_id
    HAVING sum(s.chunk_count) >= %(chunks)s
) AS c ON c.org_id = o.id
WHERE greatest(o.reference_length, c.calibrated) > %(factor)s * least(o.reference_length, c.calibrated) AND {_WANTED}
ORDER BY o.id""",
        org_name=ex.org_name,
        factor=CALIBRATED,
        chunks=CALIBRATED_CHUNKS,
    ):
        bad = True
        yield report.warning(
            f"reference_length is {stored}, calibrating would make it {calibrated}: long and short chunks are weighed wrongly",
            f"SELECT kbsearch.calibrate_kb_corpus_v1({org_id});  -- moves scores, so not in the middle of anybody's pages",
            organization=name,
            details={"is": stored, "calibrated": calibrated},
        )
    if not bad:
        yield report.ok("calibrated, or near enough")


@check("data.languages", "every language one that the server has")
def languages(ex: Examination, report: Report) -> Outcome:
    """No organisation or article names a text search configuration that was dropped."""
    bad = False
    for name, language, count, of_articles in ex.rows(
        f"""SELECT o.name, l.language, l.rows, l.of_articles
FROM kbsearch.organizations AS o
INNER JOIN (
    SELECT g.id AS org_id, g.language::pg_catalog.oid::bigint AS language, 1::bigint AS rows, false AS of_articles FROM kbsearch.organizations AS g
    UNION ALL
    SELECT a.org_id, a.language::pg_catalog.oid::bigint, count(*), true
    FROM kbsearch.kb_articles AS a
    WHERE a.language IS NOT NULL
    GROUP BY a.org_id, a.language
) AS l ON l.org_id = o.id
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_ts_config AS c WHERE c.oid = l.language::pg_catalog.oid) AND {_WANTED}
ORDER BY o.id, l.of_articles, l.language""",
        org_name=ex.org_name,
    ):
        bad = True
        whose, table = (
            (number(count, "article"), "kb_articles") if of_articles else ("the organisation", "organizations")
        )
        yield report.problem(
            f"the language of {whose} is a text search configuration that was dropped ({language}): nothing can be analysed in it",
            f"UPDATE kbsearch.{table} SET language = 'pg_catalog.simple' WHERE language::oid = {language};  -- or the language that it is",
            organization=name,
            details={"language": language, "table": table, "rows": count},
        )
    if not bad:
        yield report.ok("all of them")


@check("data.tables", "tables vacuumed, few dead rows")
def tables(ex: Examination, report: Report) -> Outcome:
    """Vacuum came by: index-only scans need its visibility map, and dead postings are read until it removes them."""
    bad = False
    for table, live, dead, vacuumed, analyzed in ex.rows(
        """SELECT s.relname, s.n_live_tup, s.n_dead_tup,
    coalesce(s.last_vacuum, s.last_autovacuum) IS NOT NULL, coalesce(s.last_analyze, s.last_autoanalyze) IS NOT NULL
FROM pg_catalog.pg_stat_user_tables AS s
WHERE s.schemaname = %(schema)s
ORDER BY s.relname""",
        schema=ex.schema,
    ):
        missing = [word for word, done in (("vacuumed", vacuumed), ("analysed", analyzed)) if not done]
        if dead > DEAD_ROWS and dead > DEAD_SHARE * live:
            bad = True
            yield report.warning(
                f"{table}: {dead:,} dead rows beside {live:,} live ones",
                f"VACUUM (ANALYZE) kbsearch.{table};",
                details={"table": table, "live": live, "dead": dead},
            )
        elif live > LARGE_TABLE and missing:
            bad = True
            yield report.warning(
                f"{table}: {live:,} rows, never {' or '.join(missing)}",
                f"VACUUM (ANALYZE) kbsearch.{table};",
                details={"table": table, "live": live, "dead": dead},
            )
    if not bad:
        yield report.ok("all of them")
