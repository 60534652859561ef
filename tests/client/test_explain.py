"""Explanations and sources through the clients: typed, the same rows as the search, over every kind of connection."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from kbsearch import (
    AsyncKBSearch,
    Candidate,
    Explanation,
    KBSearch,
    KBSearchError,
    LanguageError,
    LimitError,
    Match,
    Passage,
    SourceError,
)
from kbsearch.errors import ArticleError
from tests.client.worlds import ASYNC_KINDS, KINDS, World, articles_world, tied_world

QUESTION = ("reset password", [1, 0, 0])


@pytest.fixture(scope="module")
def tied(shared_database: str) -> World:
    return tied_world(shared_database, "explained")


def test_explanations_are_the_rows_of_the_search(tied: World) -> None:
    with KBSearch(tied.dsn) as client:
        options: Any
        for options in ({"limit": 7}, {"limit": 5, "offset": 6}, {"kinds": ["faq"], "kind_quota": {"faq": 3}}):
            page = client.search(tied.org, *QUESTION, **options)
            explained = client.explain(tied.org, *QUESTION, **options)
            shared = [field.name for field in dataclasses.fields(Explanation) if hasattr(page.items[0], field.name)]
            assert len(shared) == 12
            assert [[getattr(one, name) for name in shared] for one in explained] == [
                [getattr(item, name) for name in shared] for item in page.items
            ]
            after = client.explain(tied.org, *QUESTION, **{**options, "offset": 0, "cursor": page.items[0].cursor})
            assert after[: len(explained) - 1] == explained[1:]


def test_an_explanation_is_typed_and_adds_up(tied: World) -> None:
    with KBSearch(tied.dsn) as client:
        explained = client.explain(tied.org, *QUESTION, limit=100)
    for one in explained:
        assert one.score_billionths == one.vector_contribution + one.keyword_contribution
        assert one.score == one.score_billionths / 1e9
        assert all(isinstance(match, Match) for match in one.matches)
        raw = sum(match.contribution for match in one.matches)
        assert (one.keyword_score or 0) == round(raw / 2200 / 1e12, 9)
        assert one.settled_by_identity == (one.tied_with > 0)
        assert len(one.tied_article_ids) == one.tied_with
        assert one.article_id not in one.tied_article_ids
    assert any(one.tied_with for one in explained)
    best = next(one for one in explained if one.matches)
    assert best.matches[0] == Match(
        lexeme=best.matches[0].lexeme,
        language="english",
        document_frequency=best.matches[0].document_frequency,
        question_count=1,
        idf=best.matches[0].idf,
        impact=best.matches[0].impact,
        share=best.matches[0].share,
        contribution=best.matches[0].share * best.matches[0].impact,
    )


@pytest.mark.parametrize(
    ("arguments", "status", "more"),
    [
        ({"article_id": 10**9}, "not_in_organization", {"title": None}),
        ({"kinds": ["faq"]}, "filtered", {"by": ("kinds",), "kind": "article"}),
        ({"metadata": {"number": 99}}, "filtered", {"by": ("metadata",)}),
        ({"kind_quota": {"*": 0}}, "outside_quota", {"kind": "article", "quota": 0, "place_in_kind": None}),
        ({"text": 'reset -password "of mine"'}, "excluded", {"by": ("-password", '"of mine"')}),
        ({"text": "zebra", "embedding": None}, "not_found", {}),
        ({"min_score": 1}, "below_floor", {"min_score": 1.0}),
        ({"limit": 1}, "ranked", {"place": 1, "on_page": True, "gap_to_page": None, "tied_with": 0}),
        ({"limit": 1, "offset": 1}, "ranked", {"place": 1, "on_page": False, "gap_to_page": None}),
    ],
)
def test_why_an_article_is_where_it_is(
    client: KBSearch, world: World, arguments: dict[str, Any], status: str, more: dict[str, Any]
) -> None:
    article = client.search(world.org, *QUESTION, kinds=["article"]).items[0]
    assert article.place == 1
    given = {"text": QUESTION[0], "embedding": QUESTION[1], "article_id": article.article_id, **arguments}
    why = client.explain_article(world.org, **given)
    assert why.status == status
    assert why.explanation.endswith(".")
    assert {name: getattr(why, name) for name in more} == more
    assert why.article_id == given["article_id"]
    if status == "ranked":
        assert why.score == article.score
        assert {match.lexeme for match in why.matches} == {"reset", "password"}


def test_the_gap_to_the_page_and_the_ties(tied: World) -> None:
    with KBSearch(tied.dsn) as client:
        items = client.search(tied.org, *QUESTION, limit=100).items
        last = items[-1]
        why = client.explain_article(tied.org, *QUESTION, article_id=last.article_id, limit=3)
        assert why.gap_to_page == pytest.approx(items[2].score - last.score, abs=1e-9)
        assert (why.place, why.on_page, why.tied_with) == (last.place, False, last.tied_with)
        assert len(why.tied_article_ids) == why.tied_with
        quota = {"faq": 2, "*": 1}
        found = client.explain_candidates(tied.org, *QUESTION, kind_quota=quota)
        cut = next(one for one in found if one.is_tie_cut and not one.kept)
        why = client.explain_article(tied.org, *QUESTION, article_id=cut.article_id, kind_quota=quota)
        assert (why.status, why.quota, why.place_in_kind) == ("outside_quota", cut.quota, cut.place_in_kind)
        assert why.is_tie_cut
        assert "by id" in why.explanation


def test_candidates_are_what_the_quota_kept_and_cut(tied: World) -> None:
    with KBSearch(tied.dsn) as client:
        found = client.explain_candidates(tied.org, *QUESTION, kind_quota={"faq": 2, "*": 1})
        assert all(isinstance(one, Candidate) for one in found)
        assert {one.kind: one.quota for one in found} == {"faq": 2, "note": 1, "policy": 1}
        kept = sorted((one for one in found if one.kept), key=lambda one: one.place or 0)
        items = client.search(tied.org, *QUESTION, kind_quota={"faq": 2, "*": 1}).items
        assert [(one.place, one.article_id, one.score) for one in kept] == [
            (item.place, item.article_id, item.score) for item in items
        ]
        assert [(one.kind, one.place_in_kind) for one in found] == sorted(
            (one.kind, one.place_in_kind) for one in found
        )
        assert len(found) == client.search(tied.org, *QUESTION).total
        assert {one.place for one in found if not one.kept} == {None}
        assert any(one.is_tie_cut for one in found)


def test_what_was_found_can_be_opened(client: KBSearch, world: World) -> None:
    item = client.search(world.org, *QUESTION).items[0]
    passages = client.source(world.org, item.article_id)
    assert all(isinstance(one, Passage) for one in passages)
    assert [one.content for one in passages] == [item.excerpt, "something else"]
    assert client.source(world.org, item.article_id, item.chunk_id) == passages[:1]
    one = passages[0]
    assert (one.article_id, one.title, one.kind, one.external_ref, one.source_uri, one.metadata) == (
        item.article_id,
        item.title,
        item.kind,
        item.external_ref,
        item.source_uri,
        item.metadata,
    )


def test_what_cannot_be_opened_is_refused(shared_database: str) -> None:
    world = articles_world(shared_database, "sources")
    with psycopg.connect(shared_database, autocommit=True) as connection, KBSearch(shared_database) as client:
        connection.execute("INSERT INTO kbsearch.kb_source_kinds (kind, inspectable) VALUES ('answer', false)")
        answer = client.upsert_article(world.org, title="reset", body="reset", kind="answer")
        draft = client.upsert_article(world.org, title="reset", body="reset", published=False)
        found = [item for item in client.results(world.org, "reset") if item.article_id == answer]
        assert [(item.inspectable, item.chunk_id) for item in found] == [(False, None)]
        for article, chunk, reason in (
            (answer, None, "not_inspectable"),
            (draft, None, "not_found"),
            (10**9, None, "not_found"),
            (client.search(world.org, "reset", kinds=["article"]).items[0].article_id, 10**9, "not_found"),
        ):
            with pytest.raises(SourceError) as caught:
                client.source(world.org, article, chunk)
            assert (caught.value.detail["reason"], caught.value.sqlstate, caught.value.http_status) == (
                reason,
                "KBSRC",
                404,
            )
        wrong: Any
        for wrong in (None, "1", 1.5):
            with pytest.raises(SourceError, match="article_id must be an integer"):
                client.source(world.org, wrong)


@pytest.mark.parametrize(
    ("call", "options", "error"),
    [
        ("explain", {"limit": "3"}, LimitError),
        ("explain", {"limit": 1001}, LimitError),
        ("explain_candidates", {"language": "klingon"}, LanguageError),
        ("explain_article", {"article_id": "x"}, ArticleError),
        ("explain_article", {"article_id": None}, ArticleError),
    ],
)
def test_refusals_are_ours(
    client: KBSearch, world: World, call: str, options: dict[str, Any], error: type[KBSearchError]
) -> None:
    with pytest.raises(error):
        getattr(client, call)(world.org, "reset", **options)


def rows(world: World, function: str, more: str = "") -> list[dict[str, Any]]:
    """What psycopg makes of a function's rows."""
    with psycopg.connect(world.dsn) as connection, connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            f"SELECT * FROM kbsearch.{function}(p_org_id => %s, p_query_text => 'reset password', "
            f"p_query_embedding => '[1,0,0]'{more})".encode(),
            [world.org],
        ).fetchall()


def as_rows(models: Any) -> list[dict[str, Any]]:
    """Dataclasses as psycopg has the rows: lists for tuples."""
    return [
        {name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(one).items()}
        for one in models
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_over_every_kind_of_connection(world: World, kind: str) -> None:
    with KINDS[kind](world.dsn) as connection, KBSearch(connection) as client:
        assert as_rows(client.explain(world.org, *QUESTION, limit=100)) == rows(
            world, "explain_kb_search_v1", ", p_limit => 100"
        )
        assert as_rows(client.explain_candidates(world.org, *QUESTION)) == rows(world, "explain_kb_candidates_v1")
        article = client.search(world.org, *QUESTION).items[0].article_id
        assert client.explain_article(world.org, *QUESTION, article_id=article, timeout=60).place == 1
        assert client.source(world.org, article, timeout=60)[0].metadata["number"] in range(12)


@pytest.mark.parametrize("kind", ASYNC_KINDS)
def test_over_every_kind_of_asynchronous_connection(runner: asyncio.Runner, world: World, kind: str) -> None:
    async def ask() -> None:
        async with ASYNC_KINDS[kind](world.dsn) as connection, AsyncKBSearch(connection) as client:
            explained = await client.explain(world.org, *QUESTION, limit=100)
            assert as_rows(explained) == rows(world, "explain_kb_search_v1", ", p_limit => 100")
            candidates = await client.explain_candidates(world.org, *QUESTION)
            assert as_rows(candidates) == rows(world, "explain_kb_candidates_v1")
            article = explained[0].article_id
            assert (await client.explain_article(world.org, *QUESTION, article_id=article, timeout=60)).place == 1
            assert (await client.source(world.org, article, timeout=60))[0].metadata["number"] in range(12)

    runner.run(ask())
