from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from kbsearch.testing.differences import first_difference, kept


@dataclass
class Row:
    id: int
    score: float
    parts: tuple[str, ...] = ()
    cache: Any = field(default=None, compare=False)


@pytest.mark.parametrize(
    ("left", "right", "path"),
    [
        (1, 2, ""),
        (1, 1.0, ""),
        (1, True, ""),
        (1.0, Decimal(1), ""),
        (0.0, -0.0, ""),
        (0.1 + 0.2, 0.3, ""),
        ("a", "b", ""),
        (b"a", b"b", ""),
        ([1, 2], (1, 2), ""),
        ([1, 2, 3], [1, 2, 4], "[2]"),
        ([1, 2], [1, 2, 3], "[2]"),
        ([1, 2, 3], [1, 2], "[2]"),
        ({"a": 1}, {"a": 2}, "['a']"),
        ({"a": 1}, {"b": 1}, "['a']"),
        ({"a": 1}, {"a": 1, "b": None}, "['b']"),
        ({1, 2}, {1, 3}, ""),
        ([Row(1, 0.5)], [Row(1, 0.25)], "[0].score"),
        ([Row(1, 0.5, ("x", "y"))], [Row(1, 0.5, ("x", "z"))], "[0].parts[1]"),
        ({"items": [{"id": 7, "score": 1.0}]}, {"items": [{"id": 7, "score": 1}]}, "['items'][0]['score']"),
        (np.array([1.0, 2.0]), np.array([1.0, 2.5]), "[1]"),
        (np.array([[1, 2]]), np.array([1, 2]), "[0]"),
    ],
)
def test_the_first_difference_is_found(left: Any, right: Any, path: str) -> None:
    found = first_difference(left, right)
    assert found is not None
    assert found.path == path


@pytest.mark.parametrize(
    "value",
    [
        1,
        1.5,
        math.nan,
        "text",
        None,
        [1, [2, (3, {"a": math.nan})]],
        Row(1, math.inf, ("x",)),
        np.array([[1.0, math.nan]]),
        {"a": 1, "b": 2},
        {1, 2},
        np.float64(0.5),
    ],
    ids=repr,
)
def test_a_value_does_not_differ_from_itself(value: Any) -> None:
    assert first_difference(value, value) is None
    assert first_difference([value], [value]) is None


def test_what_does_not_count() -> None:
    assert first_difference({"a": 1, "b": 2}, {"b": 2, "a": 1}) is None
    assert first_difference(Row(1, 1.0, cache=1), Row(1, 1.0, cache=2)) is None


def test_a_difference_is_told_in_a_line() -> None:
    found = first_difference([{"a": 1}], [{}])
    assert found is not None
    assert found.told("call 1", "call 2") == "[0]['a']: 1 in call 1, nothing in call 2"
    long = first_difference("x" * 1000, "y")
    assert long is not None
    told = long.told("one", "the other")
    assert told.startswith("the whole: 'xxx")
    assert told.endswith("…' in one, 'y' in the other".replace("…'", "…"))
    assert len(told) < 200


def test_an_iterator_is_kept_as_a_list() -> None:
    assert kept(iter((1, 2))) == [1, 2]
    assert kept("text") == "text"
    assert kept((1, 2)) == (1, 2)
