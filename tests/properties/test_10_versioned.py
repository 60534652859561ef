"""Law 10: a cursor belongs to the function version, profile version, space, organisation and request that made it; any other is refused, never a
shifted page. A ranking profile's version never changes."""

from __future__ import annotations

import base64
import hashlib
import string
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.load import Database, compare, rows
from tests.oracle import BUILT_IN, Article, Chunk, Profile, Search
from tests.strategies import OWN_PROFILES, Organisation, examples, numbered, questions_of

ALPHABET = string.ascii_letters + string.digits + "-_"

ARTICLES = numbered(
    [
        Article(0, (Chunk(0, "lamp stone", vector=vector),), kind=kind)
        for vector in [(1, 0), (1, 1), (3, 4)]
        for kind in ("faq", "policy")
    ],
    97,
    8,
    seed=3,
)
SEARCH = Search(words=("lamp", "stone"), vector=(1, 0), kinds=("faq", "policy"), quota={"faq": 3}, min_score=0.01)


def payload(cursor: str) -> str:
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[9:].decode()


def sealed(text: str) -> str:
    """A cursor of this payload that is not damaged."""
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:9] + text.encode()).decode().rstrip("=")


def refused(db: Database, org_id: int, search: Search, **others: Any) -> str:
    """Both functions must refuse the cursor; returns the reason that they give."""
    reasons = set()
    for ask in (db.search, db.page):
        with pytest.raises(psycopg.Error) as caught:
            ask(org_id, search, **others)
        assert caught.value.sqlstate == "KBCUR", caught.value
        assert caught.value.diag.message_hint
        reasons.add(caught.value.diag.message_primary)
    (reason,) = reasons
    return str(reason)


def test_a_cursor_is_refused_by_another_request(db: Database) -> None:
    requests: dict[str, tuple[Search, dict[str, Any]]] = {
        "words": (replace(SEARCH, words=("lamp",)), {}),
        "the same words in another order": (replace(SEARCH, words=("stone", "lamp")), {}),
        "vector": (replace(SEARCH, vector=(1, 1)), {}),
        "vector of the same direction": (replace(SEARCH, vector=(3, 0)), {}),
        "no vector": (replace(SEARCH, vector=None), {}),
        "kinds": (replace(SEARCH, kinds=("faq",)), {}),
        "no kinds": (replace(SEARCH, kinds=None), {}),
        "quota": (replace(SEARCH, quota={"faq": 2}), {}),
        "no quota": (replace(SEARCH, quota=None), {}),
        "metadata": (replace(SEARCH, metadata={}), {}),
        "min_score": (replace(SEARCH, min_score=0.02), {}),
        "no min_score": (replace(SEARCH, min_score=None), {}),
        "exploratory": (SEARCH, {"p_exploratory": True}),
        "space": (SEARCH, {"p_space_id": db.spaces[2][1]}),
        "offset": (SEARCH, {"p_offset": 1}),
    }
    with db.loaded(Organisation(ARTICLES)) as org_id, db.loaded(Organisation(ARTICLES)) as other_org_id:
        ranking = db.search(org_id, SEARCH)
        assert len(ranking) == 6
        cursor = ranking[1].cursor
        for search, others in requests.values():
            refused(db, org_id, search, p_cursor=cursor, **others)
        for profile in BUILT_IN[1:]:
            assert "profile" in refused(db, org_id, replace(SEARCH, profile=profile), p_cursor=cursor)
        assert "organisation" in refused(db, other_org_id, SEARCH, p_cursor=cursor)
        # what does not decide the ranking may change
        for limit in (1, 2, 1000):
            compare(db.search(org_id, SEARCH, p_limit=limit, p_cursor=cursor), ranking[2 : 2 + limit])
        compare(
            db.search(org_id, SEARCH, p_cursor=cursor, p_space_id=db.spaces[2][0], p_profile="weighted"), ranking[2:]
        )
        assert db.search(org_id, SEARCH, p_limit=0, p_cursor=cursor) == []


def test_a_cursor_of_another_version_is_refused(db: Database) -> None:
    with db.loaded(Organisation(ARTICLES)) as org_id:
        cursor = db.search(org_id, SEARCH)[1].cursor
        text = payload(cursor)
        assert sealed(text) == cursor
        parts = text.split(" ")
        assert "version" in refused(db, org_id, SEARCH, p_cursor=sealed(" ".join(["2", *parts[1:]])))
        assert "version" in refused(db, org_id, SEARCH, p_cursor=sealed(" ".join(["0", *parts[1:]])))
        for part in range(2, 4):
            changed = [*parts[:part], parts[part] + "0", *parts[part + 1 :]]
            refused(db, org_id, SEARCH, p_cursor=sealed(" ".join(changed)))
        refused(db, org_id, SEARCH, p_cursor=sealed(text + " 1"))
        refused(db, org_id, SEARCH, p_cursor=sealed(" ".join(parts[:-1])))


def test_a_cursor_with_any_edited_byte_is_refused(db: Database) -> None:
    """Every position, its last bits too, which base64 itself does not look at."""
    with db.loaded(Organisation(ARTICLES)) as org_id:
        cursor = db.search(org_id, SEARCH)[1].cursor
        for place, letter in enumerate(cursor):
            after = ALPHABET[(ALPHABET.index(letter) + 1) % len(ALPHABET)]
            refused(db, org_id, SEARCH, p_cursor=cursor[:place] + after + cursor[place + 1 :])
        for damaged in (
            cursor[:-1],
            cursor[:-4],
            cursor[1:],
            cursor + "A",
            cursor + "AAAA",
            cursor + "=",
            cursor + "\n",
            " " + cursor,
            cursor.swapcase(),
            cursor[::-1],
            cursor[: len(cursor) // 2],
            "A",
            "",
            "é" * 20,
            "0" * 100_000,
        ):
            refused(db, org_id, SEARCH, p_cursor=damaged)


def test_edited_cursors_never_give_rows(db: Database) -> None:
    @examples(25)
    @given(questions_of(), st.integers(0), st.integers(0), st.sampled_from(ALPHABET))
    def run(drawn: tuple[Organisation, Search], row: int, place: int, letter: str) -> None:
        organisation, search = drawn
        with db.loaded(organisation, search.profile) as org_id:
            ranking = db.search(org_id, search)
            if not ranking:
                return
            cursor = ranking[row % len(ranking)].cursor
            place %= len(cursor)
            edited = cursor[:place] + letter + cursor[place + 1 :]
            if edited == cursor:
                compare(db.search(org_id, search, p_cursor=edited), ranking[row % len(ranking) + 1 :])
            else:
                refused(db, org_id, search, p_cursor=edited)

    run()


def test_a_new_version_of_a_profile_changes_no_answer(db: Database) -> None:
    """name@1 answers as before once name@2 is there, and a cursor of the one is refused by the other."""
    first, second = OWN_PROFILES[0], OWN_PROFILES[1]
    search = replace(SEARCH, profile=first)
    with db.loaded(Organisation(ARTICLES), first) as org_id:
        before = db.lines(org_id, search)
        cursor = db.search(org_id, search)[0].cursor
        assert db.create_profile(org_id, second) == "own@2"
        assert db.lines(org_id, search) == before
        assert db.lines(org_id, search, p_profile="own") == before
        assert [each.row.score for each in db.search(org_id, search, p_profile="own@2")] != [
            each.row.score for each in db.search(org_id, search)
        ]
        refused(db, org_id, search, p_cursor=cursor, p_profile="own@2")

        # pinned: the organisation's default
        assert db.page(org_id, SEARCH, p_profile=None)["profile"] == "weighted@1"
        db.connection.execute("UPDATE kbsearch.organizations SET ranking_profile = 'own@1' WHERE id = %s", [org_id])
        assert db.lines(org_id, search, p_profile=None) == before
        compare(db.search(org_id, search, p_profile=None, p_cursor=cursor), db.search(org_id, search)[1:])
        db.connection.execute("UPDATE kbsearch.organizations SET ranking_profile = 'own@2' WHERE id = %s", [org_id])
        refused(db, org_id, search, p_profile=None, p_cursor=cursor)
        for table in ("kb_ranking_profiles", "kb_builtin_profiles"):
            with pytest.raises(psycopg.Error) as caught:
                db.connection.execute(f"UPDATE kbsearch.{table} SET rrf_k = 61")
            assert caught.value.sqlstate == "KBPRF"


def test_the_version_of_a_page_is_told(db: Database) -> None:
    with db.loaded(Organisation(ARTICLES), OWN_PROFILES[0]) as org_id:
        for profile in (BUILT_IN[0], BUILT_IN[1], OWN_PROFILES[0]):
            page = db.page(org_id, replace(SEARCH, profile=profile), p_limit=1)
            assert (page["function"], page["function_version"], page["profile"], page["space_id"]) == (
                "search_kb_hybrid_page_v1",
                1,
                f"{profile.name}@1",
                db.spaces[2][0],
            )


def test_a_cursor_keeps_the_statistics_of_its_first_page(db: Database) -> None:
    """Articles that are loaded between two pages move none of those that did not change: later pages are scored as the first was."""
    profiles: tuple[Profile, ...] = tuple(profile for profile in BUILT_IN if profile.fusion != "rrf")

    @examples(30)
    @given(questions_of(profiles=profiles, filters=()), st.integers(1, 4))
    def run(drawn: tuple[Organisation, Search], size: int) -> None:
        organisation, search = drawn
        with db.loaded(organisation, search.profile) as org_id:
            ranking = db.search(org_id, search)
            if len(ranking) <= size:
                return
            cursor = ranking[size - 1].cursor
            newcomers = numbered([Article(0, (Chunk(0, "lamp milk stone cloud"),))] * 5, 2**45, 2**45, seed=1)
            db.connection.execute(
                "INSERT INTO kbsearch.kb_articles (org_id, id) SELECT %s, unnest(%s::bigint[])",
                [org_id, [article.id for article in newcomers]],
            )
            db.insert_chunks(org_id, organisation.dimensions, [(article, article.chunks[0]) for article in newcomers])
            known = {each.row.article_id for each in ranking}
            later = [each.row for each in db.search(org_id, search, p_cursor=cursor) if each.row.article_id in known]
        compare(
            [(row.article_id, row.score, row.chunk_id) for row in later],
            [(row.article_id, row.score, row.chunk_id) for row in rows(ranking[size:])],
        )

    run()
