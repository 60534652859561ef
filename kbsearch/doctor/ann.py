"""Approximate search: whether its indexes are there, finished and of somebody; and, if asked for, what they miss."""

from __future__ import annotations

import math
import re
import shlex

import psycopg

from kbsearch.doctor.base import Examination, Organization, Outcome, Report, about, check, number

AUTO_FROM = 20_000
"""Searchable chunks beyond which `auto` is approximate, as window_kb_search_v1 has it."""
QUESTIONS = 30
"""Searches that an organisation's recall is measured by."""
TOP = 10
LEAST_RECALL = 0.99
WORDS = 6
OPPOSITE = 0.01
"""Norm of the sum of two unit vectors that point away from each other."""

_INDEXES = """SELECT i.relname, x.indisvalid AND x.indisready, b.pid IS NOT NULL, o.id IS NOT NULL, o.name,
    EXISTS (
        SELECT FROM kbsearch.kb_article_embeddings AS e
        WHERE e.org_id = pg_catalog.split_part(i.relname, '_', 3)::pg_catalog.int8
            AND e.space_id = pg_catalog.split_part(i.relname, '_', 4)::pg_catalog.int8
    ),
    m.amname
FROM pg_catalog.pg_index AS x
INNER JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
INNER JOIN pg_catalog.pg_am AS m ON m.oid = i.relam
LEFT JOIN pg_catalog.pg_stat_progress_create_index AS b ON b.index_relid = i.oid
LEFT JOIN kbsearch.organizations AS o ON o.id = pg_catalog.split_part(i.relname, '_', 3)::pg_catalog.int8
WHERE x.indrelid = %(table)s::pg_catalog.oid AND i.relname ~ '^kb_ann_[0-9]{1,18}_[0-9]{1,18}$'
ORDER BY pg_catalog.split_part(i.relname, '_', 3)::pg_catalog.int8, i.relname"""

_USERS = """SELECT o.id, o.retrieval, o.active_space_id,
    (SELECT f.is_ready FROM kbsearch.find_kb_ann_index_v1(o.id, o.active_space_id) AS f)
FROM kbsearch.organizations AS o
WHERE o.retrieval <> 'exact' AND o.active_space_id IS NOT NULL"""

_QUESTION = """SELECT pg_catalog.left(c.content, 1000), e.embedding::pg_catalog.text
FROM kbsearch.kb_article_chunks AS c
INNER JOIN kbsearch.organizations AS o ON o.id = c.org_id
INNER JOIN kbsearch.kb_article_embeddings AS e
    ON e.org_id = c.org_id AND e.article_id = c.article_id AND e.chunk_id = c.id AND e.space_id = o.active_space_id AND e.has_direction
WHERE c.org_id = %(org_id)s AND c.searchable AND c.id >= (
    SELECT min(b.id) + (max(b.id) - min(b.id)) * %(part)s::pg_catalog.int8 / %(parts)s::pg_catalog.int8
    FROM kbsearch.kb_article_chunks AS b WHERE b.org_id = %(org_id)s
)
ORDER BY c.id
LIMIT 2"""

_MEASURE = """SELECT m.mode, m.reason, m.wanted, m.kept, m.in_order, m.certain, m.settled
FROM kbsearch.measure_kb_recall_v1(%(org_id)s, %(text)s, %(vector)s, %(top)s) AS m"""


@check("ann.indexes", "every index for approximate search finished, and of an organisation that has vectors")
def indexes(ex: Examination, report: Report) -> Outcome:
    """No index costs writes for nothing."""
    rows = ex.rows(_INDEXES, table=ex.oid("kb_article_embeddings"))
    bad = False
    for name, valid, building, has_organization, organization, has_vectors, method in rows:
        if ex.org_name not in (None, organization):
            continue
        found = (
            f"index {name} was made for an organisation that is not there any more"
            if not has_organization
            else f"index {name} is of a space that the organisation has no vectors in"
            if not has_vectors
            else f"index {name} ({method}) is none for approximate search"
            if method != "hnsw"
            else None
        )
        if found is not None:
            bad = True
            yield report.warning(
                found, f"DROP INDEX CONCURRENTLY kbsearch.{name};", organization=organization, details={"index": name}
            )
        elif not valid and not building:
            bad = True
            yield report.warning(
                f"the build of index {name} was broken off: it is kept up and never read",
                f"kbsearch ann create --org {shlex.quote(organization)}\nDROP INDEX CONCURRENTLY kbsearch.{name};  -- or so, to do without",
                organization=organization,
                details={"index": name},
            )
    if not bad:
        yield report.ok(f"{len(rows)} of at most 200")


@check("ann.used", "an index for everybody whose searches are to be approximate")
def used(ex: Examination, report: Report) -> Outcome:
    """No search is refused, or compares all chunks of a large organisation, for want of an index."""
    known = {one.id: one for one in ex.organizations}
    bad, users = False, 0
    for org_id, retrieval, space_id, ready in ex.rows(_USERS):
        if org_id not in known:
            continue
        users += 1
        one = known[org_id]
        details = {"retrieval": retrieval, "space_id": space_id}
        create = f"kbsearch ann create --org {shlex.quote(one.name)}"
        if ready:
            continue
        if retrieval == "ann":
            bad = True
            yield about(
                report.problem(
                    f"searches with a vector are refused: retrieval is ann, and space {space_id} has no finished index",
                    f"{create}\nkbsearch ann use auto --org {shlex.quote(one.name)}  # or so: exact until there is one",
                    details=details,
                ),
                one,
            )
        elif (one.chunk_count or 0) > AUTO_FROM:
            bad = True
            yield about(
                report.warning(
                    f"searches compare all of {one.chunk_count:,} chunks: retrieval is auto, and space {space_id} has no finished index",
                    create,
                    details=details,
                ),
                one,
            )
    if not bad:
        yield report.ok(f"{number(users, 'organisation')}")


def question(ex: Examination, organization: Organization, part: int) -> tuple[str, str] | None:
    """Words of a chunk, and a vector halfway between its own and the next chunk's; None where there is none."""
    rows = ex.rows(_QUESTION, org_id=organization.id, part=part, parts=QUESTIONS)
    if not rows:
        return None
    words = sorted(dict.fromkeys(word[:40] for word in re.findall(r"\w+", rows[0][0])), key=len, reverse=True)
    vectors = [[float(component) for component in text.strip("[]").split(",")] for _, text in rows]
    unit = [[component / math.hypot(*vector) for component in vector] for vector in vectors]
    middle = [math.fsum(components) for components in zip(*unit, strict=True)]
    if math.hypot(*middle) < OPPOSITE:
        middle = unit[0]
    return " ".join(words[:WORDS]), f"[{','.join(f'{component:.7g}' for component in middle)}]"


@check(
    "ann.recall",
    f"at least {LEAST_RECALL} of the first {TOP} of the exact ranking in that of the windows, in each organisation",
)
def recall(ex: Examination, report: Report) -> Outcome:
    """Organisations with an index are asked with words and vectors of their own, exactly and through windows. Only if asked for: it takes a while."""
    if not ex.recall:
        return
    measured = 0
    indexed = {
        org_id
        for (org_id,) in ex.rows(
            """SELECT o.id FROM kbsearch.organizations AS o
CROSS JOIN LATERAL kbsearch.find_kb_ann_index_v1(o.id, o.active_space_id) AS f WHERE f.is_ready"""
        )
    }
    for one in ex.each_organization("ann.recall"):
        if one.id not in indexed:
            continue
        measured += 1
        asked = [found for part in range(QUESTIONS) if (found := question(ex, one, part)) is not None]
        rows = []
        for text, vector in asked:
            try:
                with ex.connection.transaction():
                    rows += ex.rows(_MEASURE, org_id=one.id, text=text, vector=vector, top=TOP)
            except psycopg.DatabaseError as error:
                if error.sqlstate == "42501":
                    raise
        windowed = [row for row in rows if row[0] == "ann"]
        if not windowed:
            reasons = sorted({str(row[1]) for row in rows})
            yield about(report.ok(f"none of {len(rows)} searches went through windows: {', '.join(reasons)}"), one)
            continue
        wanted, kept, in_order = (sum(row[position] for row in windowed) for position in (2, 3, 4))
        share = kept / wanted if wanted else 1.0
        details = {
            "questions": len(windowed),
            "recall": share,
            "in_order": in_order / wanted if wanted else 1.0,
            "certain": sum(row[5] for row in windowed) / len(windowed),
            "settled": sum(row[6] for row in windowed) / len(windowed),
        }
        said = f"recall@{TOP} {share:.3f} of {len(windowed)} searches; settled are the first {details['settled']:.0f} places in the mean"
        if share < LEAST_RECALL:
            quoted = shlex.quote(one.name)
            yield about(
                report.warning(
                    said,
                    f"kbsearch ann use ann --window 400 --org {quoted}\n"
                    f"kbsearch ann drop --org {quoted} && kbsearch ann create --ef-construction 256 --org {quoted}  # if that is not enough",
                    details=details,
                ),
                one,
            )
        else:
            yield about(report.ok(said, details=details), one)
    if not measured:
        yield report.ok("no organisation has an index for approximate search")
