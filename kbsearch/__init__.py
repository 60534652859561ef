"""kbsearch: hybrid (vector + keyword) search for knowledge bases, as SQL functions on PostgreSQL and pgvector."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_NAMES = {
    "client": (
        "AsyncKBSearch",
        "Consistency",
        "KBSearch",
        "QueryEmbedder",
    ),
    "errors": (
        "ApproximateIndexError",
        "ArbitrationError",
        "ArticleError",
        "BudgetError",
        "ChunkError",
        "ConnectionKindError",
        "CursorError",
        "DimensionError",
        "EmbeddedServerError",
        "EscalatedError",
        "FilterError",
        "IndexStateError",
        "KBSearchError",
        "LanguageError",
        "LimitError",
        "MigrationError",
        "NotInstalledError",
        "OrganizationError",
        "PolicyError",
        "ProfileError",
        "QueryTextError",
        "SecurityError",
        "SnapshotError",
        "SourceError",
        "SpaceError",
        "StatementTimeoutError",
        "VectorError",
    ),
    "models": (
        "ArticleExplanation",
        "Candidate",
        "Chunk",
        "Explanation",
        "KeywordLeg",
        "Legs",
        "Match",
        "OpenedSearch",
        "Page",
        "Passage",
        "ReservedArticle",
        "Result",
        "Retrieval",
        "VectorLeg",
        "VectorLike",
    ),
    "options": (
        "ArticleOptions",
        "ClientOptions",
        "ExplainOptions",
        "FetchOptions",
        "PageOptions",
        "RankingOptions",
        "SearchOptions",
    ),
    "selectable": (
        "SearchSelectable",
        "as_selectable",
    ),
}
"""The public names, by the module of this package that has them."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


if not TYPE_CHECKING:  # a type checker knows the names from above, and no others

    def __getattr__(name: str) -> Any:
        """Import what is asked for when it is asked for: numpy and psycopg take longer than many a command does, and SQLAlchemy longer still."""
        if name in _MODULES:
            value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        elif name in _NAMES or name == "statements":
            value = import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
