"""What the commands share: options, exit codes, the database they speak to, output."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import psycopg
import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from kbsearch import embedded
from kbsearch.errors import KBSearchError, MigrationError, OrganizationError, translate
from kbsearch.schema import DEFAULT, check_schema, in_schema

OK = 0
NO = 1
"""The command ran, and the answer is no: nothing found, differences found, documents skipped."""
USAGE = 2
"""The command line itself is wrong."""
REFUSED = 3
"""kbsearch refused the request; the message names the SQLSTATE."""
UNAVAILABLE = 4
"""The database can't be reached, or failed."""

DsnOption = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        envvar="KBSEARCH_DSN",
        help="Connection string of the database; by default an embedded PostgreSQL, started on demand.",
        show_default=False,
    ),
]


def _schema(ctx: typer.Context, name: str) -> str:
    try:
        ctx.meta[_SCHEMA] = check_schema(name)
    except MigrationError as error:
        raise typer.BadParameter(f"{error}. {error.hint}") from error
    return name


_SCHEMA = "kbsearch.schema"
"""Where a command's schema is kept for messages about what is missing in it."""


SchemaOption = Annotated[
    str,
    typer.Option("--schema", envvar="KBSEARCH_SCHEMA", help="Schema that kbsearch is installed in.", callback=_schema),
]
"""Default: kbsearch.schema.DEFAULT."""
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
OrgOption = Annotated[
    str | None,
    typer.Option("--org", help="Name of the organisation; may be left out if there is only one.", show_default=False),
]


def console() -> Console:
    """Console for results; made when needed, so that it follows a redirected standard output."""
    return Console()


def messages() -> Console:
    """Console for progress and complaints, on standard error."""
    return Console(stderr=True)


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def clean(text: str, *, keep: str = "") -> str:
    """Text of the database or of the command line as it may be shown: control characters and lone surrogates become U+FFFD.

    A terminal obeys control characters (ESC, BEL, the C1 set), and half of a surrogate pair cannot be written at all.
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else "\N{REPLACEMENT CHARACTER}", text)


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural where it is one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def emit(value: Any) -> None:
    """Print a value as JSON; dataclasses become objects.

    What a terminal would obey and what the output's encoding cannot express is written as an escape.
    """
    text = json.dumps(value, ensure_ascii=False, default=_plain)
    text = _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, default=_plain)
    sys.stdout.write(text + "\n")


def _plain(value: object) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)


def url_of(dsn: str) -> str:
    """A connection string as a URL, which takes no quotes in a shell or a configuration file."""
    parts = {name: str(value) for name, value in psycopg.conninfo.conninfo_to_dict(dsn).items() if value is not None}
    # A path, or several hosts, can only stand in the query.
    place = re.fullmatch("[^/,:]*", parts.get("host", "")) and re.fullmatch(r"\d*", parts.get("port", ""))
    host = "".join((parts.pop("host", ""), f":{parts.pop('port')}" if "port" in parts else "")) if place else ""
    user, password = (quote(parts.pop(name, ""), safe="") for name in ("user", "password"))
    login = f"{user}{':' if password else ''}{password}{'@' if user or password else ''}"
    database = quote(parts.pop("dbname", ""), safe="")
    rest = urlencode(parts, quote_via=quote, safe="/:")
    return f"postgresql://{login}{host}/{database}{'?' if rest else ''}{rest}"


def database(dsn: str | None, schema: str = DEFAULT, *, upgrade: bool = True) -> str:
    """Return the connection string to use; without one the embedded server is started, and kbsearch in it upgraded to this version."""
    if dsn:
        return dsn
    server = embedded.running()
    if server is None:
        with messages().status("Starting the embedded PostgreSQL …"):
            server = embedded.start()
    return embedded.ensure_database(server, schema=schema, upgrade=upgrade)


@contextmanager
def connected(dsn: str | None, schema: str = DEFAULT) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection in autocommit mode to the database named, or to the embedded one."""
    with psycopg.connect(database(dsn, schema), autocommit=True, prepare_threshold=None) as connection:
        yield connection


@dataclasses.dataclass(frozen=True, slots=True)
class Organization:
    """An organisation, found by its name."""

    id: int
    name: str
    active_space_id: int | None


_ORGANIZATIONS = """SELECT organizations.id, organizations.name, organizations.active_space_id
FROM kbsearch.organizations AS organizations
WHERE %(name)s::pg_catalog.text IS NULL OR organizations.name = %(name)s::pg_catalog.text
ORDER BY organizations.id
LIMIT 20"""


def find_organization(connection: psycopg.Connection[Any], name: str | None, schema: str = DEFAULT) -> Organization:
    """Return the organisation of this name, or the only one.

    Raises:
        OrganizationError: there is none, or more than one.
    """
    rows = connection.execute(in_schema(_ORGANIZATIONS, schema).encode(), {"name": name}).fetchall()
    found = [Organization(*row) for row in rows]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(f"{one.name} (id {one.id})" for one in found)
        raise OrganizationError(
            f"there are several organisations: {listed}"
            if name is None
            else f"several organisations bear that name: {listed}",
            hint="Say which: --org NAME" if name is None else "Give them different names.",
        )
    raise OrganizationError(
        "there is no organisation yet" if name is None else f"there is no organisation of the name {name!r}",
        hint="Ingest something first: kbsearch ingest PATH, or kbsearch demo",
    )


FILES = ("paths", "folder")
"""Parameters that name files: their names are bytes and need not be text."""


class Checked(TyperCommand):
    """A command whose arguments are text: bytes that could not be decoded are a usage error, except in the names of files."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; an unknown option may have been a question."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            asks = any(parameter.name == "question" for parameter in self.params)
            if type(error).__name__ == "NoSuchOption" and asks and hasattr(error, "message"):
                error.message += (
                    "\nIf the question begins with a hyphen, put -- before it: "
                    f"kbsearch {ctx.info_name} --org NAME -- '-word …'"
                )
            raise

    def invoke(self, ctx: Any) -> Any:
        """Check the arguments and run the command."""
        parameters: list[Any] = [one for one in self.params if one.name not in FILES]
        for parameter in parameters:
            given = ctx.params.get(parameter.name)
            for value in given if isinstance(given, (list, tuple)) else [given]:
                if isinstance(value, str) and not _is_text(value):
                    raise typer.BadParameter(f"{clean(value)!r} is no text in UTF-8", ctx=ctx, param=parameter)
        return super().invoke(ctx)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class Commands(TyperGroup):
    """Turns our exceptions and the driver's into a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command line."""
        try:
            return super().invoke(ctx)
        except psycopg.Error as error:
            ours = translate(error, ctx.meta.get(_SCHEMA, DEFAULT))
            raise typer.Exit(complain(ours)) from error
        except KBSearchError as error:
            raise typer.Exit(complain(error)) from error
        except Exception as error:
            # A usage error repeats the command line.
            if isinstance(message := getattr(error, "message", None), str):
                error.message = clean(message, keep="\n\t")  # type: ignore[attr-defined]
            raise


def complain(error: Exception) -> int:
    """Say what went wrong on standard error, and return the exit code for it."""
    if isinstance(error, KBSearchError):
        _say(f"kbsearch: {error} ({error.sqlstate})")
        if error.hint:
            _say(f"  {error.hint}")
        return REFUSED
    _say(f"kbsearch: the database failed: {str(error).strip()}")
    return UNAVAILABLE


def _say(line: str) -> None:
    messages().print(clean(line, keep="\n\t"), markup=False, highlight=False, soft_wrap=True)
