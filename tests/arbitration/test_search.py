"""Searches that arbitrate: their decision and its record are those of the oracle, and hold for all pages of a request."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kbsearch import arbitration
from tests import oracle
from tests.arbitration.oracle import manifest
from tests.load import Database, arguments, call, compare, found, rows
from tests.oracle import Article, Chunk, Profile, Search, policy
from tests.strategies import Organisation, examples, numbered, questions_of

ESCALATES = Profile("own", "arbitrate", policy=policy("own", moderate_rule="apply_rule", severe_rule="escalate"))
POLICIES = (
    ESCALATES,
    Profile("own", "arbitrate", policy=policy("own", top_k=2, moderate_rule="apply_rule", severe_rule="apply_rule")),
    Profile("own", "arbitrate", policy=policy("own", moderate_rule="apply_rule", max_disagreement=0.8, privilege=0.6)),
    Profile("own", "arbitrate", policy=policy("own", calibrated=True, vector_weight=0.8, keyword_weight=0.2)),
    Profile("own", "arbitrate", policy=policy("own", advisory_leg="vector")),
    Profile("own", "arbitrate", "term_count", policy=policy("own", similarity_threshold=0.7, severe_rule="apply_rule")),
)
# Two articles that the legs order the one way and the other.
APART = numbered(
    [Article(0, (Chunk(0, "lamp", vector=(0, 1)),)), Article(0, (Chunk(0, "stone", vector=(1, 0)),))], 1, 1, seed=1
)
QUESTION = Search(words=("lamp",), vector=(1, 0))


def escalated(db: Database, org_id: int, search: Search, function: str, **others: Any) -> dict[str, Any]:
    """The manifest of the error that a function raises."""
    given = arguments(org_id, search, **others)
    if function in ("open_kb_search_v1", "explain_kb_candidates_v1"):
        del given["p_limit"]
    with pytest.raises(psycopg.Error) as caught:
        db.connection.execute(f"SELECT * FROM {call(function, given)}", given)
    assert caught.value.sqlstate == "KBESC"
    assert "disagree by" in str(caught.value.diag.message_primary)
    detail: dict[str, Any] = json.loads(caught.value.diag.message_detail or "")
    return detail


def test_decision_record_and_ranking_are_the_oracles(db: Database) -> None:
    verdicts: Counter[str] = Counter()

    @examples(250)
    @given(questions_of(profiles=POLICIES), st.integers(1, 3))
    def run(drawn: tuple[Organisation, Search], size: int) -> None:
        organisation, search = drawn
        query_class = db.value("SELECT kbsearch.classify_kb_query_v1(%s)", [search.text])
        wanted = oracle.arbitrate(organisation.articles, search, query_class, organisation.reference_length)
        with db.loaded(organisation, search.profile) as org_id:
            page = db.page(org_id, search)
            if wanted.arbitrated is None:
                assert (page["verdict"], page["manifest"], page["items"]) == (None, None, [])
                return
            case, decided = wanted.arbitrated
            directive = page["manifest"]["directive"]
            made = manifest(
                {**case, "query_text": search.text, "chosen_ids": [hit.article_id for hit in wanted.ordered]},
                {**decided, "directive": directive},
            )
            assert page["manifest"] == made
            assert page["verdict"] == decided["verdict"]
            assert not arbitration.verify(page["manifest"])
            verdicts[page["verdict"]] += 1
            if page["verdict"] == "escalated":
                assert (page["items"], page["total"], page["end_reached"]) == ([], 0, True)
                assert escalated(db, org_id, search, "search_kb_hybrid_v1") == made
                return
            assert [row["article_id"] for row in page["items"]] == [
                row.article_id for row in oracle.rank(organisation.articles, search, organisation.reference_length)
            ]
            first = db.page(org_id, search, p_limit=size)
            assert first["manifest"] == made
            if first["next_cursor"]:
                later = db.page(org_id, search, p_cursor=first["next_cursor"])
                assert (later["verdict"], later["manifest"]) == (
                    page["verdict"],
                    {"manifest_digest": made["manifest_digest"]},
                )
                assert later["legs"] == page["legs"]
                assert [*first["items"], *later["items"]] == page["items"]

    # What is seldom drawn is given: every policy, with the best similarity over the threshold and below it.
    for vector in ((1, 0), (1, 1)):
        for profile in POLICIES:
            run = example((Organisation(APART), replace(QUESTION, vector=vector, profile=profile)), 1)(run)
    run()
    assert set(verdicts) == {*arbitration.VERDICTS} - {"exploratory_fused"}, verdicts


def recorded(db: Database, organisation: Organisation, search: Search) -> dict[str, Any]:
    """The manifest of a search, which is the oracle's."""
    query_class = db.value("SELECT kbsearch.classify_kb_query_v1(%s)", [search.text])
    wanted = oracle.arbitrate(organisation.articles, search, query_class, organisation.reference_length)
    assert wanted.arbitrated is not None
    case, decided = wanted.arbitrated
    with db.loaded(organisation, search.profile) as org_id:
        got: dict[str, Any] = db.page(org_id, search)["manifest"]
    chosen = [hit.article_id for hit in wanted.ordered]
    assert got == manifest(
        {**case, "query_text": search.text, "chosen_ids": chosen}, {**decided, "directive": got["directive"]}
    )
    return got


def test_an_article_of_many_chunks_is_one_of_its_leg(db: Database) -> None:
    """The best chunks of both legs, however many are looked at, are of one article."""
    many = Article(0, (Chunk(0, "lamp lamp stone", vector=(3, 4)),) * 150)
    others = [Article(0, (Chunk(0, "lamp cloud", vector=(n, 40)),)) for n in range(1, 9)]
    organisation = Organisation(numbered([many, *others], 1, 1, seed=3), scattered=True)
    search = Search(
        words=("lamp", "stone"), vector=(3, 4), profile=Profile("own", "arbitrate", policy=policy("own", top_k=4))
    )
    made = recorded(db, organisation, search)
    assert (len(made["vector_ranking"]), len(made["keyword_ranking"])) == (4, 4)
    assert made["vector_ranks"] == [1, 2, 3, 4]
    assert made["keyword_ranks"] == [1, 2, 2, 2]


@pytest.mark.parametrize(
    "profile",
    [oracle.BUILT_IN[-1], *POLICIES[1:]],
    ids=["default", "a leg", "a leg first", "calibrated", "advisory", "term_count"],
)
def test_a_page_among_many_ties_is_the_oracles(db: Database, profile: Profile) -> None:
    """More chunks than a page is looked for among: tied ones, those of one article, and those below."""
    shapes = [
        Article(0, (Chunk(0, "lamp lamp stone", vector=(3, 4)),) * 90),
        *[Article(0, (Chunk(0, "lamp cloud", vector=(4, 3)), Chunk(0, "cloud", vector=(1, 0))))] * 70,
        *[Article(0, (Chunk(0, "stone", vector=(n, 40)), Chunk(0, "lamp", vector=(1, n)))) for n in range(1, 40)],
        *[Article(0, (Chunk(0, "stone stone", vector=(0, 1)),))] * 90,
    ]
    organisation = Organisation(numbered(shapes, 5, 3, seed=4), scattered=True)
    search = Search(words=("lamp", "stone"), vector=(3, 4), profile=profile)
    with db.loaded(organisation, profile) as org_id:
        for floor in (None, 0.5):
            asked = replace(search, min_score=floor)
            expected = oracle.rank(organisation.articles, asked, organisation.reference_length)
            assert floor or any(row.tied_with >= 60 for row in expected)
            for limit, offset in (
                (1, 0),
                (2, 0),
                (5, 0),
                (10, 0),
                (30, 0),
                (200, 0),
                (1, 1),
                (3, 40),
                (10, 75),
                (50, 190),
            ):
                got = db.page(org_id, asked, p_limit=limit, p_offset=offset)
                assert got["total"] == len(expected)
                compare(rows([found(item) for item in got["items"]]), expected[offset : offset + limit])


def test_the_peak_may_be_below_0(db: Database) -> None:
    organisation = Organisation(numbered([Article(0, (Chunk(0, "lamp", vector=(-4, 3)),))] * 2, 1, 1, seed=1))
    made = recorded(db, organisation, replace(QUESTION, profile=oracle.BUILT_IN[-1]))
    assert made["semantic_similarity_peak"] == "-0.800000"


def test_an_escalated_search_is_never_a_plain_empty_answer(db: Database) -> None:
    search = replace(QUESTION, profile=ESCALATES)
    with db.loaded(Organisation(APART), ESCALATES) as org_id:
        page = db.page(org_id, search)
        assert (page["verdict"], page["items"], page["next_cursor"]) == ("escalated", [], None)
        assert Decimal(page["manifest"]["disagreement_magnitude"]) > Decimal("0.3")
        for function in (
            "search_kb_hybrid_v1",
            "explain_kb_search_v1",
            "explain_kb_candidates_v1",
            "open_kb_search_v1",
        ):
            assert escalated(db, org_id, search, function) == page["manifest"]
        assert escalated(db, org_id, search, "explain_kb_article_v1", p_article_id=1) == page["manifest"]
        for others in ({"p_limit": 0}, {"p_offset": 5}):
            assert db.page(org_id, search, **others)["verdict"] == "escalated"
            assert escalated(db, org_id, search, "search_kb_hybrid_v1", **others) == page["manifest"]
        given = arguments(org_id, search)
        del given["p_limit"]
        assert db.value(f"SELECT {call('arbitrate_kb_search_v1', given)}", given) == page["manifest"]
        assert db.search(org_id, search, p_exploratory=True) != []
        assert db.page(org_id, search, p_exploratory=True)["verdict"] == "exploratory_fused"


@pytest.mark.parametrize("privilege", [1, 0.8])
def test_a_cursor_keeps_verdict_and_weights_whatever_is_written(db: Database, privilege: float) -> None:
    rules = policy("own", moderate_rule="apply_rule", severe_rule="apply_rule", privilege=privilege)
    profile = Profile("own", "arbitrate", policy=rules)
    search = replace(QUESTION, profile=profile)
    articles = numbered([*[Article(0, (Chunk(0, "lamp", vector=(3, 4)),))] * 4, APART[1]], 1, 1, seed=1)
    with db.loaded(Organisation(articles), profile) as org_id:
        ranking = db.search(org_id, search)
        first = db.page(org_id, search, p_limit=2)
        assert first["verdict"] == "vector_privileged"
        keyword = first["legs"]["keyword"]
        assert (keyword["takes_part"], keyword["reason"]) == ((False, "not_chosen") if privilege == 1 else (True, None))
        # Without the near article the legs agree.
        near = next(row.row.article_id for row in ranking)
        db.connection.execute("DELETE FROM kbsearch.kb_articles WHERE org_id = %s AND id = %s", [org_id, near])
        assert db.page(org_id, search)["verdict"] == "rankings_agree"
        later = db.page(org_id, search, p_cursor=first["next_cursor"])
        assert later["verdict"] == "vector_privileged"
        rest = db.search(org_id, search, p_cursor=first["next_cursor"])
        assert [replace(each.row, place=each.row.place + 1) for each in rest] == [each.row for each in ranking[2:]]


def test_a_stored_ranking_has_the_verdict_on_every_page(db: Database) -> None:
    profile = Profile("own", "arbitrate", policy=policy("own", severe_rule="apply_rule"))
    search = replace(QUESTION, profile=profile)
    with db.loaded(Organisation(APART), profile) as org_id:
        page = db.page(org_id, search)
        given = arguments(org_id, search)
        del given["p_limit"]
        snapshot = db.value(f"SELECT o.snapshot FROM {call('open_kb_search_v1', given)} AS o", given)
        for offset in (0, 1):
            stored = db.value("SELECT kbsearch.fetch_kb_page_v1(%s, %s, 1, %s)", [org_id, snapshot, offset])
            assert (stored["verdict"], stored["manifest"]) == (page["verdict"], page["manifest"])


def test_a_leg_that_found_nothing_says_so(db: Database) -> None:
    """Its words are known and it takes part, but the filters leave it none of its articles."""
    search = replace(QUESTION, kinds=("faq",), profile=oracle.BUILT_IN[-1])
    articles = numbered([replace(APART[0], kind="article"), replace(APART[1], kind="faq")], 1, 1, seed=1)
    with db.loaded(Organisation(articles)) as org_id:
        page = db.page(org_id, search)
        assert page["verdict"] == "vector_only"
        assert page["legs"]["keyword"]["reason"] == "found_nothing"
        assert page["items"][0]["score"] == 1


@pytest.mark.parametrize("text", ["of the", "", "walrus"])
def test_the_vector_leg_alone(db: Database, text: str) -> None:
    search = Search(words=tuple(text.split()), vector=(1, 0), profile=oracle.BUILT_IN[-1])
    with db.loaded(Organisation(APART)) as org_id:
        assert db.page(org_id, search)["verdict"] == "vector_only"


def test_a_profile_needs_a_policy_that_there_is(db: Database) -> None:
    create = "SELECT kbsearch.create_kb_ranking_profile_v1(%s, 'mine', %s, p_policy => %s)"
    with db.loaded(Organisation(APART)) as org_id:
        for fusion, named in (
            ("arbitrate", None),
            ("arbitrate", "none@1"),
            ("arbitrate", "default@2"),
            ("weighted", "default@1"),
        ):
            with pytest.raises(psycopg.Error, match="policy") as caught:
                db.connection.execute(create, [org_id, fusion, named])
            assert caught.value.sqlstate == "KBPRF"
        assert db.value(create, [org_id, "arbitrate", "reference"]) == "mine@1"
        stored = "SELECT r.policy FROM kbsearch.kb_ranking_profiles AS r WHERE r.org_id = %s"
        assert db.value(stored, [org_id]) == "reference@1"


def test_only_a_profile_that_arbitrates_has_a_manifest(db: Database) -> None:
    with db.loaded(Organisation(APART)) as org_id:
        page = db.page(org_id, QUESTION)
        assert (page["verdict"], page["manifest"]) == (None, None)
        with pytest.raises(psycopg.Error, match="arbitrates nothing") as caught:
            db.value("SELECT kbsearch.arbitrate_kb_search_v1(%s, 'lamp')", [org_id])
        assert caught.value.sqlstate == "KBPRF"
