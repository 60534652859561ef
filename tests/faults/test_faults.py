"""A share of what `make faults` does, and that it can find something."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from tests.faults import campaign
from tests.faults.hunt import GONE, PLAIN, SPACES, TEXT, Act, hunt, upgrade_while_searching
from tests.faults.siege import WAYS, LossError, Siege, besieged


@pytest.fixture(scope="module")
def siege() -> Iterator[Siege]:
    with besieged(7) as made:
        yield made


@pytest.mark.parametrize("way", WAYS)
def test_a_killed_server_has_what_was_committed_and_nothing_else(
    siege: Siege, way: str, record_property: Callable[[str, object], None]
) -> None:
    siege.strike(way)
    record_property("finding", f"{way}: {dict(siege.counted)}")
    assert siege.counted["commits"] > 0


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE kbsearch.kb_articles SET title = 'version999' WHERE external_ref = (SELECT min(external_ref) FROM kbsearch.kb_articles)",
        "DELETE FROM kbsearch.kb_articles WHERE external_ref = (SELECT min(external_ref) FROM kbsearch.kb_articles)",
        "DELETE FROM kbsearch.kb_article_chunks WHERE chunk_no = 1",
        "DELETE FROM kbsearch.kb_postings WHERE lexeme = 'word'",
        "SELECT kbsearch.upsert_kb_article_v1(min(id), 'ghost', 'version1', 'ghostly') FROM kbsearch.organizations",
    ],
    ids=["a version nobody wrote", "a lost article", "half an article", "lost postings", "an uncommitted article"],
)
def test_planted_damage_is_found(siege: Siege, damage: str) -> None:
    with psycopg.connect(siege.dsn, autocommit=True) as connection:
        connection.execute("BEGIN")
        connection.execute(damage.encode())
        connection.execute("COMMIT")
        try:
            with pytest.raises(LossError):
                siege._check([])
        finally:
            connection.execute("DELETE FROM kbsearch.kb_articles")
            connection.execute("SELECT kbsearch.rebuild_kb_index_v1(o.id) FROM kbsearch.organizations AS o")
            siege.ledger.acknowledged.clear()
            siege.strike(WAYS[0])


@pytest.mark.parametrize(
    ("acts", "shared"),
    [(TEXT, 0.8), (TEXT, 0.0), (SPACES, 0.8), (PLAIN, 0.8)],
    ids=["texts", "texts of one's own organisation", "spaces", "plain statements"],
)
def test_no_deadlock_among_calls_of_our_functions(database: str, acts: Sequence[Act], shared: float) -> None:
    counted = hunt(database, 3, 1, acts, shared)
    assert counted["acts"] > 10
    assert {code for code in counted if code not in (*GONE, "acts")} == set()


def test_searches_go_on_while_another_version_is_installed(database: str) -> None:
    counted = upgrade_while_searching(database, 3)
    assert counted["installs"] == 3
    assert counted["searches"] > 10


def test_the_page_has_a_place_for_the_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(campaign.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    campaign.write(page, "| made |")
    assert "| made |" in page.read_text(encoding="utf-8")
