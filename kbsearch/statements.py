"""Pure builders: from checked arguments to a statement with its parameters. Nothing here talks to a database.

Calls use named notation, so a function's later parameters can't shift them. Parameters have no casts of vector type: the type may live
in any schema, and the function's own signature says it.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, SupportsFloat, SupportsIndex, Unpack
from uuid import UUID

import numpy as np

from kbsearch.errors import (
    ArbitrationError,
    ArticleError,
    CursorError,
    FilterError,
    KBSearchError,
    LanguageError,
    LimitError,
    OrganizationError,
    ProfileError,
    QueryTextError,
    SnapshotError,
    SourceError,
    SpaceError,
    VectorError,
)
from kbsearch.models import Candidate, Chunk, Explanation, Passage, VectorLike
from kbsearch.options import ExplainOptions, PageOptions, RankingOptions, SearchOptions
from kbsearch.schema import in_schema

BIGINT_MAX = 2**63 - 1
MAX_DIMENSIONS = 16_000
"""Of pgvector's type: a vector of more is refused here, before the database is asked."""

EXPIRES_IN = timedelta(minutes=15)
"""How long a stored ranking can be read unless another time is asked for."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement for any driver.

    Attributes:
        sql: text for a schema called kbsearch, with placeholders like `%(org_id)s` and no other percent sign or colon.
        parameters: their values: numbers, text, truth values, lists of text, None.
    """

    sql: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def in_schema(self, schema: str) -> Statement:
        """Return the statement for kbsearch installed in another schema."""
        return replace(self, sql=in_schema(self.sql, schema))


_SECONDS = "seconds"
"""Of an argument of type interval, which is passed as a number of seconds: asyncpg takes no text for it."""


def _call(function: str, **types: str | None) -> str:
    """Return a call in named notation: `p_org_id => CAST(%(org_id)s AS bigint)`; without a cast where the type is None."""
    arguments = ",\n".join(f"    p_{name} => {_value(name, kind)}" for name, kind in types.items())
    return f"kbsearch.{function}(\n{arguments}\n)"


def _value(name: str, kind: str | None) -> str:
    if kind is None:
        return f"%({name})s"
    if kind == _SECONDS:
        return f"pg_catalog.make_interval(secs => CAST(%({name})s AS double precision))"
    return f"CAST(%({name})s AS {kind})"


def _rows(call: str, model: type, order: str, *as_text: str) -> str:
    """Return a query of a function's columns, which are the fields of a model; those of jsonb as text."""
    columns = ",\n".join(
        f"    CAST(found.{one.name} AS {_TEXT})" if one.name in as_text else f"    found.{one.name}"
        for one in fields(model)
    )
    return f"SELECT\n{columns}\nFROM {call} AS found\nORDER BY {order}"


# text and jsonb are names like any other, which a caller's search_path may have for something else; bigint and its like are key words.
_TEXT, _TEXTS, _JSON = "pg_catalog.text", "pg_catalog.text[]", "pg_catalog.jsonb"

_QUESTION: dict[str, str | None] = {"org_id": "bigint", "query_text": _TEXT, "query_embedding": None}
_PAGE: dict[str, str | None] = {"limit": "bigint", "offset": "bigint", "cursor": _TEXT}
_RANKING: dict[str, str | None] = {
    "kinds": _TEXTS,
    "kind_quota": _JSON,
    "metadata": _JSON,
    "min_score": "double precision",
    "profile": _TEXT,
    "space_id": "bigint",
    "exploratory": "boolean",
    "language": _TEXT,
}
_SEARCH_PAGE = _call("search_kb_hybrid_page_v1", **_QUESTION, **_PAGE, **_RANKING, highlight="boolean")
_OPEN_SEARCH = _call("open_kb_search_v1", **_QUESTION, **_RANKING, expires_in=_SECONDS)
_FETCH_PAGE = _call("fetch_kb_page_v1", org_id="bigint", snapshot="uuid", **_PAGE, highlight="boolean")
_CLOSE_SEARCH = _call("close_kb_search_v1", org_id="bigint", snapshot="uuid")
_EXPLAIN_SEARCH = _call("explain_kb_search_v1", **_QUESTION, **_PAGE, **_RANKING)
_EXPLAIN_ARTICLE = _call("explain_kb_article_v1", **_QUESTION, article_id="bigint", **_PAGE, **_RANKING)
_EXPLAIN_CANDIDATES = _call("explain_kb_candidates_v1", **_QUESTION, **_RANKING)
_GET_SOURCE = _call("get_kb_source_v1", org_id="bigint", article_id="bigint", chunk_id="bigint")
_LOG_ARBITRATION = _call("log_kb_arbitration_v1", org_id="bigint", manifest=_JSON, query_text=_TEXT)

_UPSERT_ARTICLE = _call(
    "upsert_kb_article_v1",
    org_id="bigint",
    external_ref=_TEXT,
    title=_TEXT,
    body=_TEXT,
    kind=_TEXT,
    chunks=_JSON,
    published="boolean",
    metadata=_JSON,
    source_uri=_TEXT,
    language=_TEXT,
    content_sha256=_TEXT,
    article_id="bigint",
    space_id="bigint",
)

_DELETE_ARTICLE = _call("delete_kb_article_v1", org_id="bigint", article_id="bigint", external_ref=_TEXT)

_RESERVE_ARTICLES = _call("reserve_kb_articles_v1", org_id="bigint", external_refs=_TEXTS)


def _question_arguments(org_id: int | None, text: str | None, embedding: VectorLike | None) -> dict[str, Any]:
    return {
        "org_id": integer(org_id, "org_id", OrganizationError, optional=True),
        "query_text": plain_text(text, "text", QueryTextError),
        "query_embedding": None if embedding is None else vector_text(embedding),
    }


def page_arguments(*, limit: int = 10, offset: int = 0, cursor: str | None = None) -> dict[str, Any]:
    """The arguments that say which part of a ranking, checked, by their names without `p_`. PageOptions says what they mean.

    Raises:
        KBSearchError: an argument can't be what its name says; ranges are the database's matter.
    """
    return {
        "limit": integer(limit, "limit", LimitError),
        "offset": integer(offset, "offset", LimitError),
        "cursor": plain_text(cursor, "cursor", CursorError),
    }


def ranking_arguments(
    *,
    kinds: Sequence[str] | None = None,
    kind_quota: Mapping[str, int] | None = None,
    metadata: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    min_score: float | None = None,
    profile: str | None = None,
    space_id: int | None = None,
    exploratory: bool = False,
    language: str | None = None,
) -> dict[str, Any]:
    """The arguments that say what is ranked and how, checked, by their names without `p_`. RankingOptions says what they mean.

    Raises:
        KBSearchError: an argument can't be what its name says; ranges are the database's matter.
    """
    return {
        "kinds": None if kinds is None else texts(kinds, "kinds", FilterError),
        "kind_quota": None if kind_quota is None else _quota(kind_quota),
        "metadata": None if metadata is None else json_text(metadata, "metadata", FilterError),
        "min_score": None if min_score is None else number(min_score, "min_score", FilterError),
        "profile": plain_text(profile, "profile", ProfileError),
        "space_id": integer(space_id, "space_id", SpaceError, optional=True),
        "exploratory": truth(exploratory, "exploratory", FilterError),
        "language": plain_text(language, "language", LanguageError),
    }


def _explain_arguments(
    *, limit: int = 10, offset: int = 0, cursor: str | None = None, **ranking: Unpack[RankingOptions]
) -> dict[str, Any]:
    return {**page_arguments(limit=limit, offset=offset, cursor=cursor), **ranking_arguments(**ranking)}


def search_arguments(
    org_id: int | None,
    text: str | None,
    embedding: VectorLike | None = None,
    *,
    highlight: bool = False,
    **options: Unpack[ExplainOptions],
) -> dict[str, Any]:
    """The search functions' arguments, checked: all of them, by their names without `p_`, in their order. SearchOptions says what they mean.

    Raises:
        KBSearchError: an argument can't be what its name says; ranges are the database's matter.
    """
    return {
        **_question_arguments(org_id, text, embedding),
        **_explain_arguments(**options),
        "highlight": truth(highlight, "highlight", FilterError),
    }


def search_page(
    org_id: int | None, text: str | None, embedding: VectorLike | None = None, **options: Unpack[SearchOptions]
) -> Statement:
    """A call of search_kb_hybrid_page_v1 that gives one row with one column, the page as text; arguments as of search_arguments()."""
    # As text: what a driver makes of jsonb depends on how its owner set it up.
    return Statement(f"SELECT CAST({_SEARCH_PAGE} AS {_TEXT})", search_arguments(org_id, text, embedding, **options))


def open_search(
    org_id: int | None,
    text: str | None,
    embedding: VectorLike | None = None,
    *,
    expires_in: timedelta | None = None,
    **options: Unpack[RankingOptions],
) -> Statement:
    """A call of open_kb_search_v1 that gives one row, the fields of OpenedSearch: snapshot as text, expires_at as a time with its zone.

    expires_in: how long it can be read; EXPIRES_IN by default.
    """
    return Statement(
        f"SELECT CAST(opened.snapshot AS {_TEXT}), opened.total, opened.expires_at\nFROM {_OPEN_SEARCH} AS opened",
        {
            **_question_arguments(org_id, text, embedding),
            **ranking_arguments(**options),
            "expires_in": _seconds(EXPIRES_IN if expires_in is None else expires_in, "expires_in", LimitError),
        },
    )


def fetch_page(
    org_id: int | None, snapshot: str, *, highlight: bool = False, **options: Unpack[PageOptions]
) -> Statement:
    """A call of fetch_kb_page_v1 that gives one row with one column, the page as text."""
    return Statement(
        f"SELECT CAST({_FETCH_PAGE} AS {_TEXT})",
        {
            "org_id": integer(org_id, "org_id", OrganizationError, optional=True),
            "snapshot": _uuid(snapshot, "snapshot", SnapshotError),
            **page_arguments(**options),
            "highlight": truth(highlight, "highlight", FilterError),
        },
    )


def close_search(org_id: int | None, snapshot: str) -> Statement:
    """A call of close_kb_search_v1 that says whether there was such a snapshot."""
    return Statement(
        f"SELECT {_CLOSE_SEARCH}",
        {
            "org_id": integer(org_id, "org_id", OrganizationError, optional=True),
            "snapshot": _uuid(snapshot, "snapshot", SnapshotError),
        },
    )


def explain_search(
    org_id: int | None, text: str | None, embedding: VectorLike | None = None, **options: Unpack[ExplainOptions]
) -> Statement:
    """A call of explain_kb_search_v1 that gives rows for Explanation.from_row(), best first."""
    return Statement(
        _rows(_EXPLAIN_SEARCH, Explanation, "found.place", "matches"),
        {**_question_arguments(org_id, text, embedding), **_explain_arguments(**options)},
    )


def explain_article(
    org_id: int | None,
    text: str | None,
    embedding: VectorLike | None = None,
    *,
    article_id: int,
    **options: Unpack[ExplainOptions],
) -> Statement:
    """A call of explain_kb_article_v1 that gives one row with one column, the object as text."""
    return Statement(
        f"SELECT CAST({_EXPLAIN_ARTICLE} AS {_TEXT})",
        {
            **_question_arguments(org_id, text, embedding),
            "article_id": integer(article_id, "article_id", ArticleError),
            **_explain_arguments(**options),
        },
    )


def explain_candidates(
    org_id: int | None, text: str | None, embedding: VectorLike | None = None, **options: Unpack[RankingOptions]
) -> Statement:
    """A call of explain_kb_candidates_v1 that gives rows for Candidate, kind by kind, best first."""
    return Statement(
        _rows(_EXPLAIN_CANDIDATES, Candidate, 'found.kind COLLATE pg_catalog."C", found.place_in_kind'),
        {**_question_arguments(org_id, text, embedding), **ranking_arguments(**options)},
    )


def get_source(org_id: int | None, article_id: int, chunk_id: int | None = None) -> Statement:
    """A call of get_kb_source_v1 that gives rows for Passage.from_row(), in the order of the text."""
    return Statement(
        _rows(_GET_SOURCE, Passage, "found.chunk_no, found.chunk_id", "metadata"),
        {
            "org_id": integer(org_id, "org_id", OrganizationError, optional=True),
            "article_id": integer(article_id, "article_id", SourceError),
            "chunk_id": integer(chunk_id, "chunk_id", SourceError, optional=True),
        },
    )


def log_arbitration(org_id: int | None, manifest: Mapping[str, Any], query_text: str | None = None) -> Statement:
    """A call of log_kb_arbitration_v1 that gives the id of the row.

    Raises:
        KBSearchError: an argument can't be what its name says; whether the manifest is right is the database's matter.
    """
    if not isinstance(manifest, Mapping):
        raise ArbitrationError(
            f"manifest must be what an arbitrated page has as its manifest, not {manifest!r:.100}",
            hint="Searches whose profile does not arbitrate have none.",
        )
    return Statement(
        f"SELECT {_LOG_ARBITRATION}",
        {
            "org_id": integer(org_id, "org_id", OrganizationError, optional=True),
            "manifest": json_text(dict(manifest), "manifest", ArbitrationError),
            "query_text": plain_text(query_text, "query_text", QueryTextError),
        },
    )


def upsert_article(
    org_id: int | None,
    *,
    external_ref: str | None = None,
    title: str | None = None,
    body: str | None = None,
    kind: str = "article",
    chunks: Sequence[Chunk] | None = None,
    published: bool = True,
    metadata: Mapping[str, Any] | None = None,
    source_uri: str | None = None,
    language: str | None = None,
    content_sha256: str | None = None,
    article_id: int | None = None,
    space_id: int | None = None,
) -> Statement:
    """A call of upsert_kb_article_v1 that gives the article's id. ArticleOptions says what the arguments mean.

    Raises:
        KBSearchError: an argument can't be what its name says.
    """
    return Statement(
        f"SELECT {_UPSERT_ARTICLE}",
        {
            "org_id": integer(org_id, "org_id", OrganizationError, optional=True),
            "external_ref": plain_text(external_ref, "external_ref", ArticleError),
            "title": plain_text(title, "title", ArticleError),
            "body": plain_text(body, "body", ArticleError),
            "kind": plain_text(kind, "kind", ArticleError),
            "chunks": None if chunks is None else json_text(_chunks(chunks), "chunks", ArticleError),
            "published": truth(published, "published", ArticleError),
            "metadata": json_text({} if metadata is None else metadata, "metadata", ArticleError),
            "source_uri": plain_text(source_uri, "source_uri", ArticleError),
            "language": plain_text(language, "language", LanguageError),
            "content_sha256": plain_text(content_sha256, "content_sha256", ArticleError),
            "article_id": integer(article_id, "article_id", ArticleError, optional=True),
            "space_id": integer(space_id, "space_id", SpaceError, optional=True),
        },
    )


def delete_article(org_id: int | None, *, article_id: int | None = None, external_ref: str | None = None) -> Statement:
    """A call of delete_kb_article_v1 that says whether there was such an article."""
    return Statement(
        f"SELECT {_DELETE_ARTICLE}",
        {
            "org_id": integer(org_id, "org_id", OrganizationError, optional=True),
            "article_id": integer(article_id, "article_id", ArticleError, optional=True),
            "external_ref": plain_text(external_ref, "external_ref", ArticleError),
        },
    )


def reserve_articles(org_id: int | None, external_refs: Sequence[str]) -> Statement:
    """A call of reserve_kb_articles_v1 that gives a row for every name: external_ref, article_id, content_sha256."""
    return Statement(
        f"""SELECT reserved.external_ref, reserved.article_id, reserved.content_sha256
FROM {_RESERVE_ARTICLES} AS reserved""",
        {
            "org_id": integer(org_id, "org_id", OrganizationError, optional=True),
            "external_refs": texts(external_refs, "external_refs", ArticleError),
        },
    )


def searched_space(org_id: int | None, space_id: int | None) -> Statement:
    """The embedding space that a search of the organisation uses: id, model, revision, dimensions; no row if it has none."""
    return Statement(
        """SELECT spaces.id, spaces.model, spaces.revision, spaces.dimensions
FROM kbsearch.organizations AS organizations
INNER JOIN kbsearch.kb_embedding_spaces AS spaces
    ON spaces.id OPERATOR(pg_catalog.=) coalesce(CAST(%(space_id)s AS bigint), organizations.active_space_id)
WHERE organizations.id OPERATOR(pg_catalog.=) CAST(%(org_id)s AS bigint)""",
        {
            "org_id": integer(org_id, "org_id", OrganizationError, optional=True),
            "space_id": integer(space_id, "space_id", SpaceError, optional=True),
        },
    )


def set_timeout(milliseconds: int) -> Statement:
    """Set statement_timeout for what follows in the transaction; gives what it was, for restore_timeout()."""
    # A materialised query is run before its row is used: the old value is read before the new one is set.
    return Statement(
        """WITH previous AS MATERIALIZED (SELECT pg_catalog.current_setting('statement_timeout') AS setting)
SELECT previous.setting, pg_catalog.set_config('statement_timeout', CAST(%(timeout)s AS pg_catalog.text), true)
FROM previous""",
        {"timeout": f"{milliseconds}ms"},
    )


def restore_timeout(setting: str) -> Statement:
    """Set statement_timeout back to what set_timeout() gave."""
    return Statement(
        "SELECT pg_catalog.set_config('statement_timeout', CAST(%(timeout)s AS pg_catalog.text), true)",
        {"timeout": setting},
    )


def integer(value: object, name: str, error: type[KBSearchError], *, optional: bool = False) -> int | None:
    """Return a whole number that PostgreSQL's bigint holds.

    Raises:
        error: it is none: text, a fraction, a truth value, None unless optional, or beyond 64 bits.
    """
    if value is None and optional:
        return None
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, SupportsIndex):
        raise error(f"{name} must be an integer, not {value!r}", detail={name: repr(value)})
    try:
        number = operator.index(value)
    except TypeError:  # an array of several numbers has the method, too
        raise error(f"{name} must be an integer, not {value!r}", detail={name: repr(value)}) from None
    if not -BIGINT_MAX - 1 <= number <= BIGINT_MAX:
        raise error(f"{name} must fit in 64 bits: {number}", detail={name: str(number)})
    return number


def _uuid(value: object, name: str, error: type[KBSearchError]) -> str:
    try:
        return str(UUID(plain_text(value, name, error)))
    except (TypeError, ValueError):
        raise error(
            f"{name} must be what a page or an opened search has as its snapshot, not {value!r:.100}",
            detail={name: repr(value)},
        ) from None


def _seconds(value: object, name: str, error: type[KBSearchError]) -> float:
    if not isinstance(value, timedelta):
        raise error(
            f"{name} must be a timedelta, not {value!r}",
            detail={name: repr(value)},
            hint="datetime.timedelta(minutes=15), for instance.",
        )
    return value.total_seconds()


def truth(value: object, name: str, error: type[KBSearchError]) -> bool:
    """Return a truth value; what Python would take for one, such as "false" or an array, is refused.

    Raises:
        error: it is neither True nor False.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise error(f"{name} must be True or False, not {value!r}", detail={name: repr(value)})
    return bool(value)


def plain_text(value: object, name: str, error: type[KBSearchError]) -> str | None:
    """Return text that PostgreSQL can store, or None.

    Raises:
        error: it is no string, or holds NUL or half of a surrogate pair.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise error(f"{name} must be a string, not {type(value).__name__}")
    position = value.find("\0")
    if position >= 0:
        raise error(
            f"{name} holds a NUL character at position {position}",
            detail={"position": position},
            hint="Remove the character: no PostgreSQL text can hold it.",
        )
    try:
        value.encode()
    except UnicodeEncodeError as failure:
        raise error(
            f"{name} holds a lone surrogate at position {failure.start}",
            detail={"position": failure.start},
            hint="The text was decoded wrongly somewhere: decode it again, with errors='replace' if need be.",
        ) from None
    return value


def texts(values: object, name: str, error: type[KBSearchError]) -> list[str]:
    """Return a list of strings; one string alone is refused, it is nearly always a mistake.

    Raises:
        error: it is no sequence of strings.
    """
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise error(f"{name} must be a list of strings, not {values!r}")
    result: list[str] = []
    for value in values:
        text = plain_text(value, name, error)
        if text is None:
            raise error(f"{name} must be a list of strings: None is none")
        result.append(text)
    return result


def json_text(value: object, name: str, error: type[KBSearchError]) -> str:
    r"""Return a value as JSON text that PostgreSQL's jsonb takes.

    Raises:
        error: it is not JSON, or holds NaN, NUL or a lone surrogate.
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as failure:
        raise error(f"{name} can't be written as JSON: {failure}") from None
    # json.dumps writes NUL as an escape, which jsonb refuses; a backslash of the data is doubled and taken out first.
    if "\\u0000" in text.replace("\\\\", ""):
        raise error(f"{name} holds a NUL character", hint="Remove the character: no PostgreSQL text can hold it.")
    plain_text(text, name, error)
    return text


def vector(value: object) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return an embedding as float32 of shape (dimensions,).

    Raises:
        VectorError: it is no sequence of numbers, or has NaN, infinity or a component beyond single precision.
    """
    array = _array(value)
    if array.ndim != 1:
        raise VectorError(f"an embedding has one axis, not {array.ndim}: shape {array.shape}")
    if not 1 <= array.size <= MAX_DIMENSIONS:
        raise VectorError(f"an embedding has 1 to {MAX_DIMENSIONS} components, not {array.size}")
    try:
        with np.errstate(over="ignore"):
            result = array.astype(np.float32)
    except (TypeError, ValueError, OverflowError) as failure:
        raise VectorError(f"an embedding must be made of numbers: {failure}") from None
    if not np.isfinite(result).all():
        position = int(np.flatnonzero(~np.isfinite(result))[0])
        raise VectorError(
            f"component {position} of the embedding is {array[position]}: NaN, infinite or beyond single precision",
            detail={"position": position},
        )
    return result


def _array(value: object) -> np.ndarray[Any, Any]:
    """Return a numpy array of numbers, of any shape and type."""
    if hasattr(value, "to_numpy"):  # pgvector's own type, or a column of a data frame
        value = value.to_numpy()
    if not isinstance(value, np.ndarray):
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise VectorError(
                f"an embedding must be a list, a tuple or an array of numbers, not {type(value).__name__}"
            )
        for component in value:
            if isinstance(component, (bool, np.bool_)) or not isinstance(component, (int, float, np.number)):
                raise VectorError(
                    f"an embedding must be made of numbers, not of {type(component).__name__}: {component!r}"
                )
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" and array.dtype != np.dtype(object):
        raise VectorError(f"an embedding must be made of numbers, not of {array.dtype}")
    return array


def vector_text(value: object) -> str:
    """Return an embedding as pgvector reads it; the digits give the same float32 back."""
    return "[" + ",".join(str(component) for component in vector(value)) + "]"


def number(value: object, name: str, error: type[KBSearchError]) -> float:
    """Return a finite number.

    Raises:
        error: it is none: text, a truth value, an array of several, NaN, infinite, or an integer beyond a double.
    """
    if isinstance(value, (bool, str, bytes)) or not isinstance(value, SupportsFloat):
        raise error(f"{name} must be a number, not {value!r}")
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):  # an array of several numbers, an integer beyond a double
        raise error(f"{name} must be a number, not {value!r}") from None
    if not math.isfinite(result):
        raise error(f"{name} must be a finite number, not {result}")
    return result


def _quota(quota: object) -> str:
    if not isinstance(quota, Mapping):
        raise FilterError(f"kind_quota must map kinds to numbers of articles, not {type(quota).__name__}")
    return json_text(
        {
            plain_text(kind, "kind_quota", FilterError): integer(places, f"kind_quota of {kind}", FilterError)
            for kind, places in quota.items()
        },
        "kind_quota",
        FilterError,
    )


def _chunks(chunks: object) -> list[dict[str, Any]]:
    if isinstance(chunks, (str, bytes, Mapping)) or not hasattr(chunks, "__iter__"):
        raise ArticleError(f"chunks must be a list of Chunk, not {type(chunks).__name__}")
    result: list[dict[str, Any]] = []
    for chunk in chunks:
        if not isinstance(chunk, Chunk):
            raise ArticleError(f"chunks must be a list of Chunk, not of {type(chunk).__name__}")
        result.append(
            {
                "content": plain_text(chunk.content, "content", ArticleError),
                "heading": plain_text(chunk.heading, "heading", ArticleError),
                # The shortest decimal that gives the same float32 back; as a double it has the same digits.
                "embedding": None
                if chunk.embedding is None
                else [float(str(component)) for component in vector(chunk.embedding)],
                "input_sha256": plain_text(chunk.input_sha256, "input_sha256", ArticleError),
            }
        )
    return result
