"""Runs the service on DATABASE_URL, a database with kbsearch in it, and asks it as its users would: `python check.py`."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from fastapi.testclient import TestClient

from helpdesk.app import POOL_SECONDS, SEARCH_SECONDS, app, client

DSN = os.environ["DATABASE_URL"]
ARTICLES = Path(__file__).with_name("articles.jsonl")
HIDDEN = "Nobody elsewhere may find the word xylophone."
PROBLEM = "application/problem+json"


def prepare(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    """Ingest the articles as the README says, and one article of another organisation; the ids of both."""
    command = [sys.executable, "-m", "kbsearch", "ingest", ARTICLES.name, "--org", "northwind"]
    environment = {**os.environ, "KBSEARCH_DSN": DSN}
    subprocess.run(command, cwd=ARTICLES.parent, env=environment, check=True, stdout=subprocess.DEVNULL)
    ours = connection.execute("SELECT o.id FROM kbsearch.organizations AS o WHERE o.name = 'northwind'").fetchone()
    theirs = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('other') RETURNING id").fetchone()
    assert ours and theirs
    connection.execute(
        "SELECT kbsearch.upsert_kb_article_v1(p_org_id => %s, p_title => 'Secret', p_body => %s)", [theirs[0], HIDDEN]
    )
    return ours[0], theirs[0]


def pages(http: TestClient, headers: dict[str, str], url: str) -> Iterator[dict[str, Any]]:
    """Follow `next` to the end."""
    following: str | None = url
    asked = set()
    while following is not None:
        assert following not in asked, f"{following} is its own next page"
        asked.add(following)
        response = http.get(following, headers=headers)
        assert response.status_code == 200, response.text
        page: dict[str, Any] = response.json()
        following = page["next"]
        assert response.headers.get("Link") == (following and f'<{following}>; rel="next"')
        yield page


def check_pages(http: TestClient, headers: dict[str, str]) -> None:
    """Pages of any size are the ranking, cut."""
    question = "/search?q=how do I sign in without my password&kind=article&kind=faq"
    (whole,) = pages(http, headers, f"{question}&limit=50")
    ranking = [hit["external_ref"] for hit in whole["items"]]
    kinds = {one["id"]: one["kind"] for one in map(json.loads, ARTICLES.read_text(encoding="utf-8").splitlines())}
    assert sorted(ranking) == sorted(name for name, kind in kinds.items() if kind != "policy"), ranking
    assert [hit["place"] for hit in whole["items"]] == list(range(1, len(ranking) + 1))
    # Two words of the passkey's article are in the question, and its meaning is.
    assert ranking[0] == "passkeys", ranking
    for limit in (1, 4, 5):
        cut = list(pages(http, headers, f"{question}&limit={limit}"))
        assert [hit["external_ref"] for page in cut for hit in page["items"]] == ranking, limit
        assert all(len(page["items"]) == limit for page in cut[:-1]) and cut[-1]["items"], limit
        assert {page["total"] for page in cut} == {len(ranking)}


def check_excerpts(http: TestClient, headers: dict[str, str]) -> None:
    """Words are marked, the text is escaped."""
    (hit,) = http.get('/search?q="at least" fingerprint', headers=headers).json()["items"]
    assert "<mark>fingerprint</mark>" in hit["excerpt_html"], hit
    assert "face &amp; signs" in hit["excerpt_html"] and "<at" not in hit["excerpt_html"], hit


def check_tenants(http: TestClient, ours: int, theirs: int) -> None:
    """Each organisation finds its own."""
    found = {
        organization: [
            hit["title"]
            for hit in http.get('/search?q="xylophone"', headers={"X-Organization": str(organization)}).json()["items"]
        ]
        for organization in (ours, theirs)
    }
    assert found == {ours: [], theirs: ["Secret"]}, found


def check_problems(http: TestClient, headers: dict[str, str]) -> None:
    """Every refusal has the status that says whose fault it is, and says what to do."""
    first = http.get("/search?q=password&limit=2", headers=headers).json()["next"]
    cursor = first.partition("cursor=")[2]
    for url, status, code in (
        ("/search?q=payment&limit=2&cursor=" + cursor, 400, "KBCUR"),  # of another question
        ("/search?q=password&cursor=nonsense", 400, "KBCUR"),
        ("/search?q=pass%00word", 422, "KBQRY"),
        ("/search?q=password&limit=0", 422, None),
        ("/search?q=password&limit=many", 422, None),
        ("/search", 422, None),
        ("/elsewhere", 404, None),
    ):
        response = http.get(url, headers=headers)
        problem = response.json()
        assert response.status_code == problem["status"] == status, (url, response.text)
        assert response.headers["Content-Type"] == PROBLEM, url
        assert problem.get("code") == code, (url, problem)
        assert problem["title"] and problem["detail"], (url, problem)
    wrong = http.get("/search?q=x&limit=99", headers={"X-Organization": "none"}).json()["errors"]
    assert [one["parameter"] for one in wrong] == ["x-organization", "limit"], wrong
    missing = http.get("/search?q=password", headers={"X-Organization": "999999"})
    assert (missing.status_code, missing.json()["code"]) == (404, "KBORG"), missing.text


def check_failure(http: TestClient, headers: dict[str, str]) -> None:
    """A fault of the service itself is a problem document too, and says nothing of what happened inside."""

    def fail() -> None:
        raise RuntimeError("inside")

    app.dependency_overrides[client] = fail
    response = http.get("/search?q=password", headers=headers)
    app.dependency_overrides.clear()
    assert response.status_code == 500 and response.headers["Content-Type"] == PROBLEM
    assert response.json() == {"status": 500, "title": "Internal Server Error"}


def check_document(http: TestClient) -> None:
    """The OpenAPI document says what errors look like."""
    described = http.get("/openapi.json").json()["paths"]["/search"]["get"]["responses"]
    assert {status for status, one in described.items() if PROBLEM in one["content"]} == {
        "400",
        "404",
        "422",
        "503",
        "504",
    }


def check_concurrency(http: TestClient, headers: dict[str, str]) -> None:
    """Requests at the same time, over fewer connections, get each its own answer: no connection keeps anything of a request."""
    urls = [f"/search?limit=3&q={word}" for word in ("password", "invoice", "export", "project", "card", "device")]
    alone = [http.get(url, headers=headers).json() for url in urls]
    with ThreadPoolExecutor(max_workers=len(urls)) as threads:
        together = list(threads.map(lambda url: http.get(url, headers=headers).json(), urls * 8))
    assert together == alone * 8


@contextmanager
def locked(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Nobody can search meanwhile, or at most for ten seconds."""
    with connection.transaction():
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = '10s'")
        connection.execute("LOCK TABLE kbsearch.kb_articles")
        yield


def check_timeout(http: TestClient, headers: dict[str, str], connection: psycopg.Connection[Any]) -> None:
    """A request that the database does not answer in time is given up; the next one is served."""
    with locked(connection):
        started = time.monotonic()
        late = http.get("/search?q=password", headers=headers)
        took = time.monotonic() - started
    assert late.status_code == 504 and late.json()["code"] == "57014", late.text
    assert "hint" not in late.json() and "detail" not in late.json(), "what happens inside is nobody's business"
    assert SEARCH_SECONDS <= took < SEARCH_SECONDS + POOL_SECONDS + 2, took
    assert http.get("/search?q=password", headers=headers).status_code == 200


def check_unavailable(http: TestClient, headers: dict[str, str]) -> None:
    """When all connections are taken for too long, callers are asked to come again."""
    # The service runs in the test client's event loop, so that the pool can be emptied by what runs there, too.
    pool = http.app_state["pool"]
    borrowed = [http.portal.call(pool.getconn) for _ in range(pool.max_size)]  # type: ignore[union-attr]
    try:
        busy = http.get("/search?q=password", headers=headers)
    finally:
        for one in borrowed:
            http.portal.call(pool.putconn, one)  # type: ignore[union-attr]
    assert busy.status_code == 503 and busy.headers["Retry-After"] == "1", busy.text
    assert busy.headers["Content-Type"] == PROBLEM


def main() -> None:
    """All checks."""
    os.environ["POOL_SIZE"] = "2"
    with psycopg.connect(DSN, autocommit=True) as connection, TestClient(app, raise_server_exceptions=False) as http:
        ours, theirs = prepare(connection)
        headers = {"X-Organization": str(ours)}
        check_pages(http, headers)
        check_excerpts(http, headers)
        check_tenants(http, ours, theirs)
        check_problems(http, headers)
        check_failure(http, headers)
        check_document(http)
        check_concurrency(http, headers)
        check_timeout(http, headers, connection)
        check_unavailable(http, headers)
    print("fastapi: pages, excerpts, tenants, problems, concurrent requests, timeouts are right")


if __name__ == "__main__":
    main()
