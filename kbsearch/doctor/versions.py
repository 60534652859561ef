"""Versions and encodings: the server, pgvector, kbsearch itself."""

from __future__ import annotations

import re

import psycopg

from kbsearch import migrate
from kbsearch.doctor.base import Examination, Outcome, Report, check, number
from kbsearch.errors import KBSearchError

OLDEST_SERVER, NEWEST_SERVER = 15, 18
OLDEST_PGVECTOR = (0, 8)
MAX_NAMED = 8
OWNER = "Run kbsearch doctor on the primary server, with the role that owns the schema."


@check("versions.server", f"PostgreSQL {OLDEST_SERVER} to {NEWEST_SERVER}", needs_install=False)
def server(ex: Examination, report: Report) -> Outcome:
    """The server's major version is one that kbsearch is made for."""
    major, minor = divmod(ex.server_version, 10000)
    found = f"PostgreSQL {major}.{minor}"
    if major < OLDEST_SERVER:
        yield report.problem(found, f"Upgrade the server to PostgreSQL {NEWEST_SERVER}.")
    elif major > NEWEST_SERVER:
        yield report.warning(
            f"{found}, which this version of kbsearch was not tested on",
            "Look for a newer kbsearch: pip install --upgrade kbsearch",
        )
    else:
        yield report.ok(found)


@check("versions.pgvector", "the extension vector, version 0.8 or newer", needs_install=False)
def pgvector(ex: Examination, report: Report) -> Outcome:
    """The extension vector is there, new enough, and as new as the library that the server loads."""
    rows = ex.rows(
        """SELECT e.extversion, n.nspname, a.default_version
FROM pg_catalog.pg_extension AS e
INNER JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
LEFT JOIN pg_catalog.pg_available_extensions AS a ON a.name = e.extname
WHERE e.extname = 'vector'"""
    )
    if not rows:
        yield report.problem("the extension is not installed in this database", "CREATE EXTENSION vector;")
        return
    version, schema, available = rows[0]
    found = f"vector {version} in schema {schema}"
    if _numbers(version) < OLDEST_PGVECTOR:
        if available is not None and _numbers(available) >= OLDEST_PGVECTOR:
            yield report.problem(found, "ALTER EXTENSION vector UPDATE;")
        else:
            yield report.problem(
                found, "Install pgvector 0.8 or newer on the server, then: ALTER EXTENSION vector UPDATE;"
            )
    elif available is not None and _numbers(available) > _numbers(version):
        yield report.warning(
            f"{found}; the server's library is {available}",
            "ALTER EXTENSION vector UPDATE;",
            expected="the extension as new as its library",
        )
    else:
        yield report.ok(found)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


@check("versions.encoding", "database encoding UTF8", needs_install=False)
def encoding(ex: Examination, report: Report) -> Outcome:
    """The database stores UTF-8: analysis and hashes are defined on it."""
    found = ex.value("SELECT pg_catalog.current_setting('server_encoding')")
    if found == "UTF8":
        yield report.ok("UTF8")
    else:
        yield report.problem(
            f"{found}",
            "A database's encoding cannot be changed; load a dump into a new one: CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8';",
        )


@check("versions.collation", "the C library's collations as they were when the database was made", needs_install=False)
def collation(ex: Examination, report: Report) -> Outcome:
    """The database's collation did not change under its indexes (an upgrade of the operating system): a unique index may then miss a row."""
    recorded, actual = ex.row(
        """SELECT d.datcollversion, pg_catalog.pg_database_collation_actual_version(d.oid)
FROM pg_catalog.pg_database AS d
WHERE d.datname = pg_catalog.current_database()"""
    )
    if recorded is not None and recorded != actual:
        database = ex.value("SELECT pg_catalog.quote_ident(pg_catalog.current_database())")
        yield report.warning(
            f"the database was made with version {recorded} of its collation, the system has {actual or 'one without versions'}",
            f"REINDEX (VERBOSE) DATABASE {database};\nALTER DATABASE {database} REFRESH COLLATION VERSION;",
        )
    else:
        yield report.ok(f"version {actual}" if actual else "its collation has no versions")


@check("versions.kbsearch", "kbsearch installed, at the newest revision of this package", needs_install=False)
def revision(ex: Examination, report: Report) -> Outcome:
    """The installed revision is the package's newest."""
    head = migrate.head()
    if ex.value("SELECT pg_catalog.to_regnamespace(%(schema)s)", schema=ex.schema) is None:
        yield report.problem(f"there is no schema {ex.schema}", _upgrade(ex))
        return
    if not installed(ex):
        yield report.problem(f"kbsearch is not installed in the schema {ex.schema}", _upgrade(ex))
        return
    if not ex.value(
        "SELECT pg_catalog.has_table_privilege(%(oid)s::pg_catalog.oid, 'SELECT')", oid=ex.oid("kb_alembic_version")
    ):
        yield report.unchecked(
            f"permission denied for table {ex.schema}.kb_alembic_version",
            f"GRANT SELECT ON kbsearch.kb_alembic_version TO {ex.value('SELECT pg_catalog.quote_ident(current_user)')};",
        )
        return
    found = ex.value("SELECT v.version_num FROM kbsearch.kb_alembic_version AS v")
    if found == head:
        yield report.ok(f"revision {found}")
    elif found is None:
        yield report.problem(f"no revision is noted, this package's newest is {head}", _upgrade(ex))
    else:
        yield report.problem(f"revision {found}, this package's newest is {head}", _upgrade(ex))


def installed(ex: Examination) -> bool:
    """Whether the schema has kbsearch in it."""
    return ex.oid("kb_alembic_version") is not None


def _upgrade(ex: Examination) -> str:
    return f"kbsearch db upgrade --dsn …{option(ex)}"


def option(ex: Examination) -> str:
    """How the command line names a schema that is not the default."""
    return "" if ex.schema == "kbsearch" else f" --schema {ex.schema}"


@check("versions.objects", "every function, table, trigger and constraint as this package installs it")
def objects(ex: Examination, report: Report) -> Outcome:
    """Nobody changed the installed objects by hand, and none is missing."""
    try:
        differences = migrate.check(ex.dsn, schema=ex.schema)
    except KBSearchError as error:
        yield report.unchecked(str(error), error.hint or OWNER)
        return
    except psycopg.Error as error:
        yield report.unchecked(error.diag.message_primary or str(error).strip(), OWNER)
        return
    if not differences:
        yield report.ok("no differences")
        return
    named = ", ".join(f"{one.name} ({one.problem})" for one in differences[:MAX_NAMED])
    more = f" and {len(differences) - MAX_NAMED} more" if len(differences) > MAX_NAMED else ""
    yield report.problem(
        f"{number(len(differences), 'difference')}: {named}{more}",
        f"Show all of them: kbsearch db check --dsn …{option(ex)}\n"
        f"Bring each back from the script that installs: kbsearch db sql{option(ex)}",
        details={"differences": [{"name": one.name, "problem": one.problem} for one in differences]},
    )
