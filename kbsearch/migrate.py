"""Installs, upgrades, removes and checks the SQL side.

Revisions (alembic/) name files below sql/ and hold no SQL. Both directories are in the wheel; in an editable install they are read from the checkout.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import alembic.util
import psycopg
import sqlalchemy
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from alembic import command, op
from kbsearch.errors import MigrationError, NotInstalledError
from kbsearch.inventory import Inventory, inventory

SCHEMA = "kbsearch"

PREPARE = (
    f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
    f"COMMENT ON SCHEMA {SCHEMA} IS 'kbsearch: hybrid search. Made and changed by its migrations only.'",
    "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public",
)
"""Before the first revision. The extension is left alone when kbsearch is removed: others may use it."""

LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(7235420871)"
"""One migration at a time in a database; who comes second finds it done. The number means nothing."""

SET_SEARCH_PATH = f"""SELECT pg_catalog.set_config(
    'search_path', '{SCHEMA}, ' || pg_catalog.quote_ident(n.nspname) || ', pg_catalog', true
)
FROM pg_catalog.pg_extension AS e
INNER JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
WHERE e.extname = 'vector'"""
"""For the rest of the transaction: the files see kbsearch, the schema of the vector type, and nothing of the caller's."""

TOUCH_VECTOR = "SELECT '[1]'::vector"
"""Loads the library: before that, a role that is no superuser may not name its settings in CREATE FUNCTION … SET."""

RESET_SEARCH_PATH = "SELECT pg_catalog.set_config('search_path', '', true)"


_ALEMBIC = threading.Lock()
"""Alembic keeps the running migration in its module: one thread at a time."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not as a fresh install has it.

    Attributes:
        name: what and where, as in `function kbsearch.search_kb_hybrid_v1`.
        problem: missing, unexpected or different.
        installed: its definition in the database, None if missing.
        expected: its definition in a fresh install, None if unexpected.
    """

    name: str
    problem: str
    installed: str | None
    expected: str | None


def sql_root() -> Path:
    """Directory of the SQL files: in the installed package, else in the checkout."""
    return _resource("sql")


def alembic_root() -> Path:
    """Directory of the revisions: in the installed package, else in the checkout."""
    return _resource("alembic")


def _resource(name: str) -> Path:
    package = Path(__file__).resolve().parent
    for candidate in (package / f"_{name}", package.parent / name):
        if candidate.is_dir():
            return candidate
    raise MigrationError(f"the directory {name!r} is neither in the package nor in a checkout: {package}")


def config(*, output: io.StringIO | None = None) -> Config:
    """Configuration of alembic for our revisions."""
    result = Config(output_buffer=output)
    result.set_main_option("script_location", str(alembic_root()).replace("%", "%%"))
    return result


def engine(dsn: str) -> sqlalchemy.Engine:
    """An engine for one connection, from a connection string of libpq's."""
    return sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=sqlalchemy.NullPool
    )


def head() -> str:
    """The newest revision."""
    found = ScriptDirectory.from_config(config()).get_current_head()
    if found is None:
        raise MigrationError("there are no revisions")
    return found


def files() -> list[str]:
    """Every file of every revision, in the order of installation."""
    script = ScriptDirectory.from_config(config())
    revisions = reversed(list(script.walk_revisions("base", "heads")))
    return [file for revision in revisions for file in revision.module.FILES]


def file_text(file: str) -> str:
    """Text of a file named by a revision, relative to sql/."""
    return (sql_root() / file).read_text(encoding="utf-8")


# What the revisions and env.py call.


def run_files(names: Sequence[str]) -> None:
    """Run SQL files, inside a revision."""
    context = op.get_context()
    _run(context, SET_SEARCH_PATH)
    _run(context, TOUCH_VECTOR)
    for name in names:
        if context.as_sql:
            _run(context, f"-- {name}\n{file_text(name)}".rstrip().removesuffix(";"))
        else:
            with _named(name):
                _run(context, file_text(name))
    _run(context, RESET_SEARCH_PATH)


def drop_all() -> None:
    """Remove every object of ours but the schema and alembic's own table, which follow when no revision is left."""
    context = op.get_context()
    if context.as_sql:
        return
    connection = op.get_bind()
    dependents = [str(row[0]) for row in connection.exec_driver_sql(_DEPENDENTS)]
    if dependents:
        raise MigrationError(
            f"objects outside the schema {SCHEMA} depend on it: {', '.join(dependents)}",
            detail={"dependents": dependents},
            hint="Drop them first; kbsearch drops nothing that is not its own.",
        )


_DEPENDENTS = f"""SELECT DISTINCT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid)
FROM pg_catalog.pg_depend AS d
LEFT JOIN pg_catalog.pg_constraint AS c ON d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND c.oid = d.objid
LEFT JOIN pg_catalog.pg_rewrite AS r ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND r.oid = d.objid
LEFT JOIN pg_catalog.pg_class AS v ON v.oid = coalesce(r.ev_class, nullif(c.conrelid, 0))
LEFT JOIN pg_catalog.pg_proc AS p ON d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND p.oid = d.objid
WHERE d.deptype = 'n'
    AND (
        (d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
            AND d.refobjid IN (SELECT t.oid FROM pg_catalog.pg_class AS t WHERE t.relnamespace = '{SCHEMA}'::pg_catalog.regnamespace))
        OR (d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass
            AND d.refobjid IN (SELECT f.oid FROM pg_catalog.pg_proc AS f WHERE f.pronamespace = '{SCHEMA}'::pg_catalog.regnamespace))
    )
    AND coalesce(v.relnamespace, p.pronamespace) <> '{SCHEMA}'::pg_catalog.regnamespace
ORDER BY 1"""


def run_online(context: Any, connection: sqlalchemy.Connection) -> None:
    """Run the revisions on a connection, in the transaction that it is in."""
    context.configure(
        connection=connection, version_table_schema=SCHEMA, include_name=include_name, transactional_ddl=True
    )
    migration: MigrationContext = context.get_context()
    before = connection.exec_driver_sql("SELECT pg_catalog.current_setting('search_path')").scalar_one()
    changes = not migration.opts.get("dont_mutate", False)
    if changes:
        _check_server(connection)
        connection.exec_driver_sql(LOCK)
        for statement in PREPARE:
            connection.exec_driver_sql(statement)
    with context.begin_transaction():
        context.run_migrations()
    if changes and not migration.get_current_heads():
        connection.exec_driver_sql(f"DROP SCHEMA {SCHEMA} CASCADE")
    connection.exec_driver_sql("SELECT pg_catalog.set_config('search_path', %s, true)", (before,))


def run_offline(context: Any) -> None:
    """Print the revisions as a script that runs in one transaction."""
    context.configure(
        dialect_name="postgresql",
        version_table_schema=SCHEMA,
        transactional_ddl=True,
        literal_binds=True,
        dialect_opts={"paramstyle": "named"},
    )
    migration: MigrationContext = context.get_context()
    down = not context.get_revision_argument()
    with context.begin_transaction():
        if not context.get_starting_revision_argument():
            for statement in PREPARE:
                _run(migration, statement)
        context.run_migrations()
        if down:
            _run(migration, f"DROP SCHEMA {SCHEMA} CASCADE")


def _run(context: MigrationContext, sql: str) -> None:
    if context.as_sql:
        context.impl.static_output(sql.rstrip() + ";")
        return
    connection = context.connection
    assert connection is not None  # noqa: S101  (only offline has none)
    connection.execution_options(no_parameters=True).exec_driver_sql(sql)


def _check_server(connection: sqlalchemy.Connection) -> None:
    encoding = connection.exec_driver_sql("SELECT pg_catalog.current_setting('server_encoding')").scalar_one()
    if encoding != "UTF8":
        raise MigrationError(
            f"the database's encoding is {encoding}; kbsearch needs UTF8",
            hint="CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8'",
        )


def include_name(name: str | None, kind: str, parents: Mapping[str, str | None]) -> bool:
    """For a host's own alembic with include_schemas: pass as include_name, and autogenerate leaves the schema kbsearch alone."""
    return not (name == SCHEMA if kind == "schema" else parents.get("schema_name") == SCHEMA)


# What people and tests call.


def upgrade(dsn: str, revision: str = "head") -> None:
    """Install kbsearch, or bring an installed one to a revision, in one transaction.

    Raises:
        MigrationError: the database can't take it.
        psycopg.Error: the database refused.
    """
    with _ALEMBIC, _connected(dsn) as connection:
        if _current(connection) == (head() if revision == "head" else revision):
            return
        cfg = config()
        cfg.attributes["connection"] = connection
        command.upgrade(cfg, revision)


def downgrade(dsn: str, revision: str = "base") -> None:
    """Go back to a revision; base removes the schema kbsearch with all that is in it. The extension vector stays.

    Raises:
        MigrationError: something outside the schema depends on it.
    """
    with _ALEMBIC, _connected(dsn) as connection:
        if _current(connection) is None:
            return
        cfg = config()
        cfg.attributes["connection"] = connection
        command.downgrade(cfg, revision)


def current(dsn: str) -> str | None:
    """The installed revision; None if kbsearch is not installed."""
    with _connected(dsn) as connection:
        return _current(connection)


def script(revision: str = "head") -> str:
    """The whole installation as one SQL script: one transaction, its own search path, the same bookkeeping as upgrade()."""
    output = io.StringIO()
    with _ALEMBIC:
        command.upgrade(config(output=output), revision, sql=True)
    return output.getvalue()


def install(
    connection: psycopg.Connection[Any],
    names: Iterable[str] | None = None,
    *,
    overrides: Mapping[str, str] | None = None,
) -> None:
    """Run all files on a psycopg connection, in its transaction, without alembic's bookkeeping: for tests and checks.

    Args:
        connection: a connection to a database without kbsearch.
        names: the files to run, relative to sql/; all of them by default.
        overrides: text to run instead of a file's, by its name: how mutants are made.
    """
    with connection.cursor() as cursor:
        before = cursor.execute("SELECT pg_catalog.current_setting('search_path')").fetchone()
        for statement in (*PREPARE, SET_SEARCH_PATH, TOUCH_VECTOR):
            cursor.execute(statement.encode())
        for name in files() if names is None else names:
            with _named(name):
                cursor.execute((overrides or {}).get(name, file_text(name)).encode())
        cursor.execute("SELECT pg_catalog.set_config('search_path', %s, true)", before)


def check(dsn: str) -> list[Difference]:
    """Compare what is installed with what a fresh install gives, object by object.

    The fresh install happens in the same database, in a transaction that is rolled back, while the installed schema bears another name in it;
    nobody else sees anything of that. Needs a role that may create schemas and owns the installed one. Indexes, privileges, policies and storage
    settings that were added are not differences.

    Raises:
        NotInstalledError: kbsearch is not installed.
    """
    with psycopg.connect(dsn) as connection:
        try:
            with connection.transaction(force_rollback=True):
                connection.execute("SET LOCAL lock_timeout = '10s'")
                if not connection.execute(
                    "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", [SCHEMA]
                ).fetchone():
                    raise NotInstalledError(
                        "kbsearch is not installed in this database", hint="Run: kbsearch db upgrade"
                    )
                installed = inventory(connection, SCHEMA)
                connection.execute(f"ALTER SCHEMA {SCHEMA} RENAME TO {SCHEMA}_installed".encode())
                install(connection)
                expected = inventory(connection, SCHEMA)
        except psycopg.errors.InsufficientPrivilege as error:
            raise MigrationError(
                f"the check may not install beside what is there: {error}",
                hint="Check with the role that owns the schema kbsearch.",
            ) from error
        revision = _psycopg_revision(connection)
    differences = compare(installed, expected)
    if revision != head():
        differences.insert(0, Difference("revision", "different", revision, head()))
    return differences


def compare(installed: Inventory, expected: Inventory) -> list[Difference]:
    """What differs between two inventories, by name."""
    differences = []
    for name in sorted({*installed, *expected}):
        ours, fresh = installed.get(name), expected.get(name)
        if ours == fresh or (fresh is None and name.startswith("index ")):
            continue
        problem = "missing" if ours is None else "unexpected" if fresh is None else "different"
        differences.append(Difference(name, problem, ours, fresh))
    return differences


@contextmanager
def _named(file: str) -> Iterator[None]:
    """Say in which file a statement failed."""
    try:
        yield
    except sqlalchemy.exc.DBAPIError as error:
        if error.orig is not None:
            error.orig.add_note(f"in sql/{file}")
        raise
    except psycopg.Error as error:
        error.add_note(f"in sql/{file}")
        raise


@contextmanager
def _connected(dsn: str) -> Iterator[sqlalchemy.Connection]:
    """A connection in a transaction that commits at the end; exceptions are ours or psycopg's."""
    try:
        with engine(dsn).begin() as connection:
            yield connection
    except sqlalchemy.exc.DBAPIError as error:
        if isinstance(error.orig, psycopg.Error):
            raise error.orig from None
        raise
    except alembic.util.CommandError as error:
        raise MigrationError(
            str(error), hint="Revisions have numbers like 0001; the newest is head, before the first is base."
        ) from error


def _current(connection: sqlalchemy.Connection) -> str | None:
    if not sqlalchemy.inspect(connection).has_table("alembic_version", schema=SCHEMA):
        return None
    found = connection.exec_driver_sql(f"SELECT version_num FROM {SCHEMA}.alembic_version").scalar_one_or_none()
    return None if found is None else str(found)


def _psycopg_revision(connection: psycopg.Connection[Any]) -> str | None:
    found = connection.execute("SELECT pg_catalog.to_regclass('kbsearch.alembic_version')").fetchone()
    if found is None or found[0] is None:
        return None
    row = connection.execute("SELECT version_num FROM kbsearch.alembic_version").fetchone()
    return None if row is None else str(row[0])
