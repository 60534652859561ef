"""Vectors from a service with OpenAI's embeddings interface."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from kbsearch.embed.background import Background
from kbsearch.embed.base import Vectors, check_texts
from kbsearch.embed.checked import PROBE, ModelIdentity, Role, refusal
from kbsearch.embed.errors import EmbeddingError, RequestRefusedError, require

if TYPE_CHECKING:
    from kbsearch.embed.endpoint import Endpoint

OPENAI_URL = "https://api.openai.com/v1"
KEY_VARIABLE, OPENAI_KEY_VARIABLE = "KBSEARCH_EMBED_API_KEY", "OPENAI_API_KEY"
URL_VARIABLE, OPENAI_URL_VARIABLE = "KBSEARCH_EMBED_BASE_URL", "OPENAI_BASE_URL"
_OPENAI_ADDRESS = re.compile(r"https://([a-z]+\.)?api\.openai\.com(:443)?(/|$)", re.IGNORECASE)
"""OpenAI's own service, in any region."""
_ATTEMPTS_TO_ISOLATE = 2
"""Of a request that is asked only to find out which text a service cannot take."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and when a request is repeated that failed for a passing reason.

    attempts: in all. wait_first: seconds before the second attempt, doubled before each further one up to wait_longest; up to wait_first is
    added at random, so that callers do not come back all at once. A service's Retry-After is waited for instead where it is longer.
    """

    attempts: int = 6
    wait_first: float = 0.5
    wait_longest: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.attempts < 1 or not 0 <= self.wait_first <= self.wait_longest:
            raise EmbeddingError(
                f"{self} is not usable: it takes an attempt at least, and 0 ≤ wait_first ≤ wait_longest"
            )


class OpenAIEmbedder(ModelIdentity):
    """Embeds by `POST {base_url}/embeddings`, as OpenAI and the services and servers that copy its interface have it.

    What the vectors depend on is the identity: model, revision, dimensions and recipe. The base URL is not part of it, so that a service may
    move; two services that have different weights under one model's name need different revisions.

    Texts are sent in batches, some at the same time. A request that fails for a passing reason (429, 5xx, timeouts, connections) is repeated.
    One that is refused for its texts is halved until the text is found: it is named in a TextsRefusedError, with the vectors of all others.
    Answers are checked: a vector for each text in the order of `index`, one number of dimensions, finite numbers that are not all zero.

    Both an Embedder and an AsyncEmbedder. May be shared between threads and event loops: `concurrency` holds for all of them together.
    Connections are kept open until close(), which is also called at the end of a `with` and of the process.

    Args:
        model: the model's published name, and the name that the service is asked for unless `served_model` is given.
        base_url: of the service, up to `/embeddings`; by default KBSEARCH_EMBED_BASE_URL, OPENAI_BASE_URL or OpenAI's own.
        api_key: sent as a bearer token; by default KBSEARCH_EMBED_API_KEY, or OPENAI_API_KEY if the base URL is OpenAI's own or that of
            OPENAI_BASE_URL: a key goes to nobody it was not meant for. Services of your own often need none.
        dimensions: components of a vector, asked for in each request; None: the model's own, learned from a first request.
        send_dimensions: False if the service does not know the request parameter `dimensions`, and it is only to be checked.
        revision: which weights, if you know.
        name: short name for people; by default the last part of the model's.
        served_model: the name that the service knows the model by, such as a deployment's or a path; not part of the identity.
        query_prefix: put before each question, as the model's documentation says; part of the recipe.
        passage_prefix: put before each passage; part of the recipe.
        query_parameters: further parameters of requests for questions, such as `{"input_type": "query"}`; part of the recipe.
        passage_parameters: further parameters of requests for passages; part of the recipe.
        normalise: divide each vector by its length.
        encoding_format: what is asked for; either is understood, whatever is asked. None asks for nothing.
        batch_texts: texts in a request, at most. A service that refuses so many gets fewer.
        batch_bytes: bytes of text (UTF-8) in a request, at most, unless a single text has more. A token of the usual tokenisers is at least a
            byte, so this bounds tokens, too: OpenAI takes 300,000.
        concurrency: requests at the same time.
        retries: see Retries.
        timeout: seconds for a request with its answer.
        deadline: seconds for all of a call of embed_passages, waiting for another attempt included.
        query_deadline: the same for embed_queries: somebody waits for those.
        headers: sent with each request, such as `api-key` for Azure; their values are treated as secrets.

    Raises:
        MissingExtraError: the extra `remote` is not installed.
        EmbeddingError: an argument is unusable, or OpenAI's own service is to be asked without a key.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
        send_dimensions: bool = True,
        revision: str = "",
        name: str | None = None,
        served_model: str | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
        query_parameters: Mapping[str, Any] | None = None,
        passage_parameters: Mapping[str, Any] | None = None,
        normalise: bool = True,
        encoding_format: Literal["float", "base64"] | None = "float",
        batch_texts: int = 128,
        batch_bytes: int = 1 << 18,
        concurrency: int = 4,
        retries: Retries | None = None,
        timeout: float = 60.0,
        deadline: float = 300.0,
        query_deadline: float = 30.0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Keep the settings; nothing is asked yet."""
        for module in ("httpx2", "tenacity"):
            require(module, "embedding services", extra="remote")
        from kbsearch.embed.endpoint import Endpoint, endpoint_url  # noqa: PLC0415  (needs the extra)

        sent = dimensions if send_dimensions else None
        super().__init__(
            model=model,
            name=name,
            revision=revision,
            dimensions=dimensions,
            query_prefix=query_prefix,
            passage_prefix=passage_prefix,
            normalise=normalise,
            recipe={
                "interface": "openai",
                "requested_dimensions": sent,
                "query_parameters": dict(query_parameters or {}),
                "passage_parameters": dict(passage_parameters or {}),
            },
        )
        for label, number in (("batch_texts", batch_texts), ("batch_bytes", batch_bytes), ("concurrency", concurrency)):
            if number < 1:
                raise EmbeddingError(f"{label} must be at least 1, not {number}")
        for label, seconds in (("timeout", timeout), ("deadline", deadline), ("query_deadline", query_deadline)):
            if not seconds > 0:
                raise EmbeddingError(f"{label} must be a positive number of seconds, not {seconds}")
        address, key = _service(base_url, api_key)
        url, sent_headers = endpoint_url(address), _headers(headers or {}, key)
        request: dict[str, Any] = {"model": served_model or model}
        if sent is not None:
            request["dimensions"] = sent
        if encoding_format is not None:
            request["encoding_format"] = encoding_format
        self._requests: dict[Role, dict[str, Any]] = {
            "query": {**request, **_parameters(query_parameters or {})},
            "passage": {**request, **_parameters(passage_parameters or {})},
        }
        self._batch_texts, self._batch_bytes, self._concurrency = batch_texts, batch_bytes, concurrency
        self._deadlines: dict[Role, float] = {"passage": deadline, "query": query_deadline}
        self._where = str(url.copy_with(query=None))

        def endpoint() -> Endpoint:
            # A closure and no attribute: what shows an object's attributes does not show the key.
            return Endpoint(
                url, headers=sent_headers, concurrency=concurrency, timeout=timeout, retries=retries or Retries()
            )

        self._new_endpoint = endpoint
        self._lock = threading.Lock()
        self._session: tuple[Background, Endpoint] | None = None
        self._accepted = False

    def __repr__(self) -> str:
        """Model and address; no key."""
        return f"{type(self).__name__}({self._model!r}, endpoint={self._where!r})"

    def __enter__(self) -> Self:
        """Return the embedder itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections and cancel what still runs; the next call opens new ones."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session[0].close()

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages: float32, shape (len(texts), dimensions).

        Raises:
            ValueError: a text is blank; TypeError: one is no string.
            TextsRefusedError: some texts have no vector; the error holds those of all others.
            EmbeddingError: the service fails or cannot be trusted; the error holds the vectors that came before.
        """
        return self._run(texts, "passage")

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions: float32, shape (len(texts), dimensions); errors as of embed_passages."""
        return self._run(texts, "query")

    async def aembed_passages(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages, without blocking the loop."""
        return await self._arun(texts, "passage")

    async def aembed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions, without blocking the loop."""
        return await self._arun(texts, "query")

    def _run(self, texts: Sequence[str], role: Role) -> Vectors:
        check_texts(texts)
        background, endpoint = self._open()
        return background.run(self._embed(endpoint, texts, role))

    async def _arun(self, texts: Sequence[str], role: Role) -> Vectors:
        check_texts(texts)
        background, endpoint = self._open()
        return await background.arun(self._embed(endpoint, texts, role))

    def _open(self) -> tuple[Background, Endpoint]:
        with self._lock:
            if self._session is None or not self._session[0].usable:
                endpoint = self._new_endpoint()
                self._session = Background(endpoint.close), endpoint
            return self._session

    def _discover(self) -> None:
        self._run([PROBE], "passage")

    # In the loop

    async def _embed(self, endpoint: Endpoint, texts: Sequence[str], role: Role) -> Vectors:
        seconds = self._deadlines[role]
        until = asyncio.get_running_loop().time() + seconds
        job = _Job(endpoint, role, [self._prefixes[role] + text for text in texts], until)
        trouble: EmbeddingError | None = None
        try:
            async with asyncio.timeout(seconds):
                await self._embed_all(job)
        except* TimeoutError:
            trouble = EmbeddingError(
                f"{self._where} did not answer everything within {seconds:g} s",
                hint="Give it more time (deadline, query_deadline), or fewer texts at once.",
            )
        except* EmbeddingError as errors:
            trouble = next(one for one in errors.exceptions if isinstance(one, EmbeddingError))
        if trouble is not None:
            trouble.vectors = job.vectors
            trouble.failures = {position: job.failures.get(position, str(trouble)) for position in job.missing()}
            raise trouble
        vectors = job.vectors
        if vectors is None:
            vectors = np.full((len(texts), self._dimensions or 0), np.nan, dtype=np.float32)
        if job.failures:
            raise refusal(job.failures, vectors, self._model)
        return vectors

    async def _embed_all(self, job: _Job) -> None:
        batches = self._batches(job)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._concurrency, len(job.inputs))):
                group.create_task(self._embed_some(job, batches))
        if self._dimensions is None:  # there was nothing to ask
            await self._probe(job)

    async def _embed_some(self, job: _Job, batches: Iterator[list[int]]) -> None:
        """Embed batches as long as there are any; several of these share one iterator."""
        for positions in batches:
            await self._embed_batch(job, positions)

    def _batches(self, job: _Job) -> Iterator[list[int]]:
        """Positions of texts, as many as a request may have; the limits are read anew for every batch."""
        batch: list[int] = []
        size = 0
        for position, text in enumerate(job.inputs):
            try:
                length = len(text.encode())
            except UnicodeEncodeError:
                job.failures[position] = "it has half of a surrogate pair, which is no text"
                continue
            if batch and (len(batch) >= self._batch_texts or size + length > self._batch_bytes):
                yield batch
                batch, size = [], 0
            batch.append(position)
            size += length
        if batch:
            yield batch

    async def _embed_batch(self, job: _Job, positions: list[int], *, isolating: bool = False) -> None:
        inputs = [job.inputs[position] for position in positions]
        try:
            vectors, failures = await self._ask(job, inputs, attempts=_ATTEMPTS_TO_ISOLATE if isolating else None)
        except RequestRefusedError as error:
            if not isolating and (error.server_error or not self._accepted):
                await self._probe(job)
            if len(positions) == 1:
                job.failures[positions[0]] = str(error)
                return
        else:
            job.store(positions, vectors, failures)
            return
        half = (len(positions) + 1) // 2
        for part in (positions[:half], positions[half:]):
            await self._embed_batch(job, part, isolating=True)
        if not any(position in job.failures for position in positions):
            self._batch_texts = min(self._batch_texts, half)  # no text was at fault: there were too many of them

    async def _probe(self, job: _Job) -> None:
        """Ask for a text that no service refuses; raise EmbeddingError if this one does: then it is not about the texts."""
        try:
            await self._ask(job, [self._prefixes[job.role] + PROBE], attempts=_ATTEMPTS_TO_ISOLATE)
        except RequestRefusedError as error:
            raise EmbeddingError(
                f"{error}, whatever the text",
                hint=None
                if error.server_error
                else "Check the model's name, and whether it can give the dimensions asked for.",
            ) from error

    async def _ask(self, job: _Job, inputs: list[str], *, attempts: int | None) -> tuple[Vectors, dict[int, str]]:
        rows = await job.endpoint.ask(
            {**self._requests[job.role], "input": inputs}, len(inputs), attempts=attempts, until=job.until
        )
        checked = self._check(rows, len(inputs))
        self._accepted = True
        return checked


@dataclass(slots=True)
class _Job:
    """What one call embeds. until: on the loop's clock. vectors: NaN where there is none yet; None while there are none at all."""

    endpoint: Endpoint
    role: Role
    inputs: list[str]
    until: float
    failures: dict[int, str] = field(default_factory=dict)
    vectors: Vectors | None = None

    def store(self, positions: Sequence[int], vectors: Vectors, failures: Mapping[int, str]) -> None:
        """Keep the vectors of a batch, and why some of its texts have none (by their place in the batch)."""
        if self.vectors is None:
            self.vectors = np.full((len(self.inputs), vectors.shape[1]), np.nan, dtype=np.float32)
        self.vectors[positions] = vectors
        self.failures |= {positions[place]: reason for place, reason in failures.items()}

    def missing(self) -> list[int]:
        """Positions of the texts without vector."""
        if self.vectors is None:
            return list(range(len(self.inputs)))
        return [int(position) for position in np.flatnonzero(np.isnan(self.vectors[:, 0]))]


def _service(base_url: str | None, api_key: str | None) -> tuple[str, str | None]:
    """Base URL and key: what was given, else what the environment has for that very service."""
    of_openai = os.environ.get(OPENAI_URL_VARIABLE)
    address = base_url or os.environ.get(URL_VARIABLE) or of_openai or OPENAI_URL
    key = api_key or os.environ.get(KEY_VARIABLE)
    own = _OPENAI_ADDRESS.match(address) is not None
    if not key and (own or address == of_openai):
        key = os.environ.get(OPENAI_KEY_VARIABLE)
    if not key and own:
        raise EmbeddingError(
            "OpenAI's service needs an API key",
            hint=f"Set {OPENAI_KEY_VARIABLE} or {KEY_VARIABLE}; for another service name its base URL.",
        )
    return address, key.strip() if key else None


def _parameters(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Further parameters of a request: JSON values, and none that has an argument of its own."""
    if own := sorted({"model", "input", "dimensions", "encoding_format"} & set(given)):
        raise EmbeddingError(f"the parameter {own[0]!r} of a request has an argument of its own or is the text itself")
    try:
        json.dumps(dict(given), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise EmbeddingError(f"the parameters {dict(given)} cannot be sent as JSON: {error}") from error
    return given


def _headers(given: Mapping[str, str], key: str | None) -> dict[str, str]:
    """The headers of a request; their values must be what HTTP can carry, and are not repeated when they are not."""
    headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **given}
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable():
            what = "the API key" if value == f"Bearer {key}" else f"the header {name!r}"
            raise EmbeddingError(f"{what} has characters that a request cannot carry: line breaks, or none of ASCII")
    return headers
