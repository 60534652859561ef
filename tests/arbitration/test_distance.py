"""The distance and the overlap of two lists, in SQL and in Python, against their definitions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsearch import ArbitrationError, arbitration
from tests.arbitration import oracle
from tests.arbitration.calls import Connection, distances, overlaps, value
from tests.sql.corpus import refused

Pair: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]

property_test = settings(max_examples=150, deadline=None, derandomize=True, database=None)
lists = st.lists(st.integers(1, 12), unique=True, max_size=9)


def ranks_of(ids: list[int]) -> st.SearchStrategy[list[int]]:
    """Competition ranks of a list, with many ties."""

    def competition(ties: list[bool]) -> list[int]:
        ranks: list[int] = []
        for n, tied in enumerate(ties, 1):
            ranks.append(ranks[-1] if tied and ranks else n)
        return ranks

    return st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)).map(competition)


@st.composite
def ranked(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    ids = draw(lists)
    return ids, draw(ranks_of(ids))


def pairs_up_to(length: int) -> Iterator[Pair]:
    """All pairs of lists, but for the names of the ids: the left is 1, 2, …, and what only the right has is numbered as it comes."""
    for m in range(length + 1):
        left = tuple(range(1, m + 1))
        for n in range(length + 1):
            for new in range(n + 1):
                fresh = tuple(range(m + 1, m + new + 1))
                for picked in permutations((*left, *fresh), n):
                    if tuple(one for one in picked if one > m) == fresh:
                        yield left, picked


def texts(values: list[Fraction]) -> list[str]:
    return [oracle.text(oracle.rounded(one)) for one in values]


@pytest.fixture(scope="module")
def every_pair() -> list[Pair]:
    """Of lists up to length 6."""
    found = list(pairs_up_to(6))
    assert (
        len(found)
        == len(set(found))
        == sum(
            math.comb(m, j) * math.comb(n, j) * math.factorial(j)
            for m in range(7)
            for n in range(7)
            for j in range(min(m, n) + 1)
        )
    )
    return found


def test_it_is_the_papers_on_all_lists_up_to_length_6_in_both_directions(
    pure: Connection, every_pair: list[Pair]
) -> None:
    expected = texts([oracle.distance(left, right) for left, right in every_pair])
    assert distances(pure, every_pair) == expected
    assert distances(pure, [(right, left) for left, right in every_pair]) == expected
    assert [str(arbitration.kendall_tau_top_k(*pair)) for pair in every_pair] == expected


@pytest.mark.parametrize("penalty", ["0", "0.25", "1"])
def test_so_it_is_with_other_penalties(pure: Connection, penalty: str) -> None:
    pairs = list(pairs_up_to(4))
    expected = texts([oracle.distance(left, right, Fraction(penalty)) for left, right in pairs])
    assert distances(pure, pairs, penalty) == expected
    assert [format(arbitration.kendall_tau_top_k(*pair, penalty), "f") for pair in pairs] == expected


def test_with_penalty_a_half_it_is_kendalls_averaged_over_all_that_the_lists_leave_open(pure: Connection) -> None:
    pairs = list(pairs_up_to(4))
    assert distances(pure, pairs) == texts([oracle.average_distance(left, right) for left, right in pairs])


def test_ties_are_the_papers_on_all_lists_up_to_length_3(pure: Connection) -> None:
    tied = [
        (left, right, left_ranks, right_ranks)
        for left, right in pairs_up_to(3)
        for left_ranks in oracle.one_sided(len(left))
        for right_ranks in oracle.one_sided(len(right))
    ]
    pairs, ranks = [one[:2] for one in tied], [one[2:] for one in tied]
    expected = texts([oracle.distance(left, right, oracle.HALF, lr, rr) for left, right, lr, rr in tied])
    assert distances(pure, pairs, ranks=ranks) == expected
    assert [
        format(arbitration.kendall_tau_top_k(left, right, left_ranks=lr, right_ranks=rr), "f")
        for left, right, lr, rr in tied
    ] == expected


@property_test
@given(st.lists(ranked(), min_size=2, max_size=2), st.integers(0, 1_000_000), st.permutations(range(1, 13)))
def test_a_distance_is_one(
    pure: Connection, two: list[tuple[list[int], list[int]]], millionths: int, names: list[int]
) -> None:
    """0 … 1; 0 from itself; the same from both sides and whatever the ids are called."""
    (left, left_ranks), (right, right_ranks) = two
    penalty = format(Decimal(millionths) / 1_000_000, "f")
    renamed = [[names[one - 1] for one in ids] for ids in (left, right)]
    found = distances(
        pure,
        [(left, right), (right, left), (renamed[0], renamed[1]), (left, left), (right, right)],
        penalty,
        [(left_ranks, right_ranks), (right_ranks, left_ranks), (left_ranks, right_ranks)]
        + [(ranks, ranks) for ranks in (left_ranks, right_ranks)],
    )
    assert len(set(found[:3])) == 1
    assert found[3:] == ["0", "0"]
    assert 0 <= Decimal(found[0]) <= 1
    assert found[0] == texts([oracle.distance(left, right, Fraction(penalty), left_ranks, right_ranks)])[0]
    assert Decimal(found[0]) == arbitration.kendall_tau_top_k(left, right, penalty, left_ranks, right_ranks)


@pytest.mark.parametrize("length", [2, 3, 5, 6, 40, 100])
def test_a_list_is_furthest_from_its_reverse_whatever_the_penalty(pure: Connection, length: int) -> None:
    ids = list(range(1, length + 1))
    for penalty in ("0", "0.5", "1"):
        assert distances(pure, [(ids, ids), (ids, ids[::-1])], penalty) == ["0", "1"]


def test_known_values(pure: Connection) -> None:
    disjoint = ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10])
    assert distances(pure, [disjoint]) == ["0.777777777778"]
    assert value(pure, "round(kbsearch.kendall_tau_top_k_v1('{1,2,3,4,5}', '{6,7,8,9,10}'), 2)::text") == "0.78"
    assert distances(pure, [([], []), ([1], []), ([1], [1]), ([1, 2], []), ([1], [2])]) == ["0", "0", "0", "0.5", "1"]
    assert value(pure, "kbsearch.kendall_tau_top_k_v1(NULL, NULL)") == 0


@property_test
@given(lists, lists, st.integers(1, 999_999))
def test_the_overlap_is_its_definition(pure: Connection, left: list[int], right: list[int], millionths: int) -> None:
    persistence = format(Decimal(millionths) / 1_000_000, "f")
    expected = texts([oracle.overlap(left, right, Fraction(persistence))])[0]
    assert overlaps(pure, [(left, right), (right, left)], persistence) == [expected, expected]
    assert arbitration.rank_biased_overlap(left, right, persistence) == Decimal(expected)


def test_the_overlap_is_its_definition_on_all_lists_up_to_length_4(pure: Connection) -> None:
    pairs = list(pairs_up_to(4))
    assert overlaps(pure, pairs) == texts([oracle.overlap(left, right) for left, right in pairs])


def test_known_overlaps(pure: Connection) -> None:
    """Equal lists 1, disjoint ones 0; halves at the 13th decimal are rounded up."""
    ids = list(range(1, 14))
    assert overlaps(pure, [([], []), ([1], []), (ids, ids), (ids, [14, 15])]) == ["1", "0", "1", "0"]
    halves = ([0, 1, 2, 3, 4, 5, 6, 7], [5, 0, 3, 6, 4, 2, 1, 7])
    assert oracle.overlap(*halves, Fraction(1, 20)) == Fraction("0.0246048671875")
    assert overlaps(pure, [halves], "0.05") == ["0.024604867188"]
    assert arbitration.rank_biased_overlap(*halves, "0.05") == Decimal("0.024604867188")


@pytest.mark.parametrize("length", [100, 1000])
def test_long_lists_are_measured(pure: Connection, length: int) -> None:
    left = list(range(length))
    right = [*range(length // 2, length), *range(length, length + length // 2)]
    assert overlaps(pure, [(left, right)]) == [str(arbitration.rank_biased_overlap(left, right))]
    if length == 100:
        assert distances(pure, [(left, right)]) == [str(arbitration.kendall_tau_top_k(left, right))]


BAD: list[tuple[str, Any, Any, Any, Any]] = [
    ("an id twice", [1, 1], [2], None, None),
    ("an id twice", [1], [2, 3, 2], None, None),
    ("NULL", [1, None], [2], None, None),
    ("number of ranks", [1, 2], [2], [1], None),
    ("number of ranks", None, [2], [1], None),
    ("competition ranks", [1, 2], [2], [2, 2], None),
    ("competition ranks", [1, 2, 3], [2], [1, 1, 2], None),
    ("competition ranks", [1, 2], [2], [2, 1], None),
    ("competition ranks", [1, 2], [2], [1, None], None),
    ("competition ranks", [1], [2], None, [0]),
    ("more than 1000", list(range(1001)), [2], None, None),
    ("plain array", [[1], [2]], [2], None, None),
]


@pytest.mark.parametrize(("problem", "left", "right", "left_ranks", "right_ranks"), BAD)
def test_lists_that_are_none_are_refused(
    pure: Connection, problem: str, left: Any, right: Any, left_ranks: Any, right_ranks: Any
) -> None:
    arguments = (left, right, left_ranks, right_ranks)
    with refused("KBARB") as refusal:
        value(
            pure,
            "kbsearch.kendall_tau_top_k_v1(%s::bigint[], %s::bigint[], 0.5, %s::bigint[], %s::bigint[])",
            *arguments,
        )
    assert problem in refusal.detail["problem"]
    if problem in ("an id twice", "number of ranks", "competition ranks") and left is not None:
        with pytest.raises(ArbitrationError):
            arbitration.kendall_tau_top_k(left, right, left_ranks=left_ranks, right_ranks=right_ranks)
    if left_ranks is None and right_ranks is None:
        with refused("KBARB"):
            value(pure, "kbsearch.rank_biased_overlap_v1(%s::bigint[], %s::bigint[])", left, right)


@pytest.mark.parametrize("penalty", ["-0.1", "1.1", "'NaN'", "NULL"])
def test_a_penalty_is_a_share(pure: Connection, penalty: str) -> None:
    with refused("KBARB"):
        value(pure, f"kbsearch.kendall_tau_top_k_v1('{{1}}', '{{2}}', {penalty})")


@pytest.mark.parametrize("persistence", ["0", "1", "-1", "0.1234567", "'NaN'", "NULL"])
def test_a_persistence_is_a_probability(pure: Connection, persistence: str) -> None:
    with refused("KBARB"):
        value(pure, f"kbsearch.rank_biased_overlap_v1('{{1}}', '{{2}}', {persistence})")


@pytest.mark.parametrize("number", ["-0.1", "1.1", "nan", "x"])
def test_python_refuses_the_same_numbers(number: str) -> None:
    with pytest.raises(ArbitrationError):
        arbitration.kendall_tau_top_k([1], [2], number)
    with pytest.raises(ArbitrationError):
        arbitration.rank_biased_overlap([1], [2], number)
