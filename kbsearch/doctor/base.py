"""What the checks share: findings, the registry of checks, and the connection they look through."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

import psycopg

from kbsearch.errors import KBSearchError
from kbsearch.schema import in_schema


class Level(StrEnum):
    """How a finding is to be taken."""

    OK = "ok"
    UNCHECKED = "unchecked"
    """It could not be looked at; the finding says why."""
    WARNING = "warning"
    """Answers are right; it costs time or space, or will become a problem."""
    PROBLEM = "problem"
    """Answers are wrong, incomplete or refused, or will be."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Attributes:
        check: group and name, as in `derived.postings`.
        level: how it is to be taken.
        found: what is there.
        expected: what should be there.
        advice: what to do: commands or SQL that run as they stand, a line each; empty where nothing is to be done.
        organization: name of the organisation that it is about, None if it is about the database.
        details: numbers and examples, for programs.
    """

    check: str
    level: Level
    found: str
    expected: str
    advice: str = ""
    organization: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Organization:
    """An organisation to examine.

    Attributes:
        id: its id.
        name: its name.
        chunk_count: its searchable chunks as its statistics have them; None where they may not be read.
    """

    id: int
    name: str
    chunk_count: int | None


Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a check's name, the number of organisations done, and their number."""


def _no_progress(_check: str, _done: int, _total: int) -> None:
    pass


@dataclass
class Examination:
    """A database under examination: every check gets this and only reads.

    Attributes:
        connection: in a read-only transaction with an empty search path while a check runs.
        dsn: connection string of the same database.
        schema: schema that kbsearch is installed in.
        role: role whose rights are looked at.
        deep: analyse and search everything instead of a sample.
        recall: measure what approximate searches miss.
        org_name: name of the only organisations to look at, None for all.
        server_version: as libpq has it: 180006 is 18.6.
        progress: is told how far a check is that looks at one organisation after another.
    """

    connection: psycopg.Connection[Any]
    dsn: str
    schema: str
    role: str
    deep: bool
    org_name: str | None
    server_version: int
    progress: Progress = _no_progress
    recall: bool = False

    def sql(self, text: str) -> str:
        """Return SQL for the schema that is examined."""
        return in_schema(text, self.schema)

    def rows(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """All rows of a query that says `kbsearch` for the schema."""
        return self.connection.execute(self.sql(query).encode(), parameters or None).fetchall()

    def row(self, query: str, **parameters: Any) -> tuple[Any, ...]:
        """The first row of a query that has one."""
        return self.rows(query, **parameters)[0]

    def value(self, query: str, **parameters: Any) -> Any:
        """First column of the first row; None without a row."""
        rows = self.rows(query, **parameters)
        return rows[0][0] if rows else None

    def oid(self, relation: str) -> int | None:
        """Object id of a relation in the schema; None if it is not there. Asks the catalog, which everybody may read."""
        found = self.value(
            """SELECT c.oid::pg_catalog.int8
FROM pg_catalog.pg_class AS c
WHERE c.relnamespace = pg_catalog.to_regnamespace(%(schema)s) AND c.relname = %(relation)s""",
            schema=self.schema,
            relation=relation,
        )
        return None if found is None else int(found)

    @cached_property
    def organizations(self) -> Sequence[Organization]:
        """The organisations to look at, in order of id."""
        return [
            Organization(*row)
            for row in self.rows(
                """SELECT o.id, o.name, (SELECT coalesce(sum(s.chunk_count), 0)::bigint FROM kbsearch.kb_corpus_stats AS s WHERE s.org_id = o.id)
FROM kbsearch.organizations AS o
WHERE %(org_name)s::pg_catalog.text IS NULL OR o.name = %(org_name)s::pg_catalog.text
ORDER BY o.id""",
                org_name=self.org_name,
            )
        ]

    @property
    def org_ids(self) -> list[int] | None:
        """Ids of the organisations to look at; None for all."""
        return None if self.org_name is None else [one.id for one in self.organizations]

    def each_organization(self, check: str) -> Iterator[Organization]:
        """The organisations to look at, with word of progress."""
        for number, organization in enumerate(self.organizations):
            self.progress(check, number, len(self.organizations))
            yield organization
        self.progress(check, len(self.organizations), len(self.organizations))


Outcome: TypeAlias = Iterator[Finding]


@dataclass(frozen=True, slots=True)
class Check:
    """A check: a function that looks at one thing and yields what it found.

    Attributes:
        name: group and name.
        expected: what is expected, in a few words.
        needs_install: it looks at objects of kbsearch.
        run: yields the findings; it raises psycopg's errors as they come.
    """

    name: str
    expected: str
    needs_install: bool
    run: Callable[[Examination], Outcome]


CHECKS: list[Check] = []
"""All checks, in the order in which they run."""


@dataclass(frozen=True, slots=True)
class Report:
    """Makes the findings of one check; passed to its function.

    Attributes:
        check: the check's name.
        expected: what it expects.
        ex: the database.
    """

    check: str
    expected: str
    ex: Examination

    def ok(self, found: str, **more: Any) -> Finding:
        """All is well."""
        return self._finding(Level.OK, found, **more)

    def warning(self, found: str, advice: str, **more: Any) -> Finding:
        """Answers are right, but something should be done."""
        return self._finding(Level.WARNING, found, advice=advice, **more)

    def problem(self, found: str, advice: str, **more: Any) -> Finding:
        """Something must be done."""
        return self._finding(Level.PROBLEM, found, advice=advice, **more)

    def unchecked(self, why: str, advice: str, **more: Any) -> Finding:
        """The check could not look."""
        return self._finding(Level.UNCHECKED, f"could not be checked: {why}", advice=advice, **more)

    def _finding(
        self, level: Level, found: str, *, advice: str = "", expected: str | None = None, **more: Any
    ) -> Finding:
        return Finding(
            self.check, level, found, expected or self.expected, advice=_QUALIFIED.sub(self.ex.schema, advice), **more
        )


_QUALIFIED = re.compile(r"\bkbsearch(?=\.\w)|(?<=SCHEMA )kbsearch\b")
"""The schema in SQL, and not the command of the same name."""

Function: TypeAlias = Callable[[Examination, Report], Outcome]


def check(name: str, expected: str, *, needs_install: bool = True) -> Callable[[Function], Function]:
    """Register a check.

    Args:
        name: group and name, as in `derived.postings`.
        expected: what it expects, in a few words.
        needs_install: it looks at objects of kbsearch and is left out where there are none.
    """

    def register(function: Function) -> Function:
        def run(ex: Examination) -> Outcome:
            return function(ex, Report(name, expected, ex))

        CHECKS.append(Check(name, expected, needs_install, run))
        return function

    return register


_OWNER = "SELECT pg_catalog.pg_get_userbyid(n.nspowner) FROM pg_catalog.pg_namespace AS n WHERE n.nspname = %(schema)s"


def run_check(one: Check, ex: Examination) -> list[Finding]:
    """Run a check in a read-only transaction of its own; an error of the database is a finding, too."""
    report = Report(one.name, one.expected, ex)
    try:
        with ex.connection.transaction():
            ex.connection.execute("SET LOCAL search_path = ''")
            return list(one.run(ex))
    except psycopg.errors.InsufficientPrivilege as error:
        owner = ex.value(_OWNER, schema=ex.schema)
        return [
            report.unchecked(_reason(error), f"Run kbsearch doctor with a role that may: {owner}, the schema's owner.")
        ]
    except psycopg.errors.QueryCanceled as error:
        return [
            report.unchecked(
                _reason(error),
                "Run it with a longer statement_timeout: PGOPTIONS='-c statement_timeout=10min' kbsearch doctor …",
            )
        ]
    except psycopg.OperationalError as error:
        if ex.connection.closed:
            raise
        return [report.unchecked(_reason(error), "Repeat kbsearch doctor.")]
    except (psycopg.Error, KBSearchError) as error:
        return [
            report.unchecked(
                _reason(error), "See what versions.objects says, or: kbsearch db check. Then repeat kbsearch doctor."
            )
        ]


def _reason(error: Exception) -> str:
    message = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return message or str(error).strip()


def about(finding: Finding, organization: Organization) -> Finding:
    """The finding, as one about an organisation."""
    return replace(finding, organization=organization.name)


def number(value: int, noun: str) -> str:
    """A number with its noun, in the plural where it is one."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def size(value: float) -> str:
    """A number of bytes as people write it."""
    for unit in ("bytes", "kB", "MB"):
        if value < 10 * 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.0f} GB"
