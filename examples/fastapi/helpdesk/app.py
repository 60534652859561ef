"""A search service over kbsearch: `uvicorn helpdesk.app:app`, with the database in DATABASE_URL."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Query, Request, Response
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel, ConfigDict

from helpdesk import problems
from kbsearch import AsyncKBSearch
from kbsearch.embed import LocalEmbedder

SEARCH_SECONDS = 2.0
"""What a request may take in the database."""
POOL_SECONDS = 1.0
"""How long it waits for a connection before."""


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """One pool and one client for all requests."""
    async with AsyncConnectionPool(
        os.environ["DATABASE_URL"],
        min_size=1,
        max_size=int(os.environ.get("POOL_SIZE", "8")),
        timeout=POOL_SECONDS,
        # Nothing is prepared on the server, so that a pooler in transaction mode may stand between.
        kwargs={"prepare_threshold": None},
    ) as pool:
        yield {"pool": pool, "kb": AsyncKBSearch(pool, embedder=LocalEmbedder(), timeout=SEARCH_SECONDS)}


app = FastAPI(title="Help desk search", lifespan=lifespan, responses=problems.RESPONSES)
problems.install(app)


async def client(request: Request) -> AsyncKBSearch:
    """The client that lifespan() made."""
    found: AsyncKBSearch = request.state.kb
    return found


async def organization(x_organization: Annotated[int, Header(ge=1)]) -> int:
    """The organisation whose articles the caller may search.

    A stand-in: anybody can write a header. A real application takes it from what its authentication has verified (the claims of a token, the
    user's row of a session) and never from the request itself. Nothing else has to change.
    """
    return x_organization


class Hit(BaseModel):
    """An article found."""

    model_config = ConfigDict(from_attributes=True)

    place: int
    external_ref: str | None
    kind: str
    title: str | None
    excerpt_html: str | None
    """HTML that may be shown as it is: the article's text escaped, the question's words in <mark>."""
    score: float


class Hits(BaseModel):
    """A page of the ranking, and the address of the next one."""

    items: list[Hit]
    total: int
    next: str | None


@app.get("/search")
async def search(
    request: Request,
    response: Response,
    kb: Annotated[AsyncKBSearch, Depends(client)],
    organization_id: Annotated[int, Depends(organization)],
    q: Annotated[str, Query(min_length=1, max_length=400, description='Words, "a phrase", -exclusion')],
    kind: Annotated[list[str] | None, Query(description="Only articles of these kinds")] = None,
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
    cursor: Annotated[str | None, Query(description="From `next` of the page before")] = None,
) -> Hits:
    """Rank the organisation's articles by meaning and by words."""
    page = await kb.search(organization_id, q, kinds=kind, limit=limit, cursor=cursor, highlight=True)
    following = None
    if page.next_cursor is not None:
        following = str(request.url.include_query_params(cursor=page.next_cursor))
        response.headers["Link"] = f'<{following}>; rel="next"'
    return Hits(items=[Hit.model_validate(item) for item in page.items], total=page.total, next=following)
