"""A transaction-mode pooler, as small as can be: every transaction of a client goes to another of its server connections.

It speaks the frontend/backend protocol, version 3 (PostgreSQL's documentation, chapter "Frontend/Backend Protocol"). The connections to the
server are psycopg's, whose sockets it uses: so it needs to know nothing of passwords, and the sessions can be looked at afterwards.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import make_conninfo

_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102


class Pooler:
    """Listens on a port of its own.

    Attributes:
        dsn: connection string for its clients.
        servers: the connections to the server, not to be used while a client is connected.
        transactions: number of transactions that each server connection has had.
    """

    def __init__(self, dsn: str, size: int = 2) -> None:
        direct = make_conninfo(dsn, sslmode="disable", gssencmode="disable")
        self.servers = [psycopg.connect(direct, autocommit=True) for _ in range(size)]
        self.transactions = [0] * size
        self._turns = itertools.cycle(range(size))
        self._free = [threading.Lock() for _ in range(size)]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.dsn = make_conninfo(direct, host="127.0.0.1", hostaddr="127.0.0.1", port=self._listener.getsockname()[1])
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        """Hang up."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)
        for server in self.servers:
            server.close()

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client:
            while True:
                (code,) = struct.unpack_from(
                    "!I", body := _exactly(client, struct.unpack("!I", _exactly(client, 4))[0] - 4)
                )
                if code not in (_SSL, _GSS):
                    break
                client.sendall(b"N")
            assert code != _CANCEL, f"nobody cancels here: {body!r}"
            client.sendall(_message(b"R", struct.pack("!I", 0)))
            for name in ("server_version", "client_encoding", "standard_conforming_strings", "integer_datetimes"):
                value = self.servers[0].pgconn.parameter_status(name.encode()) or b""
                client.sendall(_message(b"S", name.encode() + b"\0" + value + b"\0"))
            client.sendall(_message(b"K", struct.pack("!II", 1, 1)) + _message(b"Z", b"I"))
            self._relay(client)

    def _relay(self, client: socket.socket) -> None:
        """Pass on what the client sends up to a Sync or a simple query, then what the server answers; the server is kept in a transaction only."""
        chosen: int | None = None
        request = b""
        while True:
            kind, message = _read(client)
            if kind in (b"X", b""):
                assert chosen is None, "a client went away in the middle of a transaction"
                return
            request += message
            if kind not in (b"S", b"Q"):
                continue
            if chosen is None:
                chosen = next(self._turns)
                self._free[chosen].acquire()
                self.transactions[chosen] += 1
            with socket.socket(fileno=socket.dup(self.servers[chosen].pgconn.socket)) as server:
                server.setblocking(True)
                server.sendall(request)
                request = b""
                status = b""
                while not status:
                    kind, message = _read(server)
                    client.sendall(message)
                    if kind == b"Z":
                        status = message[5:]
            if status == b"I":
                self._free[chosen].release()
                chosen = None


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def _read(peer: socket.socket) -> tuple[bytes, bytes]:
    """The next message: its kind, and all of it; nothing if the peer has hung up."""
    kind = peer.recv(1)
    if not kind:
        return b"", b""
    length = _exactly(peer, 4)
    return kind, kind + length + _exactly(peer, struct.unpack("!I", length)[0] - 4)


def _exactly(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = peer.recv(size - len(data))
        if not part:
            raise ConnectionError("hung up in the middle of a message")
        data += part
    return bytes(data)


@contextmanager
def pooled(dsn: str) -> Iterator[Pooler]:
    """A pooler before a database."""
    pooler = Pooler(dsn)
    try:
        yield pooler
    finally:
        pooler.close()
