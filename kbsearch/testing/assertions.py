"""Assertions for a project's own tests: pages put end to end are the ranking, and the same call gives the same rows.

They ask and compare; where two things differ they say the first place. No part of pytest is needed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias, TypeVar

from kbsearch.client import AsyncKBSearch, KBSearch
from kbsearch.models import Page
from kbsearch.testing.differences import first_difference, kept

T = TypeVar("T")
Fetch: TypeAlias = Callable[[int, Any], Any]
"""Gives a page for a size and a cursor, which is None for the first page and the last page's next cursor for all others."""
Part: TypeAlias = str | Callable[[Any], Any]
"""How to get at a part of something: the name of a key or an attribute, or a function."""
SIZES = (1, 2, 3, 7)
LARGEST = 1000
"""Articles on the largest page of a client's search."""

_Plan: TypeAlias = Generator[Callable[[], Any], Any, T]
"""Yields what is to be called, and is sent what it gave: so each assertion is written once, for functions and for coroutines."""
_EMPTY_PAGES = 100
_AROUND = 4
"""Items that are shown before and after the first one that differs."""


def assert_pages_partition(
    search: KBSearch | Fetch,
    *arguments: Any,
    sizes: Sequence[int] = SIZES,
    items: Part = "items",
    next_cursor: Part = "next_cursor",
    key: Part | None = None,
    at_least: int | None = None,
    full_pages: bool = True,
    **options: Any,
) -> None:
    """Assert that the pages of a search, of any sizes, put end to end are its ranking: nothing twice, nothing missing, the same order.

    With a client, `arguments` and `options` are those of its search(); its pages are fetched by cursor, by offset and by both in turn, and
    whole rows are compared. With a function, `search(size, cursor)` gives a page of your own interface: its JSON as a mapping, an object, or a
    pair of items and next cursor; pages are compared by the items' keys.

        assert_pages_partition(client, org_id, "refund", sizes=(1, 2, 5))
        assert_pages_partition(lambda size, cursor: http.get("/search", params={...}).json())

    Each of the sizes is walked to the end, and then all of them in turn: the cost is about `n/1 + n/2 + …` calls for n items.

    Args:
        search: a client, or a function that gives a page for a size and a cursor (None for the first page).
        arguments: org_id, text and embedding, for a client.
        sizes: of the pages, each at least 1.
        items: where a page has its items.
        next_cursor: where a page has the cursor of the next; None or an empty one there says that it is the last.
        key: what tells items apart: by default `article_id`, else `id`, else the item itself.
        at_least: how many items the search must find; by default more than the smallest of the sizes, for on a single page nothing can go
            wrong.
        full_pages: whether all pages but the last must have as many items as were asked for.
        options: of the search, for a client: all but those that choose pages (limit, offset, cursor, consistency).

    Raises:
        AssertionError: they are no partition; says where they differ first, what comes twice and what is missing.
        TypeError, ValueError: the arguments are unusable, or a page is not of that form.
    """
    __tracebackhide__ = True
    layout = _Layout(items, next_cursor, key)
    fault = _run(_partition(_ways(search, arguments, options, layout, sizes), at_least, full_pages, sizes))
    if fault:
        raise AssertionError(fault)


async def assert_pages_partition_async(
    search: AsyncKBSearch | Callable[[int, Any], Awaitable[Any]],
    *arguments: Any,
    sizes: Sequence[int] = SIZES,
    items: Part = "items",
    next_cursor: Part = "next_cursor",
    key: Part | None = None,
    at_least: int | None = None,
    full_pages: bool = True,
    **options: Any,
) -> None:
    """As assert_pages_partition(), with an AsyncKBSearch or a function whose answer is awaited."""
    __tracebackhide__ = True
    layout = _Layout(items, next_cursor, key)
    fault = await _run_async(_partition(_ways(search, arguments, options, layout, sizes), at_least, full_pages, sizes))
    if fault:
        raise AssertionError(fault)


def assert_deterministic(call: Callable[[], Any], *, times: int = 5, at_least: int = 1) -> None:
    """Assert that identical calls give identical rows: same values of the same types in the same order.

        assert_deterministic(lambda: client.search(org_id, "refund", limit=20))

    Args:
        call: gives rows: a page, a sequence, an iterator, any value. It must ask anew each time it is called.
        times: how often it is called, at least 2.
        at_least: how many rows it must give: no rows are always the same.

    Raises:
        AssertionError: two calls gave different rows; says the first place where they differ.
        ValueError: `times` is less than 2.
    """
    __tracebackhide__ = True
    fault = _run(_repeated(call, times, at_least))
    if fault:
        raise AssertionError(fault)


async def assert_deterministic_async(call: Callable[[], Any], *, times: int = 5, at_least: int = 1) -> None:
    """As assert_deterministic(), with a function whose answer is awaited, or iterated over with `async for`."""
    __tracebackhide__ = True
    fault = await _run_async(_repeated(call, times, at_least))
    if fault:
        raise AssertionError(fault)


# Running plans


def _run(plan: _Plan[T]) -> T:
    __tracebackhide__ = True
    try:
        call = next(plan)
        while True:
            answer = call()
            if hasattr(answer, "__await__") or hasattr(answer, "__aiter__"):
                if hasattr(answer, "close"):
                    answer.close()
                raise TypeError("the answer is to be awaited: use the assertion of the same name with _async")
            call = plan.send(kept(answer))
    except StopIteration as stop:
        found: T = stop.value
        return found


async def _run_async(plan: _Plan[T]) -> T:
    __tracebackhide__ = True
    try:
        call = next(plan)
        while True:
            answer = call()
            if hasattr(answer, "__aiter__"):
                answer = [one async for one in answer]
            elif hasattr(answer, "__await__"):
                answer = await answer
            call = plan.send(kept(answer))
    except StopIteration as stop:
        found: T = stop.value
        return found


# Identical calls


def _repeated(call: Callable[[], Any], times: int, at_least: int) -> _Plan[str | None]:
    if times < 2:  # noqa: PLR2004
        raise ValueError(f"times is {times}: only two calls or more can differ")
    first = yield call
    found = _count(first)
    if found is not None and found < at_least:
        return f"the call gives {_items(found)}, and at_least={at_least} are needed to say something"
    for number in range(2, times + 1):
        again = yield call
        if difference := first_difference(first, again):
            place = _named(first, difference.path)
            told = difference.told("call 1", f"call {number}")
            return f"call {number} of {times} did not give what call 1 gave\n  first difference: {told}{place}"
    return None


def _rows(answer: Any) -> Any:
    """The rows of a page, or the answer itself."""
    if isinstance(answer, Page):
        return answer.items
    return answer["items"] if isinstance(answer, Mapping) and "items" in answer else answer


def _count(answer: Any) -> int | None:
    """Number of rows; None where the answer is no collection of rows."""
    rows = () if answer is None else _rows(answer)
    return None if isinstance(rows, str | bytes) or not hasattr(rows, "__len__") else len(rows)


def _named(answer: Any, path: str) -> str:
    """Which article the row at a path is, in brackets, where that can be told."""
    rows, number = _rows(answer), re.match(r"(?:\.items|\['items'\])?\[(\d+)\]", path)
    if number is None or not isinstance(rows, Sequence) or int(number[1]) >= len(rows):
        return ""
    row = rows[int(number[1])]
    key = _default_key(row)
    return "" if key is row else f" (the row of {key!r} in call 1)"


# Pages


class _FaultError(Exception):
    """What is wrong with the pages."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the parts of a page are."""

    items: Part
    next_cursor: Part
    key: Part | None

    def read(self, page: Any) -> tuple[list[Any], Any]:
        """The items of a page and the cursor of the next, None after the last."""
        if isinstance(page, tuple) and not hasattr(page, "_fields") and len(page) == 2:  # noqa: PLR2004
            found, cursor = page
        else:
            found, cursor = _part(page, self.items, "items"), _part(page, self.next_cursor, "next_cursor")
        if isinstance(found, str) or not hasattr(found, "__iter__"):
            raise TypeError(f"the items of a page are no collection but {type(found).__name__}: {found!r:.100}")
        return list(found), None if cursor == "" else cursor

    def key_of(self, item: Any) -> Any:
        """What tells an item from others, hashable."""
        key = _default_key(item) if self.key is None else _part(item, self.key, "key")
        try:
            hash(key)
        except TypeError:
            return repr(key)
        return key


def _part(whole: Any, part: Part, argument: str) -> Any:
    if callable(part):
        return part(whole)
    if isinstance(whole, Mapping):
        if part in whole:
            return whole[part]
        has = f"a mapping with the keys {sorted(map(str, whole))}"
    else:
        if hasattr(whole, part) and not isinstance(whole, list | tuple | str):
            return getattr(whole, part)
        kind = type(whole)
        has = f"a {kind.__module__}.{kind.__qualname__}".replace("builtins.", "")
    raise TypeError(
        f"{has} has no {part!r}: pass {argument}= the name of the key or attribute, or a function that gets at it"
        + (" (of an HTTP response, pass on its JSON)" if hasattr(whole, "status_code") else "")
    )


def _default_key(item: Any) -> Any:
    for name in ("article_id", "id"):
        if isinstance(item, Mapping):
            if name in item:
                return item[name]
        elif hasattr(item, name):
            return getattr(item, name)
    return item


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to walk the pages.

    Attributes:
        label: what its pages are called.
        sizes: of the pages; begins again with the first when the last is not the end.
        fetch: what is to be called for a page: from its size, the cursor and the number of items before.
        layout: of its pages.
        whole: whether items are the same wherever they were found, and not only their keys.
    """

    label: str
    sizes: Sequence[int]
    fetch: Callable[[int, Any, int], Callable[[], Any]]
    layout: _Layout
    whole: bool


@dataclass(slots=True)
class _Walk:
    """Pages, from the first to the last."""

    label: str
    items: list[Any] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    totals: dict[int, int] = field(default_factory=dict)
    """Number of all items, by the page that says so."""

    def page_of(self, place: int) -> int:
        """Number of the page that an item is on, by its place; both from 1."""
        return sum(each < place for each in self.breaks) + 1


def _ways(
    search: Any, arguments: Sequence[Any], options: Mapping[str, Any], layout: _Layout, sizes: Sequence[int]
) -> list[_Way]:
    """How the pages are walked; the first way gives the ranking that the others are compared with."""
    sizes = tuple(sizes)
    if not sizes or any(type(size) is not int or size < 1 for size in sizes):
        raise ValueError(f"sizes are numbers of items on a page, at least 1 each, not {sizes}")
    turns = [(f"pages of {_sizes(sizes)} in turn", sizes)] if len(set(sizes)) > 1 else []
    each = [(f"pages of {size}", (size,)) for size in dict.fromkeys(sizes)]
    if not isinstance(search, KBSearch | AsyncKBSearch):
        if arguments or options:
            raise TypeError(
                f"only a client's search takes {[*arguments, *options]}; a function is given a size and a cursor"
            )
        if not callable(search):
            raise TypeError(f"a client or a function of a size and a cursor is needed, not {type(search).__name__}")
        each.sort(key=lambda way: way[1], reverse=True)
        return [
            _Way(label, way, lambda size, cursor, _: lambda: search(size, cursor), layout, whole=False)
            for label, way in (*each, *turns)
        ]
    if taken := {"limit", "offset", "cursor", "consistency", "expires_in"} & options.keys():
        raise TypeError(f"{', '.join(sorted(taken))}: the pages are chosen here; sizes= says how large they are")

    def by_cursor(size: int, cursor: Any, _: int) -> Callable[[], Any]:
        return lambda: search.search(*arguments, **options, limit=size, cursor=cursor)

    def by_offset(size: int, _: Any, seen: int) -> Callable[[], Any]:
        return lambda: search.search(*arguments, **options, limit=size, offset=seen)

    numbers = count()

    def by_both(size: int, cursor: Any, seen: int) -> Callable[[], Any]:
        return (by_cursor if cursor is not None and next(numbers) % 2 == 0 else by_offset)(size, cursor, seen)

    client = _Layout("items", "next_cursor", layout.key)
    return [
        _Way(f"pages of {LARGEST}", (LARGEST,), by_cursor, client, whole=True),
        *(
            _Way(f"{label} {name}", way, fetch, client, whole=True)
            for label, way in (*each, *turns)
            for name, fetch in (("by cursor", by_cursor), ("by offset", by_offset))
        ),
        _Way(f"pages of {_sizes(sizes)} by cursor and offset in turn", sizes, by_both, client, whole=True),
    ]


def _partition(ways: Sequence[_Way], at_least: int | None, full_pages: bool, sizes: Sequence[int]) -> _Plan[str | None]:
    try:
        ranking = yield from _walked(ways[0], full_pages)
        needed = min(sizes) + 1 if at_least is None else at_least
        if len(ranking.keys) < needed:
            return (
                f"the search finds {_items(len(ranking.keys))}, and {needed} are needed to say something about pages of {_sizes(sizes)}:"
                " ask for something that more answer to, or say what is enough with at_least="
            )
        for way in ways[1:]:
            walk = yield from _walked(way, full_pages)
            _compare(ranking, walk, whole=way.whole)
    except _FaultError as fault:
        return str(fault)
    return None


def _walked(way: _Way, full_pages: bool) -> _Plan[_Walk]:
    """Walk to the end; what is wrong with the walk itself is a fault."""
    walk = _Walk(way.label)
    cursor: Any = None
    cursors: list[Any] = []
    while True:
        number = len(walk.breaks) + 1
        size = way.sizes[(number - 1) % len(way.sizes)]
        where = f"page {number} of the {way.label}"
        page = yield way.fetch(size, cursor, len(walk.keys))
        items, cursor = way.layout.read(page)
        keys = [way.layout.key_of(item) for item in items]
        _check_size(where, len(items), size, exactly=full_pages and cursor is not None)
        if isinstance(page, Page):
            walk.totals[number] = page.total
            if page.end_reached != (cursor is None):
                raise _FaultError(f"{where} says end_reached={page.end_reached}, and its next cursor is {cursor!r}")
        if cursor is not None:
            _check_progress(walk, where, keys, cursor, cursors)
            cursors.append(cursor)
        walk.items += items
        walk.keys += keys
        walk.breaks.append(len(walk.keys))
        if cursor is None:
            _check_end(walk)
            return walk


def _check_size(where: str, found: int, size: int, *, exactly: bool) -> None:
    """Raise _FaultError where a page has not as many items as it should."""
    if found > size:
        raise _FaultError(f"{where} has {_items(found)}, and {size} were asked for")
    if exactly and found < size:
        raise _FaultError(
            f"{where} has {_items(found)} where {size} were asked for, and says that there are more; full_pages=False allows that"
        )


def _check_end(walk: _Walk) -> None:
    """Raise _FaultError where a walk has an item twice, or a page of it has counted otherwise."""
    places: dict[Any, int] = {}
    for place, key in enumerate(walk.keys, start=1):
        if key in places:
            first = places[key]
            raise _FaultError(
                f"the {walk.label} have {key!r} twice: at place {first} (page {walk.page_of(first)}) and at place {place}"
                f" (page {walk.page_of(place)})\n  pages: {_row(walk, place)}"
            )
        places[key] = place
    for number, total in walk.totals.items():
        if total != len(walk.keys):
            raise _FaultError(
                f"page {number} of the {walk.label} says total={total}, and there are {_items(len(walk.keys))}"
            )


def _check_progress(walk: _Walk, where: str, keys: Sequence[Any], cursor: Any, cursors: Sequence[Any]) -> None:
    """Raise _FaultError where a walk gets nowhere: it would have no end."""
    if cursor in cursors:
        raise _FaultError(
            f"{where} has the next cursor that page {cursors.index(cursor) + 1} had, so they have no end: {cursor!r:.100}"
        )
    if keys and set(keys) <= set(walk.keys):
        shown = ", ".join(map(repr, keys[:_AROUND])) + (" …" if keys[_AROUND:] else "")
        raise _FaultError(
            f"{where} has nothing new ({shown} came before), and says that there are more\n  pages: {_row(walk, len(walk.keys))}"
        )
    if not keys and walk.breaks[-_EMPTY_PAGES:].count(len(walk.keys)) == _EMPTY_PAGES:
        raise _FaultError(f"{where} comes after {_EMPTY_PAGES} empty ones, is empty, and says that there are more")


def _compare(ranking: _Walk, walk: _Walk, *, whole: bool) -> None:
    """Raise _FaultError unless a walk is the ranking."""
    first = next(
        (place for place, pair in enumerate(zip(ranking.keys, walk.keys, strict=False), 1) if pair[0] != pair[1]),
        min(len(ranking.keys), len(walk.keys)) + 1,
    )
    if ranking.keys != walk.keys:
        names = ranking.label, walk.label
        lines = [f"the {names[1]}, put end to end, differ from the {names[0]}"]
        for missing, there, name in ((ranking, set(walk.keys), names[1]), (walk, set(ranking.keys), names[0])):
            if gone := [key for key in missing.keys if key not in there]:
                lines.append(f"missing in the {name}: {', '.join(map(repr, gone[:10]))}{' …' if gone[10:] else ''}")
        lines.append(
            f"first difference at place {first}: {_at(ranking, first)} in the {names[0]}, {_at(walk, first)} in the {names[1]}"
        )
        width = max(map(len, names))
        lines += [f"{each.label:{width}}: {_row(each, first)}" for each in (ranking, walk)]
        raise _FaultError("\n  ".join(lines))
    if whole and (difference := first_difference(ranking.items, walk.items)):
        number, _, path = difference.path.removeprefix("[").partition("]")
        told = difference.told(f"the {ranking.label}", f"the {walk.label}").removeprefix(difference.path)
        key = ranking.keys[int(number)]
        raise _FaultError(
            f"place {int(number) + 1}, {key!r}, is not the same on all pages\n  first difference: {path.removeprefix('.')}{told}"
        )


def _at(walk: _Walk, place: int) -> str:
    return repr(walk.keys[place - 1]) if place <= len(walk.keys) else "nothing"


def _row(walk: _Walk, place: int) -> str:
    """The keys around a place, which stands in brackets; a bar where a page ends."""
    start, stop = max(0, place - 1 - _AROUND), min(len(walk.keys), place + _AROUND)
    parts = ["…"] if start else []
    for number in range(start + 1, stop + 1):
        key = repr(walk.keys[number - 1])
        parts.append(f"[{key}]" if number == place else key)
        if number in walk.breaks and number < len(walk.keys):
            parts.append("|")
    if place > len(walk.keys):
        parts.append("[]")
    return " ".join([*parts, "…"] if stop < len(walk.keys) else parts)


def _items(number: int) -> str:
    return f"{number} item{'' if number == 1 else 's'}"


def _sizes(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, dict.fromkeys(sizes)))
