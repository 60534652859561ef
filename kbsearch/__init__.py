"""kbsearch: hybrid (vector + keyword) search for knowledge bases, as SQL functions on PostgreSQL and pgvector."""

from typing import TYPE_CHECKING, Any

from kbsearch.client import AsyncKBSearch, Consistency, KBSearch, QueryEmbedder
from kbsearch.errors import (
    ApproximateIndexError,
    ArbitrationError,
    ArticleError,
    BudgetError,
    ChunkError,
    ConnectionKindError,
    CursorError,
    DimensionError,
    EmbeddedServerError,
    EscalatedError,
    FilterError,
    IndexStateError,
    KBSearchError,
    LanguageError,
    LimitError,
    MigrationError,
    NotInstalledError,
    OrganizationError,
    PolicyError,
    ProfileError,
    QueryTextError,
    SecurityError,
    SnapshotError,
    SourceError,
    SpaceError,
    StatementTimeoutError,
    VectorError,
)
from kbsearch.models import (
    ArticleExplanation,
    Candidate,
    Chunk,
    Explanation,
    KeywordLeg,
    Legs,
    Match,
    OpenedSearch,
    Page,
    Passage,
    ReservedArticle,
    Result,
    Retrieval,
    VectorLeg,
    VectorLike,
)
from kbsearch.options import (
    ArticleOptions,
    ClientOptions,
    ExplainOptions,
    FetchOptions,
    PageOptions,
    RankingOptions,
    SearchOptions,
)

if TYPE_CHECKING:
    from kbsearch.selectable import SearchSelectable, as_selectable

__all__ = [
    "ApproximateIndexError",
    "ArbitrationError",
    "ArticleError",
    "ArticleExplanation",
    "ArticleOptions",
    "AsyncKBSearch",
    "BudgetError",
    "Candidate",
    "Chunk",
    "ChunkError",
    "ClientOptions",
    "ConnectionKindError",
    "Consistency",
    "CursorError",
    "DimensionError",
    "EmbeddedServerError",
    "EscalatedError",
    "ExplainOptions",
    "Explanation",
    "FetchOptions",
    "FilterError",
    "IndexStateError",
    "KBSearch",
    "KBSearchError",
    "KeywordLeg",
    "LanguageError",
    "Legs",
    "LimitError",
    "Match",
    "MigrationError",
    "NotInstalledError",
    "OpenedSearch",
    "OrganizationError",
    "Page",
    "PageOptions",
    "Passage",
    "PolicyError",
    "ProfileError",
    "QueryEmbedder",
    "QueryTextError",
    "RankingOptions",
    "ReservedArticle",
    "Result",
    "Retrieval",
    "SearchOptions",
    "SearchSelectable",
    "SecurityError",
    "SnapshotError",
    "SourceError",
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
