"""KBSearch and AsyncKBSearch give equal answers and equal errors to whatever is asked."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbsearch import AsyncKBSearch, Chunk, KBSearch, KBSearchError, Page, Result
from tests.client.worlds import World, new_world, tied_world
from tests.strategies import Coverage, examples

TEXTS = (
    "reset",
    "reset password",
    "refund invoice settings",
    "Häuser reset",
    '"reset password"',
    "refund -invoice",
    "zebra",
    "the of",
    "-reset",
    "",
    None,
    "a\0b",
    5,
)
EMBEDDINGS: tuple[Any, ...] = (
    None,
    [1, 0, 0],
    (0.0, 1.0, 0.0),
    np.array([1, 1, 0], dtype=np.float16),
    [0, 0, 0],
    [1, 2],
    ["a", "b", "c"],
)


class Toy:
    """An embedder for both clients."""

    model, revision, dimensions = "toy", "", 3

    def embed_queries(self, texts: Sequence[str]) -> Any:
        return np.array([[len(text) % 2, 1, 0] for text in texts], dtype=np.float32)


class Both:
    """Both clients, plain and with an embedder, and the loop that the asynchronous ones run in."""

    def __init__(self, world: World, runner: asyncio.Runner) -> None:
        self.world, self._runner = world, runner
        self._sync = {embeds: KBSearch(world.dsn, embedder=Toy() if embeds else None) for embeds in (False, True)}
        self._async = {
            embeds: AsyncKBSearch(world.dsn, embedder=Toy() if embeds else None, timeout=60) for embeds in (False, True)
        }

    def close(self) -> None:
        for client in self._sync.values():
            client.close()
        for other in self._async.values():
            self._runner.run(other.close())

    def ask(self, embeds: bool, method: str, *arguments: Any, **options: Any) -> Any:
        """What both answer, which must be equal: an answer, a list of pages or results, or what is known of an error."""
        call = getattr(self._sync[embeds], method)
        one = outcome(lambda: list(call(*arguments, **options)) if method in ITERATED else call(*arguments, **options))
        other = outcome(lambda: self._runner.run(self._awaited(embeds, method, *arguments, **options)))
        stores = options.get("consistency") == "snapshot"
        assert comparable(one, stores) == comparable(other, stores)
        return one

    async def _awaited(self, embeds: bool, method: str, *arguments: Any, **options: Any) -> Any:
        call = getattr(self._async[embeds], method)
        if method in ITERATED:
            return [item async for item in call(*arguments, **options)]
        return await call(*arguments, **options)


ITERATED = ("pages", "results")


def comparable(answer: Any, stores: bool) -> Any:
    """An answer without what names a stored ranking, of which each client has its own."""
    if isinstance(answer, list):
        return [comparable(item, stores) for item in answer]
    if isinstance(answer, Result) and stores:
        return replace(answer, cursor=None)
    if isinstance(answer, Page) and stores:
        assert answer.snapshot is not None
        items = tuple(replace(item, cursor=None) for item in answer.items)
        more = answer.next_cursor and "more"
        return replace(answer, snapshot="stored", expires_at=None, next_cursor=more, items=items)
    return answer


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except KBSearchError as error:
        return type(error), str(error), error.sqlstate, error.detail, error.hint, type(error.__cause__)


@pytest.fixture(scope="module")
def both(shared_database: str, runner: asyncio.Runner) -> Iterator[Both]:
    opened = Both(tied_world(shared_database, "both"), runner)
    yield opened
    opened.close()


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a search: mostly good ones, each of the bad ones seldom."""

    def mostly(*good: Any, seldom: Sequence[Any] = ()) -> Any:
        return draw(st.sampled_from([*good * (1 + 40 * len(seldom) // len(good)), *seldom]))

    options: dict[str, Any] = {
        "limit": mostly(1, 2, 3, 7, 100, seldom=(0, 1001, -1, "3", True, 2.5)),
        "kinds": mostly(None, None, ["faq"], ["policy", "note"], seldom=([], "faq", [None])),
        "kind_quota": mostly(
            None, None, {"faq": 1}, {"policy": 2, "*": 3}, seldom=({"faq": -1}, {"faq": 1.5}, [("faq", 1)])
        ),
        "metadata": mostly(
            None, None, {"group": 1}, [{"group": 0}, {"tags": ["hot"]}], seldom=({"a": {1}}, {"a": "\0"}, "x")
        ),
        "min_score": mostly(None, None, 0.1, 0.5, seldom=("1", float("nan"))),
        "profile": mostly(None, "weighted@1", "rrf@1", "vector@1", "keyword@1", seldom=("nonsense", "rrf@99", 1)),
        "space_id": mostly(None, seldom=(999_999, 1.0)),
        "language": mostly(None, None, "english", "german", seldom=("klingon", "", 3)),
        "highlight": mostly(False, True, seldom=("yes",)),
        "offset": mostly(0, 0, 0, 2, 50, seldom=(-1, 2**63)),
    }
    # What is left out is as by default.
    return {name: value for name, value in options.items() if draw(st.integers(0, 2))}


def test_generated_searches(both: Both) -> None:
    coverage = Coverage()

    @settings(examples(500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        embeds=st.booleans(),
        method=st.sampled_from(["search", "search", "pages", "results"]),
        text=st.sampled_from(TEXTS[:6] * 20 + TEXTS),
        embedding=st.sampled_from([*EMBEDDINGS[:4] * 15, *EMBEDDINGS]),
        options=requests(),
        then=st.sampled_from(["next", "next", "next of another", "damaged"]),
    )
    def check(embeds: bool, method: str, text: Any, embedding: Any, options: dict[str, Any], then: str) -> None:
        # A page of one article is enough of the small ones to the end.
        if method != "search" and options.get("limit") in (1, 2):
            options["limit"] = 7
        answer = both.ask(embeds, method, both.world.org, text, embedding, **options)
        refused = isinstance(answer, tuple)
        followed = False
        if isinstance(answer, Page) and answer.next_cursor is not None:
            followed = True
            cursor = f"x{answer.next_cursor}" if then == "damaged" else answer.next_cursor
            question = "invoice" if then == "next of another" else text
            rest = {name: value for name, value in options.items() if name != "offset"}
            page = both.ask(embeds, "search", both.world.org, question, embedding, cursor=cursor, **rest)
            if then == "next":
                assert page.items[0].place == answer.items[-1].place + 1
        items = () if refused else answer.items if isinstance(answer, Page) else answer
        coverage.example(
            refused=refused,
            answered=bool(items),
            tied=method == "search" and any(item.tied_with for item in items),
            filtered=not refused
            and any(options.get(name) for name in ("kinds", "kind_quota", "metadata", "min_score")),
            followed=followed,
        )

    check()
    coverage.require(refused=0.03, answered=0.2, tied=0.03, filtered=0.1, followed=0.03)


def test_generated_explanations(both: Both) -> None:
    coverage = Coverage()
    articles = [item.article_id for item in both.ask(False, "results", both.world.org, None, [1, 0, 0])]

    @settings(examples(250), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        embeds=st.booleans(),
        method=st.sampled_from(["explain", "explain_article", "explain_candidates"]),
        text=st.sampled_from(TEXTS[:6] * 20 + TEXTS),
        embedding=st.sampled_from([*EMBEDDINGS[:4] * 15, *EMBEDDINGS]),
        options=requests(),
        article=st.sampled_from([*articles, 10**9, None]),
    )
    def check(embeds: bool, method: str, text: Any, embedding: Any, options: dict[str, Any], article: Any) -> None:
        left_out = {"highlight", *(("limit", "offset") if method == "explain_candidates" else ())}
        given = {name: value for name, value in options.items() if name not in left_out}
        if method == "explain_article":
            given["article_id"] = article
        answer = both.ask(embeds, method, both.world.org, text, embedding, **given)
        refused = isinstance(answer, tuple) and answer[:1] != () and isinstance(answer[0], type)
        coverage.example(
            refused=refused,
            explained=not refused and method == "explain" and len(answer) > 0,
            tied=not refused and method == "explain" and any(one.tied_with for one in answer),
            ranked=not refused and method == "explain_article" and answer.status == "ranked",
            elsewhere=not refused and method == "explain_article" and answer.status != "ranked",
            candidates=not refused and method == "explain_candidates" and len(answer) > 0,
        )

    check()
    coverage.require(refused=0.02, explained=0.05, tied=0.02, ranked=0.01, elsewhere=0.01, candidates=0.05)


def test_generated_snapshots(both: Both) -> None:
    coverage = Coverage()
    stored = "SELECT count(*) FROM kbsearch.kb_search_snapshots AS s WHERE s.org_id = %s"

    @settings(examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        embeds=st.booleans(),
        method=st.sampled_from(["search", "search", "search", "pages", "results"]),
        text=st.sampled_from(TEXTS[:6] * 20 + TEXTS),
        embedding=st.sampled_from([*EMBEDDINGS[:4] * 15, *EMBEDDINGS]),
        options=requests(),
        consistency=st.sampled_from(["snapshot"] * 20 + ["strict"]),
    )
    def check(embeds: bool, method: str, text: Any, embedding: Any, options: dict[str, Any], consistency: str) -> None:
        if method != "search" and options.get("limit") in (1, 2):
            options["limit"] = 7
        answer = both.ask(embeds, method, both.world.org, text, embedding, consistency=consistency, **options)
        refused = isinstance(answer, tuple)
        walked = [answer] if isinstance(answer, Page) else [] if refused else list(answer)
        if method == "search":
            with psycopg.connect(both.world.dsn, autocommit=True) as connection:
                assert connection.execute(stored.encode(), [both.world.org]).fetchone() == (0 if refused else 2,)
                connection.execute(
                    "DELETE FROM kbsearch.kb_search_snapshots AS s WHERE s.org_id = %s", [both.world.org]
                )
        else:
            with psycopg.connect(both.world.dsn) as connection:
                assert connection.execute(stored.encode(), [both.world.org]).fetchone() == (0,)
        coverage.example(
            refused=refused, page=method == "search" and not refused, walked=method != "search" and len(walked) > 1
        )

    check()
    coverage.require(refused=0.01, page=0.02, walked=0.02)


def test_both_have_the_same_calls() -> None:
    def calls(kind: type) -> dict[str, list[tuple[str, Any, Any]]]:
        return {
            name: [
                (one.name, one.default, str(one.annotation).replace("Async", ""))
                for one in inspect.signature(call).parameters.values()
            ]
            for name, call in vars(kind).items()
            if inspect.isfunction(call) and not name.startswith("_")
        }

    assert calls(KBSearch) == calls(AsyncKBSearch)


@pytest.mark.parametrize(
    "arguments",
    [
        {"title": "quoll", "body": "quoll"},
        {
            "title": "quoll",
            "chunks": [Chunk("quoll", heading="h", embedding=[1, 0, 0]), Chunk("b")],
            "metadata": {"x": [1]},
        },
        {"title": "quoll", "language": "german", "kind": "faq", "published": False, "source_uri": "x:y"},
        {"title": "quoll", "content_sha256": "00" * 32},
        {"title": "a\0"},
        {"title": 1},
        {"language": "klingon"},
        {"chunks": [Chunk(" ")]},
        {"chunks": [Chunk("a", embedding=[1, 2])]},
        {"chunks": [Chunk("a", embedding=[0, 0, 0])]},
        {"space_id": 999_999, "chunks": [Chunk("quoll", embedding=[1, 0, 0])]},
        {"article_id": "1"},
    ],
)
def test_writes(shared_database: str, runner: asyncio.Runner, arguments: dict[str, Any]) -> None:
    """Written by one client and then by the other, an article is the same row; what is refused is refused alike."""
    world = new_world(shared_database, f"writes {arguments}", active=True)
    both = Both(world, runner)
    try:
        reference = {"external_ref": "x", **arguments}
        both.ask(False, "reserve_articles", world.org, ["x", "y"])  # an id of its own, in errors, too
        answer = both.ask(False, "upsert_article", world.org, **reference)
        written = isinstance(answer, int)
        found = both.ask(False, "search", world.org, "quoll", highlight=True)
        assert isinstance(found, Page)
        assert [item.article_id for item in found.items] == [answer] * (written and arguments.get("published", True))
        both.ask(False, "reserve_articles", world.org, ["x"])
        both.ask(False, "reserve_articles", world.org, "x")
        assert both._sync[False].delete_article(world.org, external_ref="x")
        assert both.ask(False, "delete_article", world.org, external_ref="x") is False
        both.ask(False, "delete_article", world.org)
    finally:
        both.close()
