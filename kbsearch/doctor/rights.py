"""What a role may do: search, write, maintain, ingest; and the GRANTs that it lacks for it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kbsearch import migrate
from kbsearch.doctor.base import Examination, Outcome, Report, check

READ = (
    "organizations",
    "kb_embedding_spaces",
    "kb_source_kinds",
    "kb_builtin_profiles",
    "kb_ranking_profiles",
    "kb_builtin_policies",
    "kb_arbitration_policies",
    "kb_articles",
    "kb_article_chunks",
    "kb_article_embeddings",
    "kb_postings",
    "kb_corpus_stats",
    "kb_keyword_blocks",
    "kb_keyword_impacts",
    "kb_keyword_changes",
    "kb_cursor_keys",
)
"""Tables that a search reads."""

WRITTEN = ("kb_articles", "kb_article_chunks", "kb_article_embeddings")
"""Tables that applications write."""

FOUNDED = ("organizations", "kb_embedding_spaces", "kb_source_kinds")
"""Tables that whoever makes organisations writes, too."""

KEPT = ("kb_embedding_inputs", "kb_embedding_cache", "kb_embedding_counts", "kb_ingest_sources")
"""Tables in which kbsearch ingest, reembed and search --cache keep what models answered, and how far they are."""

DERIVED = ("kb_postings", "kb_corpus_stats", "kb_keyword_blocks", "kb_keyword_impacts", "kb_keyword_changes")
"""Tables that triggers write, as their owner; compacting and rebuilding writes them as the caller."""

READERS_STAGES = ("text", "retrieve", "fuse", "arbitrate", "search", "tenancy")
"""Folders below sql/functions of what a search calls."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a role has of the rights that something takes.

    Attributes:
        missing: a GRANT for each group of rights it lacks.
        some: it has some of those rights that only this takes.
    """

    missing: Sequence[str]
    some: bool


def functions(stages: Collection[str] | None = None) -> list[str]:
    """Names of the functions below sql/functions, of all stages or of some."""
    found = []
    for file in migrate.files():
        parts = file.split("/")
        if parts[0] == "functions" and (stages is None or parts[1] in stages):
            found.append(parts[-1].removesuffix(".sql"))
    return found


def _schema_usage(ex: Examination) -> list[str]:
    if ex.value(
        "SELECT pg_catalog.has_schema_privilege(%(role)s, %(schema)s, 'USAGE')", role=ex.role, schema=ex.schema
    ):
        return []
    return [f"GRANT USAGE ON SCHEMA kbsearch TO {_quoted(ex)};"]


def _tables(ex: Examination, privilege: str, names: Sequence[str]) -> list[str]:
    """GRANT of a privilege on those of the tables where the role lacks it."""
    missing = lacking(ex, privilege, names)
    return (
        [f"GRANT {privilege} ON {', '.join(f'kbsearch.{name}' for name in missing)} TO {_quoted(ex)};"]
        if missing
        else []
    )


def lacking(ex: Examination, privilege: str, names: Sequence[str]) -> list[str]:
    """Those of the tables that the role lacks a privilege on; tables that are not there are left out."""
    return [
        name
        for (name,) in ex.rows(
            """SELECT c.relname
FROM pg_catalog.pg_class AS c
WHERE c.relnamespace = pg_catalog.to_regnamespace(%(schema)s) AND c.relname = ANY (%(names)s) AND c.relkind IN ('r', 'p')
    AND NOT pg_catalog.has_table_privilege(%(role)s, c.oid, %(privilege)s)
ORDER BY c.relname""",
            schema=ex.schema,
            names=list(names),
            role=ex.role,
            privilege=privilege,
        )
    ]


def _execute(ex: Examination, names: Sequence[str]) -> list[str]:
    """EXECUTE on functions, but not on those of triggers, which act as the owner and fire without it."""
    missing = ex.value(
        """SELECT pg_catalog.count(*)
FROM pg_catalog.pg_proc AS p
WHERE p.pronamespace = pg_catalog.to_regnamespace(%(schema)s) AND p.proname = ANY (%(names)s)
    AND p.prorettype <> 'pg_catalog.trigger'::pg_catalog.regtype AND NOT pg_catalog.has_function_privilege(%(role)s, p.oid, 'EXECUTE')""",
        schema=ex.schema,
        names=list(names),
        role=ex.role,
    )
    if not missing:
        return []
    triggers = ex.value(
        """SELECT pg_catalog.string_agg(pg_catalog.format('kbsearch.%%I()', p.proname), ', ' ORDER BY p.proname)
FROM pg_catalog.pg_proc AS p
WHERE p.pronamespace = pg_catalog.to_regnamespace(%(schema)s) AND p.prorettype = 'pg_catalog.trigger'::pg_catalog.regtype""",
        schema=ex.schema,
    )
    return [
        f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA kbsearch TO {_quoted(ex)};",
        f"REVOKE EXECUTE ON FUNCTION {triggers} FROM {_quoted(ex)};",
    ]


def _extension(ex: Examination) -> list[str]:
    """EXECUTE on what pgvector brings: input, output, distances."""
    schema = ex.value(
        """SELECT pg_catalog.quote_ident(n.nspname)
FROM pg_catalog.pg_extension AS e
INNER JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
WHERE e.extname = 'vector' AND EXISTS (
    SELECT FROM pg_catalog.pg_depend AS d
    INNER JOIN pg_catalog.pg_proc AS p ON p.oid = d.objid
    WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
        AND d.refobjid = e.oid AND d.deptype = 'e' AND NOT pg_catalog.has_function_privilege(%(role)s, p.oid, 'EXECUTE')
)""",
        role=ex.role,
    )
    return [] if schema is None else [f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {_quoted(ex)};"]


def _quoted(ex: Examination) -> str:
    return str(ex.value("SELECT pg_catalog.quote_ident(%(role)s)", role=ex.role))


def to_search(ex: Examination) -> Rights:
    """What a search takes."""
    missing = [
        *_schema_usage(ex),
        *_tables(ex, "SELECT", READ),
        *_execute(ex, functions(READERS_STAGES)),
        *_extension(ex),
    ]
    return Rights(missing, some=len(lacking(ex, "SELECT", READ)) < len(READ))


def to_write(ex: Examination) -> Rights:
    """What writing articles and vectors takes, beside what a search takes."""
    missing = [
        *_schema_usage(ex),
        *_tables(ex, "SELECT", ["organizations", "kb_embedding_spaces", *WRITTEN]),
        *_tables(ex, "INSERT", WRITTEN),
        *_tables(ex, "UPDATE", WRITTEN),
        *_tables(ex, "DELETE", WRITTEN),
        *_execute(ex, functions()),
        *_extension(ex),
    ]
    kept = sum(len(lacking(ex, privilege, WRITTEN)) for privilege in ("INSERT", "UPDATE", "DELETE"))
    return Rights(missing, some=kept < 3 * len(WRITTEN))


def to_found(ex: Examination) -> Rights:
    """What making organisations, embedding spaces and kinds takes."""
    missing = [
        *_schema_usage(ex),
        *_tables(ex, "SELECT", FOUNDED),
        *_tables(ex, "INSERT", FOUNDED),
        *_tables(ex, "UPDATE", FOUNDED),
        *_tables(ex, "DELETE", FOUNDED),
        *_execute(ex, functions()),
    ]
    kept = sum(len(lacking(ex, privilege, FOUNDED)) for privilege in ("INSERT", "UPDATE", "DELETE"))
    return Rights(missing, some=kept < 3 * len(FOUNDED))


def to_maintain(ex: Examination) -> Rights:
    """What compacting, rebuilding and calibrating takes."""
    read = ("organizations", "kb_article_chunks", *DERIVED)
    sequence = ex.value(
        "SELECT pg_catalog.has_sequence_privilege(%(role)s, %(sequence)s::pg_catalog.oid, 'USAGE')",
        role=ex.role,
        sequence=ex.oid("kb_segment_seq"),
    )
    missing = [
        *_schema_usage(ex),
        *_tables(ex, "SELECT", read),
        *_tables(ex, "INSERT", DERIVED),
        *_tables(ex, "DELETE", DERIVED),
        *_tables(ex, "UPDATE", ["organizations"]),
        *([] if sequence else [f"GRANT USAGE ON SEQUENCE kbsearch.kb_segment_seq TO {_quoted(ex)};"]),
        *_execute(ex, functions()),
    ]
    kept = sum(len(lacking(ex, privilege, DERIVED)) for privilege in ("INSERT", "DELETE"))
    return Rights(missing, some=bool(sequence) or kept < 2 * len(DERIVED))


def to_ingest(ex: Examination, *, first: bool = True) -> Rights:
    """What kbsearch ingest and reembed take beside what a search takes: to write, and the cache; first: to make an organisation, too."""
    kept = [
        *_tables(ex, "SELECT", KEPT),
        *_tables(ex, "INSERT", KEPT),
        *_tables(ex, "UPDATE", ["kb_embedding_counts", "kb_ingest_sources"]),
        *_tables(ex, "DELETE", KEPT),
    ]
    founding = [*to_found(ex).missing, *to_maintain(ex).missing] if first else []
    missing = list(dict.fromkeys([*to_write(ex).missing, *founding, *kept]))
    lacked = sum(len(lacking(ex, privilege, KEPT)) for privilege in ("INSERT", "DELETE"))
    return Rights(missing, some=lacked < 2 * len(KEPT))


def to_log(ex: Examination) -> Rights:
    """What logging arbitrations takes."""
    log = ["kb_arbitration_log"]
    missing = [
        *_schema_usage(ex),
        *_tables(ex, "SELECT", ["organizations", *log]),
        *_tables(ex, "INSERT", log),
        *_execute(ex, functions(("text", "arbitrate"))),
    ]
    return Rights(missing, some=not lacking(ex, "INSERT", log))


@check("rights.search", "the role may search")
def search(ex: Examination, report: Report) -> Outcome:
    """The role can call the search functions."""
    rights = to_search(ex)
    if rights.missing:
        yield report.problem(f"role {ex.role} may not search", "\n".join(rights.missing))
    else:
        yield report.ok(f"role {ex.role} may search")


@check("rights.write", "all rights that writing takes, or none")
def write(ex: Examination, report: Report) -> Outcome:
    """The role can write source tables, or is a reader."""
    yield from _all_or_none(ex, report, to_write(ex), "write articles")


@check("rights.organizations", "all rights that making organisations takes, or none")
def found(ex: Examination, report: Report) -> Outcome:
    """The role can make organisations, embedding spaces and kinds, or leaves that to an admin."""
    yield from _all_or_none(ex, report, to_found(ex), "make organisations")


@check("rights.maintain", "all rights that compacting and rebuilding take, or none")
def maintain(ex: Examination, report: Report) -> Outcome:
    """The role can compact and rebuild, or leaves that to the owner."""
    yield from _all_or_none(ex, report, to_maintain(ex), "compact, rebuild and calibrate the index")


@check("rights.ingest", "all rights that ingesting with a cache of vectors takes, or none")
def ingest(ex: Examination, report: Report) -> Outcome:
    """The role can run kbsearch ingest and reembed, which keep vectors in the cache, or leaves that to others."""
    rights = to_ingest(ex)
    if rights.missing and not to_ingest(ex, first=False).missing:
        yield report.ok(
            f"role {ex.role} may ingest into organisations that were loaded once; for a first load it takes: {' '.join(rights.missing)}"
        )
    else:
        yield from _all_or_none(ex, report, rights, "ingest")


@check("rights.log", "all rights that logging arbitrations takes, or none")
def log(ex: Examination, report: Report) -> Outcome:
    """The role can log arbitrations, or others do; looked at where an organisation keeps such a log."""
    may_look = not lacking(ex, "SELECT", ["organizations"]) and not _schema_usage(ex)
    kept = "SELECT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.arbitration_log <> 'off')"
    if may_look and not ex.value(kept):
        yield report.ok("no organisation keeps a log of arbitrations")
    else:
        yield from _all_or_none(ex, report, to_log(ex), "log arbitrations")


def _all_or_none(ex: Examination, report: Report, rights: Rights, what: str) -> Outcome:
    if not rights.missing:
        yield report.ok(f"role {ex.role} may {what}")
    elif rights.some:
        yield report.warning(f"role {ex.role} has some of the rights to {what}, not all", "\n".join(rights.missing))
    else:
        yield report.ok(f"role {ex.role} may not {what}; that would take: {' '.join(rights.missing)}")


@check("rights.extension", "USAGE on the schema of pgvector, which naming the type vector takes", needs_install=False)
def extension(ex: Examination, report: Report) -> Outcome:
    """The role can name pgvector's type: casts, adapters and PostgREST do; kbsearch's functions take a vector as text."""
    rows = ex.rows(
        """SELECT n.nspname, pg_catalog.quote_ident(n.nspname), pg_catalog.has_schema_privilege(%(role)s, n.oid, 'USAGE')
FROM pg_catalog.pg_extension AS e
INNER JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
WHERE e.extname = 'vector'""",
        role=ex.role,
    )
    for name, quoted, usage in rows:
        if usage:
            yield report.ok(f"role {ex.role} may use the schema {name}")
        else:
            yield report.warning(
                f"role {ex.role} may not use the schema {name}: casts ::{name}.vector and PostgREST fail",
                f"GRANT USAGE ON SCHEMA {quoted} TO {_quoted(ex)};",
            )


@check("rights.rows", "no row-level security that leaves a search without rows")
def rows_hidden(ex: Examination, report: Report) -> Outcome:
    """Row-level security without a policy hides every row from all but the owner, and a search then finds nothing."""
    hidden = ex.rows(
        """SELECT c.relname, NOT EXISTS (SELECT FROM pg_catalog.pg_policy AS p WHERE p.polrelid = c.oid AND p.polcmd IN ('r', '*'))
FROM pg_catalog.pg_class AS c
INNER JOIN pg_catalog.pg_roles AS r ON r.rolname = %(role)s
WHERE c.relnamespace = pg_catalog.to_regnamespace(%(schema)s) AND c.relname = ANY (%(names)s) AND c.relrowsecurity
    AND NOT (r.rolsuper OR r.rolbypassrls)
    AND (c.relforcerowsecurity OR NOT pg_catalog.pg_has_role(r.oid, c.relowner, 'USAGE'))
ORDER BY c.relname""",
        schema=ex.schema,
        role=ex.role,
        names=list(READ),
    )
    blind = [name for name, no_policy in hidden if no_policy]
    if blind:
        yield report.problem(
            f"row-level security is on without a policy for reading: role {ex.role} sees no row of {', '.join(blind)}",
            "\n".join(
                f"ALTER TABLE kbsearch.{name} DISABLE ROW LEVEL SECURITY;  -- or CREATE POLICY … ON kbsearch.{name} FOR SELECT …"
                for name in blind
            ),
        )
    elif hidden:
        yield report.ok(f"policies decide which rows role {ex.role} sees of {', '.join(name for name, _ in hidden)}")
    else:
        yield report.ok(f"no row is hidden from role {ex.role}")


@check("rights.unsecured", "row-level security on every table with an organisation's rows, or on none")
def unsecured(ex: Examination, report: Report) -> Outcome:
    """A table that came with an upgrade, or one whose row-level security somebody switched off, tells every organisation's rows to all."""
    tables = ex.rows(
        r"""SELECT
    c.relname,
    c.relrowsecurity AND c.relforcerowsecurity AND p.polname IS NOT NULL AS is_secured,
    (pg_catalog.regexp_match(pg_catalog.pg_get_expr(p.polqual, p.polrelid), $$find_kb_bound_organization_v[0-9]+\(([^)]*)\)$$))[1]
FROM pg_catalog.pg_class AS c
INNER JOIN pg_catalog.pg_attribute AS a
    ON a.attrelid = c.oid AND NOT a.attisdropped AND a.attname = CASE c.relname WHEN 'organizations' THEN 'id' ELSE 'org_id' END
LEFT JOIN pg_catalog.pg_policy AS p ON p.polrelid = c.oid AND p.polname = 'kb_bound'
WHERE c.relnamespace = pg_catalog.to_regnamespace(%(schema)s) AND c.relkind IN ('r', 'p')
ORDER BY c.relname""",
        schema=ex.schema,
    )
    bound = next((arguments for _, secured, arguments in tables if secured and arguments), None)
    bare = [name for name, secured, _ in tables if not secured]
    if bound is None:
        yield report.ok("row-level security of enable_kb_row_security_v1 is not on")
    elif bare:
        yield report.problem(
            f"row-level security is on, and not for {', '.join(bare)}: whoever may read there reads all organisations' rows",
            f"SELECT kbsearch.enable_kb_row_security_v1({bound});",
        )
    else:
        yield report.ok(f"row-level security is on for all {len(tables)} tables with an organisation's rows")
