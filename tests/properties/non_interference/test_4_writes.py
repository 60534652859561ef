"""Law 4: nothing that happens in one organisation changes another's rows, order, scores, counts, explanations, cursors, stored rankings or errors."""

from __future__ import annotations

import psycopg
import pytest

from kbsearch import doctor
from tests.load import Database
from tests.properties.non_interference.world import ACTIONS, ASKED, Hunt, Told, World, wanted


def test_what_another_organisation_does(db: Database, request: pytest.FixtureRequest) -> None:
    """After each of another's writes, loads, compactions, rebuilds, changes of profile, space, language: not a byte is different."""
    hunt = Hunt(db)
    most, rounds = wanted(1500), 0
    while hunt.checks < most:
        hunt.run(min(60, 1 + (most - hunt.checks) // 100), number=rounds)
        rounds += 1
    hunt.coverage.require(rows=0.4, cursor=0.3, answered=0.6)
    finding = f"non-interference: {hunt.checks} answers to one organisation compared, after {hunt.acted} actions of another: no difference"
    request.node.user_properties.append(("finding", finding))


def test_what_the_doctor_says_of_an_organisation(db: Database, shared_database: str) -> None:
    """The findings about an organisation are the same whatever another does."""

    def findings(world: World) -> Told:
        name = f"organisation {world.org_id}"
        diagnosis = doctor.examine(shared_database, organization=name, checks=["derived", "data", "embeddings"])
        return {"doctor": [finding for finding in diagnosis.findings if finding.organization == name]}

    hunt = Hunt(
        db,
        more=findings,
        actions=("bulk", "edit", "delete", "embed as asked", "forget vectors", "languages", "remove"),
    )
    hunt.run(3)
    assert hunt.acted >= 3


def test_what_another_does_with_an_approximate_index(db: Database) -> None:
    """Built, searched, filled, dropped, built again; with keys of cursors; actions of another, one after the other, and never a byte is different."""
    hunt = Hunt(
        db,
        actions=("approximate", "search by its index", "retrieval", "exact", "cursor key", "insert", "embed as asked"),
    )
    hunt.run(4)
    assert hunt.acted >= 4


NO_ANSWERS = {
    "prepare_kb_search_v1", "list_kb_ranking_v1", "list_kb_candidates_v1",
    "rank_kb_legs_v1", "fuse_kb_weighted_v1", "fuse_kb_rrf_v1", "match_kb_vector_v1",
    "match_kb_keyword_v1", "select_kb_articles_v1", "find_kb_operators_v1", "has_kb_embeddings_v1",
    "count_kb_documents_v1", "count_kb_embeddings_v1", "count_kb_languages_v1", "count_kb_lost_languages_v1", "count_kb_space_v1",
    "describe_kb_ann_index_v1", "compare_kb_articles_v1", "gather_kb_window_v1",
    "look_up_kb_keyword_v1", "match_kb_keyword_ranges_v1", "list_kb_keyword_top_v1",
    "split_kb_lexemes_v1", "list_kb_block_hits_v1", "list_kb_block_top_v1",
    "refuse_kb_overtime_v1", "list_kb_cursor_keys_v1", "measure_kb_recall_v1",
}  # fmt: skip
"""Steps of a search, which are in its answers; and what is said of an approximate one, whose index is an organisation's own."""

STEPS = {
    "merge_kb_entries_v1", "write_kb_entries_v1", "store_kb_vectors_v1", "insert_kb_embeddings_v1", "attach_kb_cached_vectors_v1",
    "store_kb_cached_vectors_v1", "log_kb_arbitration_v1", "note_kb_changes_v1", "insert_kb_keyword_impacts_v1",
    "take_kb_corpus_v1",
}  # fmt: skip
"""Steps of a write, which are in the actions; and what A does itself."""


def test_no_function_is_left_out(db: Database) -> None:
    """Every function for an organisation is asked by A or done by B."""
    with psycopg.connect(db.dsn) as connection:
        functions: dict[str, str] = dict(
            connection.execute(
                "SELECT p.proname, p.provolatile::text FROM pg_catalog.pg_proc AS p "
                "WHERE p.pronamespace = 'kbsearch'::regnamespace AND 'p_org_id' = ANY (p.proargnames) AND p.provolatile <> 'i'"
            ).fetchall()
        )
    reading = {name for name, volatility in functions.items() if volatility == "s" and "_ann_" not in name} | {
        "list_kb_ann_indexes_v1"
    }
    writing = {name for name, volatility in functions.items() if volatility == "v"}
    assert reading - NO_ANSWERS <= ASKED, "ask it in world.py"
    done = " ".join(ACTIONS.values())
    assert {name for name in writing - STEPS if f"kbsearch.{name}(" not in done} == set(), "let B do it in world.py"
