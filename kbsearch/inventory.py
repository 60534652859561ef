"""What a schema holds: every object with its definition, as text that two databases of one server version can be compared by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import psycopg

Inventory: TypeAlias = Mapping[str, str]
"""Definition by name, as in {"function kbsearch.search_kb_hybrid_v1": "CREATE OR REPLACE FUNCTION …"}."""

_QUERIES = (
    # Functions, with their comments. Owners and privileges are the host's matter.
    """SELECT 'function ' || p.oid::regprocedure::text,
    CASE WHEN p.prokind = 'a' THEN 'aggregate' ELSE pg_get_functiondef(p.oid) END || E'\\n-- ' || coalesce(obj_description(p.oid, 'pg_proc'), '')
FROM pg_proc AS p
WHERE p.pronamespace = %(schema)s::regnamespace""",
    """SELECT 'column ' || c.oid::regclass::text || '.' || a.attname,
    concat_ws(' ', format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'NOT NULL' END, 'STORAGE ' || a.attstorage::text,
        nullif('IDENTITY ' || a.attidentity::text, 'IDENTITY '), nullif('GENERATED ' || a.attgenerated::text, 'GENERATED '),
        'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), 'COLLATE ' || nullif(a.attcollation, 0)::regcollation::text, col_description(c.oid, a.attnum))
FROM pg_class AS c
INNER JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'c') AND c.relname <> 'alembic_version'""",
    """SELECT CASE c.relkind WHEN 'r' THEN 'table ' WHEN 'p' THEN 'table ' WHEN 'S' THEN 'sequence ' WHEN 'c' THEN 'type ' ELSE 'view ' END
        || c.oid::regclass::text,
    concat_ws(' ', c.relkind::text, c.relpersistence::text, CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END,
        obj_description(c.oid, 'pg_class'))
FROM pg_class AS c
WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'c') AND c.relname <> 'alembic_version'""",
    """SELECT 'constraint ' || n.conrelid::regclass::text || ' ' || n.conname,
    pg_get_constraintdef(n.oid) || CASE WHEN n.convalidated THEN '' ELSE ' invalid' END
FROM pg_constraint AS n
INNER JOIN pg_class AS c ON c.oid = n.conrelid
WHERE c.relnamespace = %(schema)s::regnamespace AND c.relname <> 'alembic_version'""",
    """SELECT 'index ' || i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) || CASE WHEN i.indisvalid THEN '' ELSE ' invalid' END
FROM pg_index AS i
INNER JOIN pg_class AS c ON c.oid = i.indrelid
WHERE c.relnamespace = %(schema)s::regnamespace AND c.relname <> 'alembic_version'""",
    """SELECT 'trigger ' || t.tgrelid::regclass::text || ' ' || t.tgname,
    pg_get_triggerdef(t.oid) || ' ' || t.tgenabled::text || coalesce(' ' || obj_description(t.oid, 'pg_trigger'), '')
FROM pg_trigger AS t
INNER JOIN pg_class AS c ON c.oid = t.tgrelid
WHERE NOT t.tgisinternal AND c.relnamespace = %(schema)s::regnamespace""",
    """SELECT 'dictionary ' || d.dictname, concat_ws(' ', d.dicttemplate::text, d.dictinitoption)
FROM pg_ts_dict AS d
WHERE d.dictnamespace = %(schema)s::regnamespace""",
    """SELECT 'configuration ' || c.cfgname,
    string_agg(concat_ws(' ', m.maptokentype, m.mapseqno, m.mapdict::regdictionary), ', ' ORDER BY m.maptokentype, m.mapseqno)
FROM pg_ts_config AS c
LEFT JOIN pg_ts_config_map AS m ON m.mapcfg = c.oid
WHERE c.cfgnamespace = %(schema)s::regnamespace
GROUP BY c.oid, c.cfgname""",
    """SELECT 'operator ' || o.oid::regoperator::text, o.oprcode::regprocedure::text
FROM pg_operator AS o
WHERE o.oprnamespace = %(schema)s::regnamespace""",
    """SELECT 'type ' || t.oid::regtype::text, concat_ws(' ', t.typtype::text, nullif(t.typbasetype, 0)::regtype::text, t.typdefault)
FROM pg_type AS t
WHERE t.typnamespace = %(schema)s::regnamespace AND t.typtype IN ('d', 'e', 'r')""",
    """SELECT 'collation ' || c.collname, concat_ws(' ', c.collprovider::text, c.collcollate, c.collctype, c.colllocale)
FROM pg_collation AS c
WHERE c.collnamespace = %(schema)s::regnamespace""",
)

_PROFILES = """SELECT 'profile ' || b.name || '@' || b.version, to_jsonb(b)::text
FROM kbsearch.kb_builtin_profiles AS b"""


def inventory(connection: psycopg.Connection[Any], schema: str) -> Inventory:
    """Read the definitions of all objects of a schema, and the built-in ranking profiles where there are any.

    Runs in the connection's transaction, with an empty search path, so that every name comes out qualified.
    """
    found: dict[str, str] = {}
    with connection.transaction(force_rollback=True), connection.cursor() as cursor:
        cursor.execute("SET LOCAL search_path = ''")
        for query in _QUERIES:
            found.update(cursor.execute(query.encode(), {"schema": schema}).fetchall())
        exists = cursor.execute("SELECT to_regclass('kbsearch.kb_builtin_profiles') IS NOT NULL").fetchone()
        if exists is not None and exists[0]:
            found.update(cursor.execute(_PROFILES).fetchall())
    return found
