"""Other servers: which of them kbsearch's image can be built on, and what the others are told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kbsearch import migrate
from kbsearch.errors import MigrationError
from tests.docker.engine import BASE, CLI, DATABASE, PASSWORD, Container, Engine, run

OLD, WITHOUT_VECTOR, NEWEST = "postgres:13", "postgres:15", "pgvector/pgvector:pg18"
NO_VECTOR = "the server does not have pgvector"


def there(image: str) -> str:
    if run(["docker", "image", "inspect", image]).code:
        pytest.skip(f"no image {image}; make test-servers makes it")
    return image


def complaint(engine: Engine, base: str, directory: Path) -> str:
    """The line by which a build on this base ends."""
    _, done = engine.build_on(base, directory / "context")
    assert done.code != 0
    printed = re.sub("\x1b\\[[0-9;]*m", "", done.out + done.errors)  # Docker colours what goes to standard error
    lines: list[str] = re.findall("kbsearch: the base image won't do: .*", printed)
    (line,) = set(lines)
    return line


def told(engine: Engine, server: Container) -> list[str]:
    """What the command line says that is to install kbsearch there."""
    dsn = f"KBSEARCH_DSN=host={server.address} user=postgres dbname=kbsearch"
    done = engine.attempt(CLI, "db", "upgrade", options=["--env", dsn, "--env", f"PGPASSWORD={PASSWORD}"])
    assert done.code == 3, (done.out, done.errors)
    assert done.out == ""
    return done.errors.splitlines()


def test_a_base_without_pgvector_is_refused(engine: Engine, tmp_path: Path) -> None:
    base = engine.derive(tmp_path, BASE, 'RUN rm "$(pg_config --sharedir)/extension/vector.control"')
    assert NO_VECTOR in complaint(engine, base, tmp_path)
    line, hint = told(engine, engine.database(image=base))
    assert NO_VECTOR in line
    assert "Install pgvector 0.8 or newer on the server" in hint


@pytest.mark.parametrize(
    ("image", "reason", "remedy"),
    [
        (OLD, "the server is PostgreSQL 13", "Upgrade the server."),
        (WITHOUT_VECTOR, NO_VECTOR, "Install pgvector 0.8 or newer"),
    ],
)
def test_a_server_that_will_not_do_is_told_why(
    engine: Engine, tmp_path: Path, image: str, reason: str, remedy: str
) -> None:
    there(image)
    line = complaint(engine, image, tmp_path)
    assert reason in line
    assert remedy in line
    server = engine.database(image=image)
    line, hint = told(engine, server)
    assert reason in line
    assert remedy in hint
    with pytest.raises(MigrationError, match=reason):
        migrate.upgrade(server.dsn())


def test_the_newest_server_is_a_base_too(engine: Engine, tmp_path: Path) -> None:
    name, done = engine.build_on(there(NEWEST), tmp_path / "context")
    assert done.code == 0, done.errors or done.out
    server = engine.database(image=name)
    assert migrate.check(server.dsn()) == []
    assert server.stop() < 10


def test_data_of_one_major_version_are_refused_by_the_image_of_another(engine: Engine) -> None:
    there(NEWEST)
    volume = ["--volume", f"{engine.volume()}:/var/lib/postgresql/data"]
    engine.database(image=NEWEST, options=volume).stop()
    done = engine.attempt(DATABASE, options=volume)
    assert done.code == 1
    assert "are of PostgreSQL 18, and this image is of PostgreSQL 17: dump them" in done.errors
