"""Examines a database that kbsearch lives in: reads, changes nothing, and says what to do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import psycopg

from kbsearch.doctor import ann, data, derived, embeddings, objects, rights, search, settings, versions
from kbsearch.doctor.base import CHECKS, Check, Examination, Finding, Level, Progress, run_check
from kbsearch.errors import KBSearchError, OrganizationError
from kbsearch.schema import DEFAULT, check_schema

__all__ = ["Diagnosis", "Finding", "Level", "UnknownCheckError", "UnknownRoleError", "examine"]

GROUPS = tuple(
    module.__name__.rpartition(".")[2]
    for module in (versions, rights, objects, settings, derived, data, embeddings, ann, search)
)
"""The modules of the checks, in the order in which they run; importing them registers their checks."""


class UnknownRoleError(KBSearchError):
    """There is no role of that name."""

    http_status = 422


class UnknownCheckError(KBSearchError):
    """There is no check or group of checks of that name."""

    http_status = 422


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was found.

    Attributes:
        database: name of the database.
        schema: schema that was examined.
        role: role whose rights were looked at.
        findings: in the order of the checks.
    """

    database: str
    schema: str
    role: str
    findings: Sequence[Finding]

    def count(self, level: Level) -> int:
        """Number of findings of a level."""
        return sum(finding.level is level for finding in self.findings)


def examine(
    dsn: str,
    *,
    schema: str = DEFAULT,
    organization: str | None = None,
    role: str | None = None,
    deep: bool = False,
    recall: bool = False,
    checks: Collection[str] | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Run the checks, each in a read-only transaction of its own.

    Args:
        dsn: connection string.
        schema: schema that kbsearch is installed in.
        organization: name of the only organisations to look at; all by default.
        role: role whose rights are looked at; the connection's by default.
        deep: analyse every chunk again and search every organisation, instead of samples.
        recall: measure what approximate searches miss, in organisations that have an index for them.
        checks: names of groups (`derived`) or checks (`derived.postings`) to run; all by default.
        progress: is told how far a check is.

    Raises:
        UnknownCheckError: there is no check or group of a name.
        OrganizationError: there is no organisation of that name.
        UnknownRoleError: there is no role of that name.
        psycopg.OperationalError: the database cannot be reached.
    """
    check_schema(schema)
    chosen = choose(checks)
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
        connection.read_only = True
        ex = Examination(
            connection=connection,
            dsn=dsn,
            schema=schema,
            role="",
            deep=deep,
            recall=recall,
            org_name=organization,
            server_version=connection.info.server_version,
        )
        if progress is not None:
            ex.progress = progress
        database, current = ex.row("SELECT pg_catalog.current_database(), current_user::pg_catalog.text")
        ex.role = current if role is None else role
        if not ex.value("SELECT true FROM pg_catalog.pg_roles AS r WHERE r.rolname = %(role)s", role=ex.role):
            raise UnknownRoleError(f"there is no role {ex.role!r}", hint="Name a role of this server, as in pg_roles.")
        installed = versions.installed(ex)
        if installed and organization is not None and not _known(ex):
            raise OrganizationError(
                f"there is no organisation of the name {organization!r}", hint="Leave --org out to look at all."
            )
        findings = [finding for one in chosen if installed or not one.needs_install for finding in run_check(one, ex)]
    return Diagnosis(database=str(database), schema=schema, role=ex.role, findings=findings)


def choose(names: Collection[str] | None = None) -> list[Check]:
    """The checks of these names or groups, in the order in which they run; all for None.

    Raises:
        UnknownCheckError: there is no check or group of a name.
    """
    ordered = sorted(CHECKS, key=lambda one: GROUPS.index(_group(one)))
    if names is None:
        return ordered
    known = {*GROUPS, *(one.name for one in CHECKS)}
    for name in names:
        if name not in known:
            raise UnknownCheckError(f"there is no check or group {name!r}", hint=f"Groups are {', '.join(GROUPS)}.")
    return [one for one in ordered if one.name in names or _group(one) in names]


def _group(one: Check) -> str:
    return one.name.partition(".")[0]


def _known(ex: Examination) -> bool:
    """Whether the organisation exists, or this role may not even ask."""
    try:
        return bool(ex.organizations)
    except psycopg.errors.InsufficientPrivilege:
        return True
