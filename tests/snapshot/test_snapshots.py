"""Stored rankings: their pages are slices of what was ranked, whatever is written meanwhile."""

from __future__ import annotations

import random
import uuid
from typing import Any, LiteralString

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.load import Database, arguments, call
from tests.oracle import Search
from tests.sql.corpus import Corpus, refused
from tests.sql.corpus import call as function_call
from tests.strategies import Coverage, Organisation, examples, questions_of

WRITES: tuple[LiteralString, ...] = (
    "DELETE FROM kbsearch.kb_articles WHERE org_id = %(org)s AND id = %(id)s",
    "UPDATE kbsearch.kb_articles SET published = false WHERE org_id = %(org)s AND id = %(id)s",
    "UPDATE kbsearch.kb_articles SET title = 'lamp lamp' WHERE org_id = %(org)s AND id = %(id)s",
    "UPDATE kbsearch.kb_article_chunks SET content = 'stone' WHERE org_id = %(org)s AND article_id = %(id)s",
    "DELETE FROM kbsearch.kb_article_chunks WHERE org_id = %(org)s AND article_id = %(id)s",
    (
        "WITH article AS (INSERT INTO kbsearch.kb_articles (org_id, id, title)"
        " SELECT %(org)s, 1 + max(a.id), 'lamp' FROM kbsearch.kb_articles AS a WHERE a.org_id = %(org)s RETURNING id)"
        " INSERT INTO kbsearch.kb_article_chunks (org_id, id, article_id, content)"
        " SELECT %(org)s, 2::bigint ^ 50 - 1 - article.id %% 100000, article.id, 'stone milk' FROM article"
    ),
)


def opened(db: Database, org_id: int, search: Search) -> tuple[uuid.UUID, int]:
    given = arguments(org_id, search)
    del given["p_limit"]
    row = db.connection.execute(
        f"SELECT s.snapshot, s.total FROM {call('open_kb_search_v1', given)} AS s", given
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def fetched(
    db: Database, org_id: int, snapshot: uuid.UUID, limit: int, offset: int = 0, cursor: str | None = None
) -> dict[str, Any]:
    page: dict[str, Any] = db.value(
        "SELECT kbsearch.fetch_kb_page_v1(%s, %s, %s, %s, %s)", [org_id, snapshot, limit, offset, cursor]
    )
    return page


def test_its_pages_are_the_ranking(db: Database) -> None:
    """By cursor and by offset, of mixed sizes: byte for byte the items that a search of that moment gives, but for their cursors."""

    @examples(60)
    @given(questions_of(), st.lists(st.integers(1, 6), min_size=1, max_size=4))
    def run(drawn: tuple[Organisation, Search], sizes: list[int]) -> None:
        organisation, search = drawn
        with db.loaded(organisation, search.profile) as org_id:
            whole = db.page(org_id, search)
            snapshot, total = opened(db, org_id, search)
            for by_cursor in (True, False):
                items: list[dict[str, Any]] = []
                cursor, turn = None, 0
                while True:
                    size = sizes[turn % len(sizes)]
                    page = fetched(db, org_id, snapshot, size, 0 if by_cursor else len(items), cursor)
                    items += page["items"]
                    cursor, turn = page["next_cursor"] if by_cursor else None, turn + 1
                    assert (page["total"], page["gone"], page["legs"]) == (whole["total"], 0, whole["legs"])
                    if page["end_reached"]:
                        assert page["next_cursor"] is None
                        break
                assert [{**item, "cursor": None} for item in items] == [
                    {**item, "cursor": None} for item in whole["items"]
                ]
        assert total == whole["total"]

    run()


def test_pages_hold_under_writes(db: Database) -> None:
    """Between any two pages anything may be written: each article of the ranking is shown once, in its place, unless it is gone."""
    coverage = Coverage()

    @examples(80)
    @given(questions_of(least_articles=6), st.integers(1, 4), st.randoms(use_true_random=False))
    def run(drawn: tuple[Organisation, Search], size: int, chance: random.Random) -> None:
        organisation, search = drawn
        with db.loaded(organisation, search.profile) as org_id:
            whole = db.page(org_id, search)["items"]
            snapshot, _ = opened(db, org_id, search)
            shown: list[tuple[int, float]] = []
            gone: set[int] = set()
            counted, cursor = 0, None
            while True:
                for _ in range(chance.randint(0, 3)):
                    number, target = chance.randrange(len(WRITES)), chance.choice(organisation.articles).id
                    db.connection.execute(WRITES[number], {"org": org_id, "id": target})
                    if number <= 1:
                        gone.add(target)
                page = fetched(db, org_id, snapshot, size, cursor=cursor)
                shown += [(item["article_id"], item["score"]) for item in page["items"]]
                assert not gone & {item["article_id"] for item in page["items"]}
                counted += page["gone"]
                cursor = page["next_cursor"]
                if page["end_reached"]:
                    break
            assert len(shown) + counted == len(whole)
            present = {article for article, _ in shown}
            assert shown == [(item["article_id"], item["score"]) for item in whole if item["article_id"] in present]
            assert {item["article_id"] for item in whole} - present <= gone
        coverage.example(gone=counted > 0, pages=len(whole) > 2 * size)

    run()
    coverage.require(gone=0.1, pages=0.4)


def test_another_organisation_has_no_part_in_it(db: Database) -> None:
    @examples(10)
    @given(questions_of(), questions_of())
    def run(left: tuple[Organisation, Search], right: tuple[Organisation, Search]) -> None:
        with db.loaded(left[0], left[1].profile) as org_id, db.loaded(right[0], right[1].profile) as other:
            snapshot, _ = opened(db, org_id, left[1])
            with refused("KBSNP"):
                fetched(db, other, snapshot, 1)
            cursor = fetched(db, org_id, snapshot, 0)["next_cursor"]
            mine, _ = opened(db, other, right[1])
            if cursor is not None:
                with refused("KBCUR"):
                    fetched(db, other, mine, 1, cursor=cursor)
            assert db.value("SELECT kbsearch.close_kb_search_v1(%s, %s)", [other, snapshot]) is False
            assert fetched(db, org_id, snapshot, 1)["snapshot"] == str(snapshot)

    run()


@pytest.fixture
def three(corpus: Corpus) -> Corpus:
    for number in range(3):
        corpus.article(f"town {'hall ' * number}", title=f"title {number}", kind="policy")
    return corpus


def snapshot_of(corpus: Corpus, text: str = "town", **others: Any) -> Any:
    function, values = function_call("open_kb_search_v1", {"org_id": corpus.org_id, "query_text": text, **others})
    row = corpus.connection.execute(f"SELECT s.snapshot FROM {function} AS s".encode(), values).fetchone()
    assert row is not None
    return row[0]


def source_of(corpus: Corpus, **others: Any) -> list[tuple[int, int]]:
    function, values = function_call("get_kb_source_v1", {"org_id": corpus.org_id, **others})
    return corpus.connection.execute(
        f"SELECT s.article_id, s.chunk_id FROM {function} AS s".encode(), values
    ).fetchall()


def page_of(corpus: Corpus, snapshot: Any, **others: Any) -> dict[str, Any]:
    page: dict[str, Any] = corpus.call("fetch_kb_page_v1", snapshot=snapshot, **others)
    return page


def test_a_page_shows_what_is_there_now(three: Corpus) -> None:
    snapshot = snapshot_of(three)
    three.run("UPDATE kbsearch.kb_articles SET title = 'new', metadata = '{\"a\": 1}' WHERE org_id = %s", three.org_id)
    three.run("UPDATE kbsearch.kb_article_chunks SET content = 'replaced <b>town</b>' WHERE org_id = %s", three.org_id)
    items = page_of(three, snapshot, highlight=True)["items"]
    assert {item["title"] for item in items} == {"new"}
    assert {item["excerpt_html"] for item in items} == {"replaced &lt;b&gt;<mark>town</mark>&lt;/b&gt;"}
    three.run("DELETE FROM kbsearch.kb_article_chunks WHERE org_id = %s", three.org_id)
    items = page_of(three, snapshot)["items"]
    assert [(item["chunk_id"], item["excerpt"]) for item in items] == [(None, None)] * 3


def test_the_filters_of_the_search_hold_for_its_pages(corpus: Corpus) -> None:
    """Who may see what is often said by metadata: an article that left them since is not shown."""
    articles = [corpus.article("town", kind="policy", metadata={"audience": "public"}) for _ in range(3)]
    by_metadata = [
        snapshot_of(corpus, metadata={"audience": "public"}),
        snapshot_of(corpus, metadata=[{"audience": "public"}, {"a": 1}]),
    ]
    by_kind = snapshot_of(corpus, kinds=["policy", "page"])
    corpus.run('UPDATE kbsearch.kb_articles SET metadata = \'{"audience": "board"}\' WHERE id = %s', articles[0])
    corpus.run("UPDATE kbsearch.kb_articles SET kind = 'faq' WHERE id = %s", articles[1])
    for snapshot, wanted in (*((one, articles[1:]) for one in by_metadata), (by_kind, [articles[0], articles[2]])):
        page = page_of(corpus, snapshot)
        assert [item["article_id"] for item in page["items"]] == wanted
        assert page["gone"] == 1


def test_it_expires_and_can_be_closed(three: Corpus) -> None:
    first, second = snapshot_of(three), snapshot_of(three)
    assert three.call("close_kb_search_v1", snapshot=first) is True
    assert three.call("close_kb_search_v1", snapshot=first) is False
    three.run("UPDATE kbsearch.kb_search_snapshots SET expires_at = now() WHERE org_id = %s", three.org_id)
    for snapshot in (first, second, uuid.uuid4(), None):
        with refused("KBSNP") as refusal:
            page_of(three, snapshot)
        assert refusal.detail["reason"] == "not_found"
    assert three.call("sweep_kb_searches_v1") == 1
    assert three.value("SELECT count(*) FROM kbsearch.kb_search_snapshot_blocks WHERE org_id = %s", three.org_id) == 0


def test_the_oldest_give_way(three: Corpus) -> None:
    three.run("UPDATE kbsearch.organizations SET snapshot_limit = 3 WHERE id = %s", three.org_id)
    snapshots = [snapshot_of(three) for _ in range(5)]
    with refused("KBSNP"):
        page_of(three, snapshots[1])
    for snapshot in snapshots[2:]:
        assert page_of(three, snapshot)["total"] == 3


@pytest.mark.parametrize("given", ["-1 second", "0", "25 hours", None])
def test_how_long_it_may_live_is_limited(three: Corpus, given: str | None) -> None:
    with refused("KBLIM") as refusal:
        snapshot_of(three, expires_in=given)
    assert refusal.detail["argument"] == "p_expires_in"


def test_a_read_only_transaction_is_told_what_to_do_instead(three: Corpus) -> None:
    snapshot = snapshot_of(three)
    three.run("SET default_transaction_read_only = on")
    with refused("KBSNP") as refusal:
        snapshot_of(three)
    assert refusal.detail["reason"] == "read_only"
    assert "cursors" in refusal.hint
    assert len(page_of(three, snapshot)["items"]) == 3


@pytest.mark.parametrize(
    ("given", "sqlstate"),
    [
        ({"limit": -1}, "KBLIM"),
        ({"limit": None}, "KBLIM"),
        ({"limit": 1001}, "KBLIM"),
        ({"offset": -1}, "KBLIM"),
        ({"cursor": "x" * 20}, "KBCUR"),
        ({"cursor": "of a search"}, "KBCUR"),
        ({"org_id": None}, "KBORG"),
    ],
)
def test_what_is_refused(three: Corpus, given: dict[str, Any], sqlstate: str) -> None:
    snapshot = snapshot_of(three)
    if given.get("cursor") == "of a search":
        given = {"cursor": three.search("town")[0]["cursor"]}
    with refused(sqlstate):
        page_of(three, snapshot, **given)


def test_a_cursor_is_of_one_snapshot_and_not_for_searches(three: Corpus) -> None:
    first, second = snapshot_of(three), snapshot_of(three)
    cursor = page_of(three, first, limit=1)["next_cursor"]
    assert [item["place"] for item in page_of(three, first, cursor=cursor)["items"]] == [2, 3]
    for others in ({"snapshot": second}, {"snapshot": first, "offset": 1}):
        with refused("KBCUR"):
            three.call("fetch_kb_page_v1", cursor=cursor, **others)
    with refused("KBCUR"):
        three.search("town", cursor=cursor)


def test_it_fails_as_the_search_does_and_stores_nothing(three: Corpus) -> None:
    for others, sqlstate in (
        ({"text": "the"}, "KBQRY"),
        ({"text": "x", "profile": "nothing@1"}, "KBPRF"),
        ({"text": "x", "org_id": -1}, "KBORG"),
    ):
        with refused(sqlstate):
            snapshot_of(three, **others)
    assert three.value("SELECT count(*) FROM kbsearch.kb_search_snapshots WHERE org_id = %s", three.org_id) == 0


def test_what_has_nothing_to_open_stays_closed(corpus: Corpus) -> None:
    """An FAQ entry ranks and ties like others, comes without a chunk id, and no function opens it."""
    faq, policy = corpus.article("town hall", kind="faq"), corpus.article("town hall", kind="policy")
    draft = corpus.article("town hall", published=False)
    chunk = corpus.search("town")[1]["chunk_id"]
    for items in (page_of(corpus, snapshot_of(corpus))["items"], corpus.page("town")["items"]):
        assert [(item["article_id"], item["chunk_id"], item["inspectable"], item["tied_with"]) for item in items] == [
            (faq, None, False, 1),
            (policy, chunk, True, 1),
        ]
    assert (
        source_of(corpus, article_id=policy, chunk_id=chunk)
        == source_of(corpus, article_id=policy)
        == [(policy, chunk)]
    )
    hidden = corpus.value(
        "SELECT id FROM kbsearch.kb_article_chunks WHERE org_id = %s AND article_id = %s", corpus.org_id, faq
    )
    for arguments_, reason in (
        ({"article_id": faq}, "not_inspectable"),
        ({"article_id": faq, "chunk_id": hidden}, "not_inspectable"),
        ({"article_id": policy, "chunk_id": hidden}, "not_found"),
        ({"article_id": draft}, "not_found"),
        ({"article_id": -1}, "not_found"),
        ({"article_id": None}, "not_found"),
    ):
        with refused("KBSRC") as refusal:
            source_of(corpus, **arguments_)
        assert refusal.detail["reason"] == reason
    with refused("KBORG"):
        source_of(corpus, org_id=None, article_id=policy)


def test_a_profile_may_have_a_quota(corpus: Corpus) -> None:
    for kind in ("policy", "policy", "policy", "faq"):
        corpus.article("town", kind=kind)
    profile = corpus.call(
        "create_kb_ranking_profile_v1",
        name="mine",
        fusion="keyword",
        vector_weight=0,
        keyword_weight=1,
        kind_quota={"policy": 2, "*": 0},
    )
    assert len(corpus.found("town", profile=profile)) == 2
    assert len(corpus.found("town", profile=profile, kind_quota={})) == 4
    assert len(corpus.found("town", profile=profile, kind_quota={"policy": 1})) == 2
    assert page_of(corpus, snapshot_of(corpus, profile=profile))["total"] == 2
    with refused("KBPRF"):
        corpus.call("create_kb_ranking_profile_v1", name="mine", fusion="keyword", kind_quota={"policy": -1})


def test_a_store_over_its_quota_offers_the_same_candidates(corpus: Corpus, shared_database: str) -> None:
    """On five connections, under five plans, after an update that changes nothing and after a rebuild."""
    articles = [corpus.article("refund within days", kind="policy") for _ in range(9)]
    corpus.article("refund", kind="faq")
    question = {
        "org_id": corpus.org_id,
        "query_text": "refund days",
        "kind_quota": {"policy": 3},
        "profile": "term_count@1",
    }

    def offered(connection: psycopg.Connection[Any]) -> list[Any]:
        found = Corpus.__new__(Corpus)
        found.connection = connection
        found.org_id = corpus.org_id
        rows = connection.execute(
            "SELECT e::text FROM kbsearch.explain_kb_candidates_v1("
            "p_org_id => %(org_id)s, p_query_text => %(query_text)s, p_kind_quota => '{\"policy\": 3}', p_profile => %(profile)s) AS e",
            question,
        ).fetchall()
        return [rows, found.found("refund days", kind_quota={"policy": 3}, profile="term_count@1")]

    first = offered(corpus.connection)
    assert [article for article in first[1] if article in articles] == articles[:3]
    for setting in (
        "work_mem = '64kB'",
        "enable_seqscan = off",
        "plan_cache_mode = force_custom_plan",
        "enable_hashagg = off",
        "jit = on",
    ):
        with psycopg.connect(shared_database, autocommit=True) as connection:
            connection.execute(f"SET {setting}".encode())
            assert offered(connection) == first
    corpus.run("UPDATE kbsearch.kb_articles SET title = title WHERE org_id = %s", corpus.org_id)
    corpus.run("UPDATE kbsearch.kb_article_chunks SET content = content WHERE org_id = %s", corpus.org_id)
    assert offered(corpus.connection) == first
    corpus.call("rebuild_kb_index_v1")
    assert offered(corpus.connection) == first
