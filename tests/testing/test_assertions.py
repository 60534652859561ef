"""What the assertions find in interfaces that are wrong, and how they tell it; those that are right pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from itertools import count, cycle
from types import SimpleNamespace
from typing import Any

import pytest

from kbsearch import KBSearch
from kbsearch.testing import (
    assert_deterministic,
    assert_deterministic_async,
    assert_pages_partition,
    assert_pages_partition_async,
)

Fetch = Callable[[int, Any], Any]
ROWS = [{"id": 10 + number, "score": 1.0} for number in range(8)]


def endpoint(rows: Sequence[Any] = ROWS) -> Callable[[int, int | None], dict[str, Any]]:
    """An interface that is right: its cursor is the number of items before."""

    def search(size: int, cursor: int | None) -> dict[str, Any]:
        start = cursor or 0
        following = start + size
        return {"items": list(rows[start:following]), "next_cursor": following if following < len(rows) else None}

    return search


def fault(search: Fetch, **options: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_pages_partition(search, **options)
    return str(caught.value)


# Pages


@dataclass
class Paged:
    found: list[dict[str, Any]]
    links: dict[str, Any]


def test_pages_of_every_form_can_be_read() -> None:
    right = endpoint()

    def paged(size: int, cursor: int | None) -> Paged:
        page = right(size, cursor)
        return Paged(page["items"], {"next": page["next_cursor"]})

    assert_pages_partition(right)
    assert_pages_partition(lambda size, cursor: tuple(right(size, cursor).values()))
    assert_pages_partition(lambda size, cursor: SimpleNamespace(**right(size, cursor)))
    assert_pages_partition(
        lambda size, cursor: {**right(size, cursor), "next_cursor": right(size, cursor)["next_cursor"] or ""}
    )
    assert_pages_partition(paged, items="found", next_cursor=lambda page: page.links["next"], key="id")


@pytest.mark.parametrize(
    "items", [list("abcdefgh"), [[number] for number in range(8)], [{"name": n} for n in range(8)]]
)
def test_items_without_an_id_are_told_apart_by_themselves(items: list[Any]) -> None:
    assert_pages_partition(endpoint(items))
    assert " twice" in fault(endpoint([*items, items[0]]))


def test_each_size_is_walked_to_the_end_and_then_all_in_turn() -> None:
    asked: list[tuple[int, Any]] = []
    right = endpoint(ROWS[:5])

    def search(size: int, cursor: int | None) -> dict[str, Any]:
        asked.append((size, cursor))
        return right(size, cursor)

    assert_pages_partition(search, sizes=(2, 3))
    assert asked == [(3, None), (3, 3), (2, None), (2, 2), (2, 4), (2, None), (3, 2)]


def test_tied_items_that_a_cursor_by_score_alone_loses() -> None:
    scores = {1: 0.9, 2: 0.5, 3: 0.5, 4: 0.5, 5: 0.1}

    def search(size: int, cursor: float | None) -> tuple[list[int], float | None]:
        found = [key for key, score in scores.items() if cursor is None or score < cursor][:size]
        return found, scores[found[-1]] if len(found) == size else None

    assert fault(search, sizes=(2, 10)) == (
        "the pages of 2, put end to end, differ from the pages of 10\n"
        "  missing in the pages of 2: 3, 4\n"
        "  first difference at place 3: 3 in the pages of 10, 5 in the pages of 2\n"
        "  pages of 10: 1 2 [3] 4 5\n"
        "  pages of 2 : 1 2 | [5]"
    )


def test_an_item_that_comes_twice() -> None:
    def search(size: int, cursor: int | None) -> tuple[list[str], int | None]:
        start = cursor or 0
        return list("abcdef")[max(0, start - 1) :][:size], start + size if start + size < 6 else None

    assert fault(search, sizes=(3,)) == (
        "the pages of 3 have 'c' twice: at place 3 (page 1) and at place 4 (page 2)\n"
        "  pages: 'a' 'b' 'c' | ['c'] 'd' 'e'"
    )


def test_the_same_items_in_another_order() -> None:
    right, turned = endpoint("abcdefghijkl"), endpoint("abcdefgihjkl")
    told = fault(lambda size, cursor: (turned if size == 2 else right)(size, cursor), sizes=(2, 12))
    assert "missing" not in told
    assert "first difference at place 8: 'h' in the pages of 12, 'i' in the pages of 2" in told
    assert told.endswith("pages of 2 : … 'd' | 'e' 'f' | 'g' ['i'] | 'h' 'j' | 'k' 'l'")


def test_items_that_only_small_pages_have() -> None:
    right, more = endpoint("abc"), endpoint("abcd")
    told = fault(lambda size, cursor: (more if size == 1 else right)(size, cursor), sizes=(1, 3))
    assert "missing in the pages of 3: 'd'" in told
    assert "first difference at place 4: nothing in the pages of 3, 'd' in the pages of 1" in told


def test_a_walk_without_an_end_is_ended() -> None:
    assert fault(lambda size, _: (["a", "b", "c"][:size], "again"), sizes=(2,)) == (
        "page 2 of the pages of 2 has the next cursor that page 1 had, so they have no end: 'again'"
    )
    numbers = count()
    told = fault(lambda size, _: (["a", "b", "c"][:size], next(numbers)), sizes=(2,))
    assert told.startswith(
        "page 2 of the pages of 2 has nothing new ('a', 'b' came before), and says that there are more"
    )
    told = fault(lambda _, __: ([], next(numbers)), sizes=(2,), full_pages=False)
    assert told == "page 101 of the pages of 2 comes after 100 empty ones, is empty, and says that there are more"


def test_pages_of_the_wrong_size() -> None:
    assert (
        fault(lambda _, cursor: endpoint()(3, cursor), sizes=(2,))
        == "page 1 of the pages of 2 has 3 items, and 2 were asked for"
    )
    short: Fetch = lambda size, cursor: endpoint()(max(1, size - 1), cursor)  # noqa: E731
    assert fault(short, sizes=(3,)) == (
        "page 1 of the pages of 3 has 2 items where 3 were asked for, and says that there are more; full_pages=False allows that"
    )
    assert_pages_partition(short, sizes=(3,), full_pages=False)


def test_what_fits_on_one_page_shows_nothing() -> None:
    assert fault(endpoint([]), sizes=(1,)).startswith("the search finds 0 items, and 2 are needed")
    assert fault(endpoint(ROWS[:3]), sizes=(3, 5)).startswith(
        "the search finds 3 items, and 4 are needed to say something about pages of 3, 5"
    )
    assert_pages_partition(endpoint(ROWS[:3]), sizes=(3, 5), at_least=3)
    assert_pages_partition(endpoint([]), at_least=0)
    assert "and 9 are needed" in fault(endpoint(), at_least=9)


@pytest.mark.parametrize(
    ("search", "options", "error", "told"),
    [
        (endpoint(), {"sizes": ()}, ValueError, "sizes are numbers of items on a page, at least 1 each, not ()"),
        (endpoint(), {"sizes": (2, 0)}, ValueError, "not (2, 0)"),
        (endpoint(), {"sizes": (True,)}, ValueError, "not (True,)"),
        (endpoint(), {"kinds": ["faq"]}, TypeError, "only a client's search takes ['kinds']"),
        ("postgresql://", {}, TypeError, "not str"),
        (lambda *_: {"results": []}, {}, TypeError, "a mapping with the keys ['results'] has no 'items': pass items="),
        (lambda *_: {"items": []}, {}, TypeError, "has no 'next_cursor': pass next_cursor="),
        (lambda *_: {"items": "abc", "next_cursor": None}, {}, TypeError, "no collection but str: 'abc'"),
        (lambda *_: [1, 2], {}, TypeError, "a list has no 'items'"),
        (lambda *_: SimpleNamespace(status_code=200), {}, TypeError, "(of an HTTP response, pass on its JSON)"),
        (endpoint(), {"key": "sku"}, TypeError, "has no 'sku': pass key="),
    ],
)
def test_unusable_arguments_are_refused(
    search: Any, options: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error) as caught:
        assert_pages_partition(search, **options)
    assert told in str(caught.value)


@pytest.mark.parametrize("option", ["limit", "offset", "cursor", "consistency", "expires_in"])
def test_what_chooses_pages_is_not_for_the_caller(option: str) -> None:
    given: dict[str, Any] = {option: 1}
    with pytest.raises(TypeError, match=f"{option}: the pages are chosen here"):
        assert_pages_partition(KBSearch("host=nowhere"), 1, "refund", **given)


def test_an_error_of_the_interface_is_passed_on() -> None:
    with pytest.raises(ZeroDivisionError):
        assert_pages_partition(lambda *_: 1 / 0)


# Identical calls


def test_identical_rows_pass() -> None:
    assert_deterministic(lambda: list(ROWS))
    assert_deterministic(lambda: iter(ROWS))
    assert_deterministic(lambda: {"items": ROWS})
    assert_deterministic(lambda: 42)


def test_it_is_called_as_often_as_asked() -> None:
    for times in (2, 5, 7):
        calls: list[None] = []
        assert_deterministic(lambda calls=calls: calls.append(None) or ROWS, times=times)  # type: ignore[misc]
        assert len(calls) == times
    with pytest.raises(ValueError, match="times is 1: only two calls or more can differ"):
        assert_deterministic(lambda: ROWS, times=1)


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (
            [*ROWS[:2], {**ROWS[2], "score": 0.5}],
            "[2]['score']: 1.0 in call 1, 0.5 in call 3 (the row of 12 in call 1)",
        ),
        ([ROWS[1], ROWS[0], ROWS[2]], "[0]['id']: 10 in call 1, 11 in call 3 (the row of 10 in call 1)"),
        (ROWS[:2], "[2]: {'id': 12, 'score': 1.0} in call 1, nothing in call 3 (the row of 12 in call 1)"),
        (ROWS[:4], "[3]: nothing in call 1, {'id': 13, 'score': 1.0} in call 3"),
        ([*ROWS[:2], {**ROWS[2], "score": 1}], "[2]['score']: 1.0 in call 1, 1 in call 3 (the row of 12 in call 1)"),
        (tuple(ROWS[:3]), "the whole: [{"),
    ],
)
def test_the_first_place_where_two_calls_differ_is_told(last: Any, told: str) -> None:
    answers = iter([ROWS[:3], ROWS[:3], last])
    with pytest.raises(AssertionError) as caught:
        assert_deterministic(lambda: next(answers))
    title, difference = str(caught.value).split("\n  first difference: ")
    assert title == "call 3 of 5 did not give what call 1 gave"
    assert difference.startswith(told)


def test_no_rows_are_always_the_same() -> None:
    empty: tuple[Any, ...] = ([], None, {"items": []})
    for nothing in empty:
        with pytest.raises(AssertionError, match="the call gives 0 items, and at_least=1 are needed"):
            assert_deterministic(lambda nothing=nothing: nothing)  # type: ignore[misc]
        assert_deterministic(lambda nothing=nothing: nothing, at_least=0)  # type: ignore[misc]
    with pytest.raises(AssertionError, match="the call gives 8 items, and at_least=9 are needed"):
        assert_deterministic(lambda: ROWS, at_least=9)


# Coroutines


def test_assertions_for_coroutines() -> None:
    right = endpoint()
    turns = cycle([ROWS, ROWS[::-1]])

    async def search(size: int, cursor: int | None) -> dict[str, Any]:
        await asyncio.sleep(0)
        return right(size, cursor)

    async def lossy(size: int, cursor: int | None) -> dict[str, Any]:
        page = await search(size, cursor)
        return {**page, "items": page["items"][1:] if cursor == 4 else page["items"]}

    async def rows(given: Sequence[Any]) -> AsyncIterator[Any]:
        for row in given:
            yield row

    async def run() -> None:
        await assert_pages_partition_async(search)
        await assert_deterministic_async(lambda: search(3, None))
        await assert_deterministic_async(lambda: rows(ROWS))
        with pytest.raises(AssertionError, match="missing in the pages of 2: 14"):
            await assert_pages_partition_async(lossy, sizes=(2, 8), full_pages=False)
        with pytest.raises(AssertionError, match=r"first difference: \[0\]\['id'\]: 10 in call 1, 17 in call 2"):
            await assert_deterministic_async(lambda: rows(next(turns)))

    asyncio.run(run())
    with pytest.raises(TypeError, match="the answer is to be awaited: use the assertion of the same name with _async"):
        assert_deterministic(lambda: rows(ROWS))
    with pytest.raises(TypeError, match="the answer is to be awaited"):
        assert_pages_partition(search)
