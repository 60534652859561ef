"""Organisations with articles, and the assertions on searches of them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa

from kbsearch import AsyncKBSearch, Chunk, DimensionError, KBSearch, NotInstalledError
from kbsearch.embed.base import Vectors
from kbsearch.errors import ArticleError
from kbsearch.testing import (
    Organization,
    assert_deterministic,
    assert_deterministic_async,
    assert_pages_partition,
    assert_pages_partition_async,
    load_organization,
)

Connection = psycopg.Connection[Any]
NEAR, FAR = [1.0, 0.0], [0.0, 1.0]


class Digests:
    """An embedder whose vectors are digests of what it reads."""

    name, model, revision, dimensions = "digests", "sha256", "2", 8
    recipe: dict[str, Any] = {"digits": "first"}  # noqa: RUF012  (the protocol's)

    def __init__(self) -> None:
        self.read: list[str] = []

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.read += texts
        return np.array(
            [[byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:8]] for text in texts], np.float32
        )

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self.embed_passages(texts)


def found(org: Organization, *question: Any, **options: Any) -> list[tuple[str | None, float]]:
    return [(result.title, result.score) for result in org.search(*question, **options).items]


def spaces(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute(
        "SELECT name, model, revision, dimensions, recipe FROM kbsearch.kb_embedding_spaces"
    ).fetchall()


def test_texts_and_mappings_become_articles(connection: Connection) -> None:
    org = load_organization(
        connection, ["We refund shipping.", {"title": "Fees", "body": "We refund fees.", "external_ref": "fees"}]
    )
    assert org.name == "test"
    ids = org.load(["A third one to refund.", "A fourth."])
    assert [org.search(word).items[0].article_id for word in ("third", "fourth")] == list(ids)
    assert {result.external_ref for result in org.results("refund")} == {None, "fees"}
    assert org.search("refund", limit=2).total == 3
    assert load_organization(connection).id != org.id


def test_vectors_are_in_a_space_that_is_searched(connection: Connection) -> None:
    org = load_organization(
        connection, [{"title": "Near", "embedding": NEAR}, {"title": "Far", "body": "away", "embedding": (0, 1)}]
    )
    assert found(org, None, NEAR) == [("Near", 1.0), ("Far", 0.0)]
    other = load_organization(connection, [{"title": "Far", "embedding": FAR}], name="other")
    assert found(other, None, NEAR) == [("Far", 0.0)]
    chunks: list[Any] = [
        Chunk("one", embedding=FAR),
        {"content": "two", "heading": "Second", "embedding": NEAR},
        "three",
    ]
    org.load([{"title": "Many", "chunks": chunks}])
    assert found(org, "two", NEAR)[0][0] == "Many"
    (space,) = spaces(connection)
    assert space[1:] == ("test", "", 2, {})
    with pytest.raises(DimensionError):
        org.search(None, [1.0, 0.0, 0.0])


def test_an_embedder_computes_what_has_no_vector(connection: Connection) -> None:
    embedder = Digests()
    org = load_organization(
        connection, ["We refund shipping.", {"title": "Fees", "chunks": ["fees", "more fees"]}], embedder=embedder
    )
    assert embedder.read == ["We refund shipping.", "Fees\nfees", "Fees\nmore fees"]
    (space,) = spaces(connection)
    assert space[1:] == ("sha256", "2", 8, {"digits": "first"})
    # The client has the embedder, and its vectors are those of the space.
    page = org.search("We refund shipping.")
    assert page.legs.vector.takes_part
    assert page.items[0].vector_similarity == 1.0


def test_a_folder_is_ingested(connection: Connection, tmp_path: Path) -> None:
    folder = tmp_path / "articles"
    folder.mkdir()
    (folder / "returns.md").write_text("# Returns\n\nSend it back within 30 days.\n", encoding="utf-8")
    (folder / "fees.md").write_text("# Fees\n\nThere are none.\n", encoding="utf-8")
    org = load_organization(connection, folder=folder, embedder=Digests())
    assert {result.title for result in org.results("back fees")} == {"Returns", "Fees"}
    more = load_organization(connection)
    ids = more.load(folder=str(folder))
    assert [
        result.external_ref
        for result in sorted(more.results("back none fees"), key=lambda one: ids.index(one.article_id))
    ] == [
        "fees.md",
        "returns.md",
    ]


def test_a_folder_that_is_not_loaded_whole_is_refused(connection: Connection, tmp_path: Path) -> None:
    org = load_organization(connection)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        org.load(folder=tmp_path / "nowhere")
    with pytest.raises(ArticleError, match="it has no files that can be ingested"):
        org.load(folder=tmp_path)
    (tmp_path / "good.md").write_text("# Good\n\ntext", encoding="utf-8")
    (tmp_path / "bad.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ArticleError, match=r"bad\.md: "):
        org.load(folder=tmp_path)
    with pytest.raises(TypeError, match="over a psycopg connection in autocommit mode"):
        load_organization(KBSearch(connection), folder=tmp_path)


@pytest.mark.parametrize(
    ("articles", "error", "told"),
    [
        ([3], TypeError, "article 1 is neither a text nor a mapping, but int"),
        (["a", {"body": "b", "chunks": ["c"], "embedding": NEAR}], ValueError, "article 2 has chunks"),
        (
            [{"body": "a", "embedding": NEAR}, {"body": "b", "embedding": [1]}],
            ValueError,
            r"embeddings of \[1, 2\] components",
        ),
        ([{"body": "a", "tilte": "b"}], TypeError, "tilte"),
        ([{"body": "a", "chunks": [{"text": "b"}]}], TypeError, "text"),
    ],
)
def test_unusable_articles_are_refused(
    connection: Connection, articles: list[Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        load_organization(connection, articles)


def test_what_an_organisation_can_be_made_over(database: str, connection: Connection) -> None:
    """Over all that a client takes; in the owner's transaction, if there is one."""
    with pytest.raises(TypeError, match="nobody to close the connection"):
        load_organization(database)
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(database))
    with engine.connect() as unsaved:
        org = load_organization(unsaved, ["We refund."], name="unsaved")
        assert org.search("refund").total == 1
        unsaved.rollback()
    engine.dispose()
    assert connection.execute("SELECT FROM kbsearch.organizations").fetchall() == []
    with KBSearch(database) as client:
        assert load_organization(client, ["We refund."], name="saved").search("refund").total == 1
    assert connection.execute("SELECT name FROM kbsearch.organizations").fetchall() == [("saved",)]


def test_an_organisation_has_a_language(connection: Connection) -> None:
    org = load_organization(connection, ["Unsere Häuser."], language="german")
    assert org.search("Haus").total == 1
    assert load_organization(connection, ["Unsere Häuser."]).search("Haus").total == 0


def test_a_database_without_kbsearch_says_so(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as connection, pytest.raises(NotInstalledError):
        load_organization(connection)


@pytest.fixture
def org(connection: Connection) -> Organization:
    """Seven tied articles, and two others."""
    tied = [{"title": "Refund", "body": "We refund.", "embedding": NEAR}] * 7
    return load_organization(connection, [*tied, {"body": "We refund fees.", "embedding": FAR}, "refund, refund"])


def test_searches_are_partitions_and_deterministic(org: Organization, connection: Connection) -> None:
    for profile in ("weighted@1", "rrf@1", "keyword@1"):
        assert_pages_partition(org.client, org.id, "refund", NEAR, profile=profile, highlight=True)
        assert_deterministic(lambda profile=profile: org.search("refund", NEAR, profile=profile))  # type: ignore[misc]
    assert_deterministic(lambda: org.client.results(org.id, "refund", NEAR, limit=2))
    statement = (
        "SELECT place, article_id, score FROM kbsearch.search_kb_hybrid_v1(p_org_id => %s, p_query_text => 'refund')"
    )
    assert_deterministic(lambda: connection.execute(statement, (org.id,)).fetchall())


def test_a_stored_ranking_is_a_partition(org: Organization) -> None:
    opened = org.client.open_search(org.id, "refund", NEAR)
    assert_pages_partition(
        lambda size, cursor: org.client.fetch_page(org.id, opened.snapshot, limit=size, cursor=cursor)
    )


def test_searches_of_the_asynchronous_client_are_partitions(org: Organization, database: str) -> None:
    async def run() -> None:
        async with AsyncKBSearch(database) as client:
            await assert_pages_partition_async(client, org.id, "refund", NEAR, sizes=(2, 3))
            await assert_deterministic_async(lambda: client.search(org.id, "refund", NEAR))
            await assert_deterministic_async(lambda: client.results(org.id, "refund", NEAR))

    asyncio.run(run())


class Tampered(KBSearch):
    """A client whose pages are changed on their way."""

    change: Callable[..., Any]

    def search(self, *arguments: Any, **options: Any) -> Any:
        return type(self).change(super().search(*arguments, **options), **options)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda page, **_: replace(page, total=page.total - 1),
            "page 1 of the pages of 1000 says total=8, and there are 9 items",
        ),
        (
            lambda page, **_: replace(page, end_reached=not page.end_reached),
            "says end_reached=False, and its next cursor is None",
        ),
        (
            lambda page, limit, **_: replace(page, items=page.items[::-1]) if limit == 2 else page,
            "the pages of 2 by cursor, put end to end, differ from the pages of 1000",
        ),
        (
            lambda page, offset=0, **_: (
                replace(page, items=page.items[:1] + page.items[:1] + page.items[2:]) if offset == 4 else page
            ),
            "the pages of 2 by offset have ",
        ),
        (
            lambda page, limit, **_: (
                replace(page, items=(replace(page.items[0], score=0.0), *page.items[1:])) if limit == 2 else page
            ),
            "is not the same on all pages\n  first difference: score: ",
        ),
    ],
)
def test_faults_of_a_client_are_found(org: Organization, connection: Connection, change: Any, told: str) -> None:
    client = type("Changed", (Tampered,), {"change": staticmethod(change)})(connection)
    with pytest.raises(AssertionError) as caught:
        assert_pages_partition(client, org.id, "refund", NEAR, sizes=(2,))
    assert told in str(caught.value)
