"""The servers that tests run on, and which of them a run gets."""

from __future__ import annotations

import os
import shutil
import socket
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

KINDS = ("auto", "docker", "embedded", "dsn")
IMAGE = "pgvector/pgvector:pg17"
DSN_VARIABLE = "KBSEARCH_TEST_DSN"
PREFIX = "kbsearch_test_"
"""Of the names of databases, before the id of the run."""

ANSWER_SECONDS = 5.0
"""What an answer of the Docker engine may take: one that is there answers in milliseconds, and asks a registry in a second or two."""
START_SECONDS = 60.0
PULL_SECONDS = 600.0
"""Without a word of progress."""
_POLL_SECONDS = 0.1
_LOG_SECONDS = 1.0
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "min_wal_size": "32MB",
    "max_wal_size": "256MB",
}
"""For a server whose data live as long as the tests, in memory."""
MEMORY = Path("/dev/shm")  # noqa: S108  (a directory of the run's own in it, as in any place for temporary files)
"""A file system in memory, where there is one: a database is cloned there in a tenth of the time."""
ROOM = 2**30
"""Bytes that must be free there. A server has 60 MB, a database with kbsearch 10 MB."""


class ServerUnavailableError(Exception):
    """A server cannot be had.

    Attributes:
        hint: what to do.
    """

    def __init__(self, message: str, hint: str) -> None:
        """Keep both."""
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for.

    Attributes:
        run: id of the test run, part of the name of all that is made for it.
        directory: of the run, for what it needs on disk.
        kind: one of KINDS.
        asked_by: what chose the kind, for people; empty if nothing did.
        image: of the container.
    """

    run: str
    directory: str
    kind: str = "auto"
    asked_by: str = ""
    image: str = IMAGE


class Backend(ABC):
    """A server for the length of a run.

    Args:
        request: what was asked for.
    """

    kind: ClassVar[str]

    def __init__(self, request: Request) -> None:
        """Keep the request; nothing is started yet."""
        self.request = request

    @abstractmethod
    def check(self) -> str:
        """Return what it is, for people; quick, and starts nothing.

        Raises:
            ServerUnavailableError: it is not to be had.
        """

    @abstractmethod
    def start(self, given_up: Callable[[], bool]) -> str:
        """Start it, and return the connection string of a role that may create databases, for the maintenance database.

        Args:
            given_up: whether nobody waits any more; then it may return early.

        Raises:
            ServerUnavailableError: it did not start.
        """

    @abstractmethod
    def stop(self) -> None:
        """Remove all that was made, whoever made it and however far that got; nothing happens if nothing is there."""


class Given(Backend):
    """The server of KBSEARCH_TEST_DSN: only its databases are the run's."""

    kind = "dsn"

    def check(self) -> str:
        """See whether there is a connection string."""
        dsn = os.environ.get(DSN_VARIABLE)
        if not dsn:
            raise ServerUnavailableError(
                f"{DSN_VARIABLE} is not set",
                f"Set {DSN_VARIABLE} to the connection string of a role that may create databases.",
            )
        try:
            parts = conninfo_to_dict(dsn)
        except psycopg.ProgrammingError as error:
            raise ServerUnavailableError(
                f"{DSN_VARIABLE} is no connection string: {str(error).strip()}",
                "It looks like postgresql://user@host:5432/postgres or host=… dbname=postgres.",
            ) from None
        return f"the server of {DSN_VARIABLE} at {parts.get('host') or parts.get('service') or 'its default address'}"

    def start(self, given_up: Callable[[], bool]) -> str:
        """Connect to it, and see what its role may do."""
        del given_up
        dsn = os.environ[DSN_VARIABLE]
        may = """SELECT rolsuper OR rolcreatedb, rolname FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user"""
        try:
            with psycopg.connect(dsn, connect_timeout=10) as connection:
                row = connection.execute(may).fetchone()
        except psycopg.Error as error:
            raise ServerUnavailableError(
                f"the server of {DSN_VARIABLE} cannot be used: {str(error).strip()}",
                f"Start it, or correct or unset {DSN_VARIABLE}.",
            ) from None
        if row is None or not row[0]:
            raise ServerUnavailableError(
                f"the role of {DSN_VARIABLE} may not create databases",
                f"As a superuser: ALTER ROLE {'…' if row is None else row[1]} CREATEDB",
            )
        return dsn

    def stop(self) -> None:
        """Drop the run's databases."""
        names = "SELECT datname FROM pg_catalog.pg_database WHERE pg_catalog.starts_with(datname, %s)"
        # A server that is gone has taken its databases along.
        with (
            suppress(psycopg.OperationalError),
            psycopg.connect(os.environ[DSN_VARIABLE], autocommit=True) as connection,
        ):
            for (name,) in connection.execute(names, (f"{PREFIX}{self.request.run}_",)).fetchall():
                connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


class Embedded(Backend):
    """The server that comes with kbsearch, on data of the run's own: in memory where there is room."""

    kind = "embedded"

    def check(self) -> str:
        """It comes with kbsearch."""
        return "embedded PostgreSQL"

    def start(self, given_up: Callable[[], bool]) -> str:
        """Start it on new data."""
        del given_up
        from kbsearch import embedded  # noqa: PLC0415  (slow to import)
        from kbsearch.errors import EmbeddedServerError  # noqa: PLC0415

        in_memory, on_disk = self._places()
        data = in_memory if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and _room(MEMORY) else on_disk
        data.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            with self._runtime_directory():
                return embedded.start(data, settings=_SETTINGS).dsn("postgres")
        except (EmbeddedServerError, ImportError) as error:
            raise ServerUnavailableError(
                str(error), f"Use another server: Docker, or one named by {DSN_VARIABLE}."
            ) from error

    def stop(self) -> None:
        """Stop it and remove its data."""
        for data in self._places():
            if data.exists():
                from kbsearch import embedded  # noqa: PLC0415

                with self._runtime_directory():
                    embedded.stop(data)
                shutil.rmtree(data)
        with suppress(FileNotFoundError):
            self._places()[0].parent.rmdir()

    @contextmanager
    def _runtime_directory(self) -> Iterator[None]:
        """For the server's package, which makes itself one in a shared place where the system has none, and leaves it there."""
        missing = "XDG_RUNTIME_DIR" not in os.environ
        if missing:
            os.environ["XDG_RUNTIME_DIR"] = self.request.directory
        try:
            yield
        finally:
            if missing:
                del os.environ["XDG_RUNTIME_DIR"]

    def _places(self) -> tuple[Path, Path]:
        """Where its data may be: in memory, on disk."""
        directory = Path(self.request.directory)
        return MEMORY / directory.name / "postgres", directory / "postgres"


def _room(directory: Path) -> bool:
    return shutil.disk_usage(directory).free >= ROOM


class Container(Backend):
    """A container of testcontainers."""

    kind = "docker"

    def check(self) -> str:
        """See whether an engine answers and has the image, or a registry does."""
        # Who asks for it by name would rather wait than go without.
        with engine(ANSWER_SECONDS if self.request.kind == "auto" else START_SECONDS) as client:
            image = self._image
            if not _has_image(client, image):
                try:
                    client.images.get_registry_data(image)
                except _failures() as error:
                    raise ServerUnavailableError(
                        f"the image {image} is not there and no registry gives it: {_reason(error)}",
                        f"Get it with docker pull {image}, or choose one that is there with --kbsearch-image.",
                    ) from None
        return f"Docker container of {image}"

    def start(self, given_up: Callable[[], bool]) -> str:
        """Start it as a server that keeps nothing; an image that is not there is pulled."""
        from testcontainers.community.postgres import PostgresContainer  # noqa: PLC0415
        from testcontainers.core.config import testcontainers_config  # noqa: PLC0415

        password = uuid.uuid4().hex
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        try:
            with engine(START_SECONDS) as client:
                # Its reaper is one more safeguard where its image is there, and not worth a download: who keeps the server removes it.
                if not _has_image(client, testcontainers_config.ryuk_image):
                    testcontainers_config.ryuk_disabled = True
                if not _has_image(client, self._image):
                    _pull(client, self._image, given_up)
            if given_up():
                return ""
            container = PostgresContainer(
                self.request.image, username="postgres", password=password, dbname="postgres", driver=None
            )
            # Data in memory; the volume that the image declares stays empty.
            container.with_tmpfs_mount("/kbsearch").with_env("PGDATA", "/kbsearch/data")
            container.with_name(self._name).with_command(["postgres", *settings])
            container.waiting_for(_readiness(given_up)).start()
            return make_conninfo(container.get_connection_url())
        except _failures() as error:
            raise ServerUnavailableError(
                f"no server started in a container of {self._image}: {_reason(error)}",
                f"See what it says: docker run --rm -e POSTGRES_PASSWORD=postgres {self._image}",
            ) from error

    def stop(self) -> None:
        """Remove it with its volume."""
        from docker.errors import NotFound  # noqa: PLC0415

        with engine(START_SECONDS) as client, suppress(NotFound):
            client.containers.get(self._name).remove(force=True, v=True)

    @property
    def _image(self) -> str:
        """With the prefix that testcontainers puts before it, where one is set."""
        from testcontainers.core.config import testcontainers_config  # noqa: PLC0415

        return testcontainers_config.hub_image_name_prefix + self.request.image

    @property
    def _name(self) -> str:
        return f"kbsearch-test-{self.request.run}"


def _failures() -> tuple[type[Exception], ...]:
    """What Docker's client and testcontainers raise."""
    from docker.errors import DockerException  # noqa: PLC0415  (only where Docker is used)
    from requests.exceptions import RequestException  # noqa: PLC0415
    from testcontainers.core.exceptions import ContainerConnectException, ContainerStartException  # noqa: PLC0415

    return DockerException, RequestException, ContainerConnectException, ContainerStartException, OSError


@contextmanager
def engine(timeout: float) -> Iterator[Any]:
    """A client of the engine that testcontainers uses; every answer may take `timeout` seconds.

    Raises:
        ServerUnavailableError: none answers, or testcontainers is not installed.
    """
    try:
        from testcontainers.core.docker_client import DockerClient, get_docker_host  # noqa: PLC0415
    except ImportError as error:
        raise ServerUnavailableError(
            f"testcontainers is not installed ({error.name})", "Run: pip install 'kbsearch[testing]'"
        ) from None
    host = get_docker_host() or "unix:///var/run/docker.sock"
    try:
        _ping(host, timeout)
        client = DockerClient(timeout=timeout).client
    except _failures() as error:
        raise ServerUnavailableError(
            f"no Docker engine answers at {host}: {_reason(error)}",
            "Start one (docker version says what is wrong), name it in DOCKER_HOST, or choose another server with --kbsearch-server.",
        ) from None
    try:
        yield client
    finally:
        client.close()


def _ping(host: str, timeout: float) -> None:
    """Raise OSError where a local engine does not answer: Docker's client finds that out, too, but leaves the socket open."""
    url = urlsplit(host)
    if url.scheme == "unix":
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout)
            connection.connect(url.path)
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            if not connection.recv(1):
                raise ConnectionError("it says nothing")


def _readiness(given_up: Callable[[], bool]) -> Any:
    """Waits until a container's server answers, and not for one that has ended."""
    from testcontainers.core.exceptions import ContainerStartException  # noqa: PLC0415
    from testcontainers.core.waiting_utils import WaitStrategy  # noqa: PLC0415

    class Readiness(WaitStrategy):
        def wait_until_ready(self, container: Any) -> None:
            deadline = time.monotonic() + START_SECONDS
            while True:
                container.reload()
                if container.status not in ("created", "running"):
                    if not (said := _said(container)):
                        time.sleep(_LOG_SECONDS)  # the engine may know of the end before it has the last words
                        said = _said(container)
                    raise ContainerStartException(
                        f"it has {container.status}, and said last: {said[-1] if said else 'nothing'}"
                    )
                with suppress(psycopg.OperationalError, ContainerStartException, TimeoutError):
                    psycopg.connect(container.get_connection_url(), connect_timeout=2).close()
                    return
                if given_up() or time.monotonic() > deadline:
                    raise TimeoutError(f"no answer within {START_SECONDS:.0f} s")
                time.sleep(_POLL_SECONDS)

    return Readiness()


def _said(container: Any) -> list[str]:
    """What a container has written, by lines."""
    return b"".join(container.get_logs()).decode(errors="replace").strip().splitlines()


def _has_image(client: Any, image: str) -> bool:
    from docker.errors import ImageNotFound  # noqa: PLC0415

    try:
        client.images.get(image)
    except ImageNotFound:
        return False
    return True


def _pull(client: Any, image: str, given_up: Callable[[], bool]) -> None:
    """Pull an image, however long that takes, unless nobody waits any more."""
    client.api.timeout = PULL_SECONDS
    for line in client.api.pull(image, stream=True, decode=True):
        if "error" in line:
            raise ServerUnavailableError(
                f"the image {image} cannot be pulled: {line['error']}", f"Try: docker pull {image}"
            )
        if given_up():
            return


def _reason(error: BaseException) -> str:
    """The last line of what an error says: those of Docker's client quote one another."""
    text = str(getattr(error, "explanation", None) or getattr(error, "strerror", None) or error).strip()
    return text.splitlines()[-1] if text else type(error).__name__


BACKENDS: Mapping[str, type[Backend]] = {backend.kind: backend for backend in (Given, Embedded, Container)}


def choose(request: Request) -> tuple[Backend, str]:
    """The server that a request gets, and which one that is and why, in a line.

    What was asked for by name is what one gets. Otherwise it is the server of KBSEARCH_TEST_DSN where that is set, else a container where an engine
    and the image are to be had, else the embedded server.

    Raises:
        ServerUnavailableError: it is not to be had.
    """
    if request.kind not in KINDS:
        raise ServerUnavailableError(
            f"{request.kind!r}, of {request.asked_by}, is no server", f"Choose one of {', '.join(KINDS)}."
        )
    if request.kind != "auto":
        backend = BACKENDS[request.kind](request)
        return backend, f"{backend.check()}, as {request.asked_by} says"
    if os.environ.get(DSN_VARIABLE):
        backend = Given(request)
        return backend, backend.check()
    try:
        container = Container(request)
        return container, f"{container.check()}, as {DSN_VARIABLE} is not set and a Docker engine answers"
    except ServerUnavailableError as error:
        embedded = Embedded(request)
        return embedded, f"{embedded.check()}, as {DSN_VARIABLE} is not set and {error}"
