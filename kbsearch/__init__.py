"""kbsearch: hybrid (vector + keyword) search for knowledge bases, as SQL functions on PostgreSQL and pgvector."""

from typing import TYPE_CHECKING, Any

from kbsearch.client import AsyncKBSearch, KBSearch, QueryEmbedder
from kbsearch.errors import (
    ArticleError,
    ChunkError,
    ConnectionKindError,
    CursorError,
    DimensionError,
    EmbeddedServerError,
    FilterError,
    IndexStateError,
    KBSearchError,
    LanguageError,
    LimitError,
    MigrationError,
    NotInstalledError,
    OrganizationError,
    ProfileError,
    QueryTextError,
    SpaceError,
    StatementTimeoutError,
    VectorError,
)
from kbsearch.models import Chunk, KeywordLeg, Legs, Page, ReservedArticle, Result, VectorLeg, VectorLike
from kbsearch.options import ArticleOptions, ClientOptions, SearchOptions

if TYPE_CHECKING:
    from kbsearch.selectable import SearchSelectable, as_selectable

__all__ = [
    "ArticleError",
    "ArticleOptions",
    "AsyncKBSearch",
    "Chunk",
    "ChunkError",
    "ClientOptions",
    "ConnectionKindError",
    "CursorError",
    "DimensionError",
    "EmbeddedServerError",
    "FilterError",
    "IndexStateError",
    "KBSearch",
    "KBSearchError",
    "KeywordLeg",
    "LanguageError",
    "Legs",
    "LimitError",
    "MigrationError",
    "NotInstalledError",
    "OrganizationError",
    "Page",
    "ProfileError",
    "QueryEmbedder",
    "QueryTextError",
    "ReservedArticle",
    "Result",
    "SearchOptions",
    "SearchSelectable",
    "SpaceError",
    "StatementTimeoutError",
    "VectorError",
    "VectorLeg",
    "VectorLike",
    "as_selectable",
]


def __getattr__(name: str) -> Any:
    """Import what needs SQLAlchemy when it is asked for: its import takes longer than all the rest."""
    if name in ("SearchSelectable", "as_selectable"):
        from kbsearch import selectable  # noqa: PLC0415  (see above)

        return getattr(selectable, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
