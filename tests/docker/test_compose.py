"""docker/compose.yaml, as docs/how-to/docker.md says to use it."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
import pytest
import yaml
from psycopg.conninfo import make_conninfo

from tests.docker.engine import ROOT, Done, Engine, run, until
from tests.docs.pages import Reader, blocks

PAGE = ROOT / "docs/how-to/docker.md"
FILE = "docker/compose.yaml"
PASSWORD = "change-me"  # noqa: S105  (as on the page)


@pytest.fixture(scope="session")
def compose() -> list[str]:
    """The command of Docker Compose."""
    return ["docker", "compose"] if run(["docker", "compose", "version"]).code == 0 else ["docker-compose"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the page needs of a checkout."""
    for name in ("docker", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    tmp_path.chmod(0o755)
    return tmp_path


class Project:
    """A compose project of its own, on a free port."""

    def __init__(self, compose: list[str], name: str, checkout: Path) -> None:
        self.command = [*compose, "-f", FILE]
        self.checkout = checkout
        self.variables = {"COMPOSE_PROJECT_NAME": name, "KBSEARCH_PORT": "0", "POSTGRES_PASSWORD": PASSWORD}

    def attempt(self, *arguments: str, **variables: str) -> Done:
        given: Mapping[str, str] = {name: value for name, value in {**self.variables, **variables}.items() if value}
        return run([*self.command, *arguments], variables=given, cwd=self.checkout, timeout=200)

    def run(self, *arguments: str, **variables: str) -> str:
        done = self.attempt(*arguments, **variables)
        assert done.code == 0, (done.out, done.errors)
        return done.out

    def dsn(self) -> str:
        host, _, port = self.run("port", "database", "5432").strip().rpartition(":")
        assert host == "127.0.0.1"
        return make_conninfo(host=host, port=port, user="postgres", password=PASSWORD, dbname="kbsearch")


@pytest.fixture
def project(engine: Engine, compose: list[str], checkout: Path) -> Iterator[Project]:
    made = Project(compose, engine.name(), checkout)
    yield made
    made.attempt("down", "--volumes", "--remove-orphans")


def test_the_lines_of_the_page_run(engine: Engine, compose: list[str], checkout: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    name = engine.name()
    for written, meant in (
        (' title="Not run here: needs Docker"', ""),
        ("docker compose", " ".join(compose)),
        ("127.0.0.1:5432:5432", "127.0.0.1::5432"),
        ("--name kbsearch ", f"--name {name} "),
        ("kbsearch-data:", f"{name}:"),
    ):
        assert written in text
        text = text.replace(written, meant)
    assert sum(block.is_executed for block in blocks(text)) == 4
    inherited = {key: os.environ.get(key, "") for key in ("DOCKER_HOST",)}
    reader = Reader(checkout, {"COMPOSE_PROJECT_NAME": name, "KBSEARCH_PORT": "0", **inherited})
    assert reader.follow(text, "docs/how-to/docker.md") == 4
    # The database of the last block, without compose, is up.
    until(lambda: run(["docker", "exec", name, "pg_isready", "--host=127.0.0.1"]).code == 0, 60)
    engine.docker("rm", "--force", name)


def test_the_lines_of_the_page_are_those_of_the_makefile_and_the_compose_file() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    text = PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"^make ([a-z-]+)$", text, re.MULTILINE)) <= set(targets)
    services = yaml.safe_load((ROOT / FILE).read_text(encoding="utf-8"))["services"]
    assert set(re.findall(r"(?:run --rm|exec -T|up --detach|restart) (\w+)", text)) == set(services)


def test_what_was_ingested_is_found_and_stays(project: Project, checkout: Path) -> None:
    folder = checkout / "handbook"
    folder.mkdir()
    (folder / "parcels.md").write_text("# Parcels\n\nA parcel arrives within two days.\n", encoding="utf-8")
    (folder / "refunds.md").write_text("# Refunds\n\nThe money is back within a week.\n", encoding="utf-8")
    project.run("up", "--detach", "database")
    documents = {"KBSEARCH_DOCUMENTS": str(folder), "KBSEARCH_ORG": "shop"}
    assert "articles written" in project.run("run", "--rm", "-T", "ingest", **documents)
    query = """SELECT r.external_ref, r.vector_similarity IS NOT NULL, r.keyword_score IS NOT NULL
    FROM kbsearch.search_kb_hybrid_v1(
        p_org_id => 1, p_query_text => 'parcel',
        p_query_embedding => (SELECT e.embedding FROM kbsearch.kb_article_embeddings AS e ORDER BY e.chunk_id LIMIT 1)
    ) AS r"""
    for step in ("up", "restart", "down"):
        if step != "up":
            project.run(step)
            project.run("up", "--detach", "database")
        # Waits until the database is healthy, and does nothing.
        assert "already" in project.run("run", "--rm", "-T", "cli", "db", "upgrade")
        with psycopg.connect(project.dsn()) as connection:
            found = connection.execute(query).fetchall()
        assert found == [("parcels.md", True, True), ("refunds.md", True, False)]
    answer = project.run(
        "run", "--rm", "-T", "cli", "search", "--org", "shop", "--json", "how long does the money take?"
    )
    assert "refunds.md" in answer


def test_the_password_is_asked_for(project: Project) -> None:
    done = project.attempt("up", "--detach", "database", POSTGRES_PASSWORD="")
    assert done.code != 0
    (line,) = [line for line in done.errors.splitlines() if "POSTGRES_PASSWORD" in line]
    assert "is the password of the database's user postgres" in line
    assert project.run("ps", "--quiet") == ""


def test_the_password_may_be_in_a_file_for_the_command_too(engine: Engine, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    secret = tmp_path / "password"
    secret.write_text("wrong\n", encoding="utf-8")
    secret.chmod(0o644)
    server = engine.database()
    options = [
        "--env",
        f"KBSEARCH_DSN=host={server.address} user=postgres dbname=kbsearch",
        "--env",
        "PGPASSWORD_FILE=/password",
    ]
    mounted = [*options, "--volume", f"{secret}:/password:ro"]
    assert "password authentication failed" in engine.attempt("kbsearch-cli", "db", "check", options=mounted).errors
    secret.write_text('it\'s a "secret" $\n', encoding="utf-8")
    assert "No differences" in engine.attempt("kbsearch-cli", "db", "check", options=mounted).out
    done = engine.attempt("kbsearch-cli", "db", "check", options=options)
    assert (done.code, done.errors) == (1, "kbsearch: kbsearch (user id 1000) cannot read PGPASSWORD_FILE: /password\n")


def test_a_folder_that_is_not_there_is_named(project: Project, checkout: Path) -> None:
    missing = checkout / "missing"
    done = project.attempt("run", "--rm", "-T", "ingest", KBSEARCH_DOCUMENTS=str(missing))
    assert done.code != 0
    assert str(missing) in done.errors
    assert not missing.exists()


def test_a_port_that_is_taken_is_reported_by_docker(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = project.attempt("up", "--detach", "database", KBSEARCH_PORT=port)
    assert done.code == 1
    assert "address already in use" in done.errors or "port is already allocated" in done.errors
