"""The name of the schema that kbsearch lives in: `kbsearch`, or another that the host chooses.

All SQL, in files and in this package, says `kbsearch`; in_schema() puts the chosen name in its place.
"""

from __future__ import annotations

import re

from kbsearch.errors import MigrationError

DEFAULT = "kbsearch"

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_WORD = re.compile(rf"\b{DEFAULT}\b")

# Names that do not go without quotes before a table, a type, a function or a setting, in SQL or in PL/pgSQL (PostgreSQL 15 to 18).
_RESERVED = frozenset(
    """all analyse analyze and any array as asc asymmetric authorization begin between bigint binary bit boolean both by case
cast char character check coalesce collate collation column concurrently constraint create cross current_catalog current_date
current_role current_schema current_time current_timestamp current_user dec decimal declare default deferrable desc distinct do
else end except execute exists extract false fetch float for foreach foreign freeze from full grant greatest group grouping
having if ilike in initially inner inout int integer intersect interval into is isnull join json json_array json_arrayagg
json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value lateral leading least left
like limit localtime localtimestamp loop merge_action national natural nchar new none normalize not notnull null nullif numeric
off offset old on only or order out outer overlaps overlay placing position precision primary real references returning right row
select session_user setof similar smallint some strict substring symmetric system_user table tablesample then time timestamp to
trailing treat trim true union unique user using values varchar variadic verbose when where while window with xmlattributes
xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable""".split()  # noqa: SIM905
)
# The server's own schema, and prefixes of settings that PL/pgSQL and pgvector keep for themselves.
_TAKEN = frozenset(("information_schema", "plpgsql", "hnsw", "ivfflat"))


def check_schema(name: str) -> str:
    """Return the name if kbsearch may be installed under it.

    Args:
        name: 1 to 63 lower-case letters, digits and underscores, no digit first; no reserved word of SQL or PL/pgSQL, and not `pg_…`.

    Raises:
        MigrationError: it may not.
    """
    if not _NAME.fullmatch(str(name)):
        problem = "is no name for kbsearch's schema"
    elif name in _RESERVED:
        problem = "is a reserved word"
    elif name.startswith("pg_") or name in _TAKEN:
        problem = "is PostgreSQL's or pgvector's own"
    else:
        return name
    raise MigrationError(
        f"the schema name {name!r} {problem}",
        detail={"schema": str(name)},
        hint="1 to 63 lower-case letters, digits and underscores, no digit first; no reserved word, and not pg_…: kbsearch, help_search.",
    )


def in_schema(sql: str, schema: str = DEFAULT) -> str:
    """Return SQL text that says `kbsearch` as it is for another schema: every occurrence of the word is replaced.

    In names (`kbsearch.organizations`), settings (`kbsearch.locked_org_id`), texts of locks, hints and comments alike, so that two installations
    side by side share nothing. Values belong in parameters and never in the text.
    """
    return replaced(sql, check_schema(schema))


def replaced(sql: str, name: str) -> str:
    """What in_schema() does, for names that nobody may choose, too: a session's temporary schema."""
    return sql if name == DEFAULT else _WORD.sub(name, sql)
