from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from kbsearch import doctor
from kbsearch.doctor import Level
from kbsearch.errors import ERRORS_BY_SQLSTATE, StatementTimeoutError
from tests.http.conftest import PAGE, Site, sql_blocks
from tests.http.postgrest import PostgREST, Response, status_of

QUESTION = "word1x word5x title3"
VECTOR = [0.25, 1, 3e-1]
PAGE_FUNCTION = "search_kb_hybrid_page_v1"


@pytest.fixture(scope="module")
def shop(site: Site) -> int:
    """An organisation of 30 articles of three kinds, with metadata and ties."""
    patient = site.patient
    org_id = patient.organization("shop", 30)
    patient.run(
        f"""UPDATE kbsearch.kb_articles
SET kind = (ARRAY['policy', 'faq', 'page'])[1 + id % 3], metadata = jsonb_build_object('shelf', id % 2)
WHERE org_id = {org_id}""",
        f"SELECT kbsearch.create_kb_ranking_profile_v1({org_id}, 'near', 'weighted', p_retrieval => 'ann')",
        f"SELECT kbsearch.upsert_kb_article_v1(p_org_id => {org_id}, p_external_ref => 'de', p_language => 'german',"
        " p_body => 'Häuser <b>und</b> Wohnungen & mehr word1x')",
    )
    return org_id


@pytest.fixture(scope="module")
def other(site: Site) -> int:
    """An organisation that is somebody else's."""
    return site.patient.organization("other", 7)


@pytest.fixture(scope="module", params=[True, False], ids=["prepared", "unprepared"])
def direct(site: Site, request: pytest.FixtureRequest) -> Iterator[PostgREST]:
    """A server for trusted services: the schema kbsearch itself is exposed."""
    server = site.postgrest("kbsearch", prepared=request.param)
    yield server
    server.close()


@pytest.fixture(scope="module")
def public(site: Site) -> Iterator[PostgREST]:
    """The server that end users reach: the page's schema api."""
    server = site.postgrest("api")
    yield server
    server.close()


def claims(site: Site, role: str, **more: Any) -> dict[str, Any]:
    return {"role": site.role(role), **more}


def member(site: Site, org_id: Any) -> dict[str, Any]:
    """A user's token."""
    return claims(site, "authenticated", sub="u1", app_metadata={"org_id": org_id})


def ask(site: Site, server: PostgREST, body: object, function: str = PAGE_FUNCTION) -> Response:
    return server.post(function, body, claims=claims(site, "service_role"))


def answer(site: Site, server: PostgREST, body: object, function: str = PAGE_FUNCTION) -> Any:
    response = ask(site, server, body, function)
    assert response.status == 200, response.body
    return response.body


def called(site: Site, function: str, **arguments: Any) -> Any:
    """The same call without PostgREST, by the owner: rows as dicts, or the one value."""
    values = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in arguments.items()}
    named = ", ".join(f"{name} => %({name})s" for name in values)
    with psycopg.connect(site.installer, row_factory=dict_row) as connection:
        rows = connection.execute(f"SELECT * FROM kbsearch.{function}({named})".encode(), values).fetchall()
    return rows[0][function] if rows and list(rows[0]) == [function] else rows


def plain(value: Any) -> Any:
    """A value as it comes out of JSON."""
    return json.loads(json.dumps(value))


class TestTheFunctionsThemselves:
    @pytest.mark.parametrize("vector", [VECTOR, json.dumps(VECTOR), "[0.25,1,0.3]"], ids=["array", "text", "tight"])
    def test_a_vector_comes_as_an_array_or_as_a_text(
        self, site: Site, direct: PostgREST, shop: int, vector: object
    ) -> None:
        body = {"p_org_id": shop, "p_query_text": QUESTION, "p_query_embedding": vector}
        expected = called(site, PAGE_FUNCTION, p_org_id=shop, p_query_text=QUESTION, p_query_embedding="[0.25,1,0.3]")
        for _ in range(7):  # the sixth run of a prepared statement may get a generic plan
            assert answer(site, direct, body) == expected
        assert expected["legs"]["vector"]["takes_part"]

    def test_every_argument_comes_through(self, site: Site, direct: PostgREST, shop: int) -> None:
        body = {
            "p_org_id": shop,
            "p_query_text": QUESTION,
            "p_query_embedding": VECTOR,
            "p_limit": 4,
            "p_offset": 1,
            "p_cursor": None,
            "p_kinds": ["policy", "faq"],
            "p_kind_quota": {"policy": 3, "faq": 2, "*": 0},
            "p_metadata": {"shelf": 1},
            "p_min_score": 0.1,
            "p_profile": "weighted@1",
            "p_space_id": 1,
            "p_exploratory": False,
            "p_language": "english",
            "p_highlight": True,
        }
        page = answer(site, direct, body)
        assert page == called(site, PAGE_FUNCTION, **{**body, "p_query_embedding": json.dumps(VECTOR)})
        assert 0 < len(page["items"]) <= 4
        assert {item["kind"] for item in page["items"]} <= {"policy", "faq"}
        assert {item["metadata"]["shelf"] for item in page["items"]} == {1}
        assert page["legs"]["keyword"]["languages"] == ["english"]
        assert page["items"][0]["place"] == 2
        described = next(one for one in direct._routines if one.name == PAGE_FUNCTION)
        assert set(body) == {argument.name for argument in described.arguments}

    def test_metadata_may_be_a_list(self, site: Site, direct: PostgREST, shop: int) -> None:
        page = answer(
            site, direct, {"p_org_id": shop, "p_query_text": QUESTION, "p_metadata": [{"shelf": 0}, {"shelf": 1}]}
        )
        assert page["total"] > 0

    def test_order_and_white_space_of_the_body_mean_nothing(self, site: Site, direct: PostgREST, shop: int) -> None:
        page = answer(site, direct, f' {{\n"p_query_text" : "{QUESTION}",\t"p_org_id":{shop}}}\n')
        assert page == called(site, PAGE_FUNCTION, p_org_id=shop, p_query_text=QUESTION)

    def test_null_is_a_value(self, site: Site, direct: PostgREST, shop: int) -> None:
        body = {"p_org_id": shop, "p_query_text": QUESTION, "p_kinds": None, "p_metadata": None, "p_cursor": None}
        assert answer(site, direct, body)["total"] > 0
        for name, code in [("p_limit", "KBLIM"), ("p_org_id", "KBORG")]:
            response = ask(site, direct, {**body, name: None})
            assert (response.status, response.body["code"]) == (400, code)

    def test_an_argument_that_is_unknown_or_missing(self, site: Site, direct: PostgREST, shop: int) -> None:
        for body in (
            {"p_org_id": shop, "p_query_text": QUESTION, "p_question": "x"},
            {"p_query_text": QUESTION},
            {"p_org_id": shop},
            {},
        ):
            response = ask(site, direct, body)
            assert (response.status, response.body["code"]) == (404, "PGRST202")

    def test_highlighted_excerpts_and_languages(self, site: Site, direct: PostgREST, shop: int) -> None:
        body = {"p_org_id": shop, "p_query_text": "Haus", "p_language": "german", "p_highlight": True}
        (item,) = answer(site, direct, body)["items"]
        assert item["excerpt_html"].startswith("<mark>Häuser</mark> &lt;b&gt;und&lt;/b&gt; Wohnungen &amp; mehr")
        (item,) = answer(site, direct, {**body, "p_highlight": False})["items"]
        assert item["excerpt_html"] is None

    def test_pages_to_the_end_are_the_ranking(self, site: Site, direct: PostgREST, shop: int) -> None:
        body: dict[str, Any] = {"p_org_id": shop, "p_query_text": QUESTION, "p_query_embedding": VECTOR}
        ranking = called(site, "search_kb_hybrid_v1", **{**body, "p_query_embedding": json.dumps(VECTOR)}, p_limit=1000)
        assert len(ranking) == 31
        assert any(row["settled_by_identity"] for row in ranking)
        walked, cursor, sizes = [], None, iter([1, 7, 2, 3, 5] * 9)
        while True:
            page = answer(site, direct, {**body, "p_limit": next(sizes), "p_cursor": cursor})
            walked += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert walked == plain(ranking)
        assert page["end_reached"]

    def test_rows(self, site: Site, direct: PostgREST, shop: int) -> None:
        body = {"p_org_id": shop, "p_query_text": QUESTION, "p_query_embedding": VECTOR, "p_limit": 6}
        rows = answer(site, direct, body, "search_kb_hybrid_v1")
        expected = called(site, "search_kb_hybrid_v1", **{**body, "p_query_embedding": json.dumps(VECTOR)})
        assert rows == plain(expected)
        assert [row["place"] for row in rows] == [1, 2, 3, 4, 5, 6]
        assert answer(site, direct, {**body, "p_limit": 0}, "search_kb_hybrid_v1") == []

    def test_a_get(self, site: Site, direct: PostgREST, shop: int) -> None:
        parameters = {
            "p_org_id": str(shop),
            "p_query_text": QUESTION,
            "p_query_embedding": json.dumps(VECTOR),
            "p_kinds": "{policy,faq}",
            "p_metadata": '{"shelf": 1}',
            "p_limit": "3",
        }
        token = claims(site, "service_role")
        response = direct.get(PAGE_FUNCTION, parameters, claims=token)
        assert response.status == 200
        assert response.body == called(
            site,
            PAGE_FUNCTION,
            p_org_id=shop,
            p_query_text=QUESTION,
            p_query_embedding=json.dumps(VECTOR),
            p_kinds=["policy", "faq"],
            p_metadata={"shelf": 1},
            p_limit=3,
        )
        # how supabase-js writes an array into a URL
        braced = direct.get(PAGE_FUNCTION, {**parameters, "p_query_embedding": "{0.25,1,0.3}"}, claims=token)
        assert (braced.status, braced.body["code"]) == (400, "22P02")

    def test_a_limit_of_the_server_cuts_rows_and_no_page(self, site: Site, shop: int) -> None:
        server = site.postgrest("kbsearch", max_rows=2)
        try:
            body = {"p_org_id": shop, "p_query_text": QUESTION, "p_limit": 5}
            assert len(answer(site, server, body, "search_kb_hybrid_v1")) == 2
            assert len(answer(site, server, body)["items"]) == 5
        finally:
            server.close()

    def test_without_a_token_nothing(self, direct: PostgREST, shop: int) -> None:
        response = direct.post(PAGE_FUNCTION, {"p_org_id": shop, "p_query_text": QUESTION})
        assert (response.status, response.body["code"]) == (401, "42501")


class TestTheFunctionForEndUsers:
    def search(self, server: PostgREST, token: Mapping[str, Any] | None, **arguments: Any) -> Response:
        return server.post("search_articles", {"p_query_text": QUESTION, **arguments}, claims=token)

    def test_everybody_sees_their_own_organisation(self, site: Site, public: PostgREST, shop: int, other: int) -> None:
        for org_id, total in [(shop, 31), (other, 7)]:
            response = self.search(public, member(site, org_id), p_query_embedding=VECTOR, p_limit=50)
            assert response.status == 200
            assert response.body["total"] == total
            assert response.body == called(
                site,
                PAGE_FUNCTION,
                p_org_id=org_id,
                p_query_text=QUESTION,
                p_query_embedding=json.dumps(VECTOR),
                p_limit=50,
            )

    def test_pages_to_the_end(self, site: Site, public: PostgREST, shop: int) -> None:
        token, walked, cursor = member(site, shop), [], None
        while True:
            page = self.search(public, token, p_limit=4, p_cursor=cursor, p_highlight=True).body
            walked += [item["article_id"] for item in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        ranking = called(site, "search_kb_hybrid_v1", p_org_id=shop, p_query_text=QUESTION, p_limit=1000)
        assert walked == [row["article_id"] for row in ranking]
        assert len(walked) > 8

    def test_a_cursor_of_another_organisation(self, site: Site, public: PostgREST, shop: int, other: int) -> None:
        cursor = self.search(public, member(site, shop), p_limit=1).body["next_cursor"]
        response = self.search(public, member(site, other), p_limit=1, p_cursor=cursor)
        assert (response.status, response.body["code"]) == (400, "KBCUR")

    def test_no_organisation_can_be_asked_for(self, site: Site, public: PostgREST, shop: int, other: int) -> None:
        response = self.search(public, member(site, shop), p_org_id=other)
        assert (response.status, response.body["code"]) == (404, "PGRST202")

    @pytest.mark.parametrize("metadata", [{}, {"org_id": None}, None])
    def test_a_token_without_an_organisation(self, site: Site, public: PostgREST, metadata: object) -> None:
        token = claims(site, "authenticated", app_metadata=metadata, user_metadata={"org_id": 1})
        response = self.search(public, token)
        assert (response.status, response.body["message"]) == (403, "the token names no organisation")

    def test_without_a_token(self, public: PostgREST) -> None:
        response = self.search(public, None)
        assert (response.status, response.body["code"]) == (401, "42501")

    def test_an_organisation_that_is_gone(self, site: Site, public: PostgREST) -> None:
        response = self.search(public, member(site, 999))
        assert response.status == 404
        assert response.body["code"] == "KBORG"
        assert json.loads(response.body["details"]) == {"org_id": 999}
        assert response.body["hint"]

    def test_users_reach_nothing_else(self, site: Site, public: PostgREST, shop: int) -> None:
        response = public.post(
            "search_organization", {"p_org_id": shop, "p_query_text": QUESTION}, claims=member(site, shop)
        )
        assert (response.status, response.body["code"]) == (403, "42501")
        with psycopg.connect(site.admin, autocommit=True) as connection:
            connection.execute(f"SET ROLE {site.role('authenticated')}".encode())
            for table in ("organizations", "kb_articles", "kb_article_chunks", "kb_postings"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(f"SELECT FROM kbsearch.{table}".encode())
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT kbsearch.{PAGE_FUNCTION}({shop}, 'word')".encode())

    def test_the_timeout_of_the_function_is_the_requests(self, site: Site, shop: int) -> None:
        signature = site.patient.run("SELECT oid::regprocedure::text FROM pg_proc WHERE proname = 'search_articles'")
        site.patient.operate(f"ALTER FUNCTION {signature} SET statement_timeout = '1ms'")
        server = site.postgrest("api")  # a new session plans everything anew: more than a millisecond
        try:
            response = self.search(server, member(site, shop), p_query_embedding=VECTOR)
            assert (response.status, response.body["code"]) == (500, "57014")
        finally:
            server.close()
            site.patient.operate(f"ALTER FUNCTION {signature} SET statement_timeout = '5s'")

    def test_the_timeout_of_a_role_is_the_requests(self, site: Site, shop: int) -> None:
        role = site.role("service_role")
        site.patient.operate(f"ALTER ROLE {role} SET statement_timeout = '1ms'")
        server = site.postgrest("api")
        try:
            body = {"p_org_id": shop, "p_query_text": QUESTION, "p_query_embedding": VECTOR}
            response = server.post("search_organization", body, claims=claims(site, "service_role"))
            assert (response.status, response.body["code"]) == (500, "57014")
        finally:
            server.close()
            site.patient.operate(f"ALTER ROLE {role} RESET statement_timeout")


def test_a_service_names_the_organisation(site: Site, public: PostgREST, shop: int, other: int) -> None:
    for org_id in (shop, other):
        body = {"p_org_id": org_id, "p_query_text": QUESTION, "p_query_embedding": VECTOR}
        response = public.post("search_organization", body, claims=claims(site, "service_role"))
        assert response.status == 200
        expected = called(
            site, PAGE_FUNCTION, p_org_id=org_id, p_query_text=QUESTION, p_query_embedding=json.dumps(VECTOR)
        )
        assert response.body == expected


def test_the_grants_of_the_page_are_what_a_search_takes(site: Site) -> None:
    findings = doctor.examine(
        site.installer, role=site.role("kb_reader"), checks=["rights.search", "rights.write"]
    ).findings
    assert [one.level for one in findings] == [Level.OK, Level.OK]
    assert findings[0].found.endswith("may search")
    assert "may not write" in findings[1].found


def test_the_page_has_the_sql_that_was_run() -> None:
    assert len(sql_blocks()) == 4


WRONG: Mapping[str, dict[str, Any]] = {
    "KBORG": {"p_org_id": 999},
    "KBLIM": {"p_limit": 1001},
    "KBFLT": {"p_kinds": []},
    "KBPRF": {"p_profile": "nonsense@1"},
    "KBQRY": {"p_query_text": "👍", "p_query_embedding": None},
    "KBLNG": {"p_language": "klingon"},
    "KBSPC": {"p_space_id": 999},
    "KBDIM": {"p_query_embedding": [1, 2]},
    "KBVEC": {"p_query_embedding": [0, 0, 0]},
    "KBCUR": {"p_cursor": "damaged"},
    "KBANN": {"p_profile": "near@1"},
    "22P02": {"p_query_embedding": [0.1, None, 0.3]},
    "22003": {"p_limit": 10**30},
    "54000": {"p_query_embedding": [1] * 16001},
}
"""Arguments that are refused, by the code they are refused with."""


def table() -> dict[str, tuple[int, int]]:
    """The page's table of errors: the status of PostgREST and the one that should be, by code."""
    rows = re.findall(r"^\| `(\w{5,8})` \| (\d{3}) \| (\d{3}) \|", PAGE, re.MULTILINE)
    return {code: (int(status), int(wanted)) for code, status, wanted in rows}


@pytest.mark.parametrize("code", WRONG)
def test_the_statuses_of_the_page_are_those_of_postgrest(
    site: Site, direct: PostgREST, public: PostgREST, shop: int, code: str
) -> None:
    wrong = {"p_org_id": shop, "p_query_text": QUESTION, "p_query_embedding": VECTOR, **WRONG[code]}
    response = ask(site, direct, wrong)
    assert response.body["code"] == code, response.body
    assert response.status == table()[code][0]
    if code.startswith("KB"):
        assert json.loads(response.body["details"])
        assert response.body["hint"]
    # the page's own function answers as its second column says, as far as it has the argument
    org_id = wrong.pop("p_org_id")
    own = public.post("search_articles", wrong, claims=member(site, org_id))
    if code.startswith("KB") and own.status != 404:
        assert own.body["code"] == code
        assert own.status == table()[code][1]
        assert json.loads(own.body["details"])
        assert own.body["hint"]
    if code == "KBORG":
        assert (own.status, own.body["code"]) == (404, code)


@pytest.fixture(scope="module")
def disputed(site: Site) -> int:
    """An organisation that escalates a search for the word of one of its articles and the direction of the other."""
    patient = site.patient
    org_id = int(patient.run("INSERT INTO kbsearch.organizations (name) VALUES ('disputed') RETURNING id"))
    space = patient.space()
    for word, vector in (("lamp", "[0, 1, 0]"), ("stone", "[1, 0, 0]")):
        chunk = json.dumps([{"content": word, "embedding": json.loads(vector)}])
        patient.run(
            f"SELECT kbsearch.upsert_kb_article_v1(p_org_id => {org_id}, p_external_ref => '{word}', p_space_id => {space}, p_chunks => '{chunk}')"
        )
    patient.run(
        f"UPDATE kbsearch.organizations SET active_space_id = {space}, ranking_profile = 'arbitrate_reference@1' WHERE id = {org_id}"
    )
    return org_id


def test_an_escalated_search_is_a_page_that_says_so(
    site: Site, direct: PostgREST, public: PostgREST, disputed: int
) -> None:
    question = {"p_query_text": "lamp", "p_query_embedding": [1, 0, 0]}
    page = answer(site, direct, {"p_org_id": disputed, **question})
    assert (page["verdict"], page["items"], page["total"]) == ("escalated", [], 0)
    assert public.post("search_articles", question, claims=member(site, disputed)).body == page
    rows = ask(site, direct, {"p_org_id": disputed, **question}, "search_kb_hybrid_v1")
    assert (rows.status, rows.body["code"]) == (400, "KBESC")
    assert json.loads(rows.body["details"]) == page["manifest"]
    assert rows.body["hint"]
    fused = answer(site, direct, {"p_org_id": disputed, "p_exploratory": True, **question})
    assert (fused["verdict"], fused["total"]) == ("exploratory_fused", 2)


def test_the_table_of_the_page_has_every_error_of_a_search_with_the_status_of_its_class() -> None:
    listed = table()
    # Which argument a search takes too long with, nobody can say.
    searched = {"KBTMO", *(code for code in WRONG if code.startswith("KB"))}
    # A profile's policy is checked when the profile is made, and an escalated search is a page that says so.
    others = {"KBART", "KBCHK", "KBIDX", "KBSNP", "KBSRC", "KBARB", "KBPOL", "KBESC", "KBSEC"}
    assert searched == set(ERRORS_BY_SQLSTATE) - others, "others are not of a search"
    assert listed.keys() == {*WRONG, "KBTMO", "42501", "57014", "PGRST202"}
    for code in searched:
        assert listed[code][1] == ERRORS_BY_SQLSTATE[code].http_status, code
    assert listed["57014"] == (status_of("57014", authenticated=True), StatementTimeoutError.http_status)
    assert listed["42501"][0] == status_of("42501", authenticated=True)


def test_no_code_of_kbsearch_becomes_an_error_of_the_server() -> None:
    assert {status_of(code, authenticated=True) for code in ERRORS_BY_SQLSTATE} == {400}
