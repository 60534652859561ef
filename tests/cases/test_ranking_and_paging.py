"""The ranking is a total order and pages partition it, under any plan, in any order of rows and at any sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from kbsearch import KBSearch
from kbsearch.errors import LimitError
from tests.sql.corpus import Connection, Corpus, refused

PLANS = [
    *(
        {"work_mem": memory, "max_parallel_workers_per_gather": workers}
        for memory in ("64kB", "1GB")
        for workers in ("0", "4")
    ),
    *({"enable_seqscan": way} for way in ("off", "on")),
    {"enable_indexscan": "off", "enable_bitmapscan": "off", "enable_indexonlyscan": "off"},
    {"enable_hashjoin": "off", "enable_hashagg": "off"},
    {"enable_nestloop": "off", "enable_sort": "off"},
    {"plan_cache_mode": "force_generic_plan"},
    {"plan_cache_mode": "force_custom_plan"},
]


@pytest.fixture(scope="module")
def alike(databases: Any, template: str) -> Iterator[Connection]:
    """50 articles of 400 chunks each, all of the same text and the same vector; organisation 1."""
    dsn = databases.create(template)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('alike')")
        connection.execute("INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES ('s', 'm', 3)")
        connection.execute(
            "INSERT INTO kbsearch.kb_articles (org_id, title) SELECT 1, 'Refund policy' FROM generate_series(1, 50)"
        )
        connection.execute(
            "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, chunk_no, content)"
            " SELECT 1, 1 + n % 50, n / 50, 'the same text' FROM generate_series(0, 19999) AS n"
        )
        connection.execute(
            "INSERT INTO kbsearch.kb_article_embeddings (org_id, article_id, chunk_id, space_id, embedding)"
            " SELECT c.org_id, c.article_id, c.id, 1, '[0.1,0.2,0.3]' FROM kbsearch.kb_article_chunks AS c"
        )
        connection.execute("ANALYZE")
        yield connection
    databases.drop(dsn)


def _answers(connection: Connection, settings: dict[str, str]) -> str:
    with connection.transaction():
        for name, value in {
            "parallel_setup_cost": "0",
            "parallel_tuple_cost": "0",
            "min_parallel_table_scan_size": "0",
            **settings,
        }.items():
            connection.execute(f"SET LOCAL {name} = '{value}'")
        rows = [
            connection.execute(
                "SELECT array_agg(s ORDER BY s.place)::text FROM kbsearch.search_kb_hybrid_v1("
                " p_org_id => 1, p_query_text => 'same text of the policy',"
                " p_query_embedding => '[1,2,4]', p_limit => %s, p_offset => %s, p_profile => %s) AS s",
                (limit, offset, profile),
            ).fetchone()
            for profile in ("weighted@1", "rrf@1")
            for limit, offset in ((10, 0), (7, 20))
        ]
    return repr(rows)


def test_fifty_articles_of_four_hundred_equal_chunks_are_byte_identical_under_every_plan(alike: Connection) -> None:
    corpus = Corpus.__new__(Corpus)
    corpus.connection, corpus.org_id = alike, 1
    rows = corpus.search("same text", [1, 2, 4], limit=1000)
    assert [row["article_id"] for row in rows] == list(range(1, 51))
    assert [row["chunk_id"] for row in rows] == list(range(1, 51))
    assert {row["tied_with"] for row in rows} == {49}
    before = _answers(alike, PLANS[0])
    for settings in PLANS[1:]:
        assert _answers(alike, settings) == before, settings
    alike.execute("UPDATE kbsearch.kb_article_chunks SET content = content WHERE id % 3 = 0")
    alike.execute("UPDATE kbsearch.kb_article_embeddings SET embedding = embedding WHERE chunk_id % 2 = 0")
    alike.execute("UPDATE kbsearch.kb_articles SET metadata = metadata")
    assert _answers(alike, PLANS[0]) == before, "after updates that change nothing"
    alike.execute("CREATE INDEX by_content_backwards ON kbsearch.kb_article_chunks (id DESC)")
    alike.execute("CLUSTER kbsearch.kb_article_chunks USING by_content_backwards")
    alike.execute("CREATE INDEX by_chunk_backwards ON kbsearch.kb_article_embeddings (chunk_id DESC)")
    alike.execute("CLUSTER kbsearch.kb_article_embeddings USING by_chunk_backwards")
    assert _answers(alike, PLANS[0]) == before, "after CLUSTER"
    alike.execute("ANALYZE")
    for settings in (PLANS[1], PLANS[3], PLANS[6]):
        assert _answers(alike, settings) == before, ("after CLUSTER", settings)


def test_one_article_of_two_hundred_near_chunks_leaves_room_for_nine_others(corpus: Corpus) -> None:
    long = corpus.article(*["refunds refunds"] * 200, vector=[1, 0])
    others = [corpus.article("refunds and more of it", vector=[1, 1]) for _ in range(12)]
    for profile in ("weighted@1", "rrf@1", "vector@1", "keyword@1"):
        assert corpus.found("refunds", [1, 0], limit=10, profile=profile) == [long, *others[:9]]


def _tied(corpus: Corpus) -> list[int]:
    """25 articles in groups of five that tie."""
    return [corpus.article("refunds " * (1 + n % 5), vector=[1, n % 5]) for n in range(25)]


@pytest.mark.parametrize("profile", ["weighted@1", "rrf@1", "vector@1", "keyword@1", "term_count@1"])
def test_every_limit_gives_a_prefix_of_the_next(corpus: Corpus, profile: str) -> None:
    _tied(corpus)
    lists = [
        corpus.search("refunds", [1, 1], limit=limit, profile=profile) for limit in (0, 1, 2, 3, 5, 10, 20, 25, 1000)
    ]
    for shorter, longer in itertools.pairwise(lists):
        assert longer[: len(shorter)] == shorter
    assert len(lists[-1]) == 25


@pytest.mark.parametrize("profile", ["weighted@1", "rrf@1", "term_count@1"])
@pytest.mark.parametrize("size", [1, 3, 10, 25])
def test_pages_to_the_end_are_the_one_big_page(corpus: Corpus, profile: str, size: int) -> None:
    articles = _tied(corpus)
    whole = corpus.search("refunds", [1, 1], limit=1000, profile=profile)
    assert sorted(row["article_id"] for row in whole) == articles
    assert [row["place"] for row in whole] == list(range(1, 26))
    by_offset = [
        row
        for offset in range(0, 30, size)
        for row in corpus.search("refunds", [1, 1], limit=size, offset=offset, profile=profile)
    ]
    assert by_offset == whole
    by_cursor: list[Any] = []
    cursor, ended = None, False
    while not ended:
        page = corpus.page("refunds", [1, 1], limit=size, cursor=cursor, profile=profile)
        assert page["total"] == 25
        by_cursor += page["items"]
        cursor, ended = page["next_cursor"], page["end_reached"]
        assert (cursor is None) == ended
    assert [item["article_id"] for item in by_cursor] == [row["article_id"] for row in whole]
    assert [item["score"] for item in by_cursor] == [row["score"] for row in whole]


def test_past_the_end_is_empty_and_says_so(corpus: Corpus) -> None:
    corpus.article("refunds")
    for offset in (1, 2, 1000, 2**63 - 1):
        page = corpus.page("refunds", offset=offset)
        assert (page["items"], page["end_reached"], page["next_cursor"], page["total"]) == ([], True, None, 1)
    last = corpus.search("refunds")[-1]["cursor"]
    page = corpus.page("refunds", cursor=last)
    assert (page["items"], page["end_reached"], page["next_cursor"]) == ([], True, None)
    assert corpus.search("refunds", cursor=last) == []


def test_first_in_one_leg_only_is_a_tie_that_the_id_decides_and_says_so(corpus: Corpus) -> None:
    by_vector = corpus.article("llamas", vector=[1, 0])
    by_words = corpus.article("refunds")
    rows = corpus.search("refunds", [1, 0], profile="rrf@1")
    assert [row["article_id"] for row in rows] == [by_vector, by_words]
    assert rows[0]["score"] == rows[1]["score"]
    assert [(row["tied_with"], row["settled_by_identity"]) for row in rows] == [(1, True)] * 2


@pytest.mark.parametrize("argument", ["limit", "offset"])
@pytest.mark.parametrize("value", [-1, None, -(2**63)])
def test_a_limit_or_offset_below_zero_or_null(corpus: Corpus, argument: str, value: int | None) -> None:
    arguments: dict[str, Any] = {argument: value}
    with refused("KBLIM") as refusal:
        corpus.page("refunds", **arguments)
    assert refusal.detail["argument"] == f"p_{argument}"
    with refused("KBLIM"):
        corpus.search("refunds", **arguments)


def test_limits_at_and_over_the_maximum(corpus: Corpus) -> None:
    corpus.article("refunds")
    assert corpus.search("refunds", limit=0) == []
    page = corpus.page("refunds", limit=0)
    assert (page["items"], page["total"], page["end_reached"]) == ([], 1, False)
    assert len(corpus.search("refunds", limit=1000)) == 1
    for limit in (1001, 10_000, 2**63 - 1):
        with refused("KBLIM") as refusal:
            corpus.search("refunds", limit=limit)
        assert refusal.detail["maximum"] == 1000
        assert "1000" in refusal.message
    assert corpus.search("refunds", offset=2**63 - 1, limit=1000) == []


@pytest.mark.parametrize(
    "value", [2**63, -(2**63) - 1, "3", 2.5, 3.0, True, False, None, float("nan"), [3], b"3"], ids=repr
)
@pytest.mark.parametrize("argument", ["limit", "offset"])
def test_the_client_refuses_what_is_no_integer(corpus: Corpus, argument: str, value: Any) -> None:
    arguments: dict[str, Any] = {argument: value}
    with pytest.raises(LimitError) as refusal:
        KBSearch(corpus.connection).search(corpus.org_id, "refunds", **arguments)
    assert refusal.value.sqlstate == "KBLIM"


def test_a_cursor_of_anything_else_is_refused(corpus: Corpus) -> None:
    for _ in range(5):
        corpus.article("refunds", vector=[1, 0], kind="policy", metadata={"k": 1})
    other = Corpus(corpus.connection, "another organisation")
    for _ in range(5):
        other.article("refunds", vector=[1, 0])
    request: dict[str, Any] = {
        "text": "refunds",
        "embedding": [1, 0],
        "kinds": ["policy", "faq"],
        "metadata": {"k": 1},
        "kind_quota": {"policy": 4},
        "min_score": 0.1,
        "profile": "weighted@1",
    }
    cursor = corpus.search(**request, limit=2)[-1]["cursor"]
    assert len(corpus.search(**request, cursor=cursor)) == 2
    assert len(corpus.search(**{**request, "profile": "weighted"}, cursor=cursor)) == 2, (
        "the same profile by its bare name"
    )
    changes: list[dict[str, Any]] = [
        {"text": "refund"},
        {"text": "refunds "},
        {"text": None},
        {"embedding": [1, 0.0001]},
        {"embedding": None},
        {"kinds": ["policy"]},
        {"kinds": ["faq", "policy"]},
        {"kinds": None},
        {"metadata": {"k": 2}},
        {"metadata": [{"k": 1}]},
        {"metadata": None},
        {"kind_quota": {"policy": 3}},
        {"kind_quota": None},
        {"min_score": 0.2},
        {"min_score": None},
        {"profile": "rrf@1"},
        {"profile": None, "exploratory": True},
        {"offset": 1},
    ]
    for change in changes:
        with refused("KBCUR"):
            corpus.search(**{**request, **change}, cursor=cursor)
    for stranger in (other,):
        with refused("KBCUR") as refusal:
            stranger.search(**{**request, "kinds": None, "metadata": None}, cursor=cursor)
        assert refusal.detail["reason"] == "of another organisation"


def test_a_cursor_of_another_space_or_function_version_is_refused(corpus: Corpus) -> None:
    for _ in range(3):
        corpus.article("refunds", vector=[1, 0])
    twin = corpus.value(
        "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES ('twin', 'm', 2) RETURNING id"
    )
    cursor = corpus.search("refunds", [1, 0], limit=1)[-1]["cursor"]
    assert corpus.found("refunds", [1, 0], cursor=cursor, space_id=corpus.space())
    with refused("KBCUR"):
        corpus.search("refunds", [1, 0], cursor=cursor, space_id=twin)
    payload = corpus.value("SELECT kbsearch.open_kb_cursor_v1(%s)", cursor)
    forged = corpus.value("SELECT kbsearch.seal_kb_cursor_v1(%s)", "2" + payload[1:])
    with refused("KBCUR") as refusal:
        corpus.search("refunds", [1, 0], cursor=forged)
    assert refusal.detail["reason"] == "of another function version"


def test_a_damaged_cursor_is_refused_and_never_gives_rows(corpus: Corpus) -> None:
    for _ in range(3):
        corpus.article("refunds")
    cursor = corpus.search("refunds", limit=1)[-1]["cursor"]
    assert len(corpus.search("refunds", cursor=cursor)) == 2
    damaged = [
        "",
        " ",
        "x",
        cursor + "A",
        cursor + "=",
        " " + cursor,
        cursor + "\n",
        cursor * 2,
        cursor.upper(),
        "\u00e9",
        "%",
        "null",
    ]
    damaged += [cursor[:length] for length in range(len(cursor))]
    for position, sign in enumerate(cursor):
        damaged += [cursor[:position] + other + cursor[position + 1 :] for other in "A_z9" if other != sign]
    for text in damaged:
        with refused("KBCUR"):
            corpus.search("refunds", cursor=text)


def test_writes_between_pages_neither_repeat_nor_lose_an_article_that_did_not_change(corpus: Corpus) -> None:
    """By cursor; what is better than the cursor's place and new is not shown, what is deleted is gone."""
    articles = [corpus.article("refunds " + "of it " * n, vector=[1, n]) for n in range(9)]
    first = corpus.page("refunds", [1, 0], limit=4)
    assert [item["article_id"] for item in first["items"]] == articles[:4]
    corpus.article("refunds refunds", title="refunds", vector=[1, 0])
    corpus.run("DELETE FROM kbsearch.kb_articles WHERE org_id = %s AND id = %s", corpus.org_id, articles[1])
    second = corpus.page("refunds", [1, 0], limit=100, cursor=first["next_cursor"])
    assert [item["article_id"] for item in second["items"]] == articles[4:]


def test_a_quota_whose_cut_falls_into_a_tie_has_the_same_members_every_time(corpus: Corpus) -> None:
    ties = [corpus.article("refunds", vector=[1, 0], kind="policy") for _ in range(30)]
    faq = [corpus.article("refunds", vector=[1, 0], kind="faq") for _ in range(3)]
    corpus.article("refunds", vector=[1, 0], kind="page")
    for settings in PLANS:
        with corpus.connection.transaction():
            for name, value in settings.items():
                corpus.run(f"SET LOCAL {name} = '{value}'")
            rows = corpus.search("refunds", [1, 0], kind_quota={"policy": 7, "faq": 2, "*": 0}, limit=100)
            assert [row["article_id"] for row in rows] == ties[:7] + faq[:2]
            assert {row["tied_with"] for row in rows} == {33}
    corpus.run("UPDATE kbsearch.kb_articles SET metadata = '{}' WHERE org_id = %s AND id %% 2 = 0", corpus.org_id)
    assert corpus.found("refunds", [1, 0], kind_quota={"policy": 7, "*": 0}) == ties[:7]
    pages = [
        corpus.found("refunds", [1, 0], kind_quota={"policy": 7, "*": 0}, limit=2, offset=offset)
        for offset in range(0, 8, 2)
    ]
    assert [article for page in pages for article in page] == ties[:7]


def test_nine_tied_policies_and_three_places(corpus: Corpus) -> None:
    ties = [corpus.article("refunds", kind="policy") for _ in range(9)]
    assert corpus.found("refunds", kind_quota={"policy": 3}) == ties[:3]
    page = corpus.page("refunds", kind_quota={"policy": 3}, limit=2)
    assert (page["total"], page["end_reached"]) == (3, False)
