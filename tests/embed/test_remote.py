from __future__ import annotations

import asyncio
import base64
import email.utils
import gc
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httpx2")
pytest.importorskip("tenacity")

from kbsearch.embed import (
    AsyncEmbedder,
    Embedder,
    EmbeddingError,
    MissingExtraError,
    OpenAIEmbedder,
    Retries,
    TextsRefusedError,
    Vectors,
)
from tests.embed.service import DIMENSIONS, Reply, Request, Service, answer, vector

KEY = "sk-very-secret-0123456789"
QUICK = Retries(attempts=3, wait_first=0.01, wait_longest=0.05)
Make = Callable[..., OpenAIEmbedder]


@pytest.fixture
def make(service: Service) -> Iterator[Make]:
    made: list[OpenAIEmbedder] = []

    def make(**settings: Any) -> OpenAIEmbedder:
        defaults: dict[str, Any] = {"base_url": service.url, "retries": QUICK, "deadline": 10.0, "query_deadline": 10.0}
        made.append(OpenAIEmbedder(settings.pop("model", "org/Model-1"), **{**defaults, **settings}))
        return made[-1]

    yield make
    for one in made:
        one.close()


def unit(texts: list[str], dimensions: int = DIMENSIONS) -> Vectors:
    values = np.array([vector(text, dimensions) for text in texts])
    normalised: Vectors = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
    return normalised


def texts(count: int) -> list[str]:
    return [f"text {number}" for number in range(count)]


# What is sent


def test_vectors_are_the_texts_own_in_their_order(make: Make, service: Service) -> None:
    embedder = make(batch_texts=3, api_key=f" {KEY}\n")
    found = embedder.embed_passages(texts(10))
    assert found.dtype == np.float32
    assert np.array_equal(found, unit(texts(10)))
    assert embedder.dimensions == DIMENSIONS
    assert sorted(len(sent) for sent in service.sent) == [1, 3, 3, 3]
    request = service.requests[0]
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert {name: request.body[name] for name in ("model", "encoding_format")} == {
        "model": "org/Model-1",
        "encoding_format": "float",
    }
    assert "dimensions" not in request.body


def test_is_both_kinds_of_embedder(make: Make) -> None:
    embedder = make(dimensions=DIMENSIONS)
    assert isinstance(embedder, Embedder)
    assert isinstance(embedder, AsyncEmbedder)
    assert embedder.name == "model-1"


def test_identity_holds_what_decides_the_vectors_and_nothing_of_the_machine(make: Make, service: Service) -> None:
    embedder = make(api_key=KEY, dimensions=3, query_prefix="query: ", revision="r1", headers={"x-team": "blue-green"})
    identity = json.dumps(
        [embedder.name, embedder.model, embedder.revision, embedder.dimensions, dict(embedder.recipe)]
    )
    assert not [part for part in (KEY, "127.0.0.1", "blue-green") if part in identity]
    assert embedder.recipe == make(dimensions=3, query_prefix="query: ", base_url="http://elsewhere/v1").recipe
    for other in ({"query_prefix": "q: "}, {"passage_prefix": "p: "}, {"normalise": False}, {"send_dimensions": False}):
        assert make(**{"dimensions": 3, "query_prefix": "query: ", **other}).recipe != embedder.recipe
    assert service.requests == []


def test_prefixes_go_before_every_text(make: Make, service: Service) -> None:
    embedder = make(query_prefix="query: ", passage_prefix="passage: ", dimensions=DIMENSIONS)
    assert np.array_equal(embedder.embed_queries(["a"]), unit(["query: a"]))
    assert np.array_equal(embedder.embed_passages(["a"]), unit(["passage: a"]))
    assert service.sent == [["query: a"], ["passage: a"]]


def test_parameters_for_questions_and_passages_are_sent_and_part_of_the_recipe(make: Make, service: Service) -> None:
    settings = {"query_parameters": {"input_type": "query"}, "passage_parameters": {"input_type": "document", "n": 1}}
    embedder = make(**settings)
    embedder.embed_queries(["a"])
    embedder.embed_passages(["a"])
    assert [request.body["input_type"] for request in service.requests] == ["query", "document"]
    assert {name: embedder.recipe[name] for name in settings} == settings


def test_dimensions_are_asked_for_unless_the_service_does_not_know_them(make: Make, service: Service) -> None:
    assert make(dimensions=2).embed_passages(["a"]).shape == (1, 2)
    assert service.requests[0].body["dimensions"] == 2
    assert make(dimensions=DIMENSIONS, send_dimensions=False).embed_passages(["a"]).shape == (1, DIMENSIONS)
    assert "dimensions" not in service.requests[1].body
    with pytest.raises(EmbeddingError, match="has 4 dimensions, expected are 3"):
        make(dimensions=3, send_dimensions=False).embed_passages(["a"])


def test_dimensions_are_learned_once(make: Make, service: Service) -> None:
    embedder = make()
    assert embedder.dimensions == embedder.dimensions == DIMENSIONS
    assert embedder.embed_passages([]).shape == (0, DIMENSIONS)
    assert len(service.requests) == 1
    assert make().embed_queries([]).shape == (0, DIMENSIONS)


def test_more_dimensions_than_a_space_can_have_are_refused_with_the_limit(make: Make, service: Service) -> None:
    service.behave = lambda request: Reply(body=answer(request.texts, 3072))
    with pytest.raises(EmbeddingError, match=r"org/Model-1 have 3072 dimensions.*2000") as caught:
        _ = make().dimensions
    assert caught.value.hint is not None
    assert "fewer" in caught.value.hint


def test_a_model_may_be_served_under_another_name(make: Make, service: Service) -> None:
    embedder = make(served_model="/srv/models/x", encoding_format=None)
    embedder.embed_queries(["a"])
    assert service.requests[0].body == {"model": "/srv/models/x", "input": ["a"]}
    assert (embedder.model, "/srv" in json.dumps(dict(embedder.recipe))) == ("org/Model-1", False)


def test_headers_and_a_query_of_the_base_url_are_kept(make: Make, service: Service) -> None:
    make(base_url=f"{service.url}/?api-version=1", headers={"api-key": KEY}).embed_queries(["a"])
    make(base_url=f"{service.url}/embeddings").embed_queries(["a"])
    assert [request.path for request in service.requests] == ["/v1/embeddings?api-version=1", "/v1/embeddings"]
    assert service.requests[0].headers["api-key"] == KEY
    assert "authorization" not in service.requests[0].headers


@pytest.mark.parametrize(
    ("environment", "given", "expected"),
    [
        ({"KBSEARCH_EMBED_API_KEY": "ours", "OPENAI_API_KEY": "theirs"}, {}, "Bearer ours"),
        ({"KBSEARCH_EMBED_API_KEY": "ours"}, {"api_key": "given"}, "Bearer given"),
        ({"OPENAI_API_KEY": "theirs"}, {}, None),
        ({"OPENAI_API_KEY": "theirs", "OPENAI_BASE_URL": "URL"}, {"base_url": None}, "Bearer theirs"),
        ({"KBSEARCH_EMBED_BASE_URL": "URL", "OPENAI_API_KEY": "theirs"}, {"base_url": None}, None),
    ],
)
def test_a_key_of_the_environment_goes_to_the_service_it_is_for(
    environment: dict[str, str],
    given: dict[str, Any],
    expected: str | None,
    make: Make,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value.replace("URL", service.url))
    make(**given).embed_queries(["a"])
    assert service.requests[0].headers.get("authorization") == expected


@pytest.mark.parametrize("url", [None, "https://api.openai.com/v1/", "https://eu.api.openai.com/v1"])
def test_openai_itself_needs_a_key(url: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EmbeddingError, match="OpenAI's service needs an API key") as caught:
        OpenAIEmbedder("text-embedding-3-small", base_url=url)
    assert "OPENAI_API_KEY" in str(caught.value.hint)
    OpenAIEmbedder("text-embedding-3-small", base_url="https://api.openai.com.elsewhere.example/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert repr(OpenAIEmbedder("text-embedding-3-small")) == (
        "OpenAIEmbedder('text-embedding-3-small', endpoint='https://api.openai.com/v1/embeddings')"
    )


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_either_encoding_is_understood_whatever_was_asked_for(encoding: Any, make: Make, service: Service) -> None:
    def encoded(request: Request) -> Reply:
        body = answer(request.texts)
        for entry in body["data"]:
            entry["embedding"] = base64.b64encode(np.array(entry["embedding"], dtype="<f4").tobytes()).decode()
        return Reply(body=body)

    service.behave = encoded
    assert np.array_equal(make(encoding_format=encoding).embed_passages(texts(3)), unit(texts(3)))
    assert service.requests[0].body["encoding_format"] == encoding
    service.behave = lambda _request: None
    assert np.array_equal(make(encoding_format=encoding).embed_passages(texts(3)), unit(texts(3)))


def test_vectors_are_left_as_they_are_without_normalisation(make: Make) -> None:
    found = make(normalise=False).embed_passages(texts(2))
    assert np.array_equal(found, np.array([vector(text) for text in texts(2)], dtype=np.float32))


# Batches


def test_batches_are_bound_by_texts_and_by_bytes_of_utf_8(make: Make, service: Service) -> None:
    given = ["é" * 8, "b" * 10, "c" * 10, "long" * 30, "d" * 5, "e" * 5, "f" * 5, "g" * 5]
    found = make(batch_texts=3, batch_bytes=20, concurrency=1).embed_passages(given)
    assert service.sent == [["é" * 8], ["b" * 10, "c" * 10], ["long" * 30], ["d" * 5, "e" * 5, "f" * 5], ["g" * 5]]
    assert np.array_equal(found, unit(given))


@pytest.mark.parametrize("concurrency", [1, 3])
def test_so_many_requests_at_once_and_no_more(concurrency: int, make: Make, service: Service) -> None:
    service.behave = lambda _request: Reply(delay=0.1)
    found = make(batch_texts=1, concurrency=concurrency).embed_passages(texts(6))
    assert np.array_equal(found, unit(texts(6)))
    assert service.most_at_once == concurrency


def test_concurrency_holds_for_all_threads_and_loops_together(make: Make, service: Service) -> None:
    service.behave = lambda _request: Reply(delay=0.03)
    embedder = make(batch_texts=1, concurrency=2, dimensions=DIMENSIONS)
    found: dict[int, Vectors] = {}

    def plain(number: int) -> None:
        found[number] = embedder.embed_passages(texts(4))

    def looped(number: int) -> None:
        found[number] = asyncio.run(embedder.aembed_passages(texts(4)))

    threads = [threading.Thread(target=(plain, looped)[number % 2], args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [np.array_equal(found[number], unit(texts(4))) for number in range(4)] == [True] * 4
    assert service.most_at_once == 2


def test_a_service_that_takes_fewer_texts_gets_fewer(make: Make, service: Service) -> None:
    def at_most_two(request: Request) -> Reply | None:
        return Reply(413, {"error": "batch too large"}) if len(request.texts) > 2 else None

    service.behave = at_most_two
    assert np.array_equal(make(batch_texts=8, concurrency=1).embed_passages(texts(32)), unit(texts(32)))
    refused = [len(sent) for sent in service.sent if len(sent) > 2]
    assert refused == [8, 4, 4]  # then it is known


# Passing faults


@pytest.mark.parametrize(
    "fault",
    [
        Reply(429, {"error": {"message": "slow down"}}),
        Reply(500, b"oops"),
        Reply(502, b"<html><title>Bad Gateway</title></html>"),
        Reply(503, {}),
        Reply(408, {}),
        Reply(reset=True),
        Reply(cut=40),
        Reply(delay=5.0),
        Reply(drip=0.05),
    ],
    ids=["429", "500", "502", "503", "408", "reset", "cut", "slow", "drip"],
)
def test_what_passes_is_tried_again(fault: Reply, make: Make, service: Service) -> None:
    service.behave = lambda request: fault if request.number < 2 else None
    timeout = 0.5 if fault.delay or fault.drip else 10.0
    assert np.array_equal(make(timeout=timeout).embed_passages(texts(3)), unit(texts(3)))
    assert len(service.requests) == 3


def waits(caplog: pytest.LogCaptureFixture) -> list[float]:
    """Seconds that the embedder said it would wait before each further attempt."""
    args = [record.args for record in caplog.records if record.name == "kbsearch.embed"]
    return [float(one[2]) for one in args if isinstance(one, tuple) and isinstance(one[2], float)]


def test_attempts_wait_longer_and_longer(make: Make, service: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kbsearch.embed")
    service.behave = lambda request: Reply(503) if request.number < 4 else None
    make(retries=Retries(attempts=5, wait_first=0.04, wait_longest=0.2)).embed_queries(["a"])
    announced, least = np.array(waits(caplog)), np.array([0.04, 0.08, 0.16, 0.2])
    assert (announced >= least).all()
    assert (announced <= least + 0.04).all()
    assert len(set((announced - least).tolist())) == 4  # added at random
    assert (np.diff([request.at for request in service.requests]) >= announced - 0.005).all()


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "milliseconds", "date"])
def test_a_service_that_says_when_is_asked_then(
    status: int, form: str, make: Make, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kbsearch.embed")
    least, most = {"seconds": (1, 1), "milliseconds": (0.6, 0.6), "date": (0.5, 2)}[form]

    def busy(request: Request) -> Reply | None:
        if request.number:
            return None
        when = {
            "seconds": {"retry-after": "1"},
            "milliseconds": {"retry-after-ms": "600", "retry-after": "9"},
            "date": {"retry-after": email.utils.formatdate(time.time() + 2, usegmt=True)},
        }
        return Reply(status, {}, when[form])

    service.behave = busy
    make().embed_queries(["a"])
    (announced,) = waits(caplog)
    assert least <= announced <= most + QUICK.wait_first
    first, second = (request.at for request in service.requests)
    assert second - first >= announced - 0.005


def test_no_time_is_spent_on_waiting_that_goes_beyond_the_deadline(make: Make, service: Service) -> None:
    service.behave = lambda _request: Reply(429, {"error": {"message": "slow down"}}, {"retry-after": "3600"})
    started = time.monotonic()
    with pytest.raises(EmbeddingError, match=r"429: slow down.*no time is left.*asks to wait 3600 s"):
        make().embed_queries(["a"])
    assert time.monotonic() - started < 2
    assert len(service.requests) == 1


def test_what_does_not_pass_is_told_with_the_number_of_attempts(make: Make, service: Service) -> None:
    service.behave = lambda _request: Reply(503, b"<html><head><title>Service\n Unavailable</title></head></html>")
    with pytest.raises(
        EmbeddingError, match=r"/v1/embeddings answered 503: an HTML page, 'Service.*tried 3 times"
    ) as caught:
        make().embed_passages(texts(2))
    assert not isinstance(caught.value, TextsRefusedError)
    assert len(service.requests) == 3
    assert set(caught.value.failures) == {0, 1}
    assert caught.value.vectors is None
    assert caught.value.sqlstate == "KB004"


def test_nobody_listens(make: Make) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with pytest.raises(
        EmbeddingError, match=rf"connection to http://127\.0\.0\.1:{port}/v1/embeddings failed.*3 times"
    ):
        make(base_url=f"http://127.0.0.1:{port}/v1").embed_queries(["a"])


def test_a_failure_in_the_middle_keeps_what_came_before(make: Make, service: Service) -> None:
    service.behave = lambda request: Reply(503) if request.number >= 2 else None
    with pytest.raises(EmbeddingError, match="503") as caught:
        make(batch_texts=2, concurrency=1).embed_passages(texts(6))
    assert not isinstance(caught.value, TextsRefusedError)
    assert list(caught.value.failures) == [4, 5]
    vectors = caught.value.vectors
    assert vectors is not None
    assert np.array_equal(vectors[:4], unit(texts(6))[:4])
    assert np.isnan(vectors[4:]).all()


def test_all_of_a_call_has_a_deadline(make: Make, service: Service) -> None:
    service.behave = lambda request: Reply(delay=9.0) if request.number >= 2 else None
    started = time.monotonic()
    with pytest.raises(EmbeddingError, match=r"did not answer everything within 0\.9 s") as caught:
        make(batch_texts=1, concurrency=2, deadline=0.9).embed_passages(texts(6))
    assert time.monotonic() - started < 5
    assert caught.value.vectors is not None
    assert len(caught.value.failures) == 4


def test_questions_have_a_shorter_deadline(make: Make, service: Service) -> None:
    service.behave = lambda _request: Reply(delay=0.3)
    embedder = make(query_deadline=0.1)
    with pytest.raises(EmbeddingError, match=r"within 0\.1 s"):
        embedder.embed_queries(["a"])
    assert embedder.embed_passages(["a"]).shape == (1, DIMENSIONS)


# Faults of single texts


@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_a_text_that_is_refused_is_found_and_all_others_are_embedded(status: int, make: Make, service: Service) -> None:
    def no_long_text(request: Request) -> Reply | None:
        long = any(len(text) > 20 for text in request.texts)
        return Reply(status, {"error": {"message": "input is too long"}}) if long else None

    service.behave = no_long_text
    given = texts(20)
    given[3] = given[11] = "a text that is too long"
    with pytest.raises(TextsRefusedError, match=r"no vector for 2 of 20 texts; text 3: .*too long") as caught:
        make(batch_texts=8).embed_passages(given)
    assert sorted(caught.value.failures) == [3, 11]
    assert caught.value.detail == {"model": "org/Model-1", "texts": [3, 11]}
    vectors = caught.value.vectors
    assert vectors is not None
    good = [position for position in range(20) if position not in (3, 11)]
    assert np.array_equal(vectors[good], unit(given)[good])
    assert np.isnan(vectors[[3, 11]]).all()


@pytest.mark.parametrize("status", [400, 500])
def test_a_question_that_is_refused_is_no_failure_of_the_service(status: int, make: Make, service: Service) -> None:
    service.behave = lambda request: Reply(status, {"error": "too long"}) if request.texts == ["long"] else None
    with pytest.raises(TextsRefusedError, match=rf"no vector for the text: .*{status}: too long"):
        make().embed_queries(["long"])


def test_a_request_that_is_refused_whatever_the_text_is_the_services_failure(make: Make, service: Service) -> None:
    service.behave = lambda _request: Reply(400, {"error": {"message": "no model of that name"}})
    with pytest.raises(EmbeddingError, match="400: no model of that name, whatever the text") as caught:
        make(concurrency=1).embed_passages(texts(64))
    assert not isinstance(caught.value, TextsRefusedError)
    assert len(service.requests) == 2


def test_a_server_error_that_stays_is_the_services_failure(make: Make, service: Service) -> None:
    service.behave = lambda _request: Reply(500, {"error": "out of memory"})
    with pytest.raises(EmbeddingError, match="500: out of memory") as caught:
        make(concurrency=1).embed_passages(texts(64))
    assert not isinstance(caught.value, TextsRefusedError)
    assert len(service.requests) == 5  # three attempts, and two for a text that no service refuses


def test_a_service_that_breaks_later_is_no_fault_of_its_texts(make: Make, service: Service) -> None:
    service.behave = lambda request: Reply(500, {"error": "out of memory"}) if request.number else None
    with pytest.raises(EmbeddingError, match="out of memory") as caught:
        make(batch_texts=4, concurrency=1).embed_passages(texts(12))
    assert not isinstance(caught.value, TextsRefusedError)
    assert list(caught.value.failures) == list(range(4, 12))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([1.0, None, 1.0, 1.0], "component 1 of its vector is no finite number"),
        ([1.0, 1.0, float("nan"), 1.0], "component 2 of its vector is no finite number"),
        ([float("inf"), 1.0, 1.0, 1.0], "component 0 of its vector is no finite number"),
        ([0, 0.0, 0, 0], "all components of its vector are zero"),
        ([1e-23, 0, 0, 0], "its vector has the length 1e-23, outside 1e-15 … 1e"),
        ([1e200, 1e200, 0, 0], "its vector has the length"),
    ],
)
def test_a_vector_without_direction_is_that_texts_fault(value: Any, reason: str, make: Make, service: Service) -> None:
    def odd(request: Request) -> Reply:
        body = answer(request.texts)
        body["data"][1]["embedding"] = value
        return Reply(body=body)

    service.behave = odd
    with pytest.raises(TextsRefusedError) as caught:
        make().embed_passages(texts(3))
    assert list(caught.value.failures) == [1]
    assert caught.value.failures[1].startswith(reason)
    assert caught.value.vectors is not None
    assert np.array_equal(caught.value.vectors[[0, 2]], unit(texts(3))[[0, 2]])


def test_half_of_a_surrogate_pair_is_that_texts_fault(make: Make, service: Service) -> None:
    with pytest.raises(TextsRefusedError, match="surrogate") as caught:
        make().embed_passages(["a", "b\ud800", "c"])
    assert list(caught.value.failures) == [1]
    assert service.sent == [["a", "c"]]
    with pytest.raises(TextsRefusedError, match="surrogate") as caught:
        make().embed_passages(["\udfff"])
    assert caught.value.vectors is not None
    assert caught.value.vectors.shape == (1, DIMENSIONS)


def test_blank_texts_are_refused_before_anything_is_sent(make: Make, service: Service) -> None:
    with pytest.raises(ValueError, match="text 1 of 2 is blank"):
        make().embed_passages(["a", " "])
    with pytest.raises(TypeError, match="not one string"):
        make().embed_queries("a")
    assert service.requests == []


# Answers that cannot be trusted


def test_vectors_are_put_in_the_order_of_their_index(make: Make, service: Service) -> None:
    def shuffled(request: Request) -> Reply:
        body = answer(request.texts)
        body["data"] = body["data"][3:] + body["data"][:3][::-1]
        return Reply(body=body)

    service.behave = shuffled
    assert np.array_equal(make().embed_passages(texts(7)), unit(texts(7)))


def changed(change: Callable[[dict[str, Any]], Any]) -> Callable[[Request], Reply]:
    def behave(request: Request) -> Reply:
        body = answer(request.texts)
        return Reply(body=change(body) or body)

    return behave


def entry(number: int, **values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["data"][number].update(values)


@pytest.mark.parametrize(
    ("behave", "message"),
    [
        (changed(lambda body: {"data": body["data"][:-1]}), "has 2 vectors for 3 texts"),
        (changed(lambda body: {"data": [*body["data"], body["data"][0]]}), "has 4 vectors for 3 texts"),
        (changed(entry(1, index=0)), "has two entries with the index 0"),
        (changed(entry(1, index=None)), "an entry with the index None"),
        (changed(entry(1, index=True)), "an entry with the index True"),
        (changed(entry(1, index=3)), r"an entry with the index 3, expected is 0 … 2"),
        (changed(entry(1, embedding=[1.0, 2.0])), "vector 1 of 3 has 2 dimensions, the first has 4"),
        (changed(entry(1, embedding=[])), "vector 1 of 3 has 0 dimensions"),
        (changed(entry(1, embedding=None)), "a NoneType under 'embedding'"),
        (changed(entry(1, embedding={"a": 1})), "a dict under 'embedding'"),
        (changed(entry(1, embedding="no base64!")), "no base64 of 32-bit numbers"),
        (changed(entry(1, embedding="AAAA")), "no base64 of 32-bit numbers"),
        (changed(entry(1, embedding=[1, 2, 3, "4"])), "vector 1 has values of type"),
        (changed(entry(1, embedding=[1, 2, 3, [4]])), "vector 1 is no list of numbers"),
        (changed(entry(1, embedding=[True] * 4)), "vector 1 has values of type bool, not numbers"),
        (changed(entry(1, embedding=[None, 1, "4", 1])), "vector 1 has a str among its numbers"),
        (changed(entry(1, embedding=[[1, 2, 3, 4]])), r"vector 1 is a list of shape \(1, 4\)"),
        (changed(lambda _body: {"data": [1, 2, 3]}), "no list of objects under 'data'"),
        (changed(lambda _body: {"data": {}}), "no list of objects under 'data'"),
        (changed(lambda _body: [1]), "no list of objects under 'data'"),
        (changed(lambda _body: {"error": {"message": "no such model"}}), "under 'data'.*no such model"),
        (lambda _request: Reply(body=b"<html><title>Sign in</title>"), "is no JSON but an HTML page, 'Sign in'"),
        (lambda _request: Reply(body=b'{"data": [{'), r"is no JSON but \{\"data\""),
        (lambda _request: Reply(body=b"[" * 100_000), "is no JSON but"),
        (lambda _request: Reply(body=b""), "is no JSON but empty"),
        (lambda _request: Reply(body=b"\xff\x00\x1b[31m" * 200), "is no JSON but"),
        (lambda _request: Reply(body=b" " * (5 << 20)), "over 4,194,304 bytes"),
        (lambda _request: Reply(body=b"this is no gzip", headers={"content-encoding": "gzip"}), "cannot be asked"),
    ],
)
def test_a_malformed_answer_is_told_at_once(
    behave: Callable[[Request], Reply], message: str, make: Make, service: Service
) -> None:
    service.behave = behave
    with pytest.raises(EmbeddingError, match=message) as caught:
        make().embed_passages(texts(3))
    assert not isinstance(caught.value, TextsRefusedError)
    assert set(caught.value.failures) == {0, 1, 2}
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600
    assert len(service.requests) == 1


def test_a_single_text_needs_no_index(make: Make, service: Service) -> None:
    service.behave = lambda request: Reply(body={"data": [{"embedding": vector(text)} for text in request.texts]})
    assert np.array_equal(make(batch_texts=1).embed_passages(texts(3)), unit(texts(3)))
    with pytest.raises(EmbeddingError, match="index None") as caught:
        make().embed_passages(texts(3))
    assert "batch_texts=1" in str(caught.value.hint)


def test_a_model_that_changes_its_dimensions_is_told(make: Make, service: Service) -> None:
    embedder = make()
    embedder.embed_passages(["a"])
    service.behave = lambda request: Reply(body=answer(request.texts, 3))
    with pytest.raises(EmbeddingError, match="has 3 dimensions, expected are 4") as caught:
        embedder.embed_passages(["a"])
    assert caught.value.detail == {"dimensions": 3, "expected": 4}
    assert embedder.dimensions == 4


# What is not tried again


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "API key"), (403, "API key"), (404, "base URL"), (405, "base URL"), (418, "base URL")]
)
def test_other_refusals_are_final(status: int, hint: str, make: Make, service: Service) -> None:
    service.behave = lambda _request: Reply(status, {"error": {"message": "no"}})
    with pytest.raises(EmbeddingError, match=f"answered {status}: no") as caught:
        make().embed_passages(texts(3))
    assert hint in str(caught.value.hint)
    assert caught.value.detail["status"] == status
    assert len(service.requests) == 1


def test_a_service_that_wants_a_key_and_got_none_is_told_apart(make: Make, service: Service) -> None:
    service.behave = lambda _request: Reply(401, {"error": "no key"})
    for settings, hint in (
        ({}, "No API key was sent: set KBSEARCH_EMBED_API_KEY"),
        ({"api_key": KEY}, "Check the API key"),
    ):
        with pytest.raises(EmbeddingError, match="401") as caught:
            make(**settings).embed_queries(["a"])
        assert str(caught.value.hint).startswith(hint)


def test_an_account_without_credit_is_not_tried_again(make: Make, service: Service) -> None:
    error = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    service.behave = lambda _request: Reply(429, error)
    with pytest.raises(EmbeddingError, match="exceeded your current quota"):
        make().embed_queries(["a"])
    assert len(service.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_named_and_not_followed(status: int, make: Make, service: Service) -> None:
    target = "http://user:pass@elsewhere.example/v2/embeddings?token=t0ken#x"
    service.behave = lambda _request: Reply(status, b"", {"location": target})
    with pytest.raises(EmbeddingError, match=rf"{status}: it redirects to http://elsewhere\.example/v2/embeddings$"):
        make().embed_queries(["a"])
    assert len(service.requests) == 1


# Secrets


@pytest.mark.parametrize("status", [400, 401, 429, 500, 200, 301])
def test_a_key_is_never_shown(
    status: int, make: Make, service: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("KBSEARCH_EMBED_API_KEY", KEY)
    other = "azure-secret-4711"
    message = f"Incorrect API key: {KEY} or Bearer {KEY}, {other}"
    service.behave = lambda _request: Reply(status, {"error": {"message": message}}, {"location": f"http://h/{KEY}"})
    embedder = make(headers={"api-key": other})
    with pytest.raises(EmbeddingError) as caught:
        embedder.embed_queries(["a"])
    assert service.requests[0].headers["authorization"] == f"Bearer {KEY}"
    # httpcore2 logs the headers of answers, not of requests: this service sends the key back in one.
    logged = [record.getMessage() for record in caplog.records if "response_headers" not in record.getMessage()]
    assert any("127.0.0.1" in text for text in logged)
    shown = [repr(embedder), str(vars(embedder)), json.dumps(dict(embedder.recipe)), *logged]
    error: BaseException | None = caught.value
    while error is not None:
        shown += [str(error), repr(error), str(vars(error))]
        error = error.__cause__ or error.__context__
    assert not [text for text in shown if KEY in text or other in text]


def test_a_key_that_no_header_can_carry_is_refused_without_showing_it() -> None:
    for key in ("two\nlines-of-secret", "sécret-sécret"):
        with pytest.raises(EmbeddingError, match="the API key has characters") as caught:
            OpenAIEmbedder("m", base_url="http://h/v1", api_key=key)
        assert key[-6:] not in repr(caught.value)
    with pytest.raises(EmbeddingError, match="the header 'x-a' has characters"):
        OpenAIEmbedder("m", base_url="http://h/v1", headers={"x-a": "a\r\nx-b: c"})


# Arguments


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base_url": "localhost:8080/v1"}, "no HTTP address"),
        ({"base_url": "ftp://h/v1"}, "no HTTP address"),
        ({"base_url": "http:///v1"}, "no HTTP address"),
        ({"base_url": "http://h:port/v1"}, "base URL is not usable"),
        ({"base_url": "http://user:hunter2@h/v1"}, "holds a user's name or password"),
        ({"model": " "}, "is no model"),
        ({"name": ""}, "is no name"),
        ({"dimensions": 0}, "1 … 2000"),
        ({"dimensions": 2001}, "1 … 2000"),
        ({"dimensions": True}, "must be an integer"),
        ({"batch_texts": 0}, "batch_texts must be at least 1"),
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"query_parameters": {"model": "m"}}, "'model' of a request has an argument of its own"),
        ({"passage_parameters": {"a": {1}}}, "cannot be sent as JSON"),
        ({"timeout": 0}, "timeout must be a positive number"),
        ({"deadline": float("nan")}, "deadline must be a positive number"),
    ],
)
def test_unusable_arguments_are_refused(settings: dict[str, Any], message: str, make: Make) -> None:
    with pytest.raises(EmbeddingError, match=message) as caught:
        make(**settings)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("settings", [{"attempts": 0}, {"wait_first": -1}, {"wait_first": 2, "wait_longest": 1}])
def test_unusable_retries_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(EmbeddingError, match="is not usable"):
        Retries(**settings)


@pytest.mark.parametrize("package", ["httpx2", "tenacity"])
def test_a_missing_package_is_named_with_the_extra_that_installs_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingExtraError, match=rf"{package}.*extra 'remote': pip install '/path/to/checkout\[remote\]'"
    ):
        OpenAIEmbedder("m", base_url="http://h/v1")


# Loops, threads, interrupts


def test_coroutines_give_the_same(make: Make) -> None:
    embedder = make()

    async def both() -> tuple[Vectors, Vectors]:
        found, question = await asyncio.gather(embedder.aembed_passages(texts(3)), embedder.aembed_queries(["a"]))
        # A plain call works where a loop runs, too, as in a notebook.
        assert np.array_equal(embedder.embed_queries(["a"]), question)
        return found, question

    for _ in range(2):  # another loop each time
        found, question = asyncio.run(both())
        assert np.array_equal(found, unit(texts(3)))
        assert np.array_equal(question, unit(["a"]))
    with pytest.raises(ValueError, match="blank"):
        asyncio.run(embedder.aembed_queries([""]))


def test_a_cancelled_coroutine_leaves_no_request_behind(make: Make, service: Service) -> None:
    service.behave = lambda _request: Reply(delay=0.3)
    embedder = make(batch_texts=1, concurrency=1)

    async def cancelled() -> None:
        task = asyncio.create_task(embedder.aembed_passages(texts(10)))
        await asyncio.to_thread(service.asked.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    time.sleep(0.6)
    assert len(service.requests) == 1


@pytest.mark.parametrize("role", ["plain", "coroutine"])
def test_closing_ends_what_still_runs(role: str, make: Make, service: Service) -> None:
    service.behave = lambda _request: Reply(delay=5.0)
    embedder = make()

    def close() -> None:
        service.asked.wait()
        embedder.close()

    closer = threading.Thread(target=close)
    closer.start()
    started = time.monotonic()
    with pytest.raises(EmbeddingError, match="closed while it was used"):
        embedder.embed_queries(["a"]) if role == "plain" else asyncio.run(embedder.aembed_queries(["a"]))
    closer.join()
    assert time.monotonic() - started < 4


def test_connections_are_kept_and_closed(make: Make, service: Service) -> None:
    before = {thread.name for thread in threading.enumerate()}
    with make() as embedder:
        for number in range(5):
            embedder.embed_queries([f"question {number}"])
        assert "kbsearch-embed" in {thread.name for thread in threading.enumerate()} - before
    assert "kbsearch-embed" not in {thread.name for thread in threading.enumerate()}
    assert embedder.embed_queries(["again"]).shape == (1, DIMENSIONS)
    assert len(service.requests) == 6


def test_an_embedder_that_is_forgotten_ends_its_thread(service: Service) -> None:
    embedder = OpenAIEmbedder("m", base_url=service.url)
    embedder.embed_queries(["a"])
    assert [thread.name for thread in threading.enumerate()].count("kbsearch-embed") == 1
    del embedder
    gc.collect()
    assert "kbsearch-embed" not in {thread.name for thread in threading.enumerate()}


def test_an_interrupt_leaves_no_request_behind(make: Make, service: Service) -> None:
    service.behave = lambda _request: Reply(delay=0.3)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        service.asked.wait()
        signal.pthread_kill(main, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        make(batch_texts=1, concurrency=1).embed_passages(texts(10))
    interrupter.join()
    time.sleep(0.6)
    assert len(service.requests) == 1


def _script(text: str, **values: object) -> list[str]:
    return [sys.executable, "-W", "error", "-c", textwrap.dedent(text).format(**values)]


ROOT = Path(__file__).resolve().parents[2]


def test_an_interrupt_stops_at_once(service: Service) -> None:
    service.behave = lambda _request: Reply(delay=30.0)
    script = _script(
        """
        from kbsearch.embed import OpenAIEmbedder
        embedder = OpenAIEmbedder("m", base_url={url!r}, batch_texts=1)
        try:
            embedder.embed_passages(["a", "b", "c"])
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            raise SystemExit(3)
        """,
        url=service.url,
    )
    process = subprocess.Popen(script, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert service.asked.wait(30)
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, out.strip(), err) == (3, "interrupted", "")
    assert time.monotonic() - started < 5  # the answer would take 30 s


def test_a_process_ends_without_being_told_to_close(service: Service) -> None:
    script = _script(
        """
        from kbsearch.embed import OpenAIEmbedder
        embedder = OpenAIEmbedder("m", base_url={url!r})
        print(embedder.dimensions)
        """,
        url=service.url,
    )
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(DIMENSIONS), "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_process_has_connections_of_its_own(service: Service) -> None:
    """As with a server that loads the application and then forks its workers."""
    script = _script(
        """
        import os, warnings
        from kbsearch.embed import OpenAIEmbedder
        warnings.simplefilter("ignore")  # of forking with threads, and of the parent's sockets that the child has, too
        embedder = OpenAIEmbedder("m", base_url={url!r})
        embedder.dimensions
        child = os.fork()
        shape = embedder.embed_queries(["a"]).shape
        if child:
            assert os.waitpid(child, 0)[1] == 0
            shape = embedder.embed_queries(["a"]).shape
        print(shape, flush=True)
        """,
        url=service.url,
    )
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.split("\n")[:2], done.stderr) == (0, ["(1, 4)"] * 2, "")
