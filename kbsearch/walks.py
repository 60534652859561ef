"""Walks over the pages of a search, and whether they are what its ranking is cut into: nothing twice, nothing missing, the same order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kbsearch.client import KBSearch
from kbsearch.models import Page, Result, VectorLike
from kbsearch.options import RankingOptions

WHOLE = 1000
"""Articles of the one big page: the most that a search gives."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, of whom.

    Attributes:
        client: who asks.
        org_id: the organisation searched.
        text: the question.
        embedding: its vector; None: as the client's embedder has it.
        options: what is ranked, and how.
    """

    client: KBSearch
    org_id: int
    text: str
    embedding: VectorLike | None = None
    options: RankingOptions = field(default_factory=RankingOptions)

    def ask(self, *, limit: int, offset: int = 0, cursor: str | None = None) -> Page:
        """One page."""
        given = (self.org_id, self.text, self.embedding)
        return self.client.search(*given, limit=limit, offset=offset, cursor=cursor, **self.options)


def by_offset(question: Question, size: int) -> Iterator[Page]:
    """All pages, each by the number of articles before it."""
    for offset in itertools.count(0, size):
        page = question.ask(limit=size, offset=offset)
        yield page
        if page.end_reached:
            return


def by_cursor(question: Question, size: int) -> Iterator[Page]:
    """All pages, each by the cursor of the one before."""
    given = (question.org_id, question.text, question.embedding)
    return question.client.pages(*given, limit=size, **question.options)


def by_snapshot(question: Question, size: int) -> Iterator[Page]:
    """All pages of the ranking, stored for the time of the walk."""
    given = (question.org_id, question.text, question.embedding)
    return question.client.pages(*given, limit=size, consistency="snapshot", **question.options)


def mixed(question: Question, sizes: Sequence[int]) -> Iterator[Page]:
    """All pages, of these sizes in turn, by cursors."""
    cursor: str | None = None
    for size in itertools.cycle(sizes):
        page = question.ask(limit=size, cursor=cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


WAYS: Mapping[str, Callable[[Question, int], Iterator[Page]]] = {
    "offset": by_offset,
    "cursor": by_cursor,
    "snapshot": by_snapshot,
}


def partition_faults(whole: Sequence[Result], pages: Iterable[Sequence[Result]]) -> list[str]:
    """What is wrong with pages that should be a partition of a ranking, in words; nothing when nothing is."""
    walked = [_comparable(result) for page in pages for result in page]
    expected = [_comparable(result) for result in whole]
    faults = []
    seen: set[int] = set()
    for result in walked:
        if result.article_id in seen:
            faults.append(f"article {result.article_id} is there twice")
        seen.add(result.article_id)
    faults.extend(f"article {result.article_id} is missing" for result in expected if result.article_id not in seen)
    faults.extend(
        f"place {place} differs: {_name(ours)} instead of {_name(theirs)}"
        for place, (ours, theirs) in enumerate(itertools.zip_longest(walked, expected), 1)
        if ours != theirs
    )
    return faults


def _comparable(result: Result) -> Result:
    """A row without its cursor, which says where a page goes on, not what was found."""
    return replace(result, cursor=None)


def _name(result: Result | None) -> str:
    return "nothing" if result is None else f"article {result.article_id} (score {result.score!r})"
