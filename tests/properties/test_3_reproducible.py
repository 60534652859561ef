"""Law 3: the same data and the same question give byte-identical rows, whatever the plan, the physical order and the way of loading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import LiteralString

import psycopg
import pytest
from hypothesis import given

from tests.load import Database, compare
from tests.oracle import BUILT_IN, Article, Chunk, Profile, Search
from tests.strategies import Coverage, Organisation, examples, numbered, questions_of
from tests.windowed import in_windows, look

PARALLEL: tuple[LiteralString, ...] = (
    "SET LOCAL max_parallel_workers_per_gather = 4",
    "SET LOCAL parallel_setup_cost = 0",
    "SET LOCAL parallel_tuple_cost = 0",
    "SET LOCAL min_parallel_table_scan_size = 0",
    "SET LOCAL min_parallel_index_scan_size = 0",
)

PLANS: dict[str, tuple[LiteralString, ...]] = {
    "as is": (),
    "no bitmap scan": ("SET LOCAL enable_bitmapscan = off",),
    "no gather merge": ("SET LOCAL enable_gathermerge = off",),
    "no hash aggregate": ("SET LOCAL enable_hashagg = off",),
    "no hash join": ("SET LOCAL enable_hashjoin = off",),
    "no incremental sort": ("SET LOCAL enable_incremental_sort = off",),
    "no index scan": ("SET LOCAL enable_indexscan = off",),
    "no index-only scan": ("SET LOCAL enable_indexonlyscan = off",),
    "no index at all": (
        "SET LOCAL enable_indexscan = off",
        "SET LOCAL enable_indexonlyscan = off",
        "SET LOCAL enable_bitmapscan = off",
    ),
    "no materialisation": ("SET LOCAL enable_material = off",),
    "no memoize": ("SET LOCAL enable_memoize = off",),
    "no merge join": ("SET LOCAL enable_mergejoin = off",),
    "no nested loop": ("SET LOCAL enable_nestloop = off",),
    "nested loops only": ("SET LOCAL enable_hashjoin = off", "SET LOCAL enable_mergejoin = off"),
    "merge joins only": ("SET LOCAL enable_hashjoin = off", "SET LOCAL enable_nestloop = off"),
    "no presorted aggregate": ("SET LOCAL enable_presorted_aggregate = off",),
    "no sequential scan": ("SET LOCAL enable_seqscan = off",),
    "no sort": ("SET LOCAL enable_sort = off",),
    "no tid scan": ("SET LOCAL enable_tidscan = off",),
    "work_mem 64 kB": ("SET LOCAL work_mem = '64kB'", "SET LOCAL hash_mem_multiplier = 1"),
    "work_mem 1 GB": ("SET LOCAL work_mem = '1GB'",),
    "parallel": PARALLEL,
    "parallel without leader": (*PARALLEL, "SET LOCAL parallel_leader_participation = off"),
    "parallel whatever it costs": (*PARALLEL, "SET LOCAL debug_parallel_query = on"),
    "generic plans": ("SET LOCAL plan_cache_mode = force_generic_plan",),
    "custom plans": ("SET LOCAL plan_cache_mode = force_custom_plan",),
    "jit": ("SET LOCAL jit = on", "SET LOCAL jit_above_cost = 0"),
}
FIVE = ("as is", "no index at all", "merge joins only", "work_mem 64 kB", "parallel without leader")

# The search functions pin the plans that they were measured with. This takes the pins off, so that other plans are really taken;
# a function's search_path is left as it is.
UNPIN: LiteralString = """DO $$
DECLARE
    v_statement text;
BEGIN
    FOR v_statement IN
        SELECT format('ALTER FUNCTION %s RESET %I', p.oid::regprocedure, split_part(c.setting, '=', 1))
        FROM pg_catalog.pg_proc AS p
        CROSS JOIN LATERAL unnest(p.proconfig) AS c (setting)
        WHERE p.pronamespace = 'kbsearch'::regnamespace AND p.provolatile = 's' AND c.setting NOT LIKE 'search_path=%'
    LOOP
        EXECUTE v_statement;
    END LOOP;
END
$$"""


@contextmanager
def undone(connection: psycopg.Connection[object]) -> Iterator[None]:
    """A transaction that is rolled back."""
    with connection.transaction(force_rollback=True):
        yield


def plan_by(db: Database, plan: str) -> None:
    """Have the rest of the transaction planned so; before PostgreSQL 16 one setting has another name and one is not there.

    Searches have no time budget in it: a plan that nobody would choose, each of its statements compiled, may take longer than any answer is worth.
    """
    db.connection.execute("SET LOCAL kbsearch.search_budget_ms = 0")
    for statement in PLANS[plan]:
        if db.connection.info.server_version >= 160000:
            db.connection.execute(statement)
        elif "debug_parallel_query" in statement:
            db.connection.execute("SET LOCAL force_parallel_mode = on")
        elif "enable_presorted_aggregate" not in statement:
            db.connection.execute(statement)
    db.connection.execute("DISCARD PLANS")


def lines_under(db: Database, plan: str, org_id: int, search: Search, *, pinned: bool = True) -> list[str]:
    """The rows as text under a plan; pinned: the functions keep their own settings, as in use."""
    with undone(db.connection):
        if not pinned:
            db.connection.execute(UNPIN)
        plan_by(db, plan)
        return db.lines(org_id, search)


def assert_same(got: Sequence[str], expected: Sequence[str], when: str) -> None:
    try:
        compare(got, expected)
    except AssertionError as difference:
        raise AssertionError(f"{when}: {difference}") from None


def test_every_setting_of_the_planner_is_forced(db: Database) -> None:
    """All enable_* settings that can matter without partitions or foreign tables are in PLANS."""
    names = {
        name
        for (name,) in db.connection.execute(
            "SELECT name FROM pg_catalog.pg_settings WHERE name LIKE 'enable\\_%' AND setting = 'on' AND vartype = 'bool'"
        )
        if not name.startswith(("enable_partition", "enable_async"))
    }
    forced = {statement.split()[2] for statements in PLANS.values() for statement in statements}
    assert names - forced <= {
        "enable_parallel_append",
        "enable_parallel_hash",
        "enable_group_by_reordering",
        "enable_distinct_reordering",
        "enable_self_join_elimination",
        "enable_eager_aggregate",
    }


def test_rows_do_not_depend_on_the_plan(db: Database) -> None:
    coverage = Coverage()

    @examples(6)
    @given(questions_of(least_articles=12, most_articles=24, filters=(), operators=False))
    def run(drawn: tuple[Organisation, Search]) -> None:
        organisation, search = drawn
        with db.loaded(organisation, search.profile, pieces=3) as org_id:
            expected = db.lines(org_id, search)
            for plan in PLANS:
                assert_same(lines_under(db, plan, org_id, search), expected, plan)
            with undone(db.connection):
                db.connection.execute(UNPIN)
                for plan in PLANS:
                    with undone(db.connection):
                        plan_by(db, plan)
                        assert_same(db.lines(org_id, search), expected, f"settings of the functions taken off, {plan}")
        coverage.example(rows=len(expected) > 5)

    run()
    coverage.require(rows=0.5)


def crowd(scattered: bool = True) -> Organisation:
    """Thirty articles of twenty chunks, all of the same text and the same vector."""
    article = Article(0, (Chunk(0, "lamp stone", vector=(3, 4)),) * 20, title="lamp", kind="policy")
    return Organisation(numbered([article] * 30, 85, 985, seed=8), scattered=scattered)


@pytest.mark.parametrize("profile", [BUILT_IN[0], BUILT_IN[1]], ids=lambda profile: profile.name)
def test_one_tie_of_all_chunks_under_every_plan(db: Database, profile: Profile) -> None:
    """The lowest chunk of each article, articles by id, three of them under a quota: nothing but ids decides."""
    organisation = crowd()
    lowest = {article.id: min(chunk.id for chunk in article.chunks) for article in organisation.articles}
    search = Search(words=("lamp",), vector=(3, 4), profile=profile)
    few = replace(search, quota={"policy": 3})
    with db.loaded(organisation, pieces=2) as org_id:
        expected = db.lines(org_id, search)
        assert [(each.row.article_id, each.row.chunk_id) for each in db.search(org_id, search)] == sorted(
            lowest.items()
        )
        limited = db.lines(org_id, few)
        assert [(each.row.article_id, each.row.tied_with) for each in db.search(org_id, few)] == [
            (article_id, 29) for article_id in sorted(lowest)[:3]
        ]
        for plan in PLANS:
            with undone(db.connection):
                db.connection.execute(UNPIN)
                plan_by(db, plan)
                assert_same(db.lines(org_id, search), expected, plan)
                assert_same(db.lines(org_id, search, p_limit=7), expected[:7], f"{plan}, limit 7")
                assert_same(db.lines(org_id, few), limited, f"{plan}, quota")


UPDATES: tuple[LiteralString, ...] = (
    "UPDATE kbsearch.kb_articles SET title = title, kind = kind WHERE org_id = %s",
    "UPDATE kbsearch.kb_article_chunks SET content = content WHERE org_id = %s AND id %% 2 = 0",
    "UPDATE kbsearch.kb_article_embeddings SET embedding = embedding WHERE org_id = %s AND chunk_id %% 3 = 0",
)
SHUFFLED: dict[LiteralString, LiteralString] = {
    "kb_articles": "hashint8(id)",
    "kb_article_chunks": "hashint8(id)",
    "kb_article_embeddings": "hashint8(chunk_id + 1)",
    "kb_postings": "hashint8(first_chunk_id + segment_id)",
}
"""Tables and the index, made for the purpose, that they are clustered by: an order that is nobody's."""

EDITS: tuple[LiteralString, ...] = (
    "UPDATE kbsearch.kb_article_chunks SET content = content || ' lamp walrus' WHERE org_id = %s",
    "UPDATE kbsearch.kb_article_chunks SET content = left(content, -12) WHERE org_id = %s",
    "UPDATE kbsearch.kb_articles SET published = NOT published WHERE org_id = %s",
    "UPDATE kbsearch.kb_articles SET published = NOT published WHERE org_id = %s",
)
"""What the first and the third do, the others take back."""

MAINTENANCE: tuple[LiteralString, ...] = (
    "SELECT kbsearch.compact_kb_postings_v1(%s)",
    "SELECT kbsearch.rebuild_kb_index_v1(%s)",
    "SELECT kbsearch.compact_kb_postings_v1(%s)",
)


def test_rows_do_not_depend_on_where_they_lie(db: Database) -> None:
    """No-op updates, edits taken back, clustering, compaction, rebuild; each also read by sequential scans."""

    @examples(10)
    @given(questions_of(least_articles=8, filters=()))
    def run(drawn: tuple[Organisation, Search]) -> None:
        organisation, search = drawn
        with db.loaded(organisation, search.profile, pieces=4) as org_id:
            expected = db.lines(org_id, search)

            def check(when: str) -> None:
                assert_same(db.lines(org_id, search), expected, when)
                assert_same(
                    lines_under(db, "no index at all", org_id, search, pinned=False),
                    expected,
                    f"{when}, read sequentially",
                )

            for statement in UPDATES:
                db.connection.execute(statement, [org_id])
            check("after updates that change nothing")
            for table, order in SHUFFLED.items():
                db.connection.execute(f"CREATE INDEX kb_shuffled ON kbsearch.{table} ({order})")
                db.connection.execute(f"CLUSTER kbsearch.{table} USING kb_shuffled")
                db.connection.execute("DROP INDEX kbsearch.kb_shuffled")
            check("after clustering by another index")
            for statement in MAINTENANCE:
                db.connection.execute(statement, [org_id])
                check(statement)
            for level in ("REPEATABLE READ", "READ COMMITTED"):
                # merged under the second only: under the first removals stay beside what they remove
                with db.connection.transaction():
                    db.connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
                    for statement in EDITS:
                        db.connection.execute(statement, [org_id])
                check(f"after edits and their reverse under {level}")
            db.connection.execute("SELECT kbsearch.compact_kb_postings_v1(%s)", [org_id])
            check("after edits, their reverse and compaction")

    run()


def test_rows_do_not_depend_on_the_way_of_loading(db: Database) -> None:
    """In one statement or chunk by chunk, in any order; the organisation's own id is the same, as it is part of every cursor."""
    coverage = Coverage()

    @examples(20)
    @given(questions_of(least_articles=8))
    def run(drawn: tuple[Organisation, Search]) -> None:
        organisation, search = drawn
        org_id = db.value("SELECT nextval('kbsearch.organizations_id_seq')")
        count = sum(len(article.chunks) for article in organisation.articles + organisation.removed)
        plain = replace(organisation, removed=(), unmerged=False)
        backwards = replace(organisation, articles=organisation.articles[::-1], scattered=not organisation.scattered)
        with db.loaded(plain, search.profile, org_id=org_id):
            expected = db.lines(org_id, search)
        segments, removals = 0, 0
        for when, other, pieces in (
            ("in one piece, backwards, others deleted", backwards, 1),
            ("chunk by chunk, merged", replace(organisation, unmerged=False), count),
            ("chunk by chunk, unmerged", replace(organisation, unmerged=True), count),
            ("chunk by chunk, backwards, unmerged", replace(backwards, unmerged=True), count),
            ("in three pieces", organisation, 3),
        ):
            with db.loaded(other, search.profile, org_id=org_id, pieces=pieces):
                assert_same(db.lines(org_id, search), expected, when)
                counted = db.connection.execute(
                    """SELECT count(DISTINCT p.segment_id), count(*) FILTER (WHERE p.sign = -1)
                    FROM kbsearch.kb_postings AS p WHERE p.org_id = %s""",
                    [org_id],
                ).fetchone()
                assert counted is not None
                segments, removals = max(segments, counted[0]), max(removals, counted[1])
        coverage.example(rows=len(expected) > 1, many_segments=segments > 5, removals=removals > 0)

    run()
    coverage.require(rows=0.4, many_segments=0.5, removals=0.2)


@pytest.mark.parametrize("profile", BUILT_IN, ids=lambda profile: profile.name)
def test_five_connections_and_five_plans(db: Database, profile: Profile) -> None:
    """A kind over its quota: the same rows, the same candidates, at the same time."""
    policies = [Article(0, (Chunk(0, "lamp", vector=(3, 4)),) * 2, title="stone", kind="policy")] * 30
    others = [Article(0, (Chunk(0, "lamp cloud", vector=(1, 1)),), kind=kind) for kind in ("faq", "leaflet")] * 5
    search = Search(words=("lamp", "stone"), vector=(3, 4), quota={"policy": 4, "faq": 2}, profile=profile)
    everything = replace(search, quota=None)

    def ask(plan: str, org_id: int) -> tuple[list[str], list[str], list[dict[str, object]]]:
        with psycopg.connect(db.dsn) as connection:
            own = Database(db.dsn, connection)
            plan_by(own, plan)
            pages = [own.page(org_id, search, p_limit=limit) for limit in (1, 5, 1000)]
            return own.lines(org_id, search), own.lines(org_id, everything), pages

    with db.loaded(Organisation(numbered([*policies, *others], 80, 95, seed=4), scattered=True), pieces=5) as org_id:
        with ThreadPoolExecutor(len(FIVE)) as pool:
            answers = list(pool.map(lambda plan: ask(plan, org_id), FIVE))
        assert len(answers[0][0]) == 4 + 2 + 5
        assert len(answers[0][1]) == 40
        for plan, answer in zip(FIVE, answers, strict=True):
            assert_same(answer[0], answers[0][0], plan)
            assert_same(answer[1], answers[0][1], f"{plan}, without quota")
            assert answer[2] == answers[0][2], plan
        for plan in FIVE:
            assert_same(
                lines_under(db, plan, org_id, search, pinned=False), answers[0][0], f"settings taken off, {plan}"
            )


@pytest.mark.parametrize(
    "profile", [one for one in BUILT_IN if one.fusion != "arbitrate"], ids=lambda profile: profile.name
)
def test_windows_of_one_index_under_every_plan(db: Database, profile: Profile) -> None:
    """An approximate search reads its index whatever the planner is told, also in a parallel worker: same index, same rows."""
    search = Search(words=("lamp", "stone"), vector=(3, 4), profile=profile)
    windowed = in_windows(db, 7)
    with windowed.loaded(crowd()) as org_id:
        assert look(windowed, org_id, search).through_windows
        expected = windowed.lines(org_id, search)
        assert len(expected) >= 7
        for plan in PLANS:
            assert_same(lines_under(windowed, plan, org_id, search), expected, plan)
