"""The SQL reference: pages made from the catalog and the COMMENTs of an installed kbsearch, so that they say what is installed.

A function whose COMMENT has a line `Arguments:` or `Errors:` is one that people call; all others are internals. The form of such a
COMMENT: a summary; then headings at the beginning of a line (`Arguments:`, `Columns:` or `Returns:`, `Errors:`), each followed by text on
its line or by one line an item, `name: text`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import psycopg

from kbsearch import migrate

STAGES = {
    "search": "Searching",
    "snapshot": "Stored rankings",
    "tenancy": "Row-level security, rights and keys",
    "arbitrate": "Arbitration",
    "explain": "Explaining",
    "ingest": "Writing articles",
    "embed": "Embedding spaces",
    "index": "Maintaining the index",
}
"""Folders of sql/functions as headings; others are headed by the folder's name."""

KEPT = ("kb_alembic_version", "kb_search_snapshots", "kb_search_snapshot_blocks", "kb_cursor_keys")
"""Tables that only kbsearch's own functions write, beside those whose COMMENT begins with `Derived.`"""

FUNCTIONS = """SELECT
    p.proname,
    coalesce(pg_catalog.obj_description(p.oid, 'pg_proc'), ''),
    pg_catalog.format_type(p.prorettype, NULL),
    p.proretset,
    CASE p.provolatile WHEN 'i' THEN 'IMMUTABLE' WHEN 's' THEN 'STABLE' ELSE 'VOLATILE' END,
    p.prosecdef,
    ARRAY(
        SELECT pg_catalog.jsonb_build_array(
            coalesce(p.proargnames[a.n], ''),
            coalesce(p.proargmodes[a.n]::text, 'i'),
            pg_catalog.format_type(a.kind, NULL),
            pg_catalog.pg_get_function_arg_default(p.oid, a.n::integer)
        )
        FROM pg_catalog.unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) WITH ORDINALITY AS a (kind, n)
        ORDER BY a.n
    )
FROM pg_catalog.pg_proc AS p
WHERE p.pronamespace = 'kbsearch'::pg_catalog.regnamespace
ORDER BY p.proname COLLATE "C", p.oid"""

RELATIONS = """SELECT
    c.relname,
    c.relkind::text,
    coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), ''),
    ARRAY(
        SELECT pg_catalog.jsonb_build_array(
            a.attname,
            pg_catalog.format_type(a.atttypid, a.atttypmod),
            a.attnotnull,
            CASE
                WHEN a.attidentity <> '' THEN 'identity'
                WHEN a.attgenerated <> '' THEN 'generated'
                ELSE pg_catalog.pg_get_expr(d.adbin, d.adrelid)
            END,
            coalesce(pg_catalog.col_description(c.oid, a.attnum), '')
        )
        FROM pg_catalog.pg_attribute AS a
        LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        ORDER BY a.attnum
    ),
    ARRAY(
        SELECT pg_catalog.pg_get_constraintdef(k.oid, true)
        FROM pg_catalog.pg_constraint AS k
        WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u', 'f', 'c')
        ORDER BY pg_catalog.array_position('{p,u,f,c}'::text[], k.contype::text), k.conname
    )
FROM pg_catalog.pg_class AS c
WHERE c.relnamespace = 'kbsearch'::pg_catalog.regnamespace AND c.relkind IN ('r', 'p', 'v', 'c')
ORDER BY c.relname COLLATE "C" """

ALIASES = {
    "character varying": "varchar",
    "timestamp with time zone": "timestamptz",
}
_HEADING = re.compile(r"^(Arguments|Columns|Returns|Errors):[ \t]*(.*)$")
_ITEM = re.compile(r"^([a-z][\w.]*): (.+)$")


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument or a result column, as the catalog has it."""

    name: str
    type: str
    default: str | None


@dataclass(frozen=True, slots=True)
class Section:
    """What stands under a heading of a COMMENT."""

    text: str = ""
    items: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Function:
    """A function, with its COMMENT taken apart.

    Attributes:
        stage: folder of its file under sql/functions; empty where it has no file there.
    """

    name: str
    stage: str
    comment: str
    returns: str
    arguments: tuple[Argument, ...]
    columns: tuple[Argument, ...]
    volatility: str
    definer: bool

    @property
    def public(self) -> bool:
        """Whether people call it."""
        return not self.sections.keys().isdisjoint(("Arguments", "Errors"))

    @property
    def summary(self) -> str:
        """The COMMENT before its first heading."""
        return _take_apart(self.comment)[0]

    @property
    def sections(self) -> dict[str, Section]:
        """What follows, by heading."""
        return _take_apart(self.comment)[1]

    def gaps(self) -> list[str]:
        """What the COMMENT does not say, or says of what there is not: nothing for a complete one."""
        said = self.sections
        wanted = {
            "Arguments": {one.name for one in self.arguments},
            "Columns": {one.name for one in self.columns},
        }
        gaps = [
            f"{self.name}: {heading}: {name} {'is not described' if name in names else 'does not exist'}"
            for heading, names in wanted.items()
            for name in sorted(names ^ set(said.get(heading, Section()).items))
        ]
        if not self.columns and self.returns != "void" and "Returns" not in said:
            gaps.append(f"{self.name}: Returns: is missing")
        if "Errors" not in said:
            gaps.append(f"{self.name}: Errors: is missing")
        return gaps


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or a field of a type."""

    name: str
    type: str
    required: bool
    default: str | None
    comment: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, a view or a composite type (kind r, v or c)."""

    name: str
    kind: str
    comment: str
    columns: tuple[Column, ...]
    constraints: tuple[str, ...]


def read_functions(connection: psycopg.Connection[Any]) -> list[Function]:
    """All functions of the installed schema, by name."""
    stages = {file.stem: file.parent.name for file in (migrate.sql_root() / "functions").rglob("*.sql")}
    functions = []
    for name, comment, returns, is_set, volatility, definer, arguments in connection.execute(FUNCTIONS).fetchall():
        given = [(mode, Argument(one, _type(kind), _literal(default))) for one, mode, kind, default in arguments]
        functions.append(
            Function(
                name=name,
                stage=stages.get(name, ""),
                comment=comment,
                returns=f"SETOF {_type(returns)}" if is_set else _type(returns),
                arguments=tuple(one for mode, one in given if mode in "ibv"),
                columns=tuple(one for mode, one in given if mode in "otb"),
                volatility=volatility,
                definer=definer,
            )
        )
    return functions


def read_relations(connection: psycopg.Connection[Any]) -> list[Relation]:
    """All tables, views and composite types of the installed schema, by name."""
    return [
        Relation(
            name=name,
            kind=kind,
            comment=comment,
            columns=tuple(
                Column(one, _type(of), required, _literal(default), text)
                for one, of, required, default, text in columns
            ),
            constraints=tuple(_strip(one) for one in constraints),
        )
        for name, kind, comment, columns, constraints in connection.execute(RELATIONS).fetchall()
    ]


def functions_page(functions: Sequence[Function]) -> str:
    """The page of the functions: those that people call in full, the rest folded."""
    public = [one for one in functions if one.public]
    stages = sorted({one.stage for one in public}, key=lambda stage: ([*STAGES, stage].index(stage), stage))
    lines = [
        "# SQL functions",
        "",
        (
            "Made from the catalog and the COMMENTs of an install; `\\df+ kbsearch.` in psql shows the same. Call them with named arguments "
            "(`p_org_id => 1`): names never change their meaning, and what a released function does never changes. "
            "The SQLSTATEs are explained in [Errors](../errors.md)."
        ),
        "",
    ]
    for stage in stages:
        lines += [f"## {STAGES.get(stage, stage.capitalize())}", ""]
        # what the stage is named after first, and of that what everything else refers to
        for one in sorted(public, key=lambda one: (not one.name.startswith(stage), len(one.name), one.name)):
            if one.stage == stage:
                lines += _public(one)
    lines += [
        "## Internals",
        "",
        (
            "What the functions above are made of, and the triggers' functions. They are listed to be read, not to be called: nothing promises "
            "that the next version still uses them."
        ),
        "",
    ]
    for one in functions:
        if not one.public:
            lines += _folded(one)
    return "\n".join(lines)


def tables_page(relations: Sequence[Relation]) -> str:
    """The page of the tables, those of the applications before those that kbsearch keeps."""
    tables = [one for one in relations if one.kind in "rpv" and one.comment]
    kept = [one for one in tables if one.comment.startswith("Derived.") or one.name in KEPT]
    lines = [
        "# Tables",
        "",
        (
            "Made from the catalog and the COMMENTs of an install. Applications may write the source tables with plain SQL; "
            "triggers keep the derived ones in the same transaction."
        ),
        "",
    ]
    for heading, ones in (
        ("Source tables", [one for one in tables if one not in kept]),
        ("Tables that kbsearch keeps", kept),
        ("Types", [one for one in relations if one.kind == "c"]),
    ):
        lines += [f"## {heading}", ""]
        for one in ones:
            lines += _table(one)
    return "\n".join(lines)


def prose(text: str) -> str:
    """Text of a COMMENT as Markdown: identifiers, JSON and tags as code, everything else as it stands."""
    parts = re.split(r"(\{[^{}]*\}|<\w+>|\b(?:[a-z]+\.)*[a-z]\w*(?:_\w+)+(?:@\d+)?|\blegs\.[\w.]*\w)", text)
    return "".join(
        f"`{part}`" if number % 2 else re.sub(r"([\\*_\[\]`])", r"\\\1", escape(part, quote=False))
        for number, part in enumerate(parts)
    ).replace("|", "\\|")


def _public(one: Function) -> list[str]:
    said = one.sections
    arguments = [_signature(argument) for argument in one.arguments]
    lines = [
        f"### {one.name} {{ #{one.name} }}",
        "",
        prose(one.summary),
        "",
        "```sql",
        f"kbsearch.{one.name}(",
        ",\n".join(f"    {argument}" for argument in arguments),
        f") RETURNS {'TABLE (…)' if one.columns else one.returns}",
        "```",
        "",
    ]
    if one.arguments:
        lines += ["| argument | type | default | |", "|---|---|---|---|"]
        for argument in one.arguments:
            default = f"`{argument.default}`" if argument.default is not None else "required"
            text = prose(said.get("Arguments", Section()).items.get(argument.name, ""))
            lines.append(f"| `{argument.name}` | {argument.type} | {default} | {text} |")
        lines.append("")
    if one.columns:
        lines += ["| column | type | |", "|---|---|---|"]
        columns = said.get("Columns", Section()).items
        lines += [
            f"| `{column.name}` | {column.type} | {prose(columns.get(column.name, ''))} |" for column in one.columns
        ]
        lines.append("")
    elif "Returns" in said:
        returns = said["Returns"]
        if returns.text:
            lines += [f"Returns {prose(returns.text)}", ""]
        if returns.items:
            lines += ["| field of the result | |", "|---|---|"]
            lines += [f"| `{name}` | {prose(text)} |" for name, text in returns.items.items()]
            lines.append("")
    if "Errors" in said:
        errors = re.sub(r"\bKB[A-Z0-9]{3}\b", r"[`\g<0>`](../errors.md#\g<0>)", prose(said["Errors"].text))
        lines += [f"Errors: {errors}", ""]
    return lines


def _folded(one: Function) -> list[str]:
    arguments = ", ".join(_signature(argument) for argument in one.arguments)
    columns = ", ".join(_signature(column) for column in one.columns)
    returns = f"TABLE ({columns})" if columns else one.returns
    security = " SECURITY DEFINER" if one.definer else ""
    return [
        f'??? note "{one.name}"',
        "",
        f"    {prose(' '.join(one.comment.split()))}",
        "",
        "    ```sql",
        f"    kbsearch.{one.name}({arguments}) RETURNS {returns} {one.volatility}{security}",
        "    ```",
        "",
    ]


def _table(one: Relation) -> list[str]:
    described = any(column.comment for column in one.columns)
    lines = [f"### {one.name} {{ #{one.name} }}", "", prose(one.comment), ""]
    heads = ["column", "type", *([] if one.kind == "c" else ["", "default"]), *([""] if described else [])]
    lines += [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for column in one.columns:
        cells = [f"`{column.name}`", column.type]
        if one.kind != "c":
            cells += ["NOT NULL" if column.required else "", f"`{_cell(column.default)}`" if column.default else ""]
        if described:
            cells.append(prose(column.comment))
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    if one.constraints:
        lines += [*(f"- `{constraint}`" for constraint in one.constraints), ""]
    return lines


def _signature(argument: Argument) -> str:
    default = "" if argument.default is None else f" DEFAULT {argument.default}"
    return f"{argument.name} {argument.type}{default}".strip()


def _take_apart(comment: str) -> tuple[str, dict[str, Section]]:
    summary: list[str] = []
    sections: dict[str, Section] = {}
    current: Section | None = None
    for line in comment.splitlines():
        if heading := _HEADING.match(line):
            current = sections[heading[1]] = Section(text=heading[2])
        elif current is None:
            summary.append(line)
        elif item := _ITEM.match(line):
            current.items[item[1]] = item[2]
        elif line.strip():
            raise ValueError(f"a COMMENT has a line that is neither a heading nor `name: text`: {line!r}")
    return "\n".join(summary).strip(), sections


def _type(name: str) -> str:
    """A type as people write it: without the schema of an extension, short where there is a short name."""
    bare = re.sub(r"^\w+\.(?=\w+(\[\])?$)", "", name)
    return ALIASES.get(bare, bare)


def _literal(default: str | None) -> str | None:
    """A default as people write it: without the casts that the catalog adds."""
    return None if default is None else _strip(default)


def _strip(expression: str) -> str:
    short = re.sub(r"::(?:\w+\.)?(?:double precision|[a-z_]+)(?:\[\])?", "", expression)
    return re.sub(r"\bkbsearch\.", "", short)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def pages(dsn: str) -> Iterable[tuple[Path, str]]:
    """The pages, each with its place under docs/."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path = ''")
        functions, relations = read_functions(connection), read_relations(connection)
    yield Path("reference/functions.md"), functions_page(functions)
    yield Path("reference/tables.md"), tables_page(relations)
