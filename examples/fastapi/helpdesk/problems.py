"""Every error as a problem document: application/problem+json, RFC 9457."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import psycopg
from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from kbsearch import KBSearchError

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """What an error is answered with; `code` is kbsearch's (docs/errors.md), `hint` says what to do, `errors` which parameters were wrong."""

    status: int
    title: str
    detail: str | None = None
    code: str | None = None
    hint: str | None = None
    errors: list[dict[str, Any]] | None = None


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}}
    for status in (400, 404, 422, 503, 504)
}
"""For the OpenAPI document."""


def install(app: FastAPI) -> None:
    """Answer with problem documents, whatever goes wrong."""

    @app.exception_handler(KBSearchError)
    async def refused(_: Request, error: KBSearchError) -> JSONResponse:
        if error.http_status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # Not the caller's to put right: the details are for the log.
            log.error("%s: %s (%s)", error.sqlstate, error, error.hint)
            return answer(error.http_status, code=error.sqlstate)
        return answer(error.http_status, detail=str(error), code=error.sqlstate, hint=error.hint)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        wrong = [{"parameter": str(one["loc"][-1]), "problem": one["msg"]} for one in jsonable_encoder(error.errors())]
        return answer(HTTPStatus.UNPROCESSABLE_ENTITY, detail="The request has invalid parameters.", errors=wrong)

    @app.exception_handler(psycopg.OperationalError)
    async def unavailable(_: Request, error: psycopg.OperationalError) -> JSONResponse:
        # No free connection in time (psycopg_pool.PoolTimeout is one of these), or no database.
        log.error("the database is unavailable: %s", error)
        return answer(HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "1"})

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        return answer(error.status_code, detail=error.detail, headers=error.headers)

    @app.exception_handler(Exception)
    async def failed(_: Request, __: Exception) -> JSONResponse:
        return answer(HTTPStatus.INTERNAL_SERVER_ERROR)  # the server logs the traceback


def answer(status: int, *, headers: Mapping[str, str] | None = None, **members: Any) -> JSONResponse:
    """A problem without a type of its own: the title is the status's."""
    problem = Problem(status=status, title=HTTPStatus(status).phrase, **members)
    return JSONResponse(problem.model_dump(exclude_none=True), status, headers, MEDIA_TYPE)
