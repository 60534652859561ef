"""Law 4: nothing that happens in one organisation changes another's rows, order, scores, counts, explanations, cursors, stored rankings or errors."""

from __future__ import annotations

import random
from typing import Any, LiteralString

import psycopg
from hypothesis import given
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from tests.load import Database, arguments, call
from tests.oracle import Search
from tests.strategies import Coverage, Organisation, examples, questions_of

ACTIONS: dict[str, LiteralString] = {
    "edit": "UPDATE kbsearch.kb_article_chunks SET content = content || ' lamp lamp' WHERE org_id = %(org)s",
    "retitle": "UPDATE kbsearch.kb_articles SET title = 'lamp milk' WHERE org_id = %(org)s AND id %% 2 = 0",
    "unpublish": "UPDATE kbsearch.kb_articles SET published = NOT published WHERE org_id = %(org)s",
    "delete": "DELETE FROM kbsearch.kb_articles WHERE org_id = %(org)s AND id %% 3 = 0",
    "insert": """WITH article AS (INSERT INTO kbsearch.kb_articles (org_id, id, title)
        SELECT %(org)s, coalesce(max(a.id), 0) + 1, 'stone' FROM kbsearch.kb_articles AS a WHERE a.org_id = %(org)s RETURNING id)
    INSERT INTO kbsearch.kb_article_chunks (org_id, id, article_id, content)
    SELECT %(org)s, last.id + 1, article.id, 'lamp cloud'
    FROM article, (SELECT coalesce(max(c.id), 0) AS id FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %(org)s) AS last""",
    "bulk": """WITH article AS (INSERT INTO kbsearch.kb_articles (org_id, id, title) VALUES (%(org)s, 2 ^ 49, 'lamp')
        ON CONFLICT (org_id, id) DO UPDATE SET title = 'milk' RETURNING id)
    INSERT INTO kbsearch.kb_article_chunks (org_id, id, article_id, content)
    SELECT %(org)s, 2 ^ 49 + g, article.id, 'lamp stone ' || g FROM article, generate_series(1, 300) AS g ON CONFLICT DO NOTHING""",
    "embed": """INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, article_id, chunk_id, embedding)
    SELECT c.org_id, %(space)s, c.article_id, c.id, %(vector)s::ext.vector FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %(org)s
    ON CONFLICT (org_id, article_id, chunk_id, space_id) DO UPDATE SET embedding = excluded.embedding""",
    "forget vectors": "DELETE FROM kbsearch.kb_article_embeddings WHERE org_id = %(org)s",
    "another space": "UPDATE kbsearch.organizations SET active_space_id = %(space)s WHERE id = %(org)s",
    "another language": "UPDATE kbsearch.organizations SET language = 'simple' WHERE id = %(org)s",
    "languages": "UPDATE kbsearch.kb_articles SET language = 'dutch' WHERE org_id = %(org)s",
    "reference length": "UPDATE kbsearch.organizations SET reference_length = 7 WHERE id = %(org)s",
    "profile": "SELECT kbsearch.create_kb_ranking_profile_v1(%(org)s, 'own', 'keyword', 'term_count', 0, 1, 60, '{\"*\": 0}')",
    "pin": "UPDATE kbsearch.organizations SET ranking_profile = 'keyword@1' WHERE id = %(org)s",
    "compact": "SELECT kbsearch.compact_kb_postings_v1(%(org)s)",
    "rebuild": "SELECT kbsearch.rebuild_kb_index_v1(%(org)s)",
    "calibrate": "SELECT kbsearch.calibrate_kb_corpus_v1(%(org)s)",
    "reanalyse": "SELECT kbsearch.reanalyze_kb_chunks_v1(%(org)s)",
    "search": "SELECT count(*) FROM kbsearch.search_kb_hybrid_v1(p_org_id => %(org)s, p_query_text => 'lamp')",
    "store a ranking": "SELECT count(*) FROM kbsearch.open_kb_search_v1(p_org_id => %(org)s, p_query_text => 'lamp')",
    "sweep": "SELECT kbsearch.sweep_kb_searches_v1(%(org)s)",
    "remove": "DELETE FROM kbsearch.organizations WHERE id = %(org)s",
}


def answers(db: Database, org_id: int, search: Search, snapshot: Any, cursor: str | None) -> dict[str, Any]:
    """All that the organisation is told, byte for byte."""
    given = arguments(org_id, search)
    few = {**given, "p_limit": 3}
    candidates = {name: value for name, value in given.items() if name != "p_limit"}
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "rows": (f"SELECT s::text FROM {call('search_kb_hybrid_v1', given)} AS s", given),
        "page": (f"SELECT {call('search_kb_hybrid_page_v1', few)}::text", few),
        "explained": (f"SELECT e::text FROM {call('explain_kb_search_v1', given)} AS e", given),
        "candidates": (f"SELECT e::text FROM {call('explain_kb_candidates_v1', candidates)} AS e", candidates),
        "stored": (
            "SELECT kbsearch.fetch_kb_page_v1(%(org)s, %(snapshot)s, 1000)::text",
            {"org": org_id, "snapshot": snapshot},
        ),
        "no such article": (
            f"SELECT {call('explain_kb_article_v1', given)[:-1]}, p_article_id => -1)::text",
            given,
        ),
    }
    if cursor is not None:
        next_page = {**few, "p_cursor": cursor}
        calls["next page"] = (f"SELECT {call('search_kb_hybrid_page_v1', next_page)}::text", next_page)
    for name, changed in (
        ("refused limit", {"p_limit": -1}),
        ("refused profile", {"p_profile": "nothing@1"}),
        ("refused cursor", {"p_cursor": "x"}),
        ("refused quota", {"p_kind_quota": Jsonb([])}),
    ):
        wrong = {**given, **changed}
        calls[name] = (f"SELECT s::text FROM {call('search_kb_hybrid_v1', wrong)} AS s", wrong)
    told: dict[str, Any] = {}
    for name, (statement, parameters) in calls.items():
        try:
            told[name] = db.connection.execute(statement.encode(), parameters).fetchall()
        except psycopg.Error as error:
            told[name] = (
                error.sqlstate,
                error.diag.message_primary,
                error.diag.message_detail,
                error.diag.message_hint,
            )
    told["articles"] = [
        db.value("SELECT e::text FROM kbsearch.explain_kb_article_v1(%s, %s, NULL, %s) AS e", [org_id, search.text or "lamp", article])
        for article in db.connection.execute(
            "SELECT array_agg(f.id) FROM (SELECT a.id FROM kbsearch.kb_articles AS a WHERE a.org_id = %s ORDER BY a.id LIMIT 3) AS f", [org_id]
        ).fetchone() or ()
        for article in article or ()
        if search.terms("english")
    ]  # fmt: skip
    return told


def test_what_another_organisation_does(db: Database) -> None:
    """Any sequence of another's writes, loads, compactions, rebuilds, changes of profile, space and language: not a byte is different."""
    coverage = Coverage()

    @examples(60)
    @given(
        questions_of(least_articles=4),
        questions_of(),
        st.lists(st.sampled_from(list(ACTIONS)), min_size=1, max_size=8),
        st.integers(0, 2**16),
    )
    def run(
        mine: tuple[Organisation, Search], other: tuple[Organisation, Search], actions: list[str], seed: int
    ) -> None:
        organisation, search = mine
        chance = random.Random(seed)
        with db.loaded(organisation, search.profile) as org_id, db.loaded(other[0], other[1].profile) as foreign:
            given = arguments(org_id, search)
            del given["p_limit"]
            opened = db.connection.execute(
                f"SELECT s.snapshot FROM {call('open_kb_search_v1', given)} AS s", given
            ).fetchone()
            assert opened is not None
            page = db.page(org_id, search, p_limit=2)
            before = answers(db, org_id, search, opened[0], page["next_cursor"])
            spaces = db.spaces[other[0].dimensions]
            for action in actions:
                space = chance.choice(spaces)
                vector = f"[{','.join(['1'] + ['2'] * (other[0].dimensions - 1))}]"
                db.connection.execute(ACTIONS[action], {"org": foreign, "space": space, "vector": vector})
                if action == "remove":
                    break
            after = answers(db, org_id, search, opened[0], page["next_cursor"])
        for name, told in before.items():
            assert after[name] == told, f"{name}, after {actions}"
        coverage.example(rows=page["total"] > 2, cursor=page["next_cursor"] is not None, several=len(actions) > 2)

    run()
    coverage.require(rows=0.4, cursor=0.3, several=0.3)
