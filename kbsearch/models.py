"""What crosses the boundary between the SQL functions and Python: frozen dataclasses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal, TypeAlias

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
        reason: why not: no_embedding, no_embedded_chunks, no_direction, not_in_fusion, not_chosen (by an arbitration), found_nothing (so that
            an arbitration was left with the other leg alone); None if it did.
        chunks_without_embedding: number of searchable chunks that have no vector in the space; None where the leg takes no part.
        chunks_without_direction: number of searchable chunks whose vector has no direction; None where the leg takes no part.
        chunks_with_stale_embedding: number of searchable chunks whose vector is of what they said before they were changed; None where the leg
            takes no part.
    """

    takes_part: bool
    reason: str | None = None
    chunks_without_embedding: int | None = None
    chunks_without_direction: int | None = None
    chunks_with_stale_embedding: int | None = None


@dataclass(frozen=True, slots=True)
class KeywordLeg:
    """The keyword leg's part in a search.

    Attributes:
        takes_part: whether it contributed.
        reason: why not: empty_query, stop_words_only, only_exclusions, no_known_words, not_in_fusion, not_chosen, found_nothing; None if it did.
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
class Retrieval:
    """How a search looked for its candidates.

    Attributes:
        mode: exact: all chunks were compared; ann: the articles in the windows of both legs.
        reason: why a search that might be approximate was exact, one of `few_chunks`, `few_allowed`, `no_index`, `index_invalid`,
            `window_not_filled`, `arbitrated` and `cursor`; None otherwise.
        window: articles in a leg's window; None where the mode is exact.
        index: identity of the approximate index; None where none was used.
        reachable: articles that the pages of this search can reach.
        certain: how many of the first places are the exact ranking's, whatever vectors the index missed.
        settled: how many are if the index's window has the nearest vectors.
        window_exhausted: the pages end here, and the exact ranking goes on.
    """

    mode: Literal["exact", "ann"]
    reason: str | None
    window: int | None
    index: str | None
    reachable: int
    certain: int
    settled: int
    window_exhausted: bool


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
        verdict: what the arbitration decided, one of kbsearch.arbitration.VERDICTS; `escalated` comes without items. None where the profile does not
            arbitrate, and where neither leg found anything.
        manifest: its record, which kbsearch.arbitration.verify() checks; of a page by cursor `manifest_digest` alone. None without a verdict.
        legs: what each leg contributed, or why it could not.
        retrieval: whether all chunks were compared, or the windows of an approximate search.
        snapshot: the stored ranking that this is a page of, for fetch_page() and close_search(); None for a page that was ranked anew.
        expires_at: until when the stored ranking can be read; None without one.
        gone: number of places of a stored ranking that are not shown, because their articles were deleted or unpublished since, or left the
            kinds or metadata that the search asks for.
    """

    items: tuple[Result, ...]
    next_cursor: str | None
    total: int
    end_reached: bool
    profile: str
    function: str
    function_version: int
    space_id: int | None
    verdict: str | None
    manifest: Mapping[str, Any] | None
    legs: Legs
    retrieval: Retrieval
    snapshot: str | None = None
    expires_at: datetime | None = None
    gone: int = 0

    @classmethod
    def from_json(cls, page: Mapping[str, Any]) -> Page:
        """Build a page from what search_kb_hybrid_page_v1 or fetch_kb_page_v1 returns.

        Raises:
            KeyError, TypeError: it is no such page.
        """
        expires_at = page.get("expires_at")
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
            manifest=page["manifest"],
            legs=_legs(page["legs"]),
            retrieval=Retrieval(**page["retrieval"]),
            snapshot=page.get("snapshot"),
            expires_at=None if expires_at is None else datetime.fromisoformat(expires_at),
            gone=page.get("gone", 0),
        )


def _legs(legs: Mapping[str, Any]) -> Legs:
    vector, keyword = legs["vector"], legs["keyword"]
    return Legs(
        vector=VectorLeg(
            takes_part=vector["takes_part"],
            reason=vector["reason"],
            chunks_without_embedding=vector["chunks_without_embedding"],
            chunks_without_direction=vector["chunks_without_direction"],
            chunks_with_stale_embedding=vector["chunks_with_stale_embedding"],
        ),
        keyword=KeywordLeg(
            takes_part=keyword["takes_part"],
            reason=keyword["reason"],
            languages=tuple(keyword["languages"] or ()),
            words=tuple(keyword["words"]),
            unknown_words=tuple(keyword["unknown_words"]),
            ignored=tuple(keyword["ignored"]),
        ),
    )


def _floats(item: Mapping[str, Any]) -> dict[str, float | None]:
    """The columns that are doubles: JSON writes 1.0 as 1."""
    return {
        name: None if item[name] is None else float(item[name])
        for name in ("score", "vector_similarity", "keyword_score")
    }


@dataclass(frozen=True, slots=True)
class OpenedSearch:
    """A stored ranking; its fields are the OUT columns of open_kb_search_v1.

    Attributes:
        snapshot: its name, for fetch_page() and close_search().
        total: number of articles in the ranking.
        expires_at: until when it can be read.
    """

    snapshot: str
    total: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Match:
    """A word of the question that a chunk has.

    Attributes:
        lexeme: the word's stem, as it is stored.
        language: name of the text search configuration of the chunk.
        document_frequency: number of the organisation's chunks of that language that have it.
        question_count: how many times the question has it.
        idf: inverse document frequency, in thousandths.
        impact: what the chunk makes of it (BM25's saturated term frequency), in thousandths, 0 … 2200.
        share: its share of all that the question's words weigh, in 10^-12.
        contribution: its part in the chunk's keyword score: share times impact, of 2200 * 10^12 (with the scorer term_count: share, of 10^12).
    """

    lexeme: str
    language: str
    document_frequency: int
    question_count: int
    idf: int
    impact: int
    share: int
    contribution: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an article is at its place; its fields are the OUT columns of explain_kb_search_v1, in their order.

    Attributes:
        place: 1 for the first article of the whole ranking.
        article_id: the article.
        score: as in Result.
        chunk_id: the article's best chunk; None where there is nothing to open.
        kind: the article's kind.
        title: the article's title.
        external_ref: the application's own name of the article.
        score_billionths: the score as it is compared: vector_contribution + keyword_contribution.
        vector_contribution: what the vector leg gave, in billionths.
        keyword_contribution: what the keyword leg gave, in billionths.
        vector_rank: the article's competition rank in the vector leg, by its best chunk there; None where that leg did not find it.
        keyword_rank: its competition rank in the keyword leg; None where that leg did not find it.
        vector_similarity: cosine similarity of the best chunk, -1 … 1; None without one.
        keyword_score: keyword score of the best chunk, 0 … 1; None without a matching word.
        matches: the question's words that the best chunk has.
        other_chunk_count: how many other chunks the article has.
        place_in_kind: its place among the candidates of its kind.
        quota: how many of its kind are kept; None for all.
        tied_with: number of other candidates of equal score, those on other pages or cut by a quota included.
        settled_by_identity: True where the article's id alone decided its place among those.
        tied_article_ids: those it ties with, ascending, at most 100 of them.
        explanation: the same in words.
        cursor: where the page after this article begins.
    """

    place: int
    article_id: int
    score: float
    chunk_id: int | None
    kind: str
    title: str | None
    external_ref: str | None
    score_billionths: int
    vector_contribution: int
    keyword_contribution: int
    vector_rank: int | None
    keyword_rank: int | None
    vector_similarity: float | None
    keyword_score: float | None
    matches: tuple[Match, ...]
    other_chunk_count: int
    place_in_kind: int
    quota: int | None
    tied_with: int
    settled_by_identity: bool
    tied_article_ids: tuple[int, ...]
    explanation: str
    cursor: str

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Explanation:
        """Build one from the columns in their order, `matches` as JSON text."""
        values = _named(cls, row)
        values["matches"] = _matches(json.loads(values["matches"]))
        values["tied_article_ids"] = tuple(values["tied_article_ids"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class ArticleExplanation:
    """Why an article is where it is in a search, or why it is not there: what explain_kb_article_v1 returns.

    Attributes:
        article_id: the article.
        title: its title; None where it is not there or not published.
        status: the first of these that holds: not_in_organization, unpublished, filtered, outside_quota where the quota of its kind is 0,
            excluded, outside_window (of an approximate search), not_found (no leg found it), below_floor, outside_quota, ranked.
        explanation: the same in words.
        by: of filtered: `kinds` or `metadata`; of excluded: the phrases that it lacks and the exclusions that it has.
        window: of outside_window: articles in a leg's window.
        place: of ranked: its place.
        score: of below_floor, outside_quota and ranked: its score.
        min_score: of below_floor: the floor.
        on_page: of ranked: whether it is on the page asked for.
        gap_to_page: how much more the last article of the page has; None where it is not after the page.
        kind: of filtered by kinds and outside_quota: its kind.
        quota: of outside_quota: how many of its kind are kept.
        place_in_kind: of outside_quota: its place among the candidates of its kind; None where the quota is 0.
        is_tie_cut: of outside_quota: whether it has the score of some that were kept, so that ids alone decided.
        tied_with: of ranked: number of other candidates of equal score.
        settled_by_identity: of ranked: whether the article's id alone decided its place among those.
        tied_article_ids: of ranked: those it ties with, ascending, at most 100 of them.
        matches: of ranked: the question's words that its best chunk has.
    """

    article_id: int | None
    title: str | None
    status: str
    explanation: str
    by: tuple[str, ...] = ()
    window: int | None = None
    place: int | None = None
    score: float | None = None
    min_score: float | None = None
    on_page: bool | None = None
    gap_to_page: float | None = None
    kind: str | None = None
    quota: int | None = None
    place_in_kind: int | None = None
    is_tie_cut: bool | None = None
    tied_with: int | None = None
    settled_by_identity: bool | None = None
    tied_article_ids: tuple[int, ...] = ()
    matches: tuple[Match, ...] = ()

    @classmethod
    def from_json(cls, explained: Mapping[str, Any]) -> ArticleExplanation:
        """Build one from what explain_kb_article_v1 returns.

        Raises:
            KeyError, TypeError: it is no such object.
        """
        by = explained.get("by", ())
        floats = ("score", "min_score", "gap_to_page")
        return cls(
            **{
                **explained,
                **{name: float(explained[name]) for name in floats if explained.get(name) is not None},
                "by": (by,) if isinstance(by, str) else tuple(operator["text"] for operator in by),
                "tied_article_ids": tuple(explained.get("tied_article_ids", ())),
                "matches": _matches(explained.get("matches", ())),
            }
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """An article that the ranking saw; its fields are the OUT columns of explain_kb_candidates_v1, in their order.

    Attributes:
        kind: the article's kind.
        place_in_kind: its place among the candidates of its kind, from 1.
        article_id: the article.
        chunk_id: the article's best chunk; None where there is nothing to open.
        title: the article's title.
        external_ref: the application's own name of the article.
        score: as in Result.
        quota: how many of its kind are kept; None for all.
        kept: whether it was kept.
        place: its place in the ranking; None where the quota cut it.
        tied_in_kind: number of other candidates of its kind of equal score.
        is_tie_cut: whether the quota cuts through the tie it is in, so that ids alone decided which of them were kept.
        tied_with: number of other candidates of equal score, of any kind.
    """

    kind: str
    place_in_kind: int
    article_id: int
    chunk_id: int | None
    title: str | None
    external_ref: str | None
    score: float
    quota: int | None
    kept: bool
    place: int | None
    tied_in_kind: int
    is_tie_cut: bool
    tied_with: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk of an article, opened; its fields are the OUT columns of get_kb_source_v1, in their order.

    Attributes:
        article_id: the article.
        chunk_id: the chunk.
        chunk_no: its number within the article.
        heading: the heading it stands under.
        content: its text.
        kind: the article's kind.
        title: the article's title.
        external_ref: the application's own name of the article.
        source_uri: where the article comes from.
        metadata: the article's metadata.
    """

    article_id: int
    chunk_id: int
    chunk_no: int
    heading: str | None
    content: str
    kind: str
    title: str | None
    external_ref: str | None
    source_uri: str | None
    metadata: Mapping[str, Any]

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Passage:
        """Build one from the columns in their order, `metadata` as JSON text."""
        values = _named(cls, row)
        values["metadata"] = json.loads(values["metadata"])
        return cls(**values)


def _named(model: type, row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip((one.name for one in fields(model)), row, strict=True))


def _matches(objects: Sequence[Mapping[str, Any]]) -> tuple[Match, ...]:
    return tuple(Match(**one) for one in objects)


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
