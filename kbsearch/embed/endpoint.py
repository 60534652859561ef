"""One request to an OpenAI-compatible endpoint, `POST {base_url}/embeddings`: retries, and what its answers and refusals mean.

The interface is the one of OpenAI's API reference ("Create embeddings"), which Azure, vLLM, llama.cpp, Ollama, Text Embeddings Inference,
LiteLLM and others have, too.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import email.utils
import json
import logging
import random
import re
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC
from http import HTTPStatus
from typing import Any

import httpx2
import numpy as np
import tenacity

from kbsearch.embed.errors import EmbeddingError, RequestRefusedError
from kbsearch.embed.remote import KEY_VARIABLE, OPENAI_KEY_VARIABLE, Retries

logger = logging.getLogger("kbsearch.embed")

_CONNECT_SECONDS = 10.0
_BYTES_PER_VECTOR = 1 << 20
"""An answer may have so many for each text and once more: 2,000 numbers in JSON are under 50 kB."""
_SHOWN = 300
"""Characters of a service's own words that a message repeats."""
_SECRET = 8
"""Characters that a header's value has at least if it may be a secret."""
_REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
_NO_CREDIT = "insufficient_quota"
"""Code of a 429 that does not pass by itself: the account has no credit."""


class _PassingError(EmbeddingError):
    """What may be over at the next attempt."""

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        """Keep the message, the status and the seconds that the service asks to wait."""
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


def endpoint_url(base_url: str) -> httpx2.URL:
    """The address that embeddings are asked from, for a base URL; a query stays where it is.

    Raises EmbeddingError when it is no HTTP address, or holds credentials.
    """
    try:
        url = httpx2.URL(base_url.strip())
    except (httpx2.InvalidURL, UnicodeError, ValueError) as error:
        raise EmbeddingError(f"the base URL is not usable: {error}") from error
    if url.userinfo:
        raise EmbeddingError(
            "the base URL holds a user's name or password",
            hint="Addresses are shown and logged: give credentials as API key or header.",
        )
    if url.scheme not in ("http", "https") or not url.host:
        raise EmbeddingError(
            f"{base_url!r} is no HTTP address",
            hint="A base URL looks like http://localhost:8080/v1 or https://api.openai.com/v1.",
        )
    path = url.path.rstrip("/").removesuffix("/embeddings")
    return url.copy_with(path=f"{path}/embeddings", fragment=None)


class Endpoint:
    """Speaks to one endpoint, in the loop that first uses it.

    Args:
        url: the whole address, as endpoint_url gives it.
        headers: sent with each request; none of their values is ever shown.
        concurrency: requests at the same time, at most.
        timeout: seconds for one request with its answer.
        retries: of requests that failed for a passing reason.
    """

    def __init__(
        self,
        url: httpx2.URL,
        *,
        headers: Mapping[str, str],
        concurrency: int,
        timeout: float,
        retries: Retries,
    ) -> None:
        """Make the client; it connects with the first request."""
        self._url, self._timeout, self._retries = url, timeout, retries
        self.where = str(url.copy_with(query=None))
        # A bearer token with and without its scheme; what is short is no secret and would make holes in every message.
        parts = {part for value in headers.values() for part in (value, *value.split()) if len(part) >= _SECRET}
        self._secrets = sorted(parts, key=len, reverse=True)
        self._slots = asyncio.Semaphore(concurrency)
        self._client = httpx2.AsyncClient(
            headers=headers,
            follow_redirects=False,  # a key is for the host it was given for, and a POST redirected becomes a GET
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=concurrency),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def ask(self, request: Mapping[str, Any], count: int, *, attempts: int | None, until: float) -> list[Any]:
        """Send a request until it is answered, and return what came for each of its `count` texts, in their order.

        attempts: None for what the settings say. until: on the loop's clock; no attempt is waited for that would begin later.

        Raises:
            RequestRefusedError: the service refuses the request, or has a server error (500) that does not pass.
            EmbeddingError: anything else; trying again is of no use now.
        """
        retries = self._retries
        attempts = attempts or retries.attempts
        back_off = tenacity.wait_exponential(retries.wait_first, retries.wait_longest) + tenacity.wait_random(
            0, retries.wait_first
        )

        def wait(state: tenacity.RetryCallState) -> float:
            own = back_off(state)
            asked = getattr(state.outcome and state.outcome.exception(), "retry_after", None)
            return own if asked is None or asked <= own else asked + random.uniform(0, retries.wait_first)  # noqa: S311  (no secret)

        def log(state: tenacity.RetryCallState) -> None:
            error = state.outcome and state.outcome.exception()
            logger.info("%s; attempt %d in %.1f s", error, state.attempt_number + 1, state.upcoming_sleep)

        loop = asyncio.get_running_loop()
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_PassingError),
            stop=lambda state: state.attempt_number >= attempts or loop.time() + state.upcoming_sleep >= until,
            wait=wait,
            before_sleep=log,
            sleep=asyncio.sleep,
            reraise=True,
        )
        try:
            return await retrying(self._attempt, request, count)
        except _PassingError as error:
            tried = int(retrying.statistics["attempt_number"])
            often = f"tried {tried} times" if tried > 1 else "tried once"
            if error.status == HTTPStatus.INTERNAL_SERVER_ERROR and tried == attempts:
                raise RequestRefusedError(f"{error} ({often})", server_error=True) from error
            if tried < attempts:
                asks = "" if error.retry_after is None else f", and it asks to wait {error.retry_after:g} s"
                often += f"; no time is left for another attempt{asks}"
            raise EmbeddingError(
                f"{error} ({often})",
                detail={"endpoint": self.where, "attempts": tried, "status": error.status},
                hint="Try again later, or give it more time.",
            ) from error

    async def _attempt(self, request: Mapping[str, Any], count: int) -> list[Any]:
        async with self._slots:
            try:
                async with asyncio.timeout(self._timeout) as limit:
                    status, headers, body = await self._exchange(request, (count + 1) * _BYTES_PER_VECTOR)
            except TimeoutError as error:
                if not limit.expired():
                    raise
                raise _PassingError(f"{self.where} gave no whole answer within {self._timeout:g} s") from error
            except httpx2.ConnectTimeout as error:
                raise _PassingError(f"{self.where} took no connection within {_CONNECT_SECONDS:g} s") from error
            except (httpx2.NetworkError, httpx2.RemoteProtocolError, httpx2.ProxyError) as error:
                raise self._lost(error) from error
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise EmbeddingError(
                    f"{self.where} cannot be asked: {self._clean(str(error)) or type(error).__name__}"
                ) from error
        if status != HTTPStatus.OK:
            raise self._refusal(status, headers, body)
        return self._rows(self._json(body), count)

    async def _exchange(self, request: Mapping[str, Any], limit: int) -> tuple[int, httpx2.Headers, bytes]:
        """Send a request and read the answer, up to a limit of bytes."""
        body = bytearray()
        async with self._client.stream("POST", self._url, json=request) as response:
            async for part in response.aiter_bytes():
                body += part
                if len(body) > limit:
                    raise EmbeddingError(f"{self.where} answered with over {limit:,} bytes: those are no vectors")
            return response.status_code, response.headers, bytes(body)

    # What went wrong

    def _lost(self, error: httpx2.HTTPError) -> EmbeddingError:
        """What a connection that could not be made or kept means."""
        reason = self._clean(str(error)) or type(error).__name__
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ssl.SSLCertVerificationError):
                return EmbeddingError(
                    f"the certificate of {self.where} is not trusted: {reason}",
                    hint="Install its authority's certificate in the system, or name it in SSL_CERT_FILE.",
                )
            cause = cause.__cause__ or cause.__context__
        return _PassingError(f"the connection to {self.where} failed: {reason}")

    def _refusal(self, status: int, headers: httpx2.Headers, body: bytes) -> EmbeddingError:
        """The error that an answer with another status than 200 is."""
        code, words = self._words(body)
        what = f"{self.where} answered {status}" + (f": {words}" if words else "")
        detail = {"endpoint": self.where, "status": status}
        if status in _REFUSED:
            return RequestRefusedError(what)
        if status == HTTPStatus.TOO_MANY_REQUESTS and code == _NO_CREDIT:
            return EmbeddingError(what, detail=detail, hint="The account has no credit left: waiting does not help.")
        if status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return _PassingError(what, status=status, retry_after=_retry_after(headers))
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            hint = (
                "Check the API key, and that it may use this model."
                if self._secrets
                else f"No API key was sent: set {KEY_VARIABLE}. ({OPENAI_KEY_VARIABLE} is for OpenAI's own service only.)"
            )
        elif status == HTTPStatus.NOT_FOUND:
            hint = "Check the base URL (it ends before /embeddings, mostly in /v1) and the model's name."
        elif HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            target = ""
            with suppress(httpx2.InvalidURL, KeyError):
                target = str(self._url.join(headers["location"]).copy_with(query=None, userinfo=b"", fragment=None))
            what = f"{self.where} answered {status}: it redirects to {self._clean(target) or 'nowhere'}"
            hint = "Redirects are not followed: give the base URL of the service itself."
        else:
            hint = "Is this the base URL of an OpenAI-compatible service?"
        return EmbeddingError(what, detail=detail, hint=hint)

    def _words(self, body: bytes) -> tuple[str | None, str]:
        """The code and the message of an error's body, in whichever of the usual forms it has."""
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            return None, self._clean(_page(body))
        code = None
        for key in ("error", "message", "detail"):
            if isinstance(said, dict) and said.get(key) is not None:
                code = said.get("code", code)
                said = said[key]
        text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
        return code if isinstance(code, str) else None, self._clean(text)

    def _clean(self, text: str) -> str:
        """What a service said, as it may be shown: without secrets and control characters, on one line, shortened."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        text = " ".join("".join(one if one.isprintable() else " " for one in text).split())
        return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"

    # Answers

    def _json(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise self._malformed(f"is no JSON but {self._clean(_page(body)) or 'empty'}") from error

    def _rows(self, answer: Any, count: int) -> list[Any]:
        """The vectors of an answer in the order of the texts: each entry has its text's position as `index`."""
        entries = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self._malformed("has no list of objects under 'data'" + self._instead(answer))
        if len(entries) != count:
            raise self._malformed(f"has {len(entries)} vectors for {count} texts")
        if count == 1:
            return [self._vector(entries[0])]
        rows: dict[int, Any] = {}
        for entry in entries:
            index = entry.get("index")
            if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
                raise self._malformed(f"has an entry with the index {index!r}, expected is 0 … {count - 1}", order=True)
            if index in rows:
                raise self._malformed(f"has two entries with the index {index}", order=True)
            rows[index] = self._vector(entry)
        return [rows[index] for index in range(count)]

    def _vector(self, entry: Mapping[str, Any]) -> Any:
        value = entry.get("embedding")
        if not isinstance(value, str):
            if isinstance(value, list):
                return value
            raise self._malformed(f"has a {type(value).__name__} under 'embedding', not a list of numbers or base64")
        try:
            return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
        except (binascii.Error, ValueError) as error:
            raise self._malformed(f"has no base64 of 32-bit numbers under 'embedding': {error}") from error

    def _instead(self, answer: Any) -> str:
        """What an answer with status 200 says in place of vectors."""
        if isinstance(answer, dict) and (said := answer.get("error") or answer.get("message") or answer.get("detail")):
            return f": {self._clean(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False))}"
        return ""

    def _malformed(self, what: str, *, order: bool = False) -> EmbeddingError:
        hint = (
            "Which vector belongs to which text cannot be told: embed one text at a time (batch_texts=1)."
            if order
            else "Is this the base URL of an OpenAI-compatible service?"
        )
        return EmbeddingError(f"the answer of {self.where} {what}", detail={"endpoint": self.where}, hint=hint)


def _page(body: bytes) -> str:
    """What a body is that should be JSON: an HTML page with its title, or its beginning."""
    text = body[:4096].decode("utf-8", "replace").strip()
    if not text.startswith("<"):
        return text
    title = re.search(r"<title[^>]*>(.*?)</title", text, re.IGNORECASE | re.DOTALL)
    return f"an HTML page, {title[1].strip()!r}" if title else "an HTML page"


def _retry_after(headers: httpx2.Headers) -> float | None:
    """Seconds that a service asks to wait (RFC 9110, 10.2.3: a number or a date); None if it does not say."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,9}(\.\d+)?", value, re.ASCII):
            return float(value) / unit
    with suppress(ValueError, OverflowError):
        when = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return max((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - time.time(), 0.0)
    return None
