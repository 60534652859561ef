"""What each call of a client does, as a plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal, TypeAlias, Unpack, cast, get_args

from kbsearch import statements
from kbsearch.client.plans import Budget, CallPlan, Embed, Identify, Identity, Query, Rows, Settings, seconds
from kbsearch.errors import (
    ArbitrationError,
    ArticleError,
    CursorError,
    EscalatedError,
    KBSearchError,
    LimitError,
    QueryTextError,
    SpaceError,
    VectorError,
    raise_translated,
)
from kbsearch.models import (
    ArticleExplanation,
    Candidate,
    Explanation,
    OpenedSearch,
    Page,
    Passage,
    ReservedArticle,
    Result,
    VectorLike,
)
from kbsearch.options import ArticleOptions, ExplainOptions, FetchOptions, RankingOptions, SearchOptions
from kbsearch.statements import Statement

Consistency: TypeAlias = Literal["cursor", "snapshot"]
"""How the pages of a search go together. cursor: each is ranked when it is asked for, and begins where the one before ended. snapshot: the
ranking is stored once, and each is a slice of it."""


class Walk:
    """The pages of a search to the end: a plan for each, to be run before the next is asked for; at the end, however it came, close()'s.

    Args:
        fetch: the plan of the page after this one; of the first after None.
        close: the plan that closes a snapshot.
    """

    def __init__(
        self, fetch: Callable[[Page | None], CallPlan[Page]], close: Callable[[str], CallPlan[object]]
    ) -> None:
        """Begin before the first page."""
        self._fetch, self._close = fetch, close
        self._page: Page | None = None
        self._snapshot: str | None = None

    def __iter__(self) -> Iterator[CallPlan[Page]]:
        """Go on to the end; what is stored is closed together with the last page, so that nothing is left to who stops there."""
        while self._page is None or self._page.next_cursor is not None:
            yield self._next()

    def _next(self) -> CallPlan[Page]:
        page = self._page = yield from self._fetch(self._page)
        self._snapshot = page.snapshot
        if page.next_cursor is None:
            yield from self.close()
        return page

    def close(self) -> CallPlan[None]:
        """Remove the stored ranking, if there still is one."""
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            yield from self._close(snapshot)


class Calls:
    """The calls of a client as plans.

    Args:
        settings: how the client works.
        embeds: whether it has an embedder.
    """

    def __init__(self, settings: Settings, *, embeds: bool) -> None:
        """Keep both."""
        self._settings, self._embeds = settings, embeds
        self._identity: Identity | None = None

    def search(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None,
        timeout: float | None,
        consistency: Consistency,
        expires_in: timedelta | None,
        log_arbitration: bool,
        **options: Unpack[SearchOptions],
    ) -> CallPlan[Page]:
        """One page; with snapshots the first one, and the ranking stays stored."""
        fetch = self._fetching(org_id, text, embedding, timeout, consistency, expires_in, log_arbitration, options)
        return (yield from fetch(None))

    def pages(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None,
        timeout: float | None,
        consistency: Consistency,
        expires_in: timedelta | None,
        log_arbitration: bool,
        **options: Unpack[SearchOptions],
    ) -> Walk:
        """All pages."""
        if statements.integer(options.get("limit", 1), "limit", LimitError) == 0:
            raise LimitError("pages of 0 articles never reach the end", hint="Use a limit of at least 1.")
        fetch = self._fetching(org_id, text, embedding, timeout, consistency, expires_in, log_arbitration, options)
        return Walk(fetch, lambda snapshot: self.close_search(org_id, snapshot, timeout))

    def _fetching(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None,
        timeout: float | None,
        consistency: Consistency,
        expires_in: timedelta | None,
        log_arbitration: bool,
        options: SearchOptions,
    ) -> Callable[[Page | None], CallPlan[Page]]:
        """A function for a Walk. It asks an embedder and logs an arbitration once, and not for every page."""
        stores = _stores(consistency, expires_in, options)
        logs = statements.truth(log_arbitration, "log_arbitration", ArbitrationError)
        ranking, part = _parts(options)

        def fetch(before: Page | None) -> CallPlan[Page]:
            nonlocal embedding
            budget = self._budget(timeout)
            if before is None:
                embedding = yield from self._embedded(org_id, text, embedding, ranking, budget)
                if stores:
                    first = self._stored(org_id, text, embedding, expires_in, ranking, part, budget)
                else:
                    first = self._page(statements.search_page(org_id, text, embedding, **part, **ranking), budget)
                return (yield from self._logged(org_id, text, first, budget) if logs else first)
            part["cursor"], part["offset"] = before.next_cursor, 0
            if before.snapshot is not None:
                return (yield from self._page(statements.fetch_page(org_id, before.snapshot, **part), budget))
            return (yield from self._page(statements.search_page(org_id, text, embedding, **part, **ranking), budget))

        return fetch

    def _logged(self, org_id: int, text: str | None, first: CallPlan[Page], budget: Budget) -> CallPlan[Page]:
        """A page, its arbitration logged if it has one of its own. What nobody is told of is not left behind."""
        try:
            page = yield from first
        except EscalatedError as error:
            yield from self._ask(statements.log_arbitration(org_id, error.manifest, text), budget)
            raise
        if page.manifest is not None and page.manifest.keys() != {"manifest_digest"}:
            try:
                yield from self._ask(statements.log_arbitration(org_id, page.manifest, text), budget)
            except BaseException:
                if page.snapshot is not None:
                    with suppress(Exception):
                        yield from self.close_search(org_id, page.snapshot, None)
                raise
        return page

    def _stored(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None,
        expires_in: timedelta | None,
        ranking: RankingOptions,
        part: FetchOptions,
        budget: Budget,
    ) -> CallPlan[Page]:
        """Store a ranking and read its first page. What nobody is told of is not left behind, nor stored for arguments that can't be."""
        statements.search_arguments(org_id, text, embedding, **part, **ranking)
        opening = statements.open_search(org_id, text, embedding, expires_in=expires_in, **ranking)
        snapshot: str = (yield from self._ask(opening, budget))[0][0]
        try:
            return (yield from self._page(statements.fetch_page(org_id, snapshot, **part), budget))
        except BaseException:
            with suppress(Exception):
                yield from self.close_search(org_id, snapshot, None)
            raise

    def open_search(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None,
        timeout: float | None,
        expires_in: timedelta | None,
        **options: Unpack[RankingOptions],
    ) -> CallPlan[OpenedSearch]:
        """The ranking, stored."""
        budget = self._budget(timeout)
        embedding = yield from self._embedded(org_id, text, embedding, options, budget)
        rows = yield from self._ask(
            statements.open_search(org_id, text, embedding, expires_in=expires_in, **options), budget
        )
        return OpenedSearch(*rows[0])

    def fetch_page(
        self, org_id: int, snapshot: str, timeout: float | None, **options: Unpack[FetchOptions]
    ) -> CallPlan[Page]:
        """A page of a stored ranking."""
        return (yield from self._page(statements.fetch_page(org_id, snapshot, **options), self._budget(timeout)))

    def close_search(self, org_id: int, snapshot: str, timeout: float | None) -> CallPlan[bool]:
        """Whether there was such a snapshot."""
        rows = yield from self._ask(statements.close_search(org_id, snapshot), self._budget(timeout))
        return bool(rows[0][0])

    def explain(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None,
        timeout: float | None,
        **options: Unpack[ExplainOptions],
    ) -> CallPlan[tuple[Explanation, ...]]:
        """The articles of a page, each with its reasons."""
        budget = self._budget(timeout)
        embedding = yield from self._embedded(org_id, text, embedding, options, budget)
        rows = yield from self._ask(statements.explain_search(org_id, text, embedding, **options), budget)
        return tuple(Explanation.from_row(row) for row in rows)

    def explain_article(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None,
        article_id: int,
        timeout: float | None,
        **options: Unpack[ExplainOptions],
    ) -> CallPlan[ArticleExplanation]:
        """Why an article is where it is."""
        budget = self._budget(timeout)
        embedding = yield from self._embedded(org_id, text, embedding, options, budget)
        statement = statements.explain_article(org_id, text, embedding, article_id=article_id, **options)
        rows = yield from self._ask(statement, budget)
        return ArticleExplanation.from_json(json.loads(rows[0][0]))

    def explain_candidates(
        self,
        org_id: int,
        text: str | None,
        embedding: VectorLike | None,
        timeout: float | None,
        **options: Unpack[RankingOptions],
    ) -> CallPlan[tuple[Candidate, ...]]:
        """All that the ranking saw."""
        budget = self._budget(timeout)
        embedding = yield from self._embedded(org_id, text, embedding, options, budget)
        rows = yield from self._ask(statements.explain_candidates(org_id, text, embedding, **options), budget)
        return tuple(Candidate(*row) for row in rows)

    def log_arbitration(
        self, org_id: int, manifest: Mapping[str, Any], query_text: str | None, timeout: float | None
    ) -> CallPlan[int]:
        """The id of the row in the log."""
        rows = yield from self._ask(statements.log_arbitration(org_id, manifest, query_text), self._budget(timeout))
        return int(rows[0][0])

    def source(
        self, org_id: int, article_id: int, chunk_id: int | None, timeout: float | None
    ) -> CallPlan[tuple[Passage, ...]]:
        """The passages of an article, or one."""
        rows = yield from self._ask(statements.get_source(org_id, article_id, chunk_id), self._budget(timeout))
        return tuple(Passage.from_row(row) for row in rows)

    def upsert_article(self, org_id: int, timeout: float | None, **article: Unpack[ArticleOptions]) -> CallPlan[int]:
        """The article's id."""
        rows = yield from self._ask(
            statements.upsert_article(org_id, **article), self._budget(timeout), unencodable=ArticleError
        )
        return int(rows[0][0])

    def delete_article(
        self, org_id: int, article_id: int | None, external_ref: str | None, timeout: float | None
    ) -> CallPlan[bool]:
        """Whether there was such an article."""
        statement = statements.delete_article(org_id, article_id=article_id, external_ref=external_ref)
        rows = yield from self._ask(statement, self._budget(timeout), unencodable=ArticleError)
        return bool(rows[0][0])

    def reserve_articles(
        self, org_id: int, external_refs: Sequence[str], timeout: float | None
    ) -> CallPlan[tuple[ReservedArticle, ...]]:
        """The articles by name."""
        statement = statements.reserve_articles(org_id, external_refs)
        rows = yield from self._ask(statement, self._budget(timeout), unencodable=ArticleError)
        return tuple(ReservedArticle(*row) for row in rows)

    def _budget(self, timeout: float | None) -> Budget:
        return Budget(self._settings.timeout if timeout is None else seconds(timeout))

    def _page(self, statement: Statement, budget: Budget) -> CallPlan[Page]:
        rows = yield from self._ask(statement, budget)
        return Page.from_json(json.loads(rows[0][0]))

    def _embedded(
        self, org_id: int, text: str | None, embedding: VectorLike | None, ranking: RankingOptions, budget: Budget
    ) -> CallPlan[VectorLike | None]:
        """The question's vector, and in `ranking` the space it belongs to; no vector without one given or an embedder, a question and a space."""
        statements.plain_text(text, "text", QueryTextError)
        if embedding is not None or not self._embeds or text is None or not text.strip():
            return embedding
        rows = yield from self._ask(statements.searched_space(org_id, ranking.get("space_id")), budget)
        if not rows:
            return None
        ((space, *theirs),) = rows
        if self._identity is None:
            self._identity = yield Identify()
        if tuple(theirs) != self._identity:
            raise SpaceError(
                f"the embedder's vectors ({_described(*self._identity)}) may not be compared with those of space {space} ({_described(*theirs)})",
                detail={"space_id": space, **dict(zip(("model", "revision", "dimensions"), theirs, strict=True))},
                hint="Use the space's own model, pass an embedding, or search without an embedder.",
            )
        vectors = yield Embed(text)
        if not hasattr(vectors, "__len__") or len(vectors) != 1:
            raise VectorError(f"the embedder was given one question and gave no list of one vector: {vectors!r:.200}")
        ranking["space_id"] = space
        return statements.vector(vectors[0])

    def _ask(
        self, statement: Statement, budget: Budget, *, unencodable: type[KBSearchError] = QueryTextError
    ) -> CallPlan[Rows]:
        """Run a statement and raise our own errors instead of the driver's; `unencodable` for text that the connection's encoding has not."""
        schema = self._settings.schema
        try:
            return cast("Rows", (yield Query(statement.in_schema(schema), budget)))
        except UnicodeEncodeError as error:
            raise unencodable(
                f"the connection's encoding {error.encoding} has no character for {error.object[error.start]!r}",
                hint="Connect with client_encoding=UTF8.",
            ) from error
        except Exception as error:  # noqa: BLE001  (raised again, as what it is)
            raise_translated(error, schema)


def found(page: Page) -> tuple[Result, ...]:
    """The articles of a page.

    Raises:
        EscalatedError: there are none because the search was escalated.
    """
    if page.verdict == "escalated" and page.manifest is not None:
        raise EscalatedError.of(page.manifest)
    return page.items


def _stores(consistency: object, expires_in: timedelta | None, options: SearchOptions) -> bool:
    """Whether a search stores its ranking.

    Raises:
        LimitError, CursorError: what was asked for does not go together.
    """
    if not isinstance(consistency, str) or consistency not in get_args(Consistency):
        raise LimitError(
            f'consistency must be "cursor" or "snapshot", not {consistency!r}',
            detail={"consistency": repr(consistency)},
            hint='"snapshot" stores the ranking once, so that its pages stand still while others write; "cursor", the default, stores nothing.',
        )
    if consistency == "cursor":
        if expires_in is not None:
            raise LimitError("expires_in is for stored rankings", hint='Pass consistency="snapshot", too.')
        return False
    if options.get("cursor") is not None:
        raise CursorError(
            "a ranking is not stored from a cursor on",
            hint="The pages after the first are those of fetch_page(org_id, page.snapshot, cursor=page.next_cursor).",
        )
    return True


def _parts(options: SearchOptions) -> tuple[RankingOptions, FetchOptions]:
    """What is ranked and how, and which part of it is shown, in dictionaries of their own."""
    ranking = {name: value for name, value in options.items() if name in RankingOptions.__annotations__}
    part = {name: value for name, value in options.items() if name not in ranking}
    return cast("RankingOptions", ranking), cast("FetchOptions", part)


def _described(model: str, revision: str, dimensions: int) -> str:
    return f"model {model}, revision {revision!r}, {dimensions} dimensions"
