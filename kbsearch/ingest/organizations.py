"""The organisation that is ingested into, by its name."""

from __future__ import annotations

from kbsearch.ingest.report import Connection, UsageError
from kbsearch.schema import DEFAULT, in_schema

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('kbsearch organization ' || %s, 0))"
_FIND = "SELECT o.id FROM kbsearch.organizations AS o WHERE o.name = %s ORDER BY o.id LIMIT 2"
_INSERT = "INSERT INTO kbsearch.organizations (name) VALUES (%s) RETURNING id"


def organization_id(connection: Connection, name: str, *, create: bool, schema: str = DEFAULT) -> int:
    """The id of the organisation of that name, which is created when it is missing and `create` is given.

    Raises UsageError when there is none, or more than one.
    """
    if not name.strip() or "\0" in name:
        raise UsageError("an organisation needs a name")
    with connection.transaction():
        # Two first ingests at the same time make one organisation.
        connection.execute(in_schema(_LOCK, schema).encode(), (name,))
        rows = connection.execute(in_schema(_FIND, schema).encode(), (name,)).fetchall()
        if len(rows) > 1:
            raise UsageError(f"more than one organisation is called {name!r}")
        if not rows:
            if not create:
                raise UsageError(f"there is no organisation called {name!r}")
            rows = connection.execute(in_schema(_INSERT, schema).encode(), (name,)).fetchall()
    return int(rows[0][0])
