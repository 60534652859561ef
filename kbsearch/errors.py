"""One tree of exceptions: what the SQL functions refuse (SQLSTATE class KB) and what the client refuses before it asks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn


class KBSearchError(Exception):
    """Base of all that kbsearch raises.

    `http_status` is what a web service answers with that passes its caller's arguments on. 400: an argument is not what its name says or is out
    of range (limits, cursors, filters), to be put right by whoever made the request. 404: what is named is not there. 409: not as things are,
    the same request may succeed later. 410: what was there is gone, begin again. 413: too large. 422: understood, and impossible with this
    organisation's data (a question without words, a vector of other dimensions, an unknown profile, space or language). 503: the service is not
    ready. 504: the caller's time is up. 500, also for codes not known here: nothing that the caller could put right.

    Attributes:
        sqlstate: five characters, class KB for what the SQL functions raise (the client uses the same codes for what it refuses itself).
        detail: what was wrong, as data; empty when there is nothing to add.
        hint: what to do about it, or None.
        http_status: status code of HTTP, of the class.
    """

    default_sqlstate: ClassVar[str] = "KB000"
    http_status: ClassVar[int] = 500

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
    http_status = 404


class QueryTextError(KBSearchError):
    """KBQRY: the query text is too long, is no text, or there are neither words nor an embedding."""

    default_sqlstate = "KBQRY"
    http_status = 422


class VectorError(KBSearchError):
    """KBVEC: a vector is unusable (zero, NaN, infinite, no numbers)."""

    default_sqlstate = "KBVEC"
    http_status = 422


class DimensionError(VectorError):
    """KBDIM: a vector has another number of dimensions than its embedding space."""

    default_sqlstate = "KBDIM"


class SpaceError(KBSearchError):
    """KBSPC: an embedding space is unknown, not active, or two were mixed."""

    default_sqlstate = "KBSPC"
    http_status = 422


class LimitError(KBSearchError):
    """KBLIM: a limit, an offset, a time or the way of paging is not what its name says, or out of range."""

    default_sqlstate = "KBLIM"
    http_status = 400


class CursorError(KBSearchError):
    """KBCUR: a cursor is damaged or belongs to another request."""

    default_sqlstate = "KBCUR"
    http_status = 400


class LanguageError(KBSearchError):
    """KBLNG: there is no text search configuration of that name."""

    default_sqlstate = "KBLNG"
    http_status = 422


class ProfileError(KBSearchError):
    """KBPRF: a ranking profile is unknown or its values are unusable."""

    default_sqlstate = "KBPRF"
    http_status = 422


class FilterError(KBSearchError):
    """KBFLT: kinds, quota, metadata or minimum score are unusable."""

    default_sqlstate = "KBFLT"
    http_status = 400


class ArticleError(KBSearchError):
    """KBART: an article or what it was to be made of is unusable."""

    default_sqlstate = "KBART"
    http_status = 422


class ChunkError(KBSearchError):
    """KBCHK: a chunk is too large."""

    default_sqlstate = "KBCHK"
    http_status = 413


class IndexStateError(KBSearchError):
    """KBIDX: an operation on the derived tables was refused."""

    default_sqlstate = "KBIDX"
    http_status = 409


class ApproximateIndexError(KBSearchError):
    """KBANN: a search that has to be approximate has no finished index, or one cannot be made like that."""

    default_sqlstate = "KBANN"
    http_status = 409


class SnapshotError(KBSearchError):
    """KBSNP: there is no such stored ranking (any more), or none can be stored: in a read-only transaction, on a replica."""

    default_sqlstate = "KBSNP"
    http_status = 410


class SourceError(KBSearchError):
    """KBSRC: there is nothing to open: no such published article or passage, or one of a kind that has nothing to open."""

    default_sqlstate = "KBSRC"
    http_status = 404


class ArbitrationError(KBSearchError):
    """KBARB: rankings, a manifest or what is done with the log of arbitrations is unusable."""

    default_sqlstate = "KBARB"
    http_status = 422


class PolicyError(KBSearchError):
    """KBPOL: an arbitration policy is unknown or its rules are unusable."""

    default_sqlstate = "KBPOL"
    http_status = 422


class SecurityError(KBSearchError):
    """KBSEC: row-level security or rights cannot be set up like that."""

    default_sqlstate = "KBSEC"
    http_status = 403


class EscalatedError(KBSearchError):
    """KBESC: the legs of a search disagree, and its policy gives no answer but leaves the decision to somebody."""

    default_sqlstate = "KBESC"
    http_status = 409

    @classmethod
    def of(cls, manifest: Mapping[str, Any], hint: str | None = None) -> EscalatedError:
        """The error of an escalated search, as the database says it."""
        return cls(
            f"the legs disagree by {manifest['disagreement_magnitude']}, over the limit of arbitration policy {manifest['policy']}",
            detail=manifest,
            hint=hint
            or "The policy has such searches decided by somebody: look at both legs (profiles vector@1, keyword@1), or search with exploratory=True.",
        )

    @property
    def manifest(self) -> dict[str, Any]:
        """The record of the arbitration, as an escalated page has it; `detail` is the same."""
        return self.detail


class NotInstalledError(KBSearchError):
    """KB001: the database has no kbsearch, or an older one than this client needs."""

    default_sqlstate = "KB001"
    http_status = 503


class MigrationError(KBSearchError):
    """KB002: the schema can't be installed, upgraded or removed as things are."""

    default_sqlstate = "KB002"


class EmbeddedServerError(KBSearchError):
    """KB003: the embedded PostgreSQL server can't be started or stopped."""

    default_sqlstate = "KB003"
    http_status = 503


class ConnectionKindError(KBSearchError, TypeError):
    """KB005: what a client was given to connect with is nothing that it can use."""

    default_sqlstate = "KB005"


class StatementTimeoutError(KBSearchError):
    """57014: the time that a call was given is up; the server gave the statement up and nothing was written.

    Raised only where the call's own timeout ended it: a statement that somebody cancelled, or that the connection's own statement_timeout
    ended, raises the driver's exception.
    """

    default_sqlstate = "57014"
    http_status = 504


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
        LanguageError,
        ProfileError,
        FilterError,
        ArticleError,
        ChunkError,
        IndexStateError,
        ApproximateIndexError,
        SnapshotError,
        SourceError,
        ArbitrationError,
        PolicyError,
        EscalatedError,
        SecurityError,
    )
}

_MISSING = ("42P01", "42883", "3F000")
"""Undefined table, undefined function, invalid schema name."""


def translate(error: Exception, schema: str = "kbsearch") -> Exception:
    """Turn a driver's exception into ours where it has a SQLSTATE of class KB.

    A missing schema, table or function of kbsearch becomes NotInstalledError; any other exception is returned as it came.
    A SQLSTATE of our own arrives from psycopg as a plain DatabaseError, so the code decides and not the class.

    Args:
        error: an exception of psycopg, psycopg2 or asyncpg, or SQLAlchemy's around one.
        schema: the schema that kbsearch is installed in.
    """
    if isinstance(error, KBSearchError):
        return error
    code = sqlstate(error)
    message, detail, hint = _fields(error)
    if code.startswith("KB"):
        kind = ERRORS_BY_SQLSTATE.get(code, KBSearchError)
        return kind(message, sqlstate=code, detail=_detail(detail), hint=hint)
    # The schema's name in a message of the server, in whatever language it speaks: qualified or quoted.
    if code in _MISSING and re.search(rf'\b{re.escape(schema)}\.|"{re.escape(schema)}"', message):
        return NotInstalledError(
            f"kbsearch is not installed in this database, or is older than this client: {message}",
            hint="Run: kbsearch db upgrade --dsn …" + ("" if schema == "kbsearch" else f" --schema {schema}"),
        )
    return error


def raise_translated(error: Exception, schema: str = "kbsearch") -> NoReturn:
    """Raise what translate() makes of a driver's exception, with that exception as its cause."""
    ours = translate(error, schema)
    if ours is error:
        raise error
    raise ours from error


def sqlstate(error: BaseException) -> str:
    """The SQLSTATE of a driver's exception, or of SQLAlchemy's around one; empty where there is none."""
    driver = getattr(error, "orig", None) or error
    return getattr(driver, "sqlstate", None) or getattr(driver, "pgcode", None) or ""


def _fields(error: Exception) -> tuple[str, str | None, str | None]:
    """Message, DETAIL and HINT of the server: psycopg has them in `diag`, asyncpg in the exception that SQLAlchemy's adapter raised from."""
    driver = getattr(error, "orig", None) or error
    diag = getattr(driver, "diag", None)
    if diag is not None:
        return diag.message_primary or str(driver), diag.message_detail, diag.message_hint
    cause = driver.__cause__ or driver
    return getattr(cause, "message", None) or str(driver), getattr(cause, "detail", None), getattr(cause, "hint", None)


def _detail(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        return {"text": text}
    return value if isinstance(value, dict) else {"value": value}
