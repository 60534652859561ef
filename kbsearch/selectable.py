"""A search as a table-valued selectable of SQLAlchemy's, to be joined with an application's own tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from sqlalchemy import BigInteger, Boolean, Dialect, Double, String, Text, UnaryExpression, bindparam, column, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.operators import custom_op
from sqlalchemy.sql.selectable import TableValuedAlias
from sqlalchemy.types import UserDefinedType

from kbsearch import statements
from kbsearch.models import VectorLike
from kbsearch.options import SearchOptions
from kbsearch.schema import DEFAULT, check_schema

if TYPE_CHECKING:
    from sqlalchemy.sql.base import ReadOnlyColumnCollection
    from sqlalchemy.sql.elements import KeyedColumnElement

    class ResultColumns(ReadOnlyColumnCollection[str, KeyedColumnElement[Any]]):
        """The columns of search_kb_hybrid_v1, typed; kbsearch.Result says what they hold."""

        place: KeyedColumnElement[int]
        article_id: KeyedColumnElement[int]
        score: KeyedColumnElement[float]
        chunk_id: KeyedColumnElement[int | None]
        kind: KeyedColumnElement[str]
        title: KeyedColumnElement[str | None]
        excerpt: KeyedColumnElement[str | None]
        excerpt_html: KeyedColumnElement[str | None]
        inspectable: KeyedColumnElement[bool]
        external_ref: KeyedColumnElement[str | None]
        source_uri: KeyedColumnElement[str | None]
        metadata: KeyedColumnElement[dict[str, Any]]
        vector_similarity: KeyedColumnElement[float | None]
        keyword_score: KeyedColumnElement[float | None]
        tied_with: KeyedColumnElement[int]
        settled_by_identity: KeyedColumnElement[bool]
        cursor: KeyedColumnElement[str | None]

    class SearchSelectable(TableValuedAlias):
        """What as_selectable() gives: a TableValuedAlias that knows the types of its columns."""

        @property
        def c(self) -> ResultColumns:
            """The columns."""
else:
    SearchSelectable: TypeAlias = TableValuedAlias


class _Untyped(UserDefinedType[Any]):
    """Values without a cast: PostgreSQL takes a parameter's type from the function's signature.

    So an embedding goes as text and becomes pgvector's type wherever the extension is installed, and no cast names a type that the
    caller's search_path has not, or has for something else.
    """

    cache_ok = True

    def get_col_spec(self, **_kw: Any) -> str:
        """The type's name in DDL, where it has no place."""
        return "unknown"

    def literal_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        """How a statement is printed with `literal_binds`."""
        quote: Callable[[str], str] = String().literal_processor(dialect)  # type: ignore[no-untyped-call]

        def write(value: Any) -> str:
            if isinstance(value, list):
                return f"ARRAY[{', '.join(map(quote, value))}]::pg_catalog.text[]"
            return quote(value) if isinstance(value, str) else str(value)

        return write


def as_selectable(
    org_id: int,
    text: str | None,
    embedding: VectorLike | None = None,
    *,
    schema: str = DEFAULT,
    name: str | None = None,
    **options: Unpack[SearchOptions],
) -> SearchSelectable:
    """Return a search as something to select from and to join: a call of search_kb_hybrid_v1 with the columns of its results.

    The values are bind parameters, so that searches of one form share one compiled statement. Only the rows of one page are joined: `limit`
    (10 by default, at most 1000) is how many. A statement without ORDER BY has no order, so order it by `place`:

        found = as_selectable(org_id, "reset password", embedding, limit=20)
        statement = (
            select(Ticket, found.c.score, found.c.excerpt)
            .join(found, found.c.article_id == Ticket.article_id)
            .order_by(found.c.place)
        )
        for ticket, score, excerpt in session.execute(statement): ...

    Errors come from the statement, as SQLAlchemy's DBAPIError; kbsearch.errors.translate() makes ours of them.

    Args:
        org_id: the organisation searched.
        text: the question, as in KBSearch.search().
        embedding: the question's vector; without one the vector leg takes no part.
        schema: the schema that kbsearch is installed in.
        name: the selectable's name in the statement; made up by default.
        options: see kbsearch.options.SearchOptions.

    Raises:
        KBSearchError: an argument can't be what its name says.
    """
    arguments = statements.search_arguments(org_id, text, embedding, **options)
    function = getattr(func, check_schema(schema)).search_kb_hybrid_v1
    # Named notation, p_org_id => …: SQLAlchemy has none, and a prefix operator reads the same.
    named: list[UnaryExpression[Any]] = [
        UnaryExpression(bindparam(argument, value, _Untyped, unique=True), operator=custom_op(f"p_{argument} =>"))
        for argument, value in arguments.items()
    ]
    selectable: SearchSelectable = function(*named).table_valued(
        column("place", BigInteger),
        column("article_id", BigInteger),
        column("score", Double),
        column("chunk_id", BigInteger),
        column("kind", Text),
        column("title", Text),
        column("excerpt", Text),
        column("excerpt_html", Text),
        column("inspectable", Boolean),
        column("external_ref", Text),
        column("source_uri", Text),
        column("metadata", JSONB),
        column("vector_similarity", Double),
        column("keyword_score", Double),
        column("tied_with", BigInteger),
        column("settled_by_identity", Boolean),
        column("cursor", Text),
        name=name,
    )
    return selectable
