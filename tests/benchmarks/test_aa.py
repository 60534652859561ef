from __future__ import annotations

from dataclasses import replace

from benchmarks.aa import container, report
from kbsearch.evaluate.aa import Difference, Parting

ZERO = Difference(
    questions=500,
    rankings=2_000,
    places=1_221_733,
    differing=0,
    first_place=None,
    largest_displacement=0.0,
    leg=None,
    ndcg_difference=0.0,
    ties=1_998,
    partings=(),
    ids_in_order=True,
)


def test_the_page_says_what_was_compared_and_what_was_not_run() -> None:
    page = report({"one": {"order": ZERO, "server": "not run: no image"}, "two": {"order": ZERO}}, "PostgreSQL 18.6")
    assert "**Zero: no ranking differs**, in 1,000 questions of 2 collections" in page
    assert "; not run: server." in page
    assert "| one | order: the last document first | 500 | 2,000 | 1,221,733 | 1,998 | 0 | - |" in page
    assert "not run: no image |" in page


def test_a_difference_is_not_passed_over() -> None:
    spoilt = replace(ZERO, differing=3, partings=(Parting("vector", 1, "d", "not equal"),))
    page = report({"one": {"order": ZERO, "rows": spoilt}}, "PostgreSQL 18.6")
    assert "**NOT ZERO**" in page
    assert "| 3 | vector |" in page


def test_without_an_image_there_is_no_container_and_it_is_said_why() -> None:
    with container("kbsearch-no-such-image:none") as (dsn, reason):
        assert dsn is None
        assert reason.startswith("not run: ")
