"""Which server a run gets: what was asked for by name or an error, else the first of three that is to be had."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from kbsearch.testing import servers
from kbsearch.testing.servers import Container, Embedded, Given, Request, ServerUnavailableError, choose

NOWHERE = "unix:///nowhere/docker.sock"


def request(kind: str = "auto", directory: Path | str = "/nowhere", image: str = servers.IMAGE) -> Request:
    return Request("0123456789ab", str(directory), kind, "" if kind == "auto" else "--kbsearch-server", image)


@pytest.fixture(autouse=True)
def without_dsn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KBSEARCH_TEST_DSN", raising=False)


def refused(asked: Request) -> tuple[str, str]:
    """What an error says, and what to do."""
    with pytest.raises(ServerUnavailableError) as caught:
        choose(asked)
    return str(caught.value), caught.value.hint


def test_a_connection_string_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBSEARCH_TEST_DSN", "postgresql://me:secret@db.example:5433/postgres")
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)
    backend, reason = choose(request())
    assert isinstance(backend, Given)
    assert reason == "the server of KBSEARCH_TEST_DSN at db.example"
    assert choose(request("dsn"))[1] == "the server of KBSEARCH_TEST_DSN at db.example, as --kbsearch-server says"
    assert isinstance(choose(request("embedded"))[0], Embedded)


def test_without_an_engine_it_is_the_embedded_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)
    backend, reason = choose(request())
    assert isinstance(backend, Embedded)
    assert reason == (
        f"embedded PostgreSQL, as KBSEARCH_TEST_DSN is not set and no Docker engine answers at {NOWHERE}: No such file or directory"
    )


@pytest.fixture
def silent_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Accepts connections and says nothing."""
    path = tmp_path_factory.mktemp("s") / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(8)
        yield f"unix://{path}"


def test_an_engine_that_says_nothing_is_not_waited_for(silent_engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", silent_engine)
    monkeypatch.setattr(servers, "ANSWER_SECONDS", 0.5)
    started = time.monotonic()
    backend, reason = choose(request())
    assert time.monotonic() - started < 5
    assert isinstance(backend, Embedded)
    assert reason.endswith(f"no Docker engine answers at {silent_engine}: timed out")


def test_a_container_is_preferred_where_the_image_is(docker: None) -> None:
    backend, reason = choose(request())
    assert isinstance(backend, Container)
    assert reason == f"Docker container of {servers.IMAGE}, as KBSEARCH_TEST_DSN is not set and a Docker engine answers"


def test_an_image_that_nobody_has(docker: None) -> None:
    image = "registry.invalid/none:1"
    told, hint = refused(request("docker", image=image))
    assert told.startswith(f"the image {image} is not there and no registry gives it: ")
    assert hint == f"Get it with docker pull {image}, or choose one that is there with --kbsearch-image."
    backend, reason = choose(request(image=image))
    assert isinstance(backend, Embedded)
    assert f"the image {image} is not there" in reason


def test_what_is_asked_for_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)
    told, hint = refused(request("docker"))
    assert told == f"no Docker engine answers at {NOWHERE}: No such file or directory"
    assert "DOCKER_HOST" in hint
    assert refused(request("dsn")) == (
        "KBSEARCH_TEST_DSN is not set",
        "Set KBSEARCH_TEST_DSN to the connection string of a role that may create databases.",
    )
    assert refused(request("dokcer")) == (
        "'dokcer', of --kbsearch-server, is no server",
        "Choose one of auto, docker, embedded, dsn.",
    )


@pytest.mark.parametrize("kind", ["auto", "dsn"])
def test_no_connection_string_is_passed_over(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBSEARCH_TEST_DSN", "this is none")
    told, hint = refused(request(kind))
    assert told.startswith("KBSEARCH_TEST_DSN is no connection string: ")
    assert "postgresql://" in hint


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBSEARCH_TEST_DSN", "host=/nowhere dbname=postgres")
    with pytest.raises(ServerUnavailableError, match=r"the server of KBSEARCH_TEST_DSN cannot be used: .*/nowhere"):
        choose(request())[0].start(lambda: False)


def test_a_role_that_may_not_create_databases(server_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    role = f"kbsearch_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(sql.Identifier(role)))
        try:
            monkeypatch.setenv("KBSEARCH_TEST_DSN", make_conninfo(server_dsn, user=role, password="x"))  # noqa: S106
            with pytest.raises(ServerUnavailableError) as caught:
                choose(request())[0].start(lambda: False)
        finally:
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
    assert str(caught.value) == "the role of KBSEARCH_TEST_DSN may not create databases"
    assert caught.value.hint == f"As a superuser: ALTER ROLE {role} CREATEDB"


@pytest.fixture
def outside() -> Iterator[Path]:
    """A directory outside of pytest's own, which another run of pytest closes to the server's user at any moment."""
    made = Path(tempfile.mkdtemp(prefix="kbsearch-test-"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


def test_the_embedded_server_is_on_disk_where_memory_is_short(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, disk = outside / "memory", outside / "disk"
    memory.mkdir()
    disk.mkdir()
    monkeypatch.setattr(servers, "MEMORY", memory)
    for room, place in ((2**62, disk), (0, memory / disk.name)):
        monkeypatch.setattr(servers, "ROOM", room)
        backend = choose(request("embedded", disk))[0]
        try:
            with psycopg.connect(backend.start(lambda: False)) as connection:
                shown = connection.execute(
                    "SELECT current_setting('data_directory'), current_setting('fsync')"
                ).fetchone()
            assert shown == (str(place / "postgres"), "off")
        finally:
            backend.stop()
        assert list(memory.iterdir()) == []
        assert not (disk / "postgres").exists()
        backend.stop()


def test_a_container_that_cannot_start(docker: None) -> None:
    with servers.engine(servers.ANSWER_SECONDS) as client:
        tag = f"kbsearch-test-broken:{uuid.uuid4().hex[:8]}"
        container = client.containers.create(servers.IMAGE, entrypoint=["sh", "-c", "echo no room; exit 1"])
        try:
            container.commit(*tag.split(":"))
        finally:
            container.remove(v=True)
        backend = choose(Request(uuid.uuid4().hex[:12], "/nowhere", "docker", "--kbsearch-server", tag))[0]
        try:
            with pytest.raises(
                ServerUnavailableError,
                match=f"no server started in a container of {tag}: it has exited, and said last: no room",
            ):
                backend.start(lambda: False)
        finally:
            backend.stop()
            backend.stop()
            client.images.remove(tag)
