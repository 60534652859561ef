"""What crosses the boundary between the SQL functions and Python: frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

VectorLike: TypeAlias = Sequence[int] | Sequence[float] | NDArray[np.number[Any]]
"""An embedding as callers have it: a list or tuple of numbers, or a numpy array of shape (dimensions,)."""


@dataclass(frozen=True, slots=True)
class Result:
    """One article found; its fields are the OUT columns of search_kb_hybrid_v1, in their order.

    Attributes:
        place: 1 for the first article of the whole ranking, not of the page.
        article_id: the article.
        score: billionths as a double; how it is made is the ranking profile's matter. Equal scores are ties.
        chunk_id: the article's best chunk, of equally good ones the lowest id; None where there is nothing to open.
        kind: the article's kind.
        title: the article's title.
        excerpt: text of the best chunk.
        excerpt_html: the excerpt around the question's words as HTML, escaped, those words in `<mark>`; None unless asked for.
        inspectable: False where no interface may offer to open the article.
        external_ref: the application's own name of the article.
        source_uri: where the article comes from.
        metadata: the article's metadata.
        vector_similarity: cosine similarity of the best chunk, -1 … 1, six decimals; None without one.
        keyword_score: keyword score of the best chunk divided by its upper bound, 0 … 1; None where the leg takes no part.
        tied_with: number of other articles of equal score, those on other pages included.
        settled_by_identity: True where the place within a tie was decided by the article's id alone.
        cursor: where the page after this article begins.
    """

    place: int
    article_id: int
    score: float
    chunk_id: int | None
    kind: str
    title: str | None
    excerpt: str | None
    excerpt_html: str | None
    inspectable: bool
    external_ref: str | None
    source_uri: str | None
    metadata: Mapping[str, Any]
    vector_similarity: float | None
    keyword_score: float | None
    tied_with: int
    settled_by_identity: bool
    cursor: str | None


@dataclass(frozen=True, slots=True)
class VectorLeg:
    """The vector leg's part in a search.

    Attributes:
        takes_part: whether it contributed.
        reason: why not: no_embedding, no_embedded_chunks, no_direction, not_in_fusion; None if it did.
        chunks_without_embedding: number of searchable chunks that have no vector in the space; None where the leg takes no part.
        chunks_without_direction: number of searchable chunks whose vector has no direction; None where the leg takes no part.
    """

    takes_part: bool
    reason: str | None = None
    chunks_without_embedding: int | None = None
    chunks_without_direction: int | None = None


@dataclass(frozen=True, slots=True)
class KeywordLeg:
    """The keyword leg's part in a search.

    Attributes:
        takes_part: whether it contributed.
        reason: why not: empty_query, stop_words_only, only_exclusions, no_known_words, not_in_fusion; None if it did.
        languages: names of the text search configurations that the question was analysed in.
        words: the question's lexemes that the organisation's articles have.
        unknown_words: the question's lexemes that they have not, in the language that knows most of them.
        ignored: operators of the question that could not be applied.
    """

    takes_part: bool
    reason: str | None = None
    languages: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    unknown_words: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Legs:
    """Both legs of a search."""

    vector: VectorLeg
    keyword: KeywordLeg


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a ranking.

    Attributes:
        items: the articles, best first.
        next_cursor: where the next page begins; None after the last.
        total: number of articles in the whole ranking.
        end_reached: True if nothing follows.
        profile: the ranking profile used, name@version.
        function: the SQL function that answered.
        function_version: its version.
        space_id: the embedding space searched; None if the organisation has none.
        verdict: reserved for arbitration; None.
        legs: what each leg contributed, or why it could not.
    """

    items: tuple[Result, ...]
    next_cursor: str | None
    total: int
    end_reached: bool
    profile: str
    function: str
    function_version: int
    space_id: int | None
    verdict: Any
    legs: Legs

    @classmethod
    def from_json(cls, page: Mapping[str, Any]) -> Page:
        """Build a page from what search_kb_hybrid_page_v1 returns.

        Raises:
            KeyError, TypeError: it is no such page.
        """
        vector, keyword = page["legs"]["vector"], page["legs"]["keyword"]
        return cls(
            items=tuple(Result(**{**item, **_floats(item)}) for item in page["items"]),
            next_cursor=page["next_cursor"],
            total=page["total"],
            end_reached=page["end_reached"],
            profile=page["profile"],
            function=page["function"],
            function_version=page["function_version"],
            space_id=page["space_id"],
            verdict=page["verdict"],
            legs=Legs(
                vector=VectorLeg(
                    takes_part=vector["takes_part"],
                    reason=vector["reason"],
                    chunks_without_embedding=vector["chunks_without_embedding"],
                    chunks_without_direction=vector["chunks_without_direction"],
                ),
                keyword=KeywordLeg(
                    takes_part=keyword["takes_part"],
                    reason=keyword["reason"],
                    languages=tuple(keyword["languages"] or ()),
                    words=tuple(keyword["words"]),
                    unknown_words=tuple(keyword["unknown_words"]),
                    ignored=tuple(keyword["ignored"]),
                ),
            ),
        )


def _floats(item: Mapping[str, Any]) -> dict[str, float | None]:
    """The columns that are doubles: JSON writes 1.0 as 1."""
    return {
        name: None if item[name] is None else float(item[name])
        for name in ("score", "vector_similarity", "keyword_score")
    }


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage handed to upsert_article.

    Attributes:
        content: its text, not blank.
        heading: the heading it stands under.
        embedding: its vector in the space written to; None leaves the chunk without one.
        input_sha256: sha256, in hexadecimal, of the exact text handed to the model.
    """

    content: str
    heading: str | None = None
    embedding: VectorLike | None = field(default=None, compare=False)
    input_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class ReservedArticle:
    """A reserved article: its fields are the OUT columns of reserve_kb_articles_v1.

    Attributes:
        external_ref: the application's own name of the article.
        article_id: the id it keeps.
        content_sha256: what the last committed upsert said of its content; None if there was none.
    """

    external_ref: str
    article_id: int
    content_sha256: str | None
