"""A search of each organisation's own words, measured: what it finds, how long it takes, and whose rows it reads."""

from __future__ import annotations

import re
import statistics
import time
from dataclasses import dataclass

import psycopg

from kbsearch.doctor.base import Examination, Organization, Outcome, Report, about, check, number
from kbsearch.doctor.settings import milliseconds

SAMPLED = 5
"""Organisations with the most and with the fewest chunks that are searched, each, unless all are."""
RUNS = 3
WORDS = 12
SLACK_FACTOR, SLACK_ROWS = 3, 200
"""A search reads an organisation's vectors twice (to compare and to count them) and little else: more than three times its rows are others'."""
TIMEOUT_FACTOR = 10

TABLES = ("kb_articles", "kb_article_chunks", "kb_article_embeddings", "kb_postings", "kb_corpus_stats")

_QUESTION = """SELECT concat_ws(' ', c.title, c.heading, left(c.content, 1000)), (
    SELECT e.embedding::pg_catalog.text
    FROM kbsearch.kb_article_embeddings AS e
    INNER JOIN kbsearch.organizations AS o ON o.id = e.org_id
    WHERE e.org_id = c.org_id AND e.article_id = c.article_id AND e.chunk_id = c.id AND e.space_id = o.active_space_id AND e.has_direction
)
FROM kbsearch.kb_article_chunks AS c
WHERE c.org_id = %(org_id)s AND c.searchable AND c.occurrence_count > 0 AND c.id >= (
    SELECT (min(b.id) + max(b.id)) / 2 FROM kbsearch.kb_article_chunks AS b WHERE b.org_id = %(org_id)s
)
ORDER BY c.id
LIMIT 1"""

# Exploratory: that a policy gives no answer where the legs disagree is no fault of the index.
_SEARCH = """SELECT kbsearch.search_kb_hybrid_page_v1(
    p_org_id => %(org_id)s, p_query_text => %(text)s, p_query_embedding => %(vector)s, p_exploratory => true)"""

_READ = """SELECT s.relname, s.seq_scan, coalesce(s.idx_tup_fetch, 0)
FROM pg_catalog.pg_stat_xact_user_tables AS s
WHERE s.schemaname = %(schema)s AND s.relname = ANY (%(tables)s)"""

_OWN = """SELECT
    (SELECT count(*) FROM kbsearch.kb_articles AS a WHERE a.org_id = %(org_id)s),
    (SELECT count(*) FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %(org_id)s),
    (SELECT count(*) FROM kbsearch.kb_article_embeddings AS e WHERE e.org_id = %(org_id)s),
    (SELECT count(*) FROM kbsearch.kb_postings AS p WHERE p.org_id = %(org_id)s),
    (SELECT count(*) FROM kbsearch.kb_corpus_stats AS s WHERE s.org_id = %(org_id)s)"""


@dataclass(frozen=True, slots=True)
class Question:
    """What an organisation is asked: words of one of its chunks, and that chunk's vector.

    Attributes:
        text: the words.
        vector: the vector as text, None where the chunk has none in the active space.
    """

    text: str
    vector: str | None


def question(ex: Examination, organization: Organization) -> Question | None:
    """A question from the middle of an organisation's chunks; None where it has nothing to be found."""
    rows = ex.rows(_QUESTION, org_id=organization.id)
    if not rows:
        return None
    text, vector = rows[0]
    words = dict.fromkeys(word[:40] for word in re.findall(r"\w+", text))
    # long words first: stop words are short
    return Question(" ".join(sorted(words, key=len, reverse=True)[:WORDS]), vector)


def chosen(ex: Examination) -> list[Organization]:
    """The organisations to search: all that have chunks, or those with the most and with the fewest."""
    filled = sorted((one for one in ex.organizations if one.chunk_count), key=lambda one: one.chunk_count or 0)
    if ex.deep or len(filled) <= 2 * SAMPLED:
        return filled
    return filled[:SAMPLED] + filled[-SAMPLED:]


def ask(ex: Examination, organization: Organization, asked: Question) -> tuple[dict[str, object], float]:
    """A page of the answer, and how many seconds it took."""
    start = time.perf_counter()
    page = ex.value(_SEARCH, org_id=organization.id, text=asked.text, vector=asked.vector)
    return page, time.perf_counter() - start


@check("search.answers", "a search for words of its own finds something, well within statement_timeout")
def answers(ex: Examination, report: Report) -> Outcome:
    """Organisations are asked with words and a vector of their own."""
    timeout = milliseconds(ex.value("SELECT pg_catalog.current_setting('statement_timeout')"))
    organizations = chosen(ex)
    if not organizations:
        yield report.ok("no organisation has anything to be found")
    for done, organization in enumerate(organizations):
        ex.progress("search.answers", done, len(organizations))
        asked = question(ex, organization)
        if asked is None:
            continue
        try:
            with ex.connection.transaction():  # a savepoint: a refusal ends this organisation's search only
                ask(ex, organization, asked)  # warms the session's plans and the cache
                runs = [ask(ex, organization, asked) for _ in range(RUNS)]
        except psycopg.DatabaseError as error:
            if error.sqlstate == "42501":
                raise
            yield about(
                report.problem(
                    f"a search for {asked.text!r} failed: {error.diag.message_primary or error} ({error.sqlstate})",
                    "See the other findings; the server's log has the statement.",
                ),
                organization,
            )
            continue
        page, seconds = runs[0][0], statistics.median(took for _, took in runs)
        total = int(str(page["total"]))
        words = f"{total:,} found of a question of {number(len(asked.text.split()), 'word')}{'' if asked.vector is None else ' and a vector'}"
        details = {"seconds": seconds, "total": total, "runs": RUNS}
        if total == 0:
            yield about(
                report.problem(
                    f"nothing found for {asked.text!r}, words of one of its chunks",
                    f"SELECT kbsearch.rebuild_kb_index_v1({organization.id});",
                    details=details,
                ),
                organization,
            )
        elif 0 < timeout < TIMEOUT_FACTOR * 1000 * seconds:
            yield about(
                report.warning(
                    f"{words} in {1000 * seconds:.1f} ms (median of {RUNS}, warm); statement_timeout is {timeout:.0f} ms",
                    f"ALTER ROLE … SET statement_timeout = '{max(1, round(TIMEOUT_FACTOR * seconds))}s';  -- or more",
                    details=details,
                ),
                organization,
            )
        else:
            yield about(
                report.ok(f"{words} in {1000 * seconds:.1f} ms (median of {RUNS}, warm)", details=details), organization
            )


@check("search.plan", "a search reads its organisation's rows only, through their index entries")
def plan(ex: Examination, report: Report) -> Outcome:
    """The counters of the transaction, before and after a search: no scan of a whole table, no more rows than the organisation has."""
    if not ex.value("SELECT pg_catalog.current_setting('track_counts')::pg_catalog.bool"):
        yield report.unchecked("track_counts is off, so nothing counts what a search reads", "SET track_counts = on;")
        return
    organizations = chosen(ex)
    bad, looked = False, 0
    for done, organization in enumerate(organizations):
        ex.progress("search.plan", done, len(organizations))
        asked = question(ex, organization)
        if asked is None:
            continue
        own = dict(zip(TABLES, ex.row(_OWN, org_id=organization.id), strict=True))
        try:
            with ex.connection.transaction():
                before = {name: counts for name, *counts in ex.rows(_READ, schema=ex.schema, tables=list(TABLES))}
                ask(ex, organization, asked)
                after = {name: counts for name, *counts in ex.rows(_READ, schema=ex.schema, tables=list(TABLES))}
        except psycopg.DatabaseError as error:
            if error.sqlstate == "42501":
                raise
            continue  # search.answers says so
        looked += 1
        scans = {name: after[name][0] - before[name][0] for name in TABLES}
        read = {name: after[name][1] - before[name][1] for name in TABLES}
        scanned = [name for name in TABLES if scans[name]]
        foreign = [name for name in TABLES if read[name] > SLACK_FACTOR * own[name] + SLACK_ROWS]
        details = {"scans": scans, "rows_read": read, "own_rows": own}
        if scanned:
            bad = True
            yield about(
                report.problem(
                    f"a search scanned whole tables, every organisation's rows: {', '.join(scanned)}",
                    "See settings.scans, objects.indexes and versions.objects: index scans are switched off, an index is missing, "
                    "or a function lost its settings.",
                    details=details,
                ),
                organization,
            )
        elif foreign:
            bad = True
            yield about(
                report.problem(
                    "a search read more rows than the organisation has: "
                    + ", ".join(f"{read[name]:,} of {name} ({own[name]:,} of its own)" for name in foreign),
                    "See objects.indexes: an index that does not begin with org_id was used.",
                    details=details,
                ),
                organization,
            )
    if not bad:
        yield report.ok(
            f"{number(looked, 'organisation')} searched, no scan of a whole table, no rows of others"
            if looked
            else "no organisation has anything to be found"
        )
