"""Objects that are there and do not work: triggers switched off, invalid indexes, unlogged tables, unchecked constraints."""

from __future__ import annotations

import re

from kbsearch import migrate
from kbsearch.doctor.base import Examination, Outcome, Report, check, number

_TRIGGER = re.compile(r"^CREATE TRIGGER (?P<trigger>\w+)\s.*?\sON kbsearch\.(?P<table>\w+)", re.MULTILINE | re.DOTALL)

REPAIR = (
    "UPDATE kbsearch.kb_article_chunks SET heading = heading;\n"
    "UPDATE kbsearch.kb_article_embeddings SET input_sha256 = input_sha256;\n"
    "SELECT kbsearch.rebuild_kb_index_v1(o.id) FROM kbsearch.organizations AS o;"
)
"""Makes right what was written while triggers did not run."""


def released_triggers() -> set[tuple[str, str]]:
    """Table and name of every trigger that the SQL files create."""
    return {
        (found["table"], found["trigger"])
        for file in migrate.files()
        for found in _TRIGGER.finditer(migrate.file_text(file))
    }


@check("objects.triggers", "every trigger there and switched on")
def triggers(ex: Examination, report: Report) -> Outcome:
    """The triggers that keep the index, and those that check foreign keys, run on every write."""
    present = {
        (table, trigger): (enabled, internal)
        for table, trigger, enabled, internal in ex.rows(
            """SELECT c.relname, t.tgname, t.tgenabled::text, t.tgisinternal
FROM pg_catalog.pg_trigger AS t
INNER JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid
WHERE c.relnamespace = pg_catalog.to_regnamespace(%(schema)s)""",
            schema=ex.schema,
        )
    }
    missing = sorted(released_triggers() - present.keys())
    if missing:
        yield report.problem(
            f"{number(len(missing), 'trigger')} missing: {', '.join(f'{trigger} on {table}' for table, trigger in missing)}",
            f"Create them again from: kbsearch db sql\nThen make right what was written meanwhile:\n{REPAIR}",
        )
    for state, words in (("D", "switched off"), ("R", "switched on for replication only")):
        off = sorted({table for (table, _), (enabled, _) in present.items() if enabled == state})
        named = sorted(
            {trigger for (_, trigger), (enabled, internal) in present.items() if enabled == state and not internal}
        )
        if off:
            yield report.problem(
                f"triggers {words} on {', '.join(off)}: {', '.join(named) or 'those of foreign keys'}",
                "\n".join(
                    f"ALTER TABLE kbsearch.{table} ENABLE TRIGGER ALL;  -- by a superuser; by the owner: ENABLE TRIGGER USER"
                    for table in off
                )
                + f"\n{REPAIR}",
            )
    if not missing and all(enabled not in ("D", "R") for enabled, _ in present.values()):
        yield report.ok(f"{sum(not internal for _, internal in present.values())} triggers")


_ANN = re.compile(r"kb_ann_\d+_\d+$")


@check("objects.indexes", "every index valid, and none on chunks, vectors and postings that does not begin with org_id")
def indexes(ex: Examination, report: Report) -> Outcome:
    """Indexes can be used, and none tempts a plan to read the rows of other organisations."""
    rows = ex.rows(
        """SELECT c.relname, i.relname, x.indisvalid AND x.indisready, x.indisprimary OR x.indisunique, m.amname,
    (SELECT a.attname FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = x.indrelid AND a.attnum = x.indkey[0])
FROM pg_catalog.pg_index AS x
INNER JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
INNER JOIN pg_catalog.pg_class AS c ON c.oid = x.indrelid
INNER JOIN pg_catalog.pg_am AS m ON m.oid = i.relam
WHERE c.relnamespace = pg_catalog.to_regnamespace(%(schema)s)
ORDER BY i.relname""",
        schema=ex.schema,
    )
    bad = False
    for table, index, valid, needed, _method, _column in rows:
        if not valid and not _ANN.match(index):
            bad = True
            yield report.problem(
                f"index {index} on {table} is invalid: it is kept up and never read",
                f"REINDEX INDEX CONCURRENTLY kbsearch.{index};"
                if needed or not re.search(r"_cc(new|old)\d*$", index)
                else f"DROP INDEX CONCURRENTLY kbsearch.{index};",
            )
    for table, index, _valid, _needed, method, column in rows:
        if table not in ("kb_article_chunks", "kb_article_embeddings", "kb_postings"):
            continue
        if _ANN.match(index):
            continue  # ann.indexes looks at them
        if method in ("hnsw", "ivfflat"):
            bad = True
            yield report.warning(
                f"index {index} on {table} ({method}) is never read: approximate searches have their own (kbsearch ann); "
                "it makes every write dearer",
                f"DROP INDEX CONCURRENTLY kbsearch.{index};",
            )
        elif method == "btree" and column != "org_id":
            bad = True
            yield report.warning(
                f"index {index} on {table} does not begin with org_id: a search may read all organisations' rows by it",
                f"DROP INDEX CONCURRENTLY kbsearch.{index};  -- or make it on (org_id, …)",
            )
    if not bad:
        yield report.ok(f"{len(rows)} indexes")


@check("objects.persistence", "every table logged")
def persistence(ex: Examination, report: Report) -> Outcome:
    """No table is unlogged: such a table is empty after a crash and on every replica."""
    unlogged = [
        name
        for (name,) in ex.rows(
            """SELECT c.relname
FROM pg_catalog.pg_class AS c
WHERE c.relnamespace = pg_catalog.to_regnamespace(%(schema)s) AND c.relkind = 'r' AND c.relpersistence = 'u'
ORDER BY c.relname""",
            schema=ex.schema,
        )
    ]
    if unlogged:
        yield report.problem(
            f"unlogged, so empty after a crash and on replicas: {', '.join(unlogged)}",
            "\n".join(f"ALTER TABLE kbsearch.{name} SET LOGGED;" for name in unlogged),
        )
    else:
        yield report.ok("all tables are logged")


@check("objects.constraints", "every constraint validated and enforced")
def constraints(ex: Examination, report: Report) -> Outcome:
    """No constraint is NOT VALID or NOT ENFORCED: rows that break it may be there already."""
    rows = ex.rows(
        """SELECT c.relname, n.conname, n.convalidated, coalesce((pg_catalog.to_jsonb(n) ->> 'conenforced')::pg_catalog.bool, true), n.contype::text
FROM pg_catalog.pg_constraint AS n
INNER JOIN pg_catalog.pg_class AS c ON c.oid = n.conrelid
WHERE c.relnamespace = pg_catalog.to_regnamespace(%(schema)s)
ORDER BY c.relname, n.conname""",
        schema=ex.schema,
    )
    bad = False
    for table, name, validated, enforced, _kind in rows:
        if not enforced:
            bad = True
            yield report.problem(
                f"constraint {name} on {table} is not enforced",
                f"ALTER TABLE kbsearch.{table} ALTER CONSTRAINT {name} ENFORCED;",
            )
        elif not validated:
            bad = True
            yield report.warning(
                f"constraint {name} on {table} is not validated: rows from before it may break it",
                f"ALTER TABLE kbsearch.{table} VALIDATE CONSTRAINT {name};",
            )
    if not bad:
        yield report.ok(f"{len(rows)} constraints")
