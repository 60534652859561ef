"""The installation as a script: what `kbsearch db sql` prints."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import psycopg
import pytest

from kbsearch import migrate
from tests.migrations.hosts import installed, left_overs, psql, run


def test_the_script_installs_the_same(empty_database: str, database: str) -> None:
    psql(empty_database, migrate.script())
    assert installed(empty_database) == installed(database)
    assert migrate.current(empty_database) == migrate.head()
    assert migrate.check(empty_database) == []


def test_the_script_is_one_statement_for_any_client(empty_database: str) -> None:
    """Without its settings of the client's encoding, it runs where only one statement is taken."""
    statement = migrate.script().partition("SET client_encoding = 'UTF8';")[2].partition("RESET client_encoding;")[0]
    with psycopg.connect(empty_database) as connection:
        connection.execute(statement.encode(), prepare=True)
    assert migrate.check(empty_database) == []


def test_the_script_run_again_does_nothing(empty_database: str) -> None:
    psql(empty_database, migrate.script())
    run(empty_database, "INSERT INTO kbsearch.organizations (name) VALUES ('stays')")
    again = psql(empty_database, migrate.script(), stop=False)
    assert again.returncode == 0
    assert again.stdout == ""
    assert [line.partition("NOTICE:")[2] for line in again.stderr.splitlines()] == [
        f"  kbsearch is at revision {migrate.head()} in the schema kbsearch already"
    ]
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("SELECT name FROM kbsearch.organizations").fetchall() == [("stays",)]


def test_the_script_is_all_or_nothing_and_says_one_thing(empty_database: str) -> None:
    script = migrate.script().replace("-- schema/0002_triggers.sql", "EXECUTE 'SELECT 1 / 0'; --", 1)
    failed = psql(empty_database, script, stop=False)
    assert failed.stderr.count("ERROR:") == 1
    assert migrate.current(empty_database) is None
    assert left_overs(empty_database) == []
    with pytest.raises(subprocess.CalledProcessError):
        psql(empty_database, script)


def test_the_script_says_what_is_missing(bare_database: str, admin: Callable[[str], str]) -> None:
    run(bare_database, "CREATE SCHEMA kbsearch", "CREATE TABLE kbsearch.orders ()")
    failed = psql(bare_database, migrate.script(), stop=False)
    assert failed.stderr.count("ERROR:") == 1
    assert "the schema kbsearch holds what is not of kbsearch: table kbsearch.orders" in failed.stderr
    assert failed.stderr.count("HINT:") == 1


def test_the_script_gives_the_settings_back(empty_database: str) -> None:
    shown = ("search_path", "standard_conforming_strings", "TimeZone", "client_encoding", "client_min_messages")
    asked = "\n".join(f"SHOW {name};" for name in shown)
    settled = "SET search_path = pg_catalog; SET standard_conforming_strings = off; SET TimeZone = 'Asia/Kolkata';"
    before = psql(empty_database, f"{settled}\n{asked}", "-At").stdout
    assert before.splitlines()[:3] == ["pg_catalog", "off", "Asia/Kolkata"]
    for begin, end in (("", ""), ("BEGIN;", "COMMIT;")):
        script = f"{settled}\n{begin}\n{migrate.script()}\n{asked}\n{end}\n{migrate.removal_script()}\n{asked}"
        assert psql(empty_database, script, "-At").stdout == before * 2


def test_the_script_can_be_pasted_into_a_hostile_session(empty_database: str) -> None:
    hostile = "SET search_path = ''; CREATE TEMPORARY TABLE pg_class (oid oid); CREATE TYPE pg_temp.text AS (a int);"
    for _ in range(2):
        psql(empty_database, f"{hostile}\n{migrate.script()}")
        assert migrate.check(empty_database) == []
    psql(empty_database, f"{hostile}\n{migrate.removal_script()}")
    assert left_overs(empty_database) == []


def test_the_script_is_right_in_any_encoding_of_the_client(empty_database: str, database: str) -> None:
    """As on a Windows terminal: the file is UTF-8, psql believes something else."""
    psql(empty_database.replace("client_encoding=UTF8", "client_encoding=WIN1252"), migrate.script())
    assert installed(empty_database) == installed(database)


def test_the_removal_script_removes(empty_database: str) -> None:
    psql(empty_database, migrate.removal_script())
    psql(empty_database, migrate.script())
    psql(empty_database, migrate.removal_script())
    assert left_overs(empty_database) == []


def test_a_script_and_upgrade_may_follow_each_other(empty_database: str) -> None:
    psql(empty_database, migrate.script())
    migrate.upgrade(empty_database)
    migrate.downgrade(empty_database)
    migrate.upgrade(empty_database)
    psql(empty_database, migrate.removal_script())
    assert migrate.current(empty_database) is None


def test_the_script_refuses_a_database_of_a_newer_version(database: str) -> None:
    run(database, "UPDATE kbsearch.kb_alembic_version SET version_num = '9999'")
    for script in (migrate.script(), migrate.removal_script()):
        failed = psql(database, script, stop=False)
        assert failed.stderr.count("ERROR:") == 1
        assert "unknown to this version of kbsearch" in failed.stderr
