from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from kbsearch import (
    ArticleError,
    Candidate,
    Chunk,
    CursorError,
    DimensionError,
    Explanation,
    FilterError,
    KBSearch,
    KBSearchError,
    LanguageError,
    LimitError,
    NotInstalledError,
    OpenedSearch,
    OrganizationError,
    Page,
    Passage,
    ProfileError,
    QueryTextError,
    ReservedArticle,
    Result,
    SpaceError,
    VectorError,
)
from tests.client.worlds import World, tied_world


@pytest.mark.parametrize(
    ("model", "function"),
    [
        (Result, "search_kb_hybrid_v1"),
        (ReservedArticle, "reserve_kb_articles_v1"),
        (OpenedSearch, "open_kb_search_v1"),
        (Explanation, "explain_kb_search_v1"),
        (Candidate, "explain_kb_candidates_v1"),
        (Passage, "get_kb_source_v1"),
    ],
)
def test_models_have_the_columns_of_their_functions(world: World, model: type, function: str) -> None:
    with psycopg.connect(world.dsn) as connection:
        row = connection.execute(
            "SELECT array_agg(a.name ORDER BY a.n) FROM pg_proc AS p, "
            "unnest(p.proargnames, p.proargmodes) WITH ORDINALITY AS a (name, mode, n) "
            "WHERE p.pronamespace = 'kbsearch'::regnamespace AND p.proname = %s AND a.mode = 't'",
            [function],
        ).fetchone()
    assert row is not None
    assert [field.name for field in dataclasses.fields(model)] == row[0]
    documented = re.findall(r"^ {8}(\w+): ", model.__doc__ or "", re.MULTILINE)
    assert documented == row[0]


def test_a_page_is_typed(client: KBSearch, world: World) -> None:
    page = client.search(world.org, "reset password", [1, 0, 0], limit=3)
    assert isinstance(page, Page)
    assert len(page.items) == 3
    assert [item.place for item in page.items] == [1, 2, 3]
    assert page.total == 12
    assert not page.end_reached
    assert page.next_cursor is not None
    assert page.profile == "weighted@1"
    assert (page.function, page.function_version) == ("search_kb_hybrid_page_v1", 1)
    assert page.space_id == world.space
    assert page.verdict is None
    assert (page.snapshot, page.expires_at, page.gone) == (None, None, 0)
    assert page.legs.vector.takes_part
    assert page.legs.vector.reason is None
    assert page.legs.keyword.takes_part
    assert set(page.legs.keyword.words) == {"reset", "password"}
    for item in page.items:
        assert isinstance(item.score, float)
        assert isinstance(item.vector_similarity, float)
        assert isinstance(item.keyword_score, float | None)
    assert page.items[0].metadata["number"] in range(12)
    with pytest.raises(dataclasses.FrozenInstanceError):
        page.items[0].place = 2  # type: ignore[misc]


def test_the_rows_are_those_of_the_table_function(client: KBSearch, world: World) -> None:
    with psycopg.connect(world.dsn) as connection, connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(
            "SELECT * FROM kbsearch.search_kb_hybrid_v1(p_org_id => %s, p_query_text => 'reset password', "
            "p_query_embedding => '[1,0,0]', p_limit => 100)",
            [world.org],
        ).fetchall()
    items = client.search(world.org, "reset password", [1, 0, 0], limit=100).items
    assert [dataclasses.asdict(item) for item in items] == rows


def test_pages_and_results_are_the_whole_ranking(client: KBSearch, world: World) -> None:
    whole = client.search(world.org, "reset password", [1, 0, 0], limit=100)
    ids = [item.article_id for item in whole.items]
    assert len(ids) == len(set(ids)) == whole.total == 12
    for limit in (1, 2, 3, 5, 12, 100):
        pages = list(client.pages(world.org, "reset password", [1, 0, 0], limit=limit))
        assert [item.article_id for page in pages for item in page.items] == ids
        assert all(len(page.items) == limit for page in pages[:-1])
        assert [page.end_reached for page in pages] == [False] * (len(pages) - 1) + [True]
        assert [one.article_id for one in client.results(world.org, "reset password", [1, 0, 0], limit=limit)] == ids
    by_offset = itertools.chain.from_iterable(
        client.search(world.org, "reset password", [1, 0, 0], limit=5, offset=offset).items for offset in (0, 5, 10)
    )
    assert [item.article_id for item in by_offset] == ids


def test_pages_can_begin_at_a_cursor(client: KBSearch, world: World) -> None:
    first = client.search(world.org, "reset", limit=2)
    rest = list(client.results(world.org, "reset", cursor=first.next_cursor))
    assert [*first.items, *rest] == list(client.results(world.org, "reset"))


def test_a_search_without_answers_gives_one_page_with_the_reason(client: KBSearch, world: World) -> None:
    (page,) = client.pages(world.org, "zebra")
    assert page.items == ()
    assert page.total == 0
    assert page.end_reached
    assert page.legs.keyword.reason == "no_known_words"
    assert page.legs.keyword.unknown_words == ("zebra",)
    assert page.legs.vector.reason == "no_embedding"
    assert list(client.results(world.org, "zebra")) == []


def test_pages_of_no_articles_are_refused(client: KBSearch, world: World) -> None:
    with pytest.raises(LimitError):
        next(client.pages(world.org, "reset", limit=0))
    assert client.search(world.org, "reset", limit=0).items == ()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_every_form_of_embedding_gives_the_same_answer(client: KBSearch, world: World, dtype: Any) -> None:
    expected = client.search(world.org, None, [1, 2, 0])
    assert client.search(world.org, None, (1.0, 2.0, 0.0)).items == expected.items
    assert client.search(world.org, None, np.array([1, 2, 0], dtype=dtype)).items == expected.items


@pytest.mark.parametrize(
    ("arguments", "error", "sqlstate"),
    [
        ({"limit": "3"}, LimitError, "KBLIM"),
        ({"limit": 2.5}, LimitError, "KBLIM"),
        ({"limit": True}, LimitError, "KBLIM"),
        ({"offset": 2**63}, LimitError, "KBLIM"),
        ({"limit": np.array([1, 2])}, LimitError, "KBLIM"),
        ({"min_score": np.array([1, 2])}, FilterError, "KBFLT"),
        ({"exploratory": "no"}, FilterError, "KBFLT"),
        ({"limit": -1}, LimitError, "KBLIM"),
        ({"limit": 10_000}, LimitError, "KBLIM"),
        ({"cursor": "nonsense"}, CursorError, "KBCUR"),
        ({"profile": "nonsense"}, ProfileError, "KBPRF"),
        ({"kind_quota": {"faq": -1}}, FilterError, "KBFLT"),
        ({"embedding": [0, 0, 0]}, VectorError, "KBVEC"),
        ({"embedding": [float("nan"), 0, 0]}, VectorError, "KBVEC"),
        ({"embedding": [float("inf"), 0, 0]}, VectorError, "KBVEC"),
        ({"embedding": ["a", "b", "c"]}, VectorError, "KBVEC"),
        ({"embedding": [1, 2]}, DimensionError, "KBDIM"),
        ({"space_id": 999_999}, SpaceError, "KBSPC"),
        ({"text": "a\0b"}, QueryTextError, "KBQRY"),
        ({"text": "a\ud800b"}, QueryTextError, "KBQRY"),
        ({"text": "x" * 200_000}, QueryTextError, "KBQRY"),
        ({"text": ""}, QueryTextError, "KBQRY"),
        ({"text": None}, QueryTextError, "KBQRY"),
        ({"org_id": None}, OrganizationError, "KBORG"),
        ({"org_id": 999_999}, OrganizationError, "KBORG"),
    ],
)
def test_refusals_are_ours(
    client: KBSearch, world: World, arguments: dict[str, Any], error: type[KBSearchError], sqlstate: str
) -> None:
    with pytest.raises(error) as caught:
        client.search(**{"org_id": world.org, "text": "reset", **arguments})
    assert type(caught.value) is error
    assert caught.value.sqlstate == sqlstate
    assert str(caught.value)
    # An owned connection is in autocommit mode: it goes on after a refusal.
    assert client.search(world.org, "reset").items


def test_a_dimension_error_names_both(client: KBSearch, world: World) -> None:
    with pytest.raises(DimensionError, match=r"\b2\b.*\b3\b|\b3\b.*\b2\b"):
        client.search(world.org, "reset", [1, 2])


def test_filters_reach_the_database(client: KBSearch, world: World) -> None:
    assert {item.kind for item in client.results(world.org, None, [1, 0, 0], kinds=["policy"])} == {"policy"}
    even = list(client.results(world.org, None, [1, 0, 0], metadata={"even": True}))
    assert {item.metadata["number"] for item in even} == {0, 2, 4, 6, 8, 10}
    either = list(client.results(world.org, None, [1, 0, 0], metadata=[{"number": 3}, {"number": 4}]))
    assert {item.metadata["number"] for item in either} == {3, 4}
    few = list(client.results(world.org, None, [1, 0, 0], kind_quota={"policy": 2, "*": 1}))
    assert sorted(item.kind for item in few) == ["article", "policy", "policy"]
    whole = list(client.results(world.org, "reset", [1, 0, 0]))
    floor = whole[4].score
    assert [one.article_id for one in whole if one.score >= floor] == [
        one.article_id for one in client.results(world.org, "reset", [1, 0, 0], min_score=floor)
    ]
    assert client.search(world.org, "reset", [1, 0, 0], profile="rrf@1").profile == "rrf@1"


def test_a_question_is_analysed_in_the_languages_of_the_articles_or_in_one(shared_database: str) -> None:
    world = tied_world(shared_database, "languages")
    with KBSearch(shared_database) as client:
        page = client.search(world.org, "Haus passwords", limit=100)
        assert page.legs.keyword.languages == ("english", "german")
        assert page.legs.keyword.words == ("haus", "password")
        assert {item.excerpt_html for item in page.items} == {None}
        german = client.search(world.org, "Haus", language="german", limit=100, highlight=True)
        assert german.legs.keyword.languages == ("german",)
        assert german.total > 0
        assert all("<mark>Häuser</mark>" in (item.excerpt_html or "") for item in german.items)
        with pytest.raises(QueryTextError):
            client.search(world.org, " ", language="german")
        with pytest.raises(LanguageError, match="klingon") as caught:
            client.search(world.org, "Haus", language="klingon")
        assert caught.value.http_status == 422
        assert caught.value.hint


class Toy:
    """An embedder of the toy space that counts its calls."""

    model = "toy"
    revision = ""
    dimensions = 3

    def __init__(self, model: str = "toy") -> None:
        self.model = model
        self.calls: list[list[str]] = []

    def embed_queries(self, texts: Sequence[str]) -> Any:
        self.calls.append(list(texts))
        return np.array([[1, 0, 0]] * len(texts), dtype=np.float32)


def test_an_embedder_embeds_the_question_once(world: World) -> None:
    toy = Toy()
    with KBSearch(world.dsn, embedder=toy) as client, KBSearch(world.dsn) as plain:
        expected = list(plain.results(world.org, "reset password", [1, 0, 0]))
        assert list(client.results(world.org, "reset password", limit=2)) == expected
        assert toy.calls == [["reset password"]]
        client.search(world.org, "reset", [0, 1, 0])
        assert len(toy.calls) == 1
        with pytest.raises(QueryTextError):
            client.search(world.org, "  ")
        assert len(toy.calls) == 1


def test_an_embedder_of_another_model_is_refused(world: World) -> None:
    with KBSearch(world.dsn, embedder=Toy("other")) as client, pytest.raises(SpaceError, match="other"):
        client.search(world.org, "reset")


def test_an_embedder_without_a_space_takes_no_part(world: World) -> None:
    with psycopg.connect(world.dsn) as connection:
        org = connection.execute(
            "INSERT INTO kbsearch.organizations (name) VALUES ('no space') RETURNING id"
        ).fetchone()
        assert org is not None
        toy = Toy()
        client = KBSearch(connection, embedder=toy)
        client.upsert_article(org[0], title="reset", body="reset")
        page = client.search(org[0], "reset")
        assert (len(page.items), toy.calls) == (1, [])
        assert not page.legs.vector.takes_part
        connection.rollback()


def test_articles_are_written_replaced_and_deleted(client: KBSearch, world: World) -> None:
    first, second = client.reserve_articles(world.org, ["w/b", "w/a"])
    assert (first.external_ref, second.external_ref) == ("w/a", "w/b")
    assert first.article_id < second.article_id
    assert first.content_sha256 is None
    written = client.upsert_article(
        world.org, external_ref="w/a", title="Aardvark", body="aardvark", content_sha256="00" * 32
    )
    assert written == first.article_id
    assert client.reserve_articles(world.org, ["w/a"]) == (ReservedArticle("w/a", written, "00" * 32),)
    assert [item.article_id for item in client.results(world.org, "aardvark")] == [written]
    assert client.upsert_article(world.org, article_id=written, external_ref="w/a", title="Bee", body="b") == written
    assert list(client.results(world.org, "aardvark")) == []
    assert client.delete_article(world.org, external_ref="w/a")
    assert not client.delete_article(world.org, article_id=written)
    assert client.delete_article(world.org, article_id=second.article_id)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"chunks": [Chunk("a"), Chunk(" \n")]}, ArticleError),
        ({"chunks": [Chunk("a", embedding=[0, 0, 0])]}, VectorError),
        ({"chunks": [Chunk("a", embedding=[1, 2])]}, DimensionError),
        ({"title": "a\0"}, ArticleError),
        ({"metadata": {"a": "\0"}}, ArticleError),
        ({"metadata": [1]}, ArticleError),
        ({"language": ""}, LanguageError),
        ({"language": "klingon"}, LanguageError),
        ({"language": "nowhere.english"}, LanguageError),
        ({"language": "a.b.c.d"}, LanguageError),
        ({"published": "false"}, ArticleError),
        ({"published": None}, ArticleError),
    ],
)
def test_a_refused_article_is_not_written(
    client: KBSearch, world: World, arguments: dict[str, Any], error: type[KBSearchError]
) -> None:
    with pytest.raises(error):
        client.upsert_article(
            world.org, **{"external_ref": "refused", "title": "Quokka", "body": "quokka", **arguments}
        )
    assert list(client.results(world.org, "quokka")) == []


def test_a_given_connection_stays_its_owners(world: World) -> None:
    with psycopg.connect(world.dsn, row_factory=dict_row) as connection:
        with KBSearch(connection) as client:
            client.upsert_article(world.org, external_ref="mine", title="Narwhal", body="narwhal")
            assert len(list(client.results(world.org, "narwhal"))) == 1
        assert not connection.closed
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        connection.rollback()
        assert list(KBSearch(connection).results(world.org, "narwhal")) == []


def _sessions(dsn: str, name: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [name]).fetchone()
    assert row is not None
    return int(row[0])


def test_a_connection_of_its_own_is_opened_when_needed_and_closed(world: World) -> None:
    dsn = make_conninfo(world.dsn, application_name="own")
    client = KBSearch(dsn)
    assert _sessions(world.dsn, "own") == 0
    assert client.search(world.org, "reset").items
    assert client.search(world.org, "reset").items
    assert _sessions(world.dsn, "own") == 1
    client.close()
    with pytest.raises(KBSearchError, match="closed"):
        client.search(world.org, "reset")
    with pytest.raises(KBSearchError, match="closed"), client:
        pass
    with KBSearch(dsn):
        assert _sessions(world.dsn, "own") == 1
    with pytest.raises(psycopg.OperationalError), KBSearch("host=/nowhere"):
        pass


def test_a_connection_of_its_own_is_opened_again_when_it_was_lost(world: World) -> None:
    with KBSearch(make_conninfo(world.dsn, application_name="lost")) as client:
        assert client.search(world.org, "reset").items
        with psycopg.connect(world.dsn) as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lost'")
        with pytest.raises(psycopg.OperationalError):
            client.search(world.org, "reset")
        assert client.search(world.org, "reset").items


def test_searches_work_in_a_read_only_transaction_with_a_hostile_search_path(world: World) -> None:
    with psycopg.connect(world.dsn) as connection:
        expected = KBSearch(connection).search(world.org, "reset", [1, 0, 0])
        connection.rollback()
        connection.execute("CREATE TEMPORARY TABLE kb_articles (id int)")
        connection.execute("CREATE TEMPORARY TABLE text (id int)")
        connection.execute("SET LOCAL search_path = pg_temp, pg_catalog")
        assert KBSearch(connection).search(world.org, "reset", [1, 0, 0]) == expected
        connection.rollback()
        connection.execute("SET TRANSACTION READ ONLY")
        connection.execute("SET LOCAL search_path = ''")
        assert KBSearch(connection).search(world.org, "reset", [1, 0, 0]) == expected


def test_a_connection_of_another_encoding_gets_our_error(world: World) -> None:
    with (
        psycopg.connect(world.dsn, client_encoding="latin1") as connection,
        pytest.raises(QueryTextError, match="encoding"),
    ):
        KBSearch(connection).search(world.org, "日本語")


def test_articles_on_a_connection_of_another_encoding_get_our_error(world: World) -> None:
    with psycopg.connect(world.dsn, client_encoding="latin1") as connection:
        client = KBSearch(connection)
        with pytest.raises(ArticleError, match="encoding"):
            client.reserve_articles(world.org, ["日本語"])
        with pytest.raises(ArticleError, match="encoding"):
            client.upsert_article(world.org, title="日本語")


def test_a_database_without_kbsearch_says_so(empty_database: str) -> None:
    with KBSearch(empty_database) as client, pytest.raises(NotInstalledError, match="not installed"):
        client.search(1, "reset")
