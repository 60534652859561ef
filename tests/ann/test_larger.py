"""Plans of an organisation of 100,000 chunks, beside small ones: as those of 10,000 in test_large.py. Run by make test-quality: it loads long."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.ann.crowd import Crowd, crowd
from tests.ann.plans import check_exact, check_windows
from tests.conftest import Databases

CHUNKS = 100_000
OTHERS = 1_000
PIECE = 20_000
"""Rows of a statement: fewer cost more, and no plan depends on it."""

pytestmark = pytest.mark.large


@pytest.fixture(scope="module")
def larger(databases: Databases, template: str) -> Iterator[Crowd]:
    dsn = databases.create(template)
    try:
        with crowd(dsn, CHUNKS, OTHERS, piece=PIECE) as made:
            # a graph of few neighbours is built sooner, and is walked as any other
            made.connection.execute("SELECT kbsearch.create_kb_ann_index_v1(%s, NULL, 8, 16)", [made.org_id])
            made.connection.execute("ANALYZE")
            assert made.count("kb_article_chunks", made.org_id) == CHUNKS
            yield made
    finally:
        databases.drop(dsn)


@pytest.mark.parametrize("profile", ["weighted@1", "vector@1"])
def test_plans_of_windows(larger: Crowd, superuser: Callable[[str], str], profile: str) -> None:
    """The partial index; the organisation's own rows; nothing from end to end; nothing compiled."""
    larger.use("ann")
    check_windows(larger, superuser(larger.dsn), profile)


@pytest.mark.parametrize("place", [0, 1])
def test_plans_of_an_exact_search(larger: Crowd, superuser: Callable[[str], str], place: int) -> None:
    """Of the organisation that owns nearly all rows, and of one beside it."""
    larger.use("exact")
    check_exact(larger, superuser(larger.dsn), larger.org_ids[place])
