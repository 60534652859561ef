"""The wheel of this checkout, in virtual environments of its own: nothing here is imported from the checkout.

What the wheel and the examples require is lent by the environment of the tests, package by package: just what is required, directly or not, in a
version that is allowed. So nothing is fetched, and what is not required is not there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, PathDistribution, distribution
from pathlib import Path
from urllib.parse import quote, urlencode

import psycopg
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from kbsearch import migrate
from tests.conftest import Databases

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = ROOT / "examples"


class Environment:
    """A virtual environment.

    Attributes:
        directory: where it is.
        python: its interpreter.
    """

    def __init__(self, directory: Path, wheel: Path, *requirements: str) -> None:
        venv.create(directory, symlinks=os.name != "nt")
        self.directory = directory
        self.python = directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        done = self.pip("install", "--quiet", "--no-compile", "--no-deps", "--no-index", str(wheel))
        assert done.returncode == 0, done.stderr
        (packages,) = directory.rglob("site-packages")
        (metadata,) = packages.glob("kbsearch-*.dist-info")
        for lent in required(PathDistribution(metadata), requirements):
            for name in {file.parts[0] for file in lent.files or () if file.parts[0] not in ("..", "__pycache__")}:
                (packages / name).symlink_to(Path(str(lent.locate_file(name))).resolve())

    def pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run this interpreter's pip on the environment, which has none."""
        return run([sys.executable, "-m", "pip", "--python", str(self.python), *arguments], ROOT)

    def run(
        self, *arguments: str, cwd: Path, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run its interpreter."""
        return run([str(self.python), *arguments], cwd, variables)


def required(kbsearch: Distribution, requirements: Sequence[str]) -> Iterator[Distribution]:
    """The packages of this environment that kbsearch and other requirements ask for, directly or not, each once; not kbsearch itself."""
    asked = [Requirement(one) for one in ("kbsearch", *requirements)]
    seen: dict[str, set[str]] = {}
    while asked:
        wanted = asked.pop()
        name = canonicalize_name(wanted.name)
        if name == "kbsearch":
            found = kbsearch
        else:
            try:
                found = distribution(name)
            except PackageNotFoundError:
                pytest.fail(f"the tests' environment has no {wanted}: name it in the extra dev", pytrace=False)
            assert wanted.specifier.contains(found.version, prereleases=True), f"{wanted}: {found.version} is here"
            if name not in seen:
                yield found
        new = {"", *wanted.extras} - seen.setdefault(name, set())
        seen[name] |= new
        parts = [Requirement(one) for one in found.requires or ()]
        asked += [one for one in parts for extra in new if one.marker is None or one.marker.evaluate({"extra": extra})]


def lines(file: Path) -> Iterator[str]:
    """The requirements in a file."""
    stripped = (line.partition(" #")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    return (line for line in stripped if line and not line.startswith("#"))


def run(command: list[str], cwd: Path, variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command that knows nothing of this process's own packages and settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KBSEARCH_"))}
    settings = {"PYTHONUTF8": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    return subprocess.run(
        command,
        cwd=cwd,
        env={**inherited, **settings, **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    directory = tmp_path_factory.mktemp("dist")
    done = run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)], ROOT)
    assert done.returncode == 0, done.stderr
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with kbsearch and what it cannot do without."""
    return Environment(tmp_path_factory.mktemp("plain"), wheel)


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with kbsearch and what the examples ask for."""
    requirements = (line for file in sorted(PROJECTS.glob("*/requirements.txt")) for line in lines(file))
    return Environment(tmp_path_factory.mktemp("examples"), wheel, *requirements)


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    """A copy of the examples, away from the checkout."""
    return shutil.copytree(PROJECTS, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", ".*"))


def url(dsn: str, **options: str) -> str:
    """A connection string as a URL, with settings of the session: what libpq and SQLAlchemy both read."""
    parts = {**conninfo_to_dict(dsn)}
    settings = [str(parts.pop("options", "")), *(f"-c {name}={value}" for name, value in options.items())]
    parts["options"] = " ".join(filter(None, settings))
    name = quote(str(parts.pop("dbname")))
    return f"postgresql:///{name}?" + urlencode({key: value for key, value in parts.items() if value}, quote_via=quote)


@pytest.fixture
def bare_host(databases: Databases) -> Iterator[str]:
    """URL of a database without kbsearch, of an application that has its own tables in the schema public."""
    dsn = databases.create()
    try:
        with psycopg.connect(databases.admin(dsn)) as connection:
            statement = sql.SQL("GRANT CREATE ON SCHEMA public TO {}")
            connection.execute(statement.format(sql.Identifier(databases.role)))
        yield url(dsn, search_path="public")
    finally:
        databases.drop(dsn)


@pytest.fixture
def host(bare_host: str) -> str:
    """The same with kbsearch installed."""
    migrate.upgrade(bare_host)
    return bare_host
