"""Migrates DATABASE_URL, an empty database, there and back, online and by script: `python check.py`."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg

from kbsearch import KBSearch, embedded, migrate

HERE = Path(__file__).parent
DSN = os.environ["DATABASE_URL"]


def alembic(*arguments: str, succeeds: bool = True) -> str:
    """Run the command; what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "alembic", *arguments], cwd=HERE, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode == 0) is succeeds, f"alembic {' '.join(arguments)}:\n{done.stdout}\n{done.stderr}"
    return done.stdout if succeeds else done.stdout + done.stderr


def psql(script: str) -> None:
    """Run a script as a DBA does, with the psql that comes with kbsearch's embedded server."""
    command = [str(embedded.binary("psql")), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", DSN, "-f", "-"]
    done = subprocess.run(command, input=script, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr


def revisions() -> dict[str, str]:
    """What the version tables hold, the application's and kbsearch's."""
    found = {}
    with psycopg.connect(DSN) as connection:
        for name, query in {
            "public.alembic_version": "SELECT v.version_num FROM public.alembic_version AS v",
            "kbsearch.kb_alembic_version": "SELECT v.version_num FROM kbsearch.kb_alembic_version AS v",
        }.items():
            (exists,) = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [name]).fetchone() or (False,)
            if exists and (row := connection.execute(query).fetchone()):
                found[name] = row[0]
    return found


def check_installed() -> None:
    """Both schemas are as they should be, and a search works."""
    assert revisions() == {"public.alembic_version": "0002", "kbsearch.kb_alembic_version": migrate.head()}
    assert "No new upgrade operations" in alembic("check")
    assert migrate.check(DSN) == []
    with psycopg.connect(DSN) as connection, KBSearch(connection) as client:
        row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('check') RETURNING id").fetchone()
        assert row
        client.upsert_article(row[0], title="Migrations", body="There and back.")
        assert [one.title for one in client.results(row[0], "migration")] == ["Migrations"]
        connection.rollback()


def check_autogenerate_sees() -> None:
    """The check above can fail: what differs in the application's own tables is proposed, and nothing else."""
    with psycopg.connect(DSN) as connection:
        connection.execute("ALTER TABLE notes ADD surplus text")
        connection.execute("CREATE TABLE kbsearch.surplus ()")
    proposed = alembic("check", succeeds=False)
    assert proposed.count("surplus") == proposed.count("'remove_column', None, 'notes', Column('surplus'") == 1, (
        proposed
    )
    with psycopg.connect(DSN) as connection:
        connection.execute("ALTER TABLE notes DROP surplus")
        connection.execute("DROP TABLE kbsearch.surplus")


def check_removed() -> None:
    """Nothing is left of kbsearch, and the application's tables and rows are there."""
    assert revisions() == {"public.alembic_version": "0001"}
    with psycopg.connect(DSN) as connection:
        left = connection.execute(
            "SELECT count(*) FROM pg_class AS c WHERE c.relnamespace = to_regnamespace('kbsearch')"
        )
        assert left.fetchone() == (0,)
        assert connection.execute("SELECT name FROM authors").fetchall() == [("Ada",)]


def main() -> None:
    """All checks."""
    alembic("upgrade", "0001")
    with psycopg.connect(DSN) as connection:
        connection.execute("INSERT INTO authors (name) VALUES ('Ada')")
    alembic("upgrade", "head")
    check_installed()
    check_autogenerate_sees()
    alembic("downgrade", "0001")
    check_removed()

    psql(alembic("upgrade", "0001:head", "--sql"))
    check_installed()
    psql(alembic("downgrade", "head:0001", "--sql"))
    check_removed()

    psql(alembic("downgrade", "0001:base", "--sql"))
    assert revisions() == {}
    print("alembic: upgrades, downgrades, scripts and autogenerate are right")


if __name__ == "__main__":
    main()
