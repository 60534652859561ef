from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from kbsearch import migrate
from kbsearch.errors import MigrationError
from tests.migrations.hosts import left_overs

ROOT = Path(__file__).resolve().parents[2]


def test_every_sql_file_is_named_by_one_revision_once() -> None:
    root = migrate.sql_root()
    present = {
        file.relative_to(root).as_posix() for part in ("schema", "functions") for file in (root / part).rglob("*.sql")
    }
    named = Counter(migrate.files())
    assert set(named) == present
    assert max(named.values()) == 1


def test_revisions_hold_no_sql() -> None:
    for revision in (migrate.alembic_root() / "versions").glob("*.py"):
        text = revision.read_text(encoding="utf-8")
        assert not any(word in text for word in ("CREATE ", "ALTER ", "DROP ", "SELECT ", "execute("))


def test_the_revisions_directory_does_not_shadow_alembic() -> None:
    assert not (migrate.alembic_root() / "__init__.py").exists()


def test_what_the_files_create_is_known_by_name(database: str) -> None:
    """So downgrade() drops exactly that."""
    names = migrate.created(migrate.files())
    assert len(set(names)) == len(names)
    sequences = {"kb_segment_seq"}
    with psycopg.connect(database) as connection:
        owned = {
            row[0]
            for row in connection.execute(
                "SELECT c.relname FROM pg_class AS c INNER JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid "
                "WHERE c.relkind = 'S' AND d.deptype IN ('a', 'i') AND c.relnamespace = 'kbsearch'::regnamespace"
            )
        }
    assert sequences & set(names)
    found = {name.removeprefix("kbsearch.") for name in left_overs(database)} - owned - {"kb_alembic_version"}
    assert set(names) == found


@pytest.mark.parametrize(
    ("revision", "installed", "meant"),
    [
        ("head", None, migrate.head()),
        ("base", migrate.head(), None),
        ("0001", None, "0001"),
        ("+1", None, "0001"),
        ("-1", "0001", None),
    ],
)
def test_names_of_revisions(revision: str, installed: str | None, meant: str | None) -> None:
    assert migrate.resolve(revision, installed) == meant


@pytest.mark.parametrize("revision", ["", "0000", "1", "nonsense", "-1", "+99", "-", "head; DROP", "0001 "])
def test_what_is_no_revision_is_refused(revision: str) -> None:
    with pytest.raises(MigrationError, match="there is no revision") as refusal:
        migrate.resolve(revision, None)
    assert "head" in str(refusal.value.hint)


@pytest.mark.parametrize("schema", ["kbsearch", "help_search"])
def test_the_alembic_command_works_in_a_checkout(empty_database: str, schema: str) -> None:
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("not a checkout")
    if schema != "kbsearch":
        with psycopg.connect(empty_database) as connection:
            connection.execute("SELECT pg_catalog.set_config('role', current_user, false)")

    def alembic(*arguments: str) -> str:
        command = [sys.executable, "-m", "alembic", "-x", f"dsn={empty_database}", "-x", f"schema={schema}"]
        return subprocess.run(
            [*command, *arguments], cwd=ROOT, check=True, capture_output=True, text=True, encoding="utf-8"
        ).stdout

    if schema == "kbsearch":
        alembic("upgrade", "head")
        assert migrate.check(empty_database) == []
        assert migrate.head() in alembic("current")
        alembic("downgrade", "base")
        assert migrate.current(empty_database) is None
        assert left_overs(empty_database) == []
    assert alembic("upgrade", "head", "--sql") == migrate.script(schema=schema)
    assert alembic("downgrade", "head:base", "--sql") == migrate.removal_script(schema=schema)


def test_the_wheel_brings_its_sql_files(empty_database: str, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = "from kbsearch import migrate; import sys; migrate.upgrade(sys.argv[1]); print(migrate.sql_root(), migrate.alembic_root())"
    found = subprocess.run(
        [sys.executable, "-c", code, empty_database],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert found == [str(tmp_path / "site/kbsearch/_sql"), str(tmp_path / "site/kbsearch/_alembic")]
    assert migrate.check(empty_database) == []
