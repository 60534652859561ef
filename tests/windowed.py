"""Searches through windows beside the oracle's: the exact ranking of what the windows hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from psycopg.types.json import Jsonb

from tests import oracle
from tests.load import Database, vector_text
from tests.oracle import Row, Search
from tests.strategies import Organisation

PREPARED = """SELECT p.retrieval, p.window_articles, p.window_tag
FROM kbsearch.prepare_kb_search_v1(%(org)s, %(text)s, %(vector)s, 0, 0, NULL, %(kinds)s, %(quota)s, %(metadata)s, %(min_score)s, %(profile)s, NULL,
    false, %(language)s, false) AS p"""

EXHAUSTIVE = 10**6
"""A window that nothing is outside of is none that a test of windows is about."""


@dataclass(frozen=True, slots=True)
class Looked:
    """How a search looks for its candidates.

    Attributes:
        retrieval: mode, reason and so on, as the plan has them.
        articles: its candidates; None: all.
    """

    retrieval: dict[str, Any]
    articles: frozenset[int] | None

    @property
    def through_windows(self) -> bool:
        return bool(self.retrieval["mode"] == "ann")


def look(db: Database, org_id: int, search: Search) -> Looked:
    """What the plan of a search says of it."""
    given = {
        "org": org_id,
        "text": search.text,
        "vector": None if search.vector is None else vector_text(search.vector),
        "kinds": None if search.kinds is None else list(search.kinds),
        "quota": None if search.quota is None else Jsonb(search.quota),
        "metadata": None if search.metadata is None else Jsonb(search.metadata),
        "min_score": search.min_score,
        "profile": f"{search.profile.name}@1",
        "language": search.language,
    }
    row = db.connection.execute(PREPARED.encode(), given).fetchone()
    assert row is not None
    retrieval, articles, tag = row
    assert (tag is not None) == (retrieval["mode"] == "ann")
    return Looked(retrieval, None if articles is None else frozenset(articles))


def expected(db: Database, organisation: Organisation, org_id: int, search: Search) -> tuple[Looked, list[Row]]:
    """The rows that the search must have; asserts that its candidates are what windows hold."""
    assert db.window is not None
    looked = look(db, org_id, search)
    length = organisation.reference_length
    windows = oracle.windows(organisation.articles, search, db.window, length)
    if looked.through_windows:
        assert windows is not None
        assert looked.articles is not None
        assert windows.sure <= looked.articles <= windows.possible
    elif looked.retrieval["reason"] == "window_not_filled":
        assert windows is None or search.profile.fusion == "arbitrate"
    return looked, oracle.rank(
        organisation.articles, search, length, looked.articles if looked.through_windows else None
    )


def in_windows(db: Database, window: int) -> Database:
    """The same database, whose organisations are searched through windows."""
    return replace(db, window=window)


def exactly(db: Database, org_id: int) -> None:
    """From here on the organisation is searched exactly."""
    db.connection.execute("UPDATE kbsearch.organizations SET retrieval = 'exact' WHERE id = %s", [org_id])
