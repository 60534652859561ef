"""Containers, volumes, networks and images of tests, on the Docker engine that the command `docker` speaks to; all of it is gone when they end.

Everything that a test makes bears a label or a name with a mark that holds the id of its process. A test removes its own at its end, and a session at
its beginning what processes left that were killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from kbsearch import migrate

ROOT = Path(__file__).resolve().parents[2]
DATABASE = "kbsearch-database:latest"
CLI = "kbsearch-cli:latest"
BASE = "pgvector/pgvector:pg17"
LABEL = "kbsearch.test"
PREFIX = "kbsearch-docker-test"
PASSWORD = 'it\'s a "secret" $'  # noqa: S105  (of servers that live as long as a test)


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended.

    Attributes:
        code: its exit code.
        out: its standard output.
        errors: its standard error.
    """

    code: int
    out: str
    errors: str


def run(
    command: Sequence[str], *, variables: Mapping[str, str] | None = None, cwd: Path = ROOT, timeout: float = 120
) -> Done:
    """Run a command to its end; variables are added to the environment."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("KBSEARCH_", "POSTGRES_", "PG"))
    }
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**environment, **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def problem() -> str | None:
    """Why there is nothing to test with, or None."""
    try:
        answer = run(["docker", "version", "--format", "{{.Server.Version}}"])
    except FileNotFoundError:
        return "there is no command docker"
    if answer.code:
        lines = (answer.errors or answer.out).strip().splitlines() or ["docker version failed"]
        return f"no Docker engine answers: {lines[-1]}"
    return None


class Container:
    """A container.

    Attributes:
        engine: where it is.
        id: its id.
    """

    def __init__(self, engine: Engine, identity: str) -> None:
        self.engine = engine
        self.id = identity

    def field(self, template: str) -> str:
        """Something that `docker inspect` knows, as in {{.State.Running}}."""
        return self.engine.docker("inspect", "--format", template, self.id).strip()

    @property
    def log(self) -> str:
        """What it has written, on both streams."""
        done = run(["docker", "logs", self.id])
        return done.out + done.errors

    @property
    def address(self) -> str:
        """Its address on the network of containers."""
        return self.field("{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")

    def execute(self, *command: str) -> Done:
        """Run a command in it."""
        return run(["docker", "exec", self.id, *command])

    def dsn(self, database: str = "kbsearch") -> str:
        """Connection string of the superuser."""
        host, _, port = self.engine.docker("port", self.id, "5432").splitlines()[0].rpartition(":")
        return make_conninfo(host=host, port=port, user="postgres", password=PASSWORD, dbname=database)

    def wait(self) -> Container:
        """Wait until its server takes connections from elsewhere, so that its first start is over."""

        def ready() -> bool:
            assert self.field("{{.State.Running}}") == "true", self.log
            try:
                psycopg.connect(self.dsn(), connect_timeout=5).close()
            except psycopg.OperationalError:
                return False
            return True

        until(ready, 120, lambda: self.log)
        return self

    def heeds_signals(self) -> bool:
        """Whether its first process has a handler of SIGINT: without one, the kernel lets no signal stop a container."""
        status = self.execute("cat", "/proc/1/status").out
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
        return caught is not None and bool(int(caught[1], 16) >> (signal.SIGINT - 1) & 1)

    def stop(self) -> float:
        """Stop it as `docker stop` does, and return how long that took, in seconds."""
        begin = time.monotonic()
        self.engine.docker("stop", "-t", "60", self.id)
        return time.monotonic() - begin

    def start(self) -> Container:
        """Start it again."""
        self.engine.docker("start", self.id)
        return self.wait()


def until(condition: Callable[[], bool], seconds: float, explain: Callable[[], str] = str) -> None:
    """Wait for a condition.

    Args:
        condition: what to wait for.
        seconds: how long at most.
        explain: what to say when it did not come true.
    """
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} seconds. {explain()}"
        time.sleep(0.1)


class Engine:
    """The Docker engine."""

    def __init__(self) -> None:
        self.mark = f"{os.getpid()}_{uuid.uuid4().hex[:8]}"

    def docker(self, *arguments: str, timeout: float = 120) -> str:
        """Run a docker command that is to succeed, and return what it printed."""
        done = run(["docker", *arguments], timeout=timeout)
        assert done.code == 0, f"docker {' '.join(arguments)}: {done.errors or done.out}"
        return done.out

    def name(self) -> str:
        """A new name, for what cannot bear a label (or as a compose project's)."""
        return f"{PREFIX}-{self.mark}-{uuid.uuid4().hex[:8]}"

    def attempt(self, image: str, *command: str, options: Sequence[str] = ()) -> Done:
        """Run a container that is expected to end by itself."""
        return run(["docker", "run", "--rm", "--label", f"{LABEL}={self.mark}", *options, image, *command])

    def container(self, image: str, *command: str, options: Sequence[str] = ()) -> Container:
        """Start a container in the background."""
        label = f"{LABEL}={self.mark}"
        return Container(self, self.docker("run", "--detach", "--label", label, *options, image, *command).strip())

    def database(self, *command: str, image: str = DATABASE, options: Sequence[str] = ()) -> Container:
        """Start a database server on a free port of this host, and wait for it."""
        password = f"POSTGRES_PASSWORD={PASSWORD}"
        given = ("--publish", "127.0.0.1::5432", "--env", password, "--env", "POSTGRES_DB=kbsearch", *options)
        return self.container(image, *command, options=given).wait()

    def volume(self) -> str:
        """Make a volume, and return its name."""
        return self.docker("volume", "create", "--label", f"{LABEL}={self.mark}", self.name()).strip()

    def derive(self, directory: Path, base: str, *lines: str) -> str:
        """Build an image from another by a few lines of a Dockerfile, in a directory, and return its name."""
        name = self.name()
        # The label is on what a build leaves that is cut short, too.
        text = "\n".join((f"FROM {base}", f"LABEL {LABEL}={name}", *lines))
        (directory / "Dockerfile").write_text(text, encoding="utf-8")
        self.docker("build", "--network", "none", "--force-rm", "--tag", name, str(directory), timeout=280)
        return name

    def build_on(self, base: str, directory: Path) -> tuple[str, Done]:
        """Build docker/Dockerfile on another base, from what build.sh would prepare for it in this directory: the image's name, and what was said."""
        name = self.name()
        shutil.copytree(ROOT / "docker", directory / "docker")
        (directory / "build" / "docker").mkdir(parents=True)
        (directory / "build" / "docker" / "install.sql").write_text(migrate.script(), encoding="utf-8")
        arguments = (f"--build-arg=BASE={base}", f"--build-arg=VERSION={name}", "--network=none", "--force-rm")
        command = ["docker", "build", *arguments, "--file", "docker/Dockerfile", "--tag", name, "."]
        return name, run(command, cwd=directory, timeout=280)

    def remove(self) -> None:
        """Remove what was made by this object."""
        for kind, identity in self.left(lambda mark: mark == self.mark):
            self._remove(kind, identity)

    def sweep(self) -> None:
        """Remove what processes made that are no more."""
        if Path("/proc/self").exists():
            for kind, identity in self.left(lambda mark: not Path("/proc", mark.partition("_")[0]).exists()):
                self._remove(kind, identity)

    def left(self, wanted: Callable[[str], bool]) -> list[tuple[str, str]]:
        """Kind and id of containers, volumes, networks and images with a wanted mark, in the order in which they can be removed."""
        found = []
        for kind, listing, fields in (
            ("container", ("ps", "--all"), "{{.ID}}\t{{.Names}}"),
            ("volume", ("volume", "ls"), "{{.Name}}\t{{.Name}}"),
            ("network", ("network", "ls"), "{{.ID}}\t{{.Name}}"),
        ):
            # Compose gives its things names that begin with the project's.
            for line in self.docker(*listing, "--format", f'{fields}\t{{{{.Label "{LABEL}"}}}}').splitlines():
                one, named, labelled = line.split("\t")
                mark = labelled or _mark(named)
                if mark and wanted(mark):
                    found.append((kind, one))
        images = self.docker("image", "ls", "--quiet", "--no-trunc").split()
        for one in dict.fromkeys(images):
            told = run(["docker", "image", "inspect", "--format", "{{json .RepoTags}}{{json .Config.Labels}}", one])
            if told.code == 0 and (mark := _mark(told.out)) and wanted(mark):
                found.append(("image", one))
        return found

    def _remove(self, kind: str, identity: str) -> None:
        commands = {
            "container": ("rm", "--force", "--volumes"),
            "volume": ("volume", "rm", "--force"),
            "network": ("network", "rm"),
            "image": ("image", "rm", "--force"),
        }
        with contextlib.suppress(AssertionError):  # somebody else was faster
            self.docker(*commands[kind], identity)


def _mark(text: str) -> str | None:
    """The mark in a name that was given by Engine.name()."""
    match = re.search(rf"\b{PREFIX}-(\d+_[0-9a-f]+)-", text)
    return match[1] if match else None


def required() -> bool:
    """Whether tests that lack something are to fail rather than to be skipped."""
    return os.environ.get("KBSEARCH_DOCKER") == "required"


def lacking(what: str) -> None:
    """Skip a test, or fail it, as something is missing."""
    if required():
        pytest.fail(what, pytrace=False)
    pytest.skip(what)
