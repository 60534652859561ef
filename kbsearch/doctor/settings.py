"""Settings that hurt, for this session and for the roles that use kbsearch: those only that its functions do not set for themselves.

`work_mem`, `jit`, `plan_cache_mode`, `enable_seqscan`, join methods and parallel workers are pinned where they matter and are not looked at;
page costs, `geqo` and the other `enable_*` do not change which rows a search reads.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kbsearch.doctor.base import Examination, Outcome, Report, check, number, size

SHORT_TIMEOUT_MS = 1000
LONG_TRANSACTION = "1 hour"

_MILLISECONDS = {"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "us": 0.001}


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as a session or a role gets it.

    Attributes:
        name: its name.
        value: its value.
        who: whose it is, in words.
        reset: what takes it away.
    """

    name: str
    value: str
    who: str
    reset: str


_OWN = """SELECT s.name, pg_catalog.current_setting(s.name), s.source,
    pg_catalog.quote_ident(session_user), pg_catalog.quote_ident(pg_catalog.current_database())
FROM pg_catalog.pg_settings AS s
WHERE s.name = ANY (%(names)s)"""

_OTHERS = """SELECT pg_catalog.quote_ident(r.rolname), pg_catalog.quote_ident(b.datname), given.setting
FROM pg_catalog.pg_db_role_setting AS s
CROSS JOIN LATERAL unnest(s.setconfig) AS given (setting)
LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.setrole
LEFT JOIN pg_catalog.pg_database AS b ON b.oid = s.setdatabase
WHERE (s.setdatabase = 0 OR b.datname = pg_catalog.current_database())
    AND r.rolname IS DISTINCT FROM session_user
    AND (s.setrole = 0 OR pg_catalog.has_table_privilege(r.oid, %(chunks)s::pg_catalog.oid, %(privilege)s))
ORDER BY r.rolname, b.datname, given.setting"""


def settings(ex: Examination, names: Iterable[str], privilege: str) -> list[Setting]:
    """Some settings of this session, and where the database sets them, or roles that have a privilege on the chunks."""
    wanted = list(names)
    found = []
    for name, value, source, role, database in ex.rows(_OWN, names=wanted):
        reset = {
            "database": f"ALTER DATABASE {database} RESET {name};",
            "user": f"ALTER ROLE {role} RESET {name};",
            "database user": f"ALTER ROLE {role} IN DATABASE {database} RESET {name};",
            "configuration file": f"ALTER SYSTEM RESET {name};  -- or in postgresql.conf; then SELECT pg_reload_conf();",
        }.get(source, f"Take {name} out of the connection string (options=…) or of PGOPTIONS.")
        found.append(Setting(name, value, "this session", reset))
    for role, database, setting in ex.rows(_OTHERS, privilege=privilege, chunks=ex.oid("kb_article_chunks")):
        name, _, value = setting.partition("=")
        if name.lower() in wanted:
            if role is None:
                one = Setting(name.lower(), value, f"database {database}", f"ALTER DATABASE {database} RESET {name};")
            else:
                where = f" IN DATABASE {database}" if database else ""
                one = Setting(name.lower(), value, f"role {role}", f"ALTER ROLE {role}{where} RESET {name};")
            if one.value not in [own.value for own in found if own.name == one.name and own.reset == one.reset]:
                found.append(one)
    return found


def _bad(report: Report, bad: list[Setting], why: str, *, is_problem: bool, fine: str) -> Outcome:
    """One finding for each setting that is wrong, or one that none is."""
    for one in bad:
        make = report.problem if is_problem else report.warning
        yield make(
            f"{one.name} = {one.value} for {one.who}: {why}",
            one.reset,
            details={"setting": one.name, "value": one.value},
        )
    if not bad:
        yield report.ok(fine)


def is_on(value: str) -> bool:
    """Whether a setting's text means true."""
    return value.strip("'\"").lower() in ("on", "true", "yes", "1", "t", "y")


def milliseconds(value: str) -> float:
    """A time as settings write it (`500ms`, `2min`, `30000`) in milliseconds; 0 for none."""
    found = re.fullmatch(r"\s*(-?[0-9.]+)\s*([a-z]*)\s*", value.strip("'\""))
    return float(found[1]) * _MILLISECONDS.get(found[2], 1) if found else 0.0


@check("settings.session_replication_role", "origin")
def replication_role(ex: Examination, report: Report) -> Outcome:
    """Triggers run for everybody who writes."""
    bad = [
        one for one in settings(ex, ["session_replication_role"], "INSERT") if one.value.strip("'").lower() == "replica"
    ]
    yield from _bad(
        report, bad, "triggers do not run, so what is written is not searched", is_problem=True, fine="origin"
    )


@check("settings.isolation", "default_transaction_isolation = read committed for writers")
def isolation(ex: Examination, report: Report) -> Outcome:
    """Writers merge postings in READ COMMITTED only: 1,500 single edits of 1,000 articles under REPEATABLE READ left 43 times the rows."""
    bad = [
        one
        for one in settings(ex, ["default_transaction_isolation"], "INSERT")
        if one.value.strip("'").lower() not in ("read committed", "read uncommitted")
    ]
    yield from _bad(
        report,
        bad,
        "writes are not merged, so postings grow until they are compacted; calibrate_kb_corpus_v1 and a change of language are refused",
        is_problem=False,
        fine="read committed",
    )


@check("settings.read_only", "default_transaction_read_only = off for writers")
def read_only(ex: Examination, report: Report) -> Outcome:
    """Writers can write; on a replica nobody can, and searches work."""
    if ex.value("SELECT pg_catalog.pg_is_in_recovery()"):
        yield report.ok("a replica: searches work, writing is for the primary")
        return
    bad = [one for one in settings(ex, ["default_transaction_read_only"], "INSERT") if is_on(one.value)]
    yield from _bad(report, bad, "every write is refused (25006)", is_problem=False, fine="off")


@check("settings.scans", "index scans or bitmap scans switched on")
def scans(ex: Examination, report: Report) -> Outcome:
    """With both kinds of index scans switched off a search reads all organisations' rows."""
    off: Mapping[str, list[Setting]] = defaultdict(list)
    for one in settings(ex, ["enable_indexscan", "enable_bitmapscan"], "SELECT"):
        if not is_on(one.value):
            off[one.who].append(one)
    bad = [one for group in off.values() if len({one.name for one in group}) > 1 for one in group]
    yield from _bad(report, bad, "a search reads all organisations' rows", is_problem=True, fine="on")


@check("settings.client_encoding", "client_encoding = UTF8")
def client_encoding(ex: Examination, report: Report) -> Outcome:
    """Clients can take every character; a shortened excerpt ends in one (U+2026) that most other encodings lack."""
    bad = [
        one
        for one in settings(ex, ["client_encoding"], "SELECT")
        if re.sub(r"[^a-z0-9]", "", one.value.lower()) not in ("utf8", "unicode")
    ]
    yield from _bad(
        report,
        bad,
        "an answer with a character that it lacks fails (22P05), a shortened excerpt for one",
        is_problem=True,
        fine="UTF8",
    )


@check("settings.statement_timeout", "none, or a second and more")
def statement_timeout(ex: Examination, report: Report) -> Outcome:
    """Nobody's statement_timeout cuts a search off that has to read from disk."""
    bad = [
        one for one in settings(ex, ["statement_timeout"], "SELECT") if 0 < milliseconds(one.value) < SHORT_TIMEOUT_MS
    ]
    yield from _bad(
        report,
        bad,
        "a search of 90,000 chunks takes a tenth of a second from memory and several times that from disk, a rebuild longer (57014)",
        is_problem=False,
        fine=f"no timeout below {SHORT_TIMEOUT_MS} ms",
    )


@check("settings.autovacuum", "autovacuum and track_counts on, for kbsearch's tables too")
def autovacuum(ex: Examination, report: Report) -> Outcome:
    """Merging removes rows of postings all the time; without vacuum a search reads their remains."""
    bad = False
    for one in settings(ex, ["autovacuum", "track_counts"], "INSERT"):
        if not is_on(one.value):
            bad = True
            yield report.warning(
                f"{one.name} = {one.value} for {one.who}: removed postings are never cleared away",
                one.reset,
                details={"setting": one.name, "value": one.value},
            )
    for (table,) in ex.rows(
        """SELECT c.relname
FROM pg_catalog.pg_class AS c
WHERE c.relnamespace = pg_catalog.to_regnamespace(%(schema)s) AND EXISTS (
    SELECT FROM pg_catalog.pg_options_to_table(c.reloptions) AS o
    WHERE o.option_name = 'autovacuum_enabled' AND o.option_value IN ('off', 'false', 'no', '0')
)
ORDER BY c.relname""",
        schema=ex.schema,
    ):
        bad = True
        yield report.warning(
            f"autovacuum is switched off for {table}", f"ALTER TABLE kbsearch.{table} RESET (autovacuum_enabled);"
        )
    if not bad:
        yield report.ok("on")


@check("settings.shared_buffers", "room for the vectors of the largest organisation")
def shared_buffers(ex: Examination, report: Report) -> Outcome:
    """A search reads all vectors of its organisation; where they do not fit, each search turns out what the last one read."""
    name, rows, table_bytes, buffers = ex.row(
        """SELECT o.name, coalesce(e.vectors, 0), pg_catalog.pg_relation_size(c.oid)
        * coalesce(e.vectors, 0) / greatest(sum(e.vectors) OVER (), 1), pg_catalog.pg_size_bytes(pg_catalog.current_setting('shared_buffers'))
FROM pg_catalog.pg_class AS c
LEFT JOIN (
    SELECT v.org_id, count(*) AS vectors FROM kbsearch.kb_article_embeddings AS v GROUP BY v.org_id
) AS e ON true
LEFT JOIN kbsearch.organizations AS o ON o.id = e.org_id
WHERE c.oid = pg_catalog.to_regclass('kbsearch.kb_article_embeddings')
ORDER BY 2 DESC, e.org_id ASC
LIMIT 1"""
    )
    if table_bytes > buffers:
        yield report.warning(
            f"shared_buffers = {size(buffers)}; a search of {name} reads {number(rows, 'vector')}, {size(table_bytes)}",
            f"ALTER SYSTEM SET shared_buffers = '{max(128, round(4 * float(table_bytes) / 2**20))}MB';"
            "  -- at most a quarter of the memory; then restart the server",
        )
    else:
        yield report.ok(f"{size(buffers)}; the largest organisation's vectors take {size(table_bytes)}")


@check("settings.transactions", f"no transaction open for over {LONG_TRANSACTION}", needs_install=False)
def transactions(ex: Examination, report: Report) -> Outcome:
    """No forgotten transaction keeps vacuum from removing dead postings, or writers from an organisation's lock."""
    rows = ex.rows(
        """SELECT 'session ' || a.pid || ' of ' || coalesce(a.usename, '?') || ', ' || a.state, a.xact_start::pg_catalog.text,
    'SELECT pg_terminate_backend(' || a.pid || ');'
FROM pg_catalog.pg_stat_activity AS a
WHERE a.datname = pg_catalog.current_database() AND a.pid <> pg_catalog.pg_backend_pid() AND a.backend_type = 'client backend'
    AND a.xact_start < pg_catalog.clock_timestamp() - %(age)s::pg_catalog.interval
UNION ALL
SELECT 'prepared transaction ' || p.gid, p.prepared::pg_catalog.text, 'ROLLBACK PREPARED ' || pg_catalog.quote_literal(p.gid) || ';'
FROM pg_catalog.pg_prepared_xacts AS p
WHERE p.database = pg_catalog.current_database() AND p.prepared < pg_catalog.clock_timestamp() - %(age)s::pg_catalog.interval
ORDER BY 2""",
        age=LONG_TRANSACTION,
    )
    for what, since, advice in rows:
        yield report.warning(f"{what}: in a transaction since {since}", advice)
    if rows:
        return
    if ex.value("SELECT pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')"):
        yield report.ok("none")
    else:
        role = ex.value("SELECT pg_catalog.quote_ident(current_user)")
        yield report.unchecked(
            "other roles' transactions are not shown to this one", f"GRANT pg_read_all_stats TO {role};"
        )


@check("settings.pooler", "nothing that a pooler between client and server would break", needs_install=False)
def pooler(ex: Examination, report: Report) -> Outcome:
    """Whether the server's process is the one that the connection was told of; a pooler hands out a number of its own."""
    told, server = ex.connection.info.backend_pid, ex.value("SELECT pg_catalog.pg_backend_pid()")
    if told == server:
        yield report.ok("a direct connection")
    else:
        yield report.ok(
            "the connection goes through a pooler; in transaction mode use no prepared statements of the driver's "
            "(psycopg: prepare_threshold=None, as KBSearch does) and set settings by ALTER ROLE, not by SET",
            details={"told_pid": told, "server_pid": server},
        )
