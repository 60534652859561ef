"""The image kbsearch-database: what is in it, what it survives, and what it says when it cannot start."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from kbsearch import migrate
from tests.docker.engine import BASE, DATABASE, PASSWORD, Container, Done, Engine, until
from tests.index.derived import faults

ARTICLE = """SELECT kbsearch.upsert_kb_article_v1(
    p_org_id => 1, p_external_ref => %(name)s, p_title => %(name)s, p_kind => 'faq',
    p_chunks => jsonb_build_array(jsonb_build_object('content', 'number ' || %(name)s))
)"""
SEARCH = "SELECT r.title FROM kbsearch.search_kb_hybrid_v1(p_org_id => 1, p_query_text => %s, p_limit => 1000) AS r"


def write(dsn: str, *names: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO kbsearch.organizations (name) SELECT 'store' WHERE NOT EXISTS (SELECT FROM kbsearch.organizations)"
        )
        for name in names:
            connection.execute(ARTICLE, {"name": name})


def search(dsn: str, question: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        return {title for (title,) in connection.execute(SEARCH, [question])}


@pytest.fixture(scope="module")
def server(images: None) -> Iterator[Container]:
    """A server that the tests leave as it is."""
    engine = Engine()
    try:
        yield engine.database()
    finally:
        engine.remove()


def test_kbsearch_is_installed_as_a_fresh_install_has_it(server: Container) -> None:
    assert migrate.current(server.dsn()) == migrate.head()
    assert migrate.check(server.dsn()) == []


def test_a_search_answers(server: Container) -> None:
    write(server.dsn(), "seven", "eight")
    assert search(server.dsn(), "number eight") == {"seven", "eight"}
    assert search(server.dsn(), "eight") == {"eight"}


def test_it_becomes_healthy(server: Container) -> None:
    until(lambda: server.field("{{.State.Health.Status}}") == "healthy", 60, lambda: server.log)


def test_no_process_runs_as_root(server: Container) -> None:
    processes = server.engine.docker("top", server.id, "-eo", "pid,uid").splitlines()[1:]
    assert {line.split()[1] for line in processes} == {"999"}
    assert server.execute("id", "-u").out.strip() == "999"
    assert server.execute("touch", "/usr/local/bin/x").code != 0


def test_the_password_is_asked_for(server: Container) -> None:
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(server.dsn(), password="", passfile="/dev/null")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(server.dsn(), password="wrong")  # noqa: S106


def test_the_image_says_what_it_is(engine: Engine) -> None:
    labels = engine.docker("image", "inspect", "--format", "{{json .Config.Labels}}", DATABASE)
    for name in ("title", "description", "version", "licenses"):
        assert f'"org.opencontainers.image.{name}":"' in labels
    assert engine.docker("image", "inspect", "--format", "{{.Config.StopSignal}}", DATABASE) == "SIGINT\n"


def test_the_password_may_be_in_a_file(engine: Engine, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(PASSWORD + "\n", encoding="utf-8")
    tmp_path.chmod(0o755)
    secret.chmod(0o644)
    options = ["--publish", "127.0.0.1::5432", "--volume", f"{secret}:/run/password:ro"]
    made = engine.container(DATABASE, options=[*options, "--env", "POSTGRES_PASSWORD_FILE=/run/password"]).wait()
    assert PASSWORD not in made.field("{{json .Config.Env}}")
    assert migrate.current(made.dsn()) == migrate.head()


def test_a_container_that_is_restarted_has_its_data(engine: Engine) -> None:
    server = engine.database()
    write(server.dsn(), "seven")
    server.stop()
    assert search(server.start().dsn(), "seven") == {"seven"}
    engine.docker("restart", server.id)
    assert search(server.wait().dsn(), "seven") == {"seven"}


def test_a_volume_outlives_its_container(engine: Engine) -> None:
    volume = ["--volume", f"{engine.volume()}:/var/lib/postgresql/data"]
    server = engine.database(options=volume)
    write(server.dsn(), "seven")
    engine.docker("rm", "--force", server.id)
    # The second start needs no password: the database has it.
    again = engine.container(DATABASE, options=["--publish", "127.0.0.1::5432", *volume]).wait()
    assert search(again.dsn(), "seven") == {"seven"}


def test_a_killed_server_has_everything_that_was_committed(engine: Engine) -> None:
    server = engine.database()
    write(server.dsn(), "first")
    committed: list[set[str]] = [set() for _ in range(3)]

    def go_on(number: int, dsn: str) -> None:
        try:
            with psycopg.connect(dsn, autocommit=True) as connection:
                for count in range(100_000):
                    connection.execute(ARTICLE, {"name": f"w{number}x{count}"})
                    committed[number].add(f"w{number}x{count}")
        except psycopg.Error:
            pass  # the server is gone

    writers = [threading.Thread(target=go_on, args=(number, server.dsn())) for number in range(len(committed))]
    for writer in writers:
        writer.start()
    until(lambda: all(len(names) > 20 for names in committed), 60)
    engine.docker("kill", "--signal", "KILL", server.id)
    for writer in writers:
        writer.join(timeout=60)
        assert not writer.is_alive()
    assert server.field("{{.State.ExitCode}}") == "137"

    dsn = server.start().dsn()
    with psycopg.connect(dsn) as connection:
        there = {name for (name,) in connection.execute("SELECT a.external_ref FROM kbsearch.kb_articles AS a")}
        assert there >= {"first"}.union(*committed)
        # What was on its way may be there or not: one article a writer.
        assert len(there) <= 1 + sum(len(names) + 1 for names in committed)
        assert faults(connection) == []
        found = {name for one in sorted(there) for (name,) in connection.execute(SEARCH, [one]) if name == one}
    assert found == there


def test_it_stops_within_ten_seconds_though_somebody_is_busy(engine: Engine) -> None:
    server = engine.database()
    ends: list[str | None] = []

    def work(dsn: str) -> None:
        try:
            with psycopg.connect(dsn, autocommit=True) as busy:
                busy.execute("SELECT pg_sleep(100)")
        except psycopg.Error as error:
            ends.append(error.sqlstate)

    with (
        closing(psycopg.connect(server.dsn())) as idle,
        closing(psycopg.connect(server.dsn(), autocommit=True)) as observer,
    ):
        idle.execute("SELECT 1")  # and its transaction stays open
        worker = threading.Thread(target=work, args=(server.dsn(),))
        worker.start()
        query = "SELECT FROM pg_catalog.pg_stat_activity AS s WHERE s.query LIKE 'SELECT pg_sleep%'"
        until(lambda: observer.execute(query).rowcount > 0, 60)
        took = server.stop()
        worker.join(timeout=60)
    assert took < 10
    assert server.field("{{.State.ExitCode}}") == "0"
    assert ends == ["57P01"]  # ended by the administrator


@pytest.mark.parametrize("moment", ["at once", "amid"])
def test_it_stops_within_ten_seconds_during_the_first_start(engine: Engine, moment: str) -> None:
    server = engine.container(DATABASE, options=["--env", f"POSTGRES_PASSWORD={PASSWORD}"])
    if moment == "at once":
        until(server.heeds_signals, 60)
    else:
        until(lambda: server.execute("test", "-s", "/var/lib/postgresql/data/PG_VERSION").code == 0, 60)
    assert server.stop() < 10
    assert server.field("{{.State.ExitCode}}") in {"130", "137", "143"}


def refusal(done: Done) -> str:
    """The one line of a container that did not start."""
    assert done.code not in {0, 125, 126, 127}, (done.out, done.errors)  # those are Docker's own
    assert done.out == ""
    (line,) = done.errors.splitlines()
    assert line.startswith("kbsearch: ")
    return line


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ([], "a new database needs a password: set POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE"),
        (["POSTGRES_PASSWORD="], "a new database needs a password: set POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE"),
        (
            ["POSTGRES_PASSWORD=x", "POSTGRES_PASSWORD_FILE=/etc/hostname"],
            "both POSTGRES_PASSWORD and POSTGRES_PASSWORD_FILE are set: give one of them",
        ),
        (
            ["POSTGRES_PASSWORD_FILE=/run/password"],
            "postgres (user id 999) cannot read POSTGRES_PASSWORD_FILE: /run/password",
        ),
        (["POSTGRES_PASSWORD_FILE=/dev/null"], "POSTGRES_PASSWORD_FILE is empty: /dev/null"),
    ],
)
def test_without_a_password_there_is_one_line(engine: Engine, variables: list[str], line: str) -> None:
    options = [part for variable in variables for part in ("--env", variable)]
    assert refusal(engine.attempt(DATABASE, options=options)) == f"kbsearch: {line}"


def test_a_folder_that_will_not_do_for_data_is_named(engine: Engine, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    data = "/var/lib/postgresql/data"
    options = ["--env", "POSTGRES_PASSWORD=x", "--volume", f"{tmp_path}:{data}"]
    assert refusal(engine.attempt(DATABASE, options=options)) == (
        f"kbsearch: postgres (user id 999) may not write to {data}: give the folder that is mounted there to this user"
    )
    tmp_path.chmod(0o777)
    (tmp_path / "letter.txt").touch()
    assert refusal(engine.attempt(DATABASE, options=options)) == (
        f"kbsearch: {data} holds files, but no database: mount an empty folder there, or set PGDATA to a folder below it"
    )
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_data_of_another_major_version_are_named(engine: Engine, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "PG_VERSION").write_text("16\n", encoding="utf-8")
    line = refusal(engine.attempt(DATABASE, options=["--volume", f"{tmp_path}:/var/lib/postgresql/data"]))
    assert "are of PostgreSQL 16, and this image is of PostgreSQL 17: dump them" in line


def test_scripts_of_ones_own_run_after_kbsearch_is_installed(engine: Engine, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    script = tmp_path / "organization.sql"
    script.write_text("INSERT INTO kbsearch.organizations (name) VALUES ('mine');\n", encoding="utf-8")
    script.chmod(0o644)
    server = engine.database(options=["--volume", f"{script}:/docker-entrypoint-initdb.d/20-organization.sql:ro"])
    with psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SELECT o.name FROM kbsearch.organizations AS o").fetchall() == [("mine",)]
    options = ["--env", "POSTGRES_PASSWORD=x", "--volume", f"{tmp_path}:/docker-entrypoint-initdb.d:ro"]
    assert "mount files of yours into it one by one" in refusal(engine.attempt(DATABASE, options=options))


def test_a_first_start_that_was_cut_short_is_no_database(engine: Engine, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    slow = tmp_path / "slow.sql"
    slow.write_text("SELECT pg_sleep(100);\n", encoding="utf-8")
    slow.chmod(0o644)
    volume = engine.volume()
    options = ["--env", "POSTGRES_PASSWORD=x", "--volume", f"{volume}:/var/lib/postgresql/data"]
    server = engine.container(
        DATABASE, options=[*options, "--volume", f"{slow}:/docker-entrypoint-initdb.d/20-slow.sql:ro"]
    )
    query = "SELECT FROM pg_catalog.pg_stat_activity AS s WHERE s.query LIKE 'SELECT pg_sleep%'"
    until(lambda: "(1 row)" in server.execute("psql", "-X", "-d", "kbsearch", "-c", query).out, 60, lambda: server.log)
    engine.docker("kill", "--signal", "KILL", server.id)
    line = refusal(engine.attempt(DATABASE, options=options))
    assert "the first start on /var/lib/postgresql/data was cut short" in line
    engine.docker("rm", "--force", server.id)
    engine.docker("volume", "rm", volume)
    engine.docker("volume", "create", "--label", f"kbsearch.test={engine.mark}", volume)
    again = engine.database(options=["--volume", f"{volume}:/var/lib/postgresql/data"])
    assert migrate.current(again.dsn()) == migrate.head()


def test_a_volume_of_the_base_image_goes_on_without_kbsearch_until_it_is_installed(engine: Engine) -> None:
    volume = ["--volume", f"{engine.volume()}:/var/lib/postgresql/data"]
    before = engine.database(image=BASE, options=volume)
    before.stop()
    server = engine.database(options=volume)
    assert migrate.current(server.dsn()) is None
    migrate.upgrade(server.dsn())
    write(server.dsn(), "seven")
    assert search(server.dsn(), "seven") == {"seven"}


def test_a_port_that_is_taken_is_reported_by_docker(engine: Engine) -> None:
    """Our code is not reached: Docker says it, and leaves a container that it has not started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ["--env", "POSTGRES_PASSWORD=x", "--publish", f"127.0.0.1:{port}:5432"]
        done = engine.attempt(DATABASE, options=options)
    assert done.code == 125
    assert "address already in use" in done.errors or "port is already allocated" in done.errors


def test_other_programs_of_the_image_run_without_a_database(engine: Engine) -> None:
    assert engine.attempt(DATABASE, "postgres", "--version").out.startswith("postgres (PostgreSQL) 17.")
    assert engine.attempt(DATABASE, "psql", "--version").out.startswith("psql (PostgreSQL) 17.")
    assert engine.attempt(DATABASE, "--version").out.startswith("postgres (PostgreSQL) 17.")
