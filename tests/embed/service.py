"""An embeddings service on a real socket that answers well by default, and badly on request."""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSIONS = 4


def vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """A vector that is the text's own: bytes of its digest, not all alike."""
    digest = hashlib.sha256(text.encode()).digest()
    return [byte - 127.5 for byte in (digest * (dimensions // len(digest) + 1))[:dimensions]]


def answer(texts: Sequence[str], dimensions: int = DIMENSIONS) -> dict[str, Any]:
    """What a service that works answers for these texts."""
    data = [
        {"object": "embedding", "index": index, "embedding": vector(text, dimensions)}
        for index, text in enumerate(texts)
    ]
    return {"object": "list", "model": "m", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}


@dataclass(frozen=True)
class Reply:
    """An answer to one request.

    body: bytes as they are, anything else as JSON. delay: seconds before it. drip: seconds between its bytes. cut: bytes after which the
    connection is closed. reset: the connection is reset instead of an answer.
    """

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drip: float = 0.0
    cut: int | None = None
    reset: bool = False


@dataclass(frozen=True)
class Request:
    """A request as it came. number: how many came before it. at: seconds of a monotonic clock."""

    number: int
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    at: float

    @property
    def texts(self) -> list[str]:
        return list(self.body["input"])


Behaviour = Callable[[Request], Reply | None]


class Service:
    """The service: `behave` decides on each request, None for a good answer."""

    def __init__(self) -> None:
        self.behave: Behaviour = lambda _request: None
        self.requests: list[Request] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.asked, self.stopped = threading.Event(), threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                service.handle(self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    @property
    def sent(self) -> list[list[str]]:
        """The texts of each request."""
        return [request.texts for request in self.requests]

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        with self.lock:
            headers = {name.lower(): value for name, value in handler.headers.items()}
            request = Request(len(self.requests), handler.path, headers, body, time.monotonic())
            self.requests.append(request)
            self.asked.set()
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            reply = self.behave(request) or Reply()
            self.stopped.wait(reply.delay)
        finally:
            with self.lock:
                self.at_once -= 1
        if reply.reset:
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.close_connection = True
            handler.connection.close()
            return
        content = reply.body if reply.body is not None else answer(request.texts, body.get("dimensions", DIMENSIONS))
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        try:
            handler.send_response(reply.status)
            for name, value in {"content-type": "application/json", **reply.headers}.items():
                handler.send_header(name, value)
            handler.send_header("content-length", str(len(data)))
            handler.end_headers()
            if reply.drip:
                for byte in data:
                    handler.wfile.write(bytes([byte]))
                    if self.stopped.wait(reply.drip):
                        return
            elif reply.cut is not None:
                handler.wfile.write(data[: reply.cut])
                handler.close_connection = True
            else:
                handler.wfile.write(data)
        except OSError:
            handler.close_connection = True  # the client has gone


@contextmanager
def running() -> Iterator[Service]:
    """A service that runs until the end of the block."""
    service = Service()
    thread = threading.Thread(target=service.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.stopped.set()
        service.server.shutdown()
        thread.join()
        service.server.server_close()
