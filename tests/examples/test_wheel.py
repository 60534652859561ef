"""What is in the wheel, and that it works without the checkout and without any extra."""

from __future__ import annotations

import json
import tomllib
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement

from kbsearch import migrate
from tests.examples.conftest import ROOT, Environment, url


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_has_the_sql_and_the_revisions_of_the_checkout(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for directory, suffixes in (("sql", (".sql", ".sha256")), ("alembic", (".py", ".mako"))):
            files = [one for one in (ROOT / directory).rglob("*") if one.suffix in suffixes]
            assert files
            for file in files:
                inside = f"kbsearch/_{file.relative_to(ROOT).as_posix()}"
                assert archive.read(inside) == file.read_bytes(), inside
    assert {f"kbsearch/_sql/{file}" for file in migrate.files()} <= names(wheel)


def test_has_the_package_its_types_and_its_licence_and_nothing_else(wheel: Path) -> None:
    found = {PurePosixPath(name) for name in names(wheel)}
    roots = {path.parts[0] for path in found}
    (metadata,) = roots - {"kbsearch", "_kbsearch_pytest.py"}
    assert metadata.endswith(".dist-info")
    assert {PurePosixPath("kbsearch/py.typed"), PurePosixPath(metadata, "licenses", "LICENSE")} <= found
    package = {path for path in found if path.parts[:2] not in (("kbsearch", "_sql"), ("kbsearch", "_alembic"))}
    modules = {
        PurePosixPath(file.relative_to(ROOT).as_posix())
        for file in (ROOT / "kbsearch").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {path for path in package if path.parts[0] == "kbsearch"} == modules
    assert not [path for path in found if {"tests", "benchmarks", "examples", "tools", "docs"} & set(path.parts)]


def test_names_every_extra(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        root = zipfile.Path(archive)
        (metadata,) = (one for one in root.iterdir() if one.name.endswith(".dist-info"))
        distribution = PathDistribution(metadata)
        assert distribution.metadata.get_all("Provides-Extra") == sorted(EXTRAS)
        assert {(one.group, one.name) for one in distribution.entry_points} == {
            ("console_scripts", "kbsearch"),
            ("pytest11", "kbsearch"),
        }


EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]

IMPORT_EVERYTHING = """
import importlib, importlib.metadata, importlib.util, json, pkgutil, sys
import kbsearch
for name in kbsearch.__all__:
    getattr(kbsearch, name)
modules = [one.name for one in pkgutil.walk_packages(kbsearch.__path__, "kbsearch.") if not one.name.endswith("__main__")]
failed = []
for name in modules:
    try:
        importlib.import_module(name)
    except ImportError:
        failed.append(name)
from kbsearch.embed import LocalEmbedder, MissingExtraError
try:
    LocalEmbedder()
    refusal = ""
except MissingExtraError as error:
    refusal = str(error)
installed = [one.metadata["Name"] for one in importlib.metadata.distributions()]
print(json.dumps({"file": kbsearch.__file__, "modules": modules, "failed": failed, "refusal": refusal, "installed": installed}))
"""


def test_every_module_is_imported_without_any_extra(plain: Environment, tmp_path: Path) -> None:
    done = plain.run("-W", "error", "-c", IMPORT_EVERYTHING, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert Path(found["file"]).is_relative_to(plain.directory)
    assert len(found["modules"]) == len([*(ROOT / "kbsearch").rglob("*.py")]) - len(("kbsearch", "kbsearch.__main__"))
    # Imported when they are used: by who has an AsyncEngine, and what SQLAlchemy needs for one; by who has the extra `remote`.
    assert found["failed"] == ["kbsearch.client.alchemy_async", "kbsearch.embed.endpoint"]
    assert "extra 'local'" in found["refusal"]
    installed = {normalised(name) for name in found["installed"]}
    for extra, packages in EXTRAS.items():
        assert not {normalised(Requirement(one).name) for one in packages} <= installed, extra


def normalised(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def test_pip_finds_nothing_wrong(plain: Environment, environment: Environment) -> None:
    for one in (plain, environment):
        done = one.pip("check")
        assert done.returncode == 0, done.stdout + done.stderr


def test_installs_searches_and_checks_by_command(plain: Environment, empty_database: str, tmp_path: Path) -> None:
    (tmp_path / "returns.md").write_text("# Returns\n\nSend it back within 30 days.\n", encoding="utf-8")

    def kbsearch(*arguments: str) -> str:
        done = plain.run("-m", "kbsearch", *arguments, cwd=tmp_path, variables={"KBSEARCH_DSN": empty_database})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    kbsearch("db", "upgrade")
    assert migrate.current(empty_database) == migrate.head()
    kbsearch("db", "check")
    kbsearch("ingest", "returns.md", "--org", "store", "--no-embed")
    assert "Returns" in kbsearch("search", "days", "--org", "store", "--no-embed")


SEARCH_THROUGH_SQLALCHEMY = """
import os
from sqlalchemy import create_engine, make_url, select
from sqlalchemy.orm import Session
from kbsearch import KBSearch, as_selectable
engine = create_engine(make_url(os.environ["KBSEARCH_DSN"]).set(drivername="postgresql+psycopg"))
with engine.begin() as connection:
    org_id = connection.exec_driver_sql("INSERT INTO kbsearch.organizations (name) VALUES ('store') RETURNING id").scalar_one()
KBSearch(engine).upsert_article(org_id, title="Returns", body="Send it back within 30 days.")
with Session(engine) as session:
    print([one.title for one in KBSearch(session).results(org_id, "days")], session.scalars(select(as_selectable(org_id, "days").c.title)).all())
"""


def test_works_through_sqlalchemy_without_its_extra_for_asyncio(
    plain: Environment, database: str, tmp_path: Path
) -> None:
    done = plain.run("-c", SEARCH_THROUGH_SQLALCHEMY, cwd=tmp_path, variables={"KBSEARCH_DSN": url(database)})
    assert done.stdout.strip() == "['Returns'] ['Returns']", done.stderr
