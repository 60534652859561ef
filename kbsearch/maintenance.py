"""Housekeeping of all organisations, for a scheduler: compacts postings where that is worth it, and removes expired stored rankings.

Compacting also makes the vectors of large organisations' frequent words.

Everything here is done by SQL functions that change no answer and are safe beside readers and writers, one organisation after another, each in
transactions of its own. What was done is done: a run that is stopped is gone on with by the next, which finds less to do.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, LiteralString, TypeAlias

import psycopg
from psycopg.rows import tuple_row

from kbsearch.errors import OrganizationError, SecurityError, translate
from kbsearch.schema import DEFAULT, in_schema

LOOSE_POSTINGS, LOOSE_ROWS = 4.0, 1_000
"""Compacting is worth it above this multiple of the fewest rows, and so many more: a single writer who edits all day leaves 2.2 times as many."""

Connection: TypeAlias = psycopg.Connection[Any]
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, the number of organisations done, and their number."""


class State(StrEnum):
    """What came of an organisation's postings."""

    SOUND = "sound"
    """They have few rows more than they need."""
    COMPACTED = "compacted"
    BUSY = "busy"
    """They are to be compacted, and another session is compacting, rebuilding or merging them."""
    FAILED = "failed"
    """The database refused; nothing was changed."""
    GONE = "gone"
    """The organisation was deleted meanwhile."""
    LEFT = "left"
    """The time was up before its turn."""


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done for an organisation.

    Attributes:
        org_id: the organisation.
        name: its name.
        state: what came of its postings.
        rows_before: rows of its postings; None where they were not looked at.
        rows_after: rows of its postings afterwards.
        bytes_before: size of those rows.
        bytes_after: size of the rows afterwards. The table gives the rest to its next rows, after a vacuum.
        snapshots: stored rankings removed, as they had expired.
        error: what the database said where it refused.
    """

    org_id: int
    name: str
    state: State
    rows_before: int | None = None
    rows_after: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    snapshots: int = 0
    error: str | None = None


_LIST = """SELECT o.id, o.name FROM kbsearch.organizations AS o
WHERE %(name)s::pg_catalog.text IS NULL OR o.name = %(name)s::pg_catalog.text
ORDER BY o.id"""
_LOCK = "SELECT pg_catalog.pg_try_advisory_xact_lock(kbsearch.lock_kb_corpus_v1(%(org)s, 'maintenance'))"
BLOCKS_DUE = """CASE
    WHEN EXISTS (SELECT FROM kbsearch.kb_keyword_blocks AS b WHERE b.org_id = {org})
        THEN (SELECT coalesce(sum(g.chunk_count), 0) > 500 FROM kbsearch.kb_keyword_changes AS g WHERE g.org_id = {org})
    ELSE (SELECT coalesce(sum(s.chunk_count), 0) >= 20000 FROM kbsearch.kb_corpus_stats AS s WHERE s.org_id = {org})
END"""
"""Whether a large organisation has no vectors of its frequent words yet, or so many chunks have been written since that searches begin to feel it.

With more than 2,000 the vectors are of no use."""
_MEASURE = f"""SELECT coalesce(sum(l.row_count), 0)::bigint, coalesce(sum(l.fewest), 0)::bigint, coalesce(sum(l.bytes), 0)::bigint,
    {BLOCKS_DUE.format(org="%(org)s")}
FROM (
    SELECT count(*) AS row_count, (greatest(sum(p.sign * p.entry_count), 0) + 199) / 200 AS fewest, sum(pg_catalog.pg_column_size(p.*)) AS bytes
    FROM kbsearch.kb_postings AS p
    WHERE p.org_id = %(org)s
    GROUP BY p.lexeme
) AS l"""
_COMPACT = "SELECT kbsearch.compact_kb_postings_v1(p_org_id => %(org)s)"
_SWEEP = "SELECT kbsearch.sweep_kb_searches_v1(p_org_id => %(org)s)"
_MAY = """SELECT pg_catalog.has_table_privilege('kbsearch.kb_postings', 'DELETE'), pg_catalog.row_security_active('kbsearch.kb_postings'),
    (SELECT pg_catalog.pg_get_expr(p.polqual, p.polrelid) FROM pg_catalog.pg_policy AS p
    WHERE p.polrelid = 'kbsearch.kb_postings'::pg_catalog.regclass AND p.polname = 'kb_bound')"""
_BIND = "SELECT pg_catalog.set_config(%(setting)s, %(value)s, true)"
_BOUND_BY = re.compile(r"find_kb_bound_organization_v1\('(\w+)'::text, '([^']*)'::text\)")
"""Of a policy of enable_kb_row_security_v1: what a caller is bound by, and the claim."""


@dataclass(frozen=True, slots=True)
class _Binding:
    """How a session is bound to an organisation, where row-level security binds its role.

    Attributes:
        setting: the setting that says so.
        claim: path of the claim in it that has the organisation's id; empty: the setting is the id.
    """

    setting: str
    claim: tuple[str, ...] = ()

    def value(self, org_id: int) -> str:
        """The setting's value for an organisation."""
        value: Any = str(org_id)
        for part in reversed(self.claim):
            value = {part: value}
        return json.dumps(value) if self.claim else value


def maintain(
    connection: Connection,
    *,
    organization: str | None = None,
    loose: float = LOOSE_POSTINGS,
    rows: int = LOOSE_ROWS,
    seconds: float | None = None,
    schema: str = DEFAULT,
    progress: Progress = lambda _what, _done, _size: None,
) -> Iterator[Maintained]:
    """Compact and sweep, one organisation after another, in order of id; yields each when it is done.

    Args:
        connection: in autocommit mode, its transactions READ COMMITTED, of the owner of kbsearch's tables or of an admin (grant_kb_rights_v1).
            Under row-level security it is bound to one organisation after another.
        organization: name of the only organisations to look at; all by default.
        loose: postings are compacted that have more than so many times the fewest rows they could have …
        rows: … and so many more.
        seconds: after so long no other organisation is begun.
        schema: that kbsearch is installed in.
        progress: told how many organisations are done.

    Raises:
        SecurityError: the role may not maintain.
        OrganizationError: there is no organisation of that name, or none is to be seen.
        psycopg.OperationalError: the connection broke.
    """
    end = None if seconds is None else time.monotonic() + seconds
    run = _Run(connection, schema, _binding(connection, schema), loose, rows)
    found = run.organizations(organization)
    for number, (org_id, name) in enumerate(found):
        progress("maintain", number, len(found))
        if end is not None and time.monotonic() >= end:
            yield Maintained(org_id, name, State.LEFT)
        else:
            yield run.organization(org_id, name)
    progress("maintain", len(found), len(found))


def _binding(connection: Connection, schema: str) -> _Binding | None:
    """How the role is bound; None where it is not.

    Raises:
        SecurityError: it may not maintain.
    """
    ((may, secured, policy),) = connection.cursor(row_factory=tuple_row).execute(in_schema(_MAY, schema).encode())
    if not may:
        raise SecurityError(
            "this role may not maintain the index",
            hint="Use the owner of the tables, or: kbsearch db grant --admin ROLE",
        )
    if not secured:
        return None
    bound = _BOUND_BY.search(policy or "")
    if bound is None:
        raise SecurityError(
            "row-level security is on, by a policy that is not kbsearch's", hint="Use a role with BYPASSRLS."
        )
    return (
        _Binding("request.jwt.claims", tuple(bound[2].split(".")))
        if bound[1] == "claim"
        else _Binding(f"{schema}.org_id")
    )


@dataclass(frozen=True, slots=True)
class _Run:
    connection: Connection
    schema: str
    binding: _Binding | None
    loose: float
    rows: int

    def organizations(self, name: str | None) -> list[tuple[int, str]]:
        with self.connection.transaction():
            if self.binding is not None:
                self._execute(_BIND, setting=f"{self.schema}.org_id", value="*")
            found = self._execute(_LIST, name=name)
        if not found and name is not None:
            raise OrganizationError(
                f"there is no organisation of the name {name!r}", hint="Leave --org out to maintain all."
            )
        return found

    def organization(self, org_id: int, name: str) -> Maintained:
        """Do all that there is to do for an organisation; an error of the database's is told, unless the connection is lost."""
        snapshots = 0
        try:
            with self._bound(org_id):
                ((snapshots,),) = self._execute(_SWEEP, org=org_id)
            with self._bound(org_id):
                found = self._postings(org_id, name)
        except psycopg.Error as error:
            if self.connection.closed:
                raise
            told = translate(error, self.schema)
            if isinstance(told, OrganizationError):
                return Maintained(org_id, name, State.GONE, snapshots=snapshots)
            return Maintained(org_id, name, State.FAILED, snapshots=snapshots, error=str(told).strip())
        return replace(found, snapshots=snapshots)

    def _postings(self, org_id: int, name: str) -> Maintained:
        """Compact an organisation's postings where that is worth it. They are looked at without the lock: writers do not merge while it is held."""
        ((before, fewest, bytes_before, blocks_due),) = self._execute(_MEASURE, org=org_id)
        if before <= self.loose * fewest + self.rows and not blocks_due:
            return Maintained(org_id, name, State.SOUND, before, before, bytes_before, bytes_before)
        ((locked,),) = self._execute(_LOCK, org=org_id)
        if not locked:
            return Maintained(org_id, name, State.BUSY, rows_before=before, bytes_before=bytes_before)
        self._execute(_COMPACT, org=org_id)
        ((after, _, bytes_after, _),) = self._execute(_MEASURE, org=org_id)
        return Maintained(org_id, name, State.COMPACTED, before, after, bytes_before, bytes_after)

    @contextmanager
    def _bound(self, org_id: int) -> Iterator[None]:
        """A transaction, bound to an organisation where that is needed."""
        with self.connection.transaction():
            if self.binding is not None:
                self._execute(_BIND, setting=self.binding.setting, value=self.binding.value(org_id))
            yield

    def _execute(self, statement: LiteralString, **values: Any) -> list[Any]:
        cursor = self.connection.cursor(row_factory=tuple_row)
        return cursor.execute(in_schema(statement, self.schema).encode(), values).fetchall()
