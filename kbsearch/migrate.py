"""Installs, upgrades, removes and checks the SQL side, in a schema of any name (kbsearch.schema).

Revisions (alembic/) name files below sql/ and hold no SQL. Both directories are in the wheel; in an editable install they are read from the checkout.
What runs beside the files is in kbsearch.blocks. The same statements run on a connection, in the script that script() gives and in a host's revision.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from kbsearch import blocks
from kbsearch.blocks import VERSION_TABLE
from kbsearch.errors import MigrationError, NotInstalledError
from kbsearch.inventory import Inventory, read
from kbsearch.schema import DEFAULT, check_schema, in_schema
from kbsearch.session import Session, Target, literal, opened

if TYPE_CHECKING:
    import sqlalchemy
    from alembic.migration import MigrationContext


@dataclass(frozen=True, slots=True)
class Revision:
    """A step from one state of the schema to the next.

    Attributes:
        id: its number, as in 0001.
        files: what it runs, relative to sql/.
    """

    id: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not as a fresh install has it.

    Attributes:
        name: what and where, as in `function kbsearch.search_kb_hybrid_v1(…)`.
        problem: missing, unexpected or different.
        installed: its definition in the database, None if missing. Names of the schema's own objects stand without it.
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


def revisions() -> Sequence[Revision]:
    """All revisions, the first one first."""
    return _revisions(alembic_root())


@cache
def _revisions(root: Path) -> Sequence[Revision]:
    from alembic.config import Config  # noqa: PLC0415  (as in session.py)
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(root).replace("%", "%%"))
    found = reversed(list(ScriptDirectory.from_config(config).walk_revisions("base", "heads")))
    return tuple(Revision(one.revision, tuple(one.module.FILES)) for one in found)


def head() -> str:
    """The newest revision."""
    return revisions()[-1].id


def files() -> list[str]:
    """Every file of every revision, in the order of installation."""
    return [file for revision in revisions() for file in revision.files]


def file_text(file: str) -> str:
    """Text of a file named by a revision, relative to sql/."""
    return (sql_root() / file).read_text(encoding="utf-8")


def created(names: Iterable[str]) -> list[str]:
    """Names, without schema, of the tables, sequences, types, views and functions that these files create."""
    return [found for name in names for found in _CREATE.findall(_COMMENT.sub("", file_text(name)))]


_COMMENT = re.compile("--[^\n]*")
_CREATE = re.compile(
    rf"^CREATE (?:OR REPLACE )?(?:TABLE|SEQUENCE|TYPE|DOMAIN|(?:MATERIALIZED )?VIEW|FUNCTION|PROCEDURE|AGGREGATE) {DEFAULT}\.(\w+)",
    re.MULTILINE,
)


# What people, programs and tests call.


def upgrade(target: Target, revision: str = "head", *, schema: str = DEFAULT) -> None:
    """Install kbsearch, or bring an installed one to a newer revision, in one transaction; nothing happens if it is there already.

    Needs a role that may create objects in the schema; if schema or extension are missing, one that may create them (or the error says what to run).

    Args:
        target: a connection string; or an engine or connection of SQLAlchemy or a connection of psycopg 3, in whose transaction, if it is in one, all
            happens under a savepoint.
        revision: its number, `head`, or `+1` and the like.
        schema: name of the schema.

    Raises:
        MigrationError: server, database or role won't do, or the revision is unknown.
        psycopg.Error: the database refused.
    """
    check_schema(schema)
    with opened(target) as session:
        _upgrade(session, revision, schema)


def downgrade(target: Target, revision: str = "base", *, schema: str = DEFAULT) -> None:
    """Go back to a revision. `base` removes everything that kbsearch made; the extension vector and what others made stay.

    The schema itself goes if it is empty then and the role could make it again.

    Args:
        target: as in upgrade().
        revision: its number, `base`, or `-1` and the like.
        schema: name of the schema.

    Raises:
        MigrationError: something that is not kbsearch's depends on it, or the revision is newer than the installed one or unknown.
    """
    check_schema(schema)
    with opened(target) as session:
        _downgrade(session, revision, schema)


def current(target: Target, *, schema: str = DEFAULT) -> str | None:
    """The installed revision; None if kbsearch is not installed.

    Raises:
        MigrationError: the role may not read it.
    """
    check_schema(schema)
    with opened(target) as session:
        return _current(session, schema)


def resolve(revision: str, installed: str | None) -> str | None:
    """What `head`, `base`, `-1` and the like mean where a revision is installed; None for base.

    Raises:
        MigrationError: there is no such revision.
    """
    known = [one.id for one in revisions()]
    goal = _position(revision, known.index(installed) + 1 if installed in known else 0)
    return known[goal - 1] if goal else None


def script(revision: str = "head", *, schema: str = DEFAULT) -> str:
    """The installation as a script of one SQL statement, for any client: all or nothing, and nothing where it has been run before."""
    check_schema(schema)
    known = revisions()
    goal = max(_position(revision, 0), 1)
    steps = [
        part
        for number, one in enumerate(known[:goal], 1)
        for part in (
            f"-- revision {one.id}\nIF v_done < {number} THEN",
            *(blocks.execute(file, file_text(file)) for file in one.files),
            blocks.stamp(one.id),
            "END IF;",
        )
    ]
    said = f"""IF v_done >= {goal} THEN
    v_said := format('KBSEARCH is at revision %s in the schema kbsearch already', ({_KNOWN})[v_done]);
END IF;"""
    # The caller's settings are back by then: no operator, no type is named.
    say = "IF v_said IS NOT NULL THEN\n    RAISE NOTICE '%', v_said;\nEND IF;"
    begin = [blocks.BEGIN, blocks.PREPARE, blocks.CREATE_VERSION_TABLE, _FIND_DONE]
    end = [blocks.VERIFY, said, blocks.RESTORE, say]
    return _script(
        f"Installs kbsearch, revision {known[goal - 1].id}, in the schema {schema}", [*begin, *steps, *end], schema
    )


def removal_script(revision: str = "base", *, schema: str = DEFAULT) -> str:
    """What downgrade() does, as a script of one SQL statement."""
    check_schema(schema)
    known = revisions()
    goal = _position(revision, len(known))
    steps = [
        part
        for number, one in reversed(list(enumerate(known[goal:], goal + 1)))
        for part in (
            f"-- revision {one.id}\nIF v_done >= {number} THEN",
            blocks.drop(created(one.files)),
            blocks.stamp(known[number - 2].id if number > 1 else None),
            "END IF;",
        )
    ]
    last = [] if goal else [blocks.DROP_SCHEMA]
    installed = f"IF to_regclass('kbsearch.{VERSION_TABLE}') IS NOT NULL THEN"
    title = (
        f"Removes kbsearch from the schema {schema}"
        if not goal
        else f"Takes kbsearch back to revision {known[goal - 1].id}"
    )
    return _script(title, [blocks.BEGIN, installed, _FIND_DONE, *steps, *last, "END IF;", blocks.RESTORE], schema)


_KNOWN = "ARRAY[KNOWN]::text []"
_FIND_DONE = f"""v_done := 0;
SELECT coalesce(array_position({_KNOWN}, v.version_num::text), -1) INTO v_done FROM kbsearch.{VERSION_TABLE} AS v;
v_done := coalesce(v_done, 0);
IF v_done < 0 THEN
    RAISE EXCEPTION 'the installed revision is unknown to this version of KBSEARCH' USING ERRCODE = 'KB002', HINT = 'Use the newest version.';
END IF;"""


def _script(title: str, parts: Sequence[str], schema: str) -> str:
    known = ", ".join(literal(one.id) for one in revisions())
    body = "\n\n".join(parts).replace("ARRAY[KNOWN]", f"ARRAY[{known}]")
    statement = blocks.statement(
        [f"DECLARE\n    v_done pg_catalog.int4;\n    v_said pg_catalog.text;\nBEGIN\n{body}\nEND;"], schema
    )
    return f"""-- {title}.
-- One statement: all or nothing, whatever client runs it.
SET client_encoding = 'UTF8';

{statement};

RESET client_encoding;
"""


def install(
    connection: psycopg.Connection[Any],
    names: Iterable[str] | None = None,
    *,
    overrides: Mapping[str, str] | None = None,
    schema: str = DEFAULT,
) -> None:
    """Run all files on a psycopg connection, in its transaction, without noting the revision: for tests and measurements.

    Args:
        connection: a connection to a database without kbsearch.
        names: the files to run, relative to sql/; all of them by default.
        overrides: text to run instead of a file's, by its name.
        schema: name of the schema.
    """
    _install(Session(connection), check_schema(schema), names, overrides)


def check(target: Target, *, schema: str = DEFAULT) -> list[Difference]:
    """Compare what is installed with what a fresh install gives, object by object.

    The fresh install happens in the same database, in a transaction that is rolled back: in the session's temporary schema or, where the role may not
    make temporary objects, in a schema beside. Nobody else sees anything of that. Indexes, privileges, policies and storage settings that were added
    are not differences.

    Raises:
        NotInstalledError: kbsearch is not installed.
        MigrationError: the role may make neither temporary objects nor schemas, or may not use the extension's schema.
    """
    check_schema(schema)
    with opened(target, rollback=True) as session:
        session.run("SET LOCAL lock_timeout = '10s'")
        installed = read(session, schema)
        if not installed:
            raise NotInstalledError(
                f"kbsearch is not installed in the schema {schema} of this database",
                hint=f"Run: kbsearch db upgrade{_option(schema)}",
            )
        revision = _current(session, schema)
        expected = fresh_inventory(session, schema)
    differences = compare(installed, expected)
    if revision != head():
        differences.insert(0, Difference("revision", "different", revision, head()))
    return differences


def fresh_inventory(session: Session, schema: str) -> Inventory:
    """What a fresh install of the newest revision has, as it would be in a schema. For a transaction that is rolled back."""
    fresh = _scratch(session)
    _install(session, fresh)
    return read(session, fresh, as_schema=schema)


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


# For a host with migrations of its own.


def install_in_revision(schema: str = DEFAULT, revision: str = "head") -> None:
    """Install or upgrade kbsearch from within upgrade() of a host's alembic revision, online or with --sql.

    Notes the revision in a table of our own, as `kbsearch db upgrade` does, so either way may be used for the next one. Name the revision of
    kbsearch in the host's, so that it stays what it was.
    """
    from alembic import op  # noqa: PLC0415  (as in session.py)

    check_schema(schema)
    context = op.get_context()
    if context.as_sql:
        context.impl.static_output(script(revision, schema=schema))
    else:
        _upgrade(Session(op.get_bind()), revision, schema)


def remove_in_revision(schema: str = DEFAULT, revision: str = "base") -> None:
    """Remove kbsearch, or go back to a revision of it, from within downgrade() of a host's alembic revision, online or with --sql."""
    from alembic import op  # noqa: PLC0415  (as in session.py)

    check_schema(schema)
    context = op.get_context()
    if context.as_sql:
        context.impl.static_output(removal_script(revision, schema=schema))
    else:
        _downgrade(Session(op.get_bind()), revision, schema)


def include_name(name: str | None, kind: str, parents: Mapping[Any, str | None], *, schema: str = DEFAULT) -> bool:
    """For a host's own alembic with include_schemas: pass as include_name, and autogenerate reads nothing of the schema kbsearch.

    With another name of the schema: `functools.partial(migrate.include_name, schema="…")`.
    """
    return not (name == schema if kind == "schema" else parents.get("schema_name") == schema)


def include_object(
    item: sqlalchemy.schema.SchemaItem,
    name: str | None,
    kind: str,
    reflected: bool,
    compare_to: object,
    *,
    schema: str = DEFAULT,
) -> bool:
    """For a host whose own metadata name tables of kbsearch (as targets of foreign keys): pass as include_object beside include_name."""
    del name, kind, reflected, compare_to
    table = getattr(item, "table", item)
    return getattr(table, "schema", None) != schema


# What the revisions and env.py call, for the command `alembic`.


def engine(dsn: str) -> sqlalchemy.Engine:
    """An engine for one connection, from a connection string of libpq's."""
    import sqlalchemy  # noqa: PLC0415  (as in session.py)

    return sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(dsn, client_encoding="UTF8"),
        poolclass=sqlalchemy.NullPool,
    )


def run_files(names: Sequence[str]) -> None:
    """Run SQL files, inside a revision of ours."""
    from alembic import op  # noqa: PLC0415  (as in session.py)

    context = op.get_context()
    _run_files(Session(op.get_bind()), names, context.opts["version_table_schema"])


def drop_files(names: Sequence[str]) -> None:
    """Drop what SQL files have created, inside a revision of ours."""
    from alembic import op  # noqa: PLC0415  (as in session.py)

    context = op.get_context()
    _run(Session(op.get_bind()), [blocks.drop(created(names))], context.opts["version_table_schema"])


def run_online(context: Any, connection: sqlalchemy.Connection, schema: str) -> None:
    """Run the revisions on a connection, in the transaction that it is in."""
    check_schema(schema)
    context.configure(
        connection=connection,
        version_table=VERSION_TABLE,
        version_table_schema=schema,
        include_name=include_name,
        transactional_ddl=True,
    )
    migration: MigrationContext = context.get_context()
    session = Session(connection)
    changes = not migration.opts.get("dont_mutate", False)
    if changes:
        _begin(session, schema)
    with context.begin_transaction():
        context.run_migrations()
    if changes:
        base = [] if migration.get_current_heads() else [blocks.DROP_SCHEMA]
        _run(session, [blocks.VERIFY, *base, blocks.RESTORE], schema)


def run_offline(context: Any, schema: str) -> None:
    """Print the revisions as a script."""
    check_schema(schema)
    context.configure(dialect_name="postgresql", version_table=VERSION_TABLE, version_table_schema=schema)
    start, goal = context.get_starting_revision_argument(), context.get_revision_argument()
    down = start is not None and _position(goal or "base", 0) < _position(start, 0)
    text = removal_script(goal or "base", schema=schema) if down else script(goal, schema=schema)
    context.get_context().impl.output_buffer.write(text)


# How it is done.


def _upgrade(session: Session, revision: str, schema: str) -> None:
    if _done(session, schema) >= _position(revision, _done(session, schema)):
        return
    _begin(session, schema)
    done = _done(session, schema)
    for one in revisions()[done : _position(revision, done)]:
        _run_files(session, one.files, schema)
        _run(session, [blocks.stamp(one.id)], schema)
    _run(session, [blocks.VERIFY, blocks.RESTORE], schema)


def _downgrade(session: Session, revision: str, schema: str) -> None:
    if not _done(session, schema):
        return
    _run(session, [blocks.BEGIN], schema)
    known = revisions()
    done = _done(session, schema)
    goal = _position(revision, done)
    if goal > done:
        raise MigrationError(
            f"revision {known[goal - 1].id} is newer than the installed {known[done - 1].id}",
            hint=f"To go forward: kbsearch db upgrade {known[goal - 1].id}{_option(schema)}",
        )
    for number in range(done, goal, -1):
        _run(
            session,
            [blocks.drop(created(known[number - 1].files)), blocks.stamp(known[number - 2].id if number > 1 else None)],
            schema,
        )
    _run(session, [blocks.RESTORE] if goal else [blocks.DROP_SCHEMA, blocks.RESTORE], schema)


def _install(
    session: Session, schema: str, names: Iterable[str] | None = None, overrides: Mapping[str, str] | None = None
) -> None:
    _run(session, [blocks.BEGIN, blocks.PREPARE], schema)
    _run_files(session, files() if names is None else list(names), schema, overrides)
    _run(session, [blocks.VERIFY, blocks.RESTORE], schema)


def _begin(session: Session, schema: str) -> None:
    _run(session, [blocks.BEGIN, blocks.PREPARE, blocks.CREATE_VERSION_TABLE], schema)
    if not session.value(in_schema("SELECT pg_catalog.current_setting('kbsearch.caller_settings', true)", schema)):
        raise MigrationError(
            "the connection commits after each statement; a migration needs a transaction",
            hint="Take the isolation level AUTOCOMMIT from the engine or the connection that migrations use.",
        )


def _run(session: Session, parts: Sequence[str], schema: str) -> None:
    session.run(blocks.statement(parts, schema))


def _run_files(session: Session, names: Iterable[str], schema: str, overrides: Mapping[str, str] | None = None) -> None:
    for name in names:
        text = (overrides or {}).get(name)
        with _named(name):
            _run(session, [blocks.execute(name, file_text(name) if text is None else text)], schema)


@contextmanager
def _named(file: str) -> Iterator[None]:
    """Say in which file a statement failed."""
    try:
        yield
    except MigrationError:
        raise
    except Exception as error:
        error.add_note(f"in sql/{file}")
        raise


def _current(session: Session, schema: str) -> str | None:
    rows = session.run(in_schema(_FIND_VERSION_TABLE, schema))
    if not rows:
        return None
    if not rows[0][0]:
        raise MigrationError(
            f"the role {rows[0][1]} may not read {schema}.{VERSION_TABLE}",
            hint=f"GRANT USAGE ON SCHEMA {schema} TO {rows[0][1]}; GRANT SELECT ON {schema}.{VERSION_TABLE} TO {rows[0][1]};",
        )
    found = session.value(in_schema(f"SELECT v.version_num FROM kbsearch.{VERSION_TABLE} AS v", schema))
    return None if found is None else str(found)


_FIND_VERSION_TABLE = f"""SELECT
    pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT'), pg_catalog.quote_ident(current_user)
FROM pg_catalog.pg_class AS c
INNER JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE n.nspname OPERATOR(pg_catalog.=) 'kbsearch' AND c.relname OPERATOR(pg_catalog.=) '{VERSION_TABLE}'"""


def _done(session: Session, schema: str) -> int:
    """How many revisions are installed."""
    found = _current(session, schema)
    if found is None:
        return 0
    for number, one in enumerate(revisions(), 1):
        if one.id == found:
            return number
    raise MigrationError(
        f"the schema {schema} is at revision {found}, which this version of kbsearch does not know",
        hint="Use the newest version of kbsearch.",
    )


def _position(revision: str, done: int) -> int:
    """How many revisions are installed once one is reached.

    Args:
        revision: its number, head, base, or how many to go from here (+1, -1).
        done: how many are installed.
    """
    known = [one.id for one in revisions()]
    if revision in ("head", "heads"):
        return len(known)
    if revision == "base":
        return 0
    if revision in known:
        return known.index(revision) + 1
    if re.fullmatch(r"[+-]\d{1,4}", revision) and 0 <= done + int(revision) <= len(known):
        return done + int(revision)
    raise MigrationError(
        f"there is no revision {revision!r}"
        + ("" if revision[:1] not in "+-" else f" from {known[done - 1] if done else 'base'}"),
        hint=f"Revisions have numbers; the newest is {known[-1]} (head), before the first is base.",
    )


def _scratch(session: Session) -> str:
    """Name of a schema to install into, in a transaction that is rolled back: the session's temporary one or, where that does not go, a new one."""
    name = f"kb_scratch_{secrets.token_hex(8)}"
    database, role, temporary, beside = session.run(
        "SELECT pg_catalog.quote_ident(d.name), pg_catalog.quote_ident(current_user), pg_catalog.has_database_privilege(d.name, 'TEMPORARY'), "
        "pg_catalog.has_database_privilege(d.name, 'CREATE') FROM pg_catalog.current_database() AS d (name)"
    )[0]
    if temporary:
        session.run(f"CREATE TEMPORARY TABLE {name} ()")
        own, used = session.run(_TEMPORARY)[0]
        session.run(f"DROP TABLE pg_temp.{name}")
        if used == 1:
            return str(own)
    if beside:
        return name
    if temporary:
        raise MigrationError(
            "the session has temporary objects, and a fresh install to compare with would be among them",
            hint="Check on another connection, or by a connection string.",
        )
    raise MigrationError(
        f"the role {role} may make neither temporary objects nor schemas in this database, so there is nothing to compare with",
        hint=f"GRANT TEMPORARY ON DATABASE {database} TO {role}; or check with another role.",
    )


_TEMPORARY = """SELECT n.nspname, (
    SELECT count(*) FROM pg_catalog.pg_depend AS d
    WHERE d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND d.refobjid = n.oid AND d.deptype = 'n'
)
FROM pg_catalog.pg_namespace AS n
WHERE n.oid = pg_catalog.pg_my_temp_schema()"""


def _option(schema: str) -> str:
    return "" if schema == DEFAULT else f" --schema {schema}"
