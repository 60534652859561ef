"""One tree of exceptions: what the SQL functions refuse (SQLSTATE class KB) and what the client refuses before it asks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

import psycopg


class KBSearchError(Exception):
    """Base of all that kbsearch raises.

    Attributes:
        sqlstate: five characters, class KB for what the SQL functions raise (the client uses the same codes for what it refuses itself).
        detail: what was wrong, as data; empty when there is nothing to add.
        hint: what to do about it, or None.
    """

    default_sqlstate: ClassVar[str] = "KB000"

    def __init__(
        self,
        message: str,
        *,
        sqlstate: str | None = None,
        detail: Mapping[str, Any] | None = None,
        hint: str | None = None,
    ) -> None:
        """Keep the message and what belongs to it."""
        super().__init__(message)
        self.sqlstate = sqlstate or self.default_sqlstate
        self.detail: dict[str, Any] = dict(detail or {})
        self.hint = hint


class OrganizationError(KBSearchError):
    """KBORG: the organisation is missing, NULL or may not be changed."""

    default_sqlstate = "KBORG"


class QueryTextError(KBSearchError):
    """KBQRY: the query text is too long, is no text, or there are neither words nor an embedding."""

    default_sqlstate = "KBQRY"


class VectorError(KBSearchError):
    """KBVEC: a vector is unusable (zero, NaN, infinite, no numbers)."""

    default_sqlstate = "KBVEC"


class DimensionError(VectorError):
    """KBDIM: a vector has another number of dimensions than its embedding space."""

    default_sqlstate = "KBDIM"


class SpaceError(KBSearchError):
    """KBSPC: an embedding space is unknown, not active, or two were mixed."""

    default_sqlstate = "KBSPC"


class LimitError(KBSearchError):
    """KBLIM: a limit or an offset is no integer or out of range."""

    default_sqlstate = "KBLIM"


class CursorError(KBSearchError):
    """KBCUR: a cursor is damaged or belongs to another request."""

    default_sqlstate = "KBCUR"


class ProfileError(KBSearchError):
    """KBPRF: a ranking profile is unknown or its values are unusable."""

    default_sqlstate = "KBPRF"


class FilterError(KBSearchError):
    """KBFLT: kinds, quota, metadata or minimum score are unusable."""

    default_sqlstate = "KBFLT"


class ArticleError(KBSearchError):
    """KBART: an article or what it was to be made of is unusable."""

    default_sqlstate = "KBART"


class ChunkError(KBSearchError):
    """KBCHK: a chunk is too large."""

    default_sqlstate = "KBCHK"


class IndexStateError(KBSearchError):
    """KBIDX: an operation on the derived tables was refused."""

    default_sqlstate = "KBIDX"


class NotInstalledError(KBSearchError):
    """KB001: the database has no kbsearch, or an older one than this client needs."""

    default_sqlstate = "KB001"


class MigrationError(KBSearchError):
    """KB002: the schema can't be installed, upgraded or removed as things are."""

    default_sqlstate = "KB002"


class EmbeddedServerError(KBSearchError):
    """KB003: the embedded PostgreSQL server can't be started or stopped."""

    default_sqlstate = "KB003"


ERRORS_BY_SQLSTATE: Mapping[str, type[KBSearchError]] = {
    error.default_sqlstate: error
    for error in (
        OrganizationError,
        QueryTextError,
        VectorError,
        DimensionError,
        SpaceError,
        LimitError,
        CursorError,
        ProfileError,
        FilterError,
        ArticleError,
        ChunkError,
        IndexStateError,
    )
}

_MISSING = ("42P01", "42883", "3F000")
"""Undefined table, undefined function, invalid schema name."""
_OURS = re.compile(r'\bkbsearch\.|"kbsearch"')
"""Our schema in a message of the server, in whatever language it speaks: a name quoted or qualified."""


def translate(error: psycopg.Error) -> Exception:
    """Turn a driver's exception into ours where it has a SQLSTATE of class KB.

    A missing schema, table or function of kbsearch becomes NotInstalledError; any other exception is returned as it came.
    A SQLSTATE of our own arrives from psycopg as a plain DatabaseError, so the code decides and not the class.
    """
    sqlstate = error.sqlstate or ""
    message = error.diag.message_primary or str(error)
    if sqlstate.startswith("KB"):
        kind = ERRORS_BY_SQLSTATE.get(sqlstate, KBSearchError)
        return kind(message, sqlstate=sqlstate, detail=_detail(error.diag.message_detail), hint=error.diag.message_hint)
    if sqlstate in _MISSING and _OURS.search(message):
        return NotInstalledError(
            f"kbsearch is not installed in this database, or is older than this client: {message}",
            hint="Run: kbsearch db upgrade --dsn …",
        )
    return error


def raise_translated(error: psycopg.Error) -> NoReturn:
    """Raise what translate() makes of a driver's exception, with that exception as its cause."""
    ours = translate(error)
    if ours is error:
        raise error
    raise ours from error


def _detail(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        return {"text": text}
    return value if isinstance(value, dict) else {"value": value}
