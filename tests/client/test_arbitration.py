"""Searches that arbitrate, from Python: verdict and manifest on pages and in errors, and the log."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from kbsearch import (
    ArbitrationError,
    AsyncKBSearch,
    Chunk,
    EscalatedError,
    KBSearch,
    KBSearchError,
    OrganizationError,
    Page,
    QueryTextError,
    arbitration,
)
from tests.client.worlds import World, new_world

QUESTION = ("lamp", [1, 0, 0])
RULES: dict[str, dict[str, Any]] = {
    "escalates": {"severe_rule": "escalate"},
    "decides": {"severe_rule": "apply_rule", "privilege": "0.8"},
    "trusts": {"severe_rule": "apply_rule"},
}
POLICY = """SELECT kbsearch.create_kb_arbitration_policy_v1(
    p_org_id => %(org)s, p_name => %(name)s, p_severe_rule => %(severe_rule)s, p_privilege => %(privilege)s::numeric
)"""
PROFILE = "SELECT kbsearch.create_kb_ranking_profile_v1(%(org)s, %(name)s, 'arbitrate', p_policy => %(name)s)"
Ask = Callable[..., Any]
"""Calls a method of a client: its name, then its arguments. What is iterated comes as a list."""


@pytest.fixture
def world(shared_database: str, request: pytest.FixtureRequest) -> World:
    """Articles that the legs order the one way and the other, and a profile for each of the RULES."""
    world = new_world(shared_database, request.node.nodeid, active=True)
    with psycopg.connect(world.dsn, autocommit=True) as connection:
        client = KBSearch(connection)
        for number, (text, vector) in enumerate([("lamp", [0, 1, 0]), ("stone", [1, 0, 0]), ("stone", [3, 4, 0])]):
            client.upsert_article(world.org, external_ref=f"{number}", chunks=[Chunk(text, embedding=vector)])
        for name, rules in RULES.items():
            given = {"org": world.org, "name": name, "privilege": 1, **rules}
            connection.execute(POLICY, given)
            connection.execute(PROFILE, given)
    return world


@pytest.fixture(params=["sync", "async"])
def ask(world: World, runner: asyncio.Runner, request: pytest.FixtureRequest) -> Iterator[Ask]:
    """Both clients, one after the other."""
    if request.param == "sync":
        with KBSearch(world.dsn) as client:

            def call(method: str, *arguments: Any, **options: Any) -> Any:
                answer = getattr(client, method)(*arguments, **options)
                return list(answer) if inspect.isgenerator(answer) else answer

            yield call
        return
    other = AsyncKBSearch(world.dsn)

    async def awaited(method: str, *arguments: Any, **options: Any) -> Any:
        answer = getattr(other, method)(*arguments, **options)
        return [one async for one in answer] if inspect.isasyncgen(answer) else await answer

    yield lambda method, *arguments, **options: runner.run(awaited(method, *arguments, **options))
    runner.run(other.close())


def keep(world: World, what: str) -> None:
    """Say what the organisation keeps of arbitrations."""
    with psycopg.connect(world.dsn) as connection:
        connection.execute("UPDATE kbsearch.organizations SET arbitration_log = %s WHERE id = %s", [what, world.org])


def logged(world: World) -> list[tuple[Any, ...]]:
    """Manifests and questions in the log, in the order in which they were written."""
    with psycopg.connect(world.dsn) as connection:
        return connection.execute(
            "SELECT manifest, query_text FROM kbsearch.kb_arbitration_log WHERE org_id = %s ORDER BY id", [world.org]
        ).fetchall()


def snapshots(world: World) -> int:
    with psycopg.connect(world.dsn) as connection:
        row = connection.execute(
            "SELECT count(*) FROM kbsearch.kb_search_snapshots WHERE org_id = %s", [world.org]
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("consistency", ["cursor", "snapshot"])
def test_every_page_has_the_verdict_and_the_first_the_manifest(ask: Ask, world: World, consistency: str) -> None:
    whole: Page = ask("search", world.org, *QUESTION, profile="decides@1")
    assert whole.verdict == "vector_privileged"
    assert whole.manifest is not None
    assert whole.manifest["verdict"] == whole.verdict
    assert arbitration.verify(whole.manifest, "lamp") == ()
    pages = ask("pages", world.org, *QUESTION, profile="decides@1", limit=1, consistency=consistency)
    assert len(pages) == 3
    assert {page.verdict for page in pages} == {whole.verdict}
    digest = {"manifest_digest": whole.manifest["manifest_digest"]}
    later = digest if consistency == "cursor" else whole.manifest
    assert [page.manifest for page in pages] == [whole.manifest, later, later]
    assert [item.article_id for page in pages for item in page.items] == [item.article_id for item in whole.items]


def test_a_search_that_does_not_arbitrate_has_neither(ask: Ask, world: World) -> None:
    page: Page = ask("search", world.org, *QUESTION)
    assert (page.verdict, page.manifest) == (None, None)


def test_a_leg_that_was_not_chosen_says_so(ask: Ask, world: World) -> None:
    page: Page = ask("search", world.org, *QUESTION, profile="trusts@1")
    assert page.verdict == "vector_privileged"
    assert (page.legs.vector.takes_part, page.legs.keyword.takes_part) == (True, False)
    assert page.legs.keyword.reason == "not_chosen"
    page = ask("search", world.org, "lamp", profile="trusts@1")
    assert (page.verdict, page.legs.vector.reason) == ("keyword_only", "no_embedding")


ESCALATED: dict[str, dict[str, Any]] = {
    "results": {},
    "open_search": {},
    "explain": {},
    "explain_article": {"article_id": 1},
    "explain_candidates": {},
    "search": {"consistency": "snapshot"},
    "pages": {"consistency": "snapshot"},
}
"""What has no way to say it but an error."""


def test_an_escalated_search_is_never_a_plain_empty_answer(ask: Ask, world: World) -> None:
    page: Page = ask("search", world.org, *QUESTION, profile="escalates@1")
    assert (page.verdict, page.items, page.total, page.next_cursor) == ("escalated", (), 0, None)
    assert ask("pages", world.org, *QUESTION, profile="escalates@1", limit=1) == [page]
    said = set()
    for method, options in ESCALATED.items():
        with pytest.raises(EscalatedError, match=r"the legs disagree by 0\.\d+, over the limit") as caught:
            ask(method, world.org, *QUESTION, profile="escalates@1", **options)
        assert caught.value.manifest == page.manifest == caught.value.detail
        assert arbitration.verify(caught.value.manifest, "lamp") == ()
        assert caught.value.sqlstate == "KBESC"
        assert "exploratory" in (caught.value.hint or "")
        said.add(str(caught.value))
    assert len(said) == 1, "the client says it in the words of the database"
    assert snapshots(world) == 0
    assert len(ask("results", world.org, *QUESTION, profile="escalates@1", exploratory=True)) == 3


@pytest.mark.parametrize("what", ["hash", "text"])
def test_an_arbitration_is_logged_once_when_told(ask: Ask, world: World, what: str) -> None:
    keep(world, what)
    options: dict[str, Any] = {"profile": "decides@1", "limit": 1}
    first: Page = ask("search", world.org, *QUESTION, **options)
    for method in ("search", "pages", "results"):
        ask(method, world.org, *QUESTION, **options)
    assert logged(world) == []
    row = (first.manifest, "lamp" if what == "text" else None)
    rows = []
    for method in ("search", "pages", "results"):
        for consistency in ("cursor", "snapshot"):
            ask(method, world.org, *QUESTION, consistency=consistency, log_arbitration=True, **options)
            rows.append(row)
            assert logged(world) == rows, f"{method}, {consistency}"
    ask("search", world.org, *QUESTION, cursor=first.next_cursor, log_arbitration=True, **options)
    ask("search", world.org, *QUESTION, log_arbitration=True)
    assert logged(world) == rows, "a page by cursor has none of its own, nor has a search that does not arbitrate"


def test_an_escalated_search_is_logged_too(ask: Ask, world: World) -> None:
    keep(world, "hash")
    page: Page = ask("search", world.org, *QUESTION, profile="escalates@1", log_arbitration=True)
    for method, options in (("results", {}), ("search", {"consistency": "snapshot"})):
        with pytest.raises(EscalatedError):
            ask(method, world.org, *QUESTION, profile="escalates@1", log_arbitration=True, **options)
    assert logged(world) == [(page.manifest, None)] * 3


@pytest.mark.parametrize("consistency", ["cursor", "snapshot"])
@pytest.mark.parametrize("profile", ["decides@1", "escalates@1"])
def test_without_a_log_nothing_is_logged_and_that_is_said(
    ask: Ask, world: World, profile: str, consistency: str
) -> None:
    for method in ("search", "pages", "results"):
        with pytest.raises(ArbitrationError, match="keeps no log") as caught:
            ask(method, world.org, *QUESTION, profile=profile, consistency=consistency, log_arbitration=True)
        assert "arbitration_log" in (caught.value.hint or "")
    assert logged(world) == []
    assert snapshots(world) == 0


def test_a_manifest_can_be_logged_afterwards(ask: Ask, world: World) -> None:
    keep(world, "text")
    page: Page = ask("search", world.org, *QUESTION, profile="decides@1")
    with pytest.raises(EscalatedError) as escalated:
        ask("open_search", world.org, *QUESTION, profile="escalates@1")
    ids = [
        ask("log_arbitration", world.org, page.manifest, "lamp"),
        ask("log_arbitration", world.org, escalated.value.manifest),
    ]
    assert sorted(ids) == ids
    assert logged(world) == [(page.manifest, "lamp"), (escalated.value.manifest, None)]


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"manifest": None}, ArbitrationError, "what an arbitrated page has as its manifest, not None"),
        ({"manifest": "{}"}, ArbitrationError, "what an arbitrated page has"),
        ({"manifest": {}}, ArbitrationError, "of another version"),
        ({"manifest": {"a": float("nan")}}, ArbitrationError, "JSON"),
        ({"manifest": {"a": "\0"}}, ArbitrationError, "NUL"),
        ({"verdict": "advisory"}, ArbitrationError, "the digest is not the manifest's"),
        ({"query_text": "lamps"}, ArbitrationError, "not the question"),
        ({"query_text": 5}, QueryTextError, "query_text"),
        ({"org_id": 10**9}, OrganizationError, "does not exist"),
        ({"org_id": "1"}, OrganizationError, "org_id"),
    ],
)
def test_what_is_no_record_of_that_search_is_refused(
    ask: Ask, world: World, change: dict[str, Any], error: type[KBSearchError], says: str
) -> None:
    keep(world, "text")
    page: Page = ask("search", world.org, *QUESTION, profile="decides@1")
    given: dict[str, Any] = {"org_id": world.org, "manifest": page.manifest, "query_text": None}
    if "verdict" in change:
        given["manifest"] = {**given["manifest"], **change}
    else:
        given.update(change)
    with pytest.raises(error, match=says):
        ask("log_arbitration", *given.values())
    assert logged(world) == []


@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_whether_to_log_is_a_truth_value(ask: Ask, world: World, value: Any) -> None:
    with pytest.raises(ArbitrationError, match="log_arbitration must be True or False"):
        ask("search", world.org, *QUESTION, log_arbitration=value)


def test_the_log_is_part_of_the_owners_transaction(world: World) -> None:
    keep(world, "hash")
    with psycopg.connect(world.dsn) as connection:
        client = KBSearch(connection)
        page = client.search(world.org, *QUESTION, profile="decides@1", log_arbitration=True)
        connection.rollback()
        assert logged(world) == []
        client.search(world.org, *QUESTION, profile="decides@1", log_arbitration=True)
        connection.commit()
    assert logged(world) == [(page.manifest, None)]
