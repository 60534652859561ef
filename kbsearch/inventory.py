"""What a schema holds: every object with its definition, as text that two databases of one server version can be compared by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import psycopg

from kbsearch.blocks import SETTINGS, VERSION_TABLE
from kbsearch.schema import replaced
from kbsearch.session import Session, literal

Inventory: TypeAlias = Mapping[str, str]
"""Definition by name, as in {"function kbsearch.search_kb_hybrid_v1(…)": "CREATE OR REPLACE FUNCTION …"}."""

# Rows of kind, name, what PostgreSQL writes by its parse trees, and what it stores word by word. Owners and privileges are the host's matter, and so
# are its bookkeeping and storage settings (but PLAIN, which the files ask for where it counts).
_OBJECTS = f"""WITH classes AS (
    SELECT c.oid, c.relkind, c.relnamespace, c.relam, c.relpersistence, c.reltype, c.reloptions, quote_ident(c.relname) AS name
    FROM pg_class AS c
    WHERE c.relnamespace = 'kbsearch'::regnamespace AND c.relname NOT IN ('alembic_version', '{VERSION_TABLE}')
        AND NOT EXISTS (SELECT FROM pg_depend AS e WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')
)
SELECT 'function', p.oid::regprocedure::text,
    CASE WHEN p.prokind = 'a' THEN format('aggregate %s', a.*) WHEN p.prosqlbody IS NULL THEN replace(pg_get_functiondef(p.oid), p.prosrc, '...')
        ELSE pg_get_functiondef(p.oid) END,
    concat_ws(E'\\n', p.prosrc, p.proconfig, obj_description(p.oid, 'pg_proc'))
FROM pg_proc AS p
LEFT JOIN pg_aggregate AS a ON a.aggfnoid = p.oid
WHERE p.pronamespace = 'kbsearch'::regnamespace
    AND NOT EXISTS (SELECT FROM pg_depend AS e WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e')
UNION ALL
SELECT 'column', c.name || '.' || a.attname,
    concat_ws(' ', format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'NOT NULL' END,
        CASE WHEN a.attstorage = 'p' AND t.typstorage <> 'p' THEN 'STORAGE PLAIN' END,
        nullif('IDENTITY ' || a.attidentity::text, 'IDENTITY '), nullif('GENERATED ' || a.attgenerated::text, 'GENERATED '),
        'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), 'COLLATE ' || nullif(a.attcollation, 0)::regcollation::text),
    coalesce(col_description(c.oid, a.attnum), '')
FROM classes AS c
INNER JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
INNER JOIN pg_type AS t ON t.oid = a.atttypid
LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'c')
UNION ALL
SELECT CASE WHEN c.relkind IN ('r', 'p') THEN 'table' WHEN c.relkind = 'S' THEN 'sequence' WHEN c.relkind = 'c' THEN 'type' ELSE 'view' END, c.name,
    concat_ws(' ', c.relkind, CASE WHEN c.relpersistence = 'u' THEN 'UNLOGGED' END, nullif(m.amname, 'heap'),
        CASE WHEN c.relkind IN ('v', 'm') THEN concat(pg_get_viewdef(c.oid), c.reloptions) END,
        s.seqtypid::regtype, s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache, s.seqcycle),
    coalesce(obj_description(c.oid, 'pg_class'), obj_description(c.reltype, 'pg_type'), '')
FROM classes AS c
LEFT JOIN pg_am AS m ON m.oid = c.relam
LEFT JOIN pg_sequence AS s ON s.seqrelid = c.oid
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'c')
UNION ALL
SELECT 'constraint', c.name || ' ' || n.conname,
    concat(pg_get_constraintdef(n.oid), CASE WHEN NOT n.convalidated THEN ' invalid' END,
        CASE WHEN EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgconstraint = n.oid AND t.tgenabled <> 'O') THEN ' trigger disabled' END),
    coalesce(obj_description(n.oid, 'pg_constraint'), '')
FROM classes AS c
INNER JOIN pg_constraint AS n ON n.conrelid = c.oid
WHERE n.contype NOT IN ('t', 'n')
UNION ALL
SELECT 'index', quote_ident(x.relname), pg_get_indexdef(i.indexrelid) || CASE WHEN i.indisvalid THEN '' ELSE ' invalid' END,
    coalesce(obj_description(i.indexrelid, 'pg_class'), '')
FROM classes AS c
INNER JOIN pg_index AS i ON i.indrelid = c.oid
INNER JOIN pg_class AS x ON x.oid = i.indexrelid
UNION ALL
SELECT 'trigger', c.name || ' ' || t.tgname, concat(pg_get_triggerdef(t.oid), ' ', t.tgenabled),
    coalesce(obj_description(t.oid, 'pg_trigger'), '')
FROM classes AS c
INNER JOIN pg_trigger AS t ON t.tgrelid = c.oid
WHERE NOT t.tgisinternal
UNION ALL
SELECT 'rule', c.name || ' ' || r.rulename, concat(pg_get_ruledef(r.oid), ' ', r.ev_enabled), ''
FROM classes AS c
INNER JOIN pg_rewrite AS r ON r.ev_class = c.oid
WHERE c.relkind IN ('r', 'p')
UNION ALL
SELECT 'dictionary', d.dictname, concat_ws(' ', d.dicttemplate, d.dictinitoption), coalesce(obj_description(d.oid, 'pg_ts_dict'), '')
FROM pg_ts_dict AS d
WHERE d.dictnamespace = 'kbsearch'::regnamespace
UNION ALL
SELECT 'configuration', c.cfgname,
    string_agg(concat_ws(' ', m.maptokentype, m.mapseqno, m.mapdict::regdictionary), ', ' ORDER BY m.maptokentype, m.mapseqno),
    coalesce(obj_description(c.oid, 'pg_ts_config'), '')
FROM pg_ts_config AS c
LEFT JOIN pg_ts_config_map AS m ON m.mapcfg = c.oid
WHERE c.cfgnamespace = 'kbsearch'::regnamespace
GROUP BY c.oid, c.cfgname
UNION ALL
SELECT 'operator', o.oid::regoperator::text, o.oprcode::regprocedure::text,
    coalesce(obj_description(o.oid, 'pg_operator'), '')
FROM pg_operator AS o
WHERE o.oprnamespace = 'kbsearch'::regnamespace
    AND NOT EXISTS (SELECT FROM pg_depend AS e WHERE e.classid = 'pg_operator'::regclass AND e.objid = o.oid AND e.deptype = 'e')
UNION ALL
SELECT 'type', quote_ident(t.typname), concat_ws(' ', t.typtype, nullif(t.typbasetype, 0)::regtype, t.typdefault,
        (SELECT string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder) FROM pg_enum AS e WHERE e.enumtypid = t.oid),
        (SELECT string_agg(pg_get_constraintdef(n.oid), ', ' ORDER BY n.conname) FROM pg_constraint AS n WHERE n.contypid = t.oid)),
    coalesce(obj_description(t.oid, 'pg_type'), '')
FROM pg_type AS t
WHERE t.typnamespace = 'kbsearch'::regnamespace AND t.typtype IN ('d', 'e', 'r')
    AND NOT EXISTS (SELECT FROM pg_depend AS e WHERE e.classid = 'pg_type'::regclass AND e.objid = t.oid AND e.deptype = 'e')
UNION ALL
SELECT 'collation', quote_ident(c.collname), concat_ws(' ', c.collprovider, c.collcollate, c.collctype),
    coalesce(obj_description(c.oid, 'pg_collation'), '')
FROM pg_collation AS c
WHERE c.collnamespace = 'kbsearch'::regnamespace"""

_BUILTIN = {
    "kb_builtin_profiles": """SELECT 'profile ' || b.name || '@' || b.version, '', '', to_jsonb(b)::text
FROM kbsearch.kb_builtin_profiles AS b""",
    "kb_builtin_policies": """SELECT 'policy ' || b.name || '@' || b.version, '', '', to_jsonb(b)::text
FROM kbsearch.kb_builtin_policies AS b""",
}
"""By table: its rows, which belong to the definition."""

_SETTLE = "SELECT " + ", ".join(
    f"pg_catalog.set_config({literal(name)}, {literal(value)}, true)"
    for name, value in {
        "search_path": "pg_catalog, pg_temp",
        **{
            name: SETTINGS[name]
            for name in (
                "bytea_output",
                "client_encoding",
                "DateStyle",
                "extra_float_digits",
                "IntervalStyle",
                "quote_all_identifiers",
                "standard_conforming_strings",
                "TimeZone",
            )
        },
    }.items()
)


def inventory(connection: psycopg.Connection[Any], schema: str) -> Inventory:
    """Read the definitions of all objects of a schema, and the built-in profiles and policies where there are any.

    Extensions' objects, the version table and a host's alembic_version are left out.
    """
    with connection.transaction(force_rollback=True):
        return read(Session(connection), schema)


def read(session: Session, schema: str, *, as_schema: str | None = None) -> Inventory:
    """What inventory() does, in a transaction whose settings nobody needs any more.

    Args:
        session: where.
        schema: name of the schema; may be the session's temporary one, which PostgreSQL calls by two names or not at all.
        as_schema: name to put in its place, to compare with a schema of that name.
    """
    name = as_schema or schema
    session.run(_SETTLE)
    if session.value(f"SELECT to_regnamespace({literal(schema)})") is None:
        return {}
    ours = re.compile(rf"\b{schema}\b")
    # What PostgreSQL writes by its parse trees has names with or without the schema, as the session sees them.
    qualifier = re.compile(rf"\b(?:{name}{'|pg_temp' if schema.startswith('pg_temp') else ''})\.")
    rows = session.run(replaced(_OBJECTS, schema))
    for table, query in _BUILTIN.items():
        if any(row[:2] == ("table", table) for row in rows):
            rows += session.run(replaced(query, schema))
    found = {}
    for row in rows:
        kind, place, tree, text = (ours.sub(name, part or "") for part in row)
        title = f"{kind} {name}.{qualifier.sub('', place)}" if place else kind
        found[title] = "\n".join(part for part in (qualifier.sub("", tree), text) if part)
    return found
