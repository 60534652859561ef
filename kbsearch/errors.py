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
    """KBORG: the organisation is NULL or does not exist; an `org_id` (or the id of an organisation or a chunk) is changed."""

    default_sqlstate = "KBORG"
    http_status = 404


class QueryTextError(KBSearchError):
    """KBQRY: the question is over its limits, or there is nothing to search with: neither a word that counts nor an embedding that is used."""

    default_sqlstate = "KBQRY"
    http_status = 422


class VectorError(KBSearchError):
    """KBVEC: an embedding has no direction: zero, or a norm outside 1e-15 … 1e15."""

    default_sqlstate = "KBVEC"
    http_status = 422


class DimensionError(VectorError):
    """KBDIM: an embedding has other dimensions than its space."""

    default_sqlstate = "KBDIM"


class SpaceError(KBSearchError):
    """KBSPC: there is no such embedding space, a row of one is changed, one is activated that is not whole, or one is dropped that searches use."""

    default_sqlstate = "KBSPC"
    http_status = 422


class LimitError(KBSearchError):
    """KBLIM: `p_limit` is not 0 … 1000, `p_offset` is negative or NULL, `p_expires_in` is not over 0 and at most a day.

    Or it is over what a question of so many words in so many languages can have: cursors of a page are 64 MiB at most. In Python also what is no such
    number, a timeout and `consistency`.
    """

    default_sqlstate = "KBLIM"
    http_status = 400


class CursorError(KBSearchError):
    """KBCUR: a cursor was damaged or forged, belongs to another organisation, request, profile, space or function version, or comes with offset."""

    default_sqlstate = "KBCUR"
    http_status = 400


class LanguageError(KBSearchError):
    """KBLNG: there is no text search configuration of that name."""

    default_sqlstate = "KBLNG"
    http_status = 422


class ProfileError(KBSearchError):
    """KBPRF: there is no such ranking profile, one cannot be made like that, or a row of one is changed."""

    default_sqlstate = "KBPRF"
    http_status = 422


class FilterError(KBSearchError):
    """KBFLT: `p_kinds`, `p_kind_quota`, `p_metadata` or `p_min_score` cannot be understood or is over its limit."""

    default_sqlstate = "KBFLT"
    http_status = 400


class ArticleError(KBSearchError):
    """KBART: an article, its chunks or its references cannot be stored like that."""

    default_sqlstate = "KBART"
    http_status = 422


class ChunkError(KBSearchError):
    """KBCHK: a chunk has over 262,144 bytes or over 16,000 words."""

    default_sqlstate = "KBCHK"
    http_status = 413


class IndexStateError(KBSearchError):
    """KBIDX: language or reference length is changed outside READ COMMITTED.

    An index is rebuilt inside a statement that writes chunks; an embedding space is activated outside READ
    COMMITTED.
    """

    default_sqlstate = "KBIDX"
    http_status = 409


class ApproximateIndexError(KBSearchError):
    """KBANN: a search that has to be approximate has no finished index, or one cannot be made like that."""

    default_sqlstate = "KBANN"
    http_status = 409


class SnapshotError(KBSearchError):
    """KBSNP: there is no such stored ranking (any more), or none can be stored: in a read-only transaction or on a replica."""

    default_sqlstate = "KBSNP"
    http_status = 410


class SourceError(KBSearchError):
    """KBSRC: there is nothing to open: no such published article or passage, or one of a kind that is not inspectable."""

    default_sqlstate = "KBSRC"
    http_status = 404


class ArbitrationError(KBSearchError):
    """KBARB: rankings cannot be compared like that.

    A manifest was changed; an organisation keeps no log; a row of it is changed; a number has no place in canonical
    JSON, or a value is over 64 levels deep.
    """

    default_sqlstate = "KBARB"
    http_status = 422


class PolicyError(KBSearchError):
    """KBPOL: there is no such arbitration policy, one cannot be made like that, or a row of one is changed."""

    default_sqlstate = "KBPOL"
    http_status = 422


class SecurityError(KBSearchError):
    """KBSEC: row-level security or rights cannot be set up like that, or a trigger function of kbsearch is used for another table."""

    default_sqlstate = "KBSEC"
    http_status = 403


class BudgetError(KBSearchError):
    """KBTMO: a search is over its time budget, the setting `kbsearch.search_budget_ms`, or sure to be."""

    default_sqlstate = "KBTMO"
    http_status = 504


class EscalatedError(KBSearchError):
    """KBESC: the legs of a search disagree and its policy says `escalate`: somebody has to decide.

    DETAIL (`.manifest`) has the manifest. The page function raises nothing: its page says so.
    """

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
        BudgetError,
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
    except (ValueError, RecursionError):
        return {"text": text}
    return value if isinstance(value, dict) else {"value": value}
