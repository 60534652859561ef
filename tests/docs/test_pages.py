"""What the pages say to do works, block by block, and prints what they show."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from kbsearch import embedded
from tests.conftest import Databases
from tests.docs.pages import Reader, blocks, differences

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(str(page.relative_to(ROOT)) for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
OF_THEIR_OWN = {"docs/tutorial.md"}
"""Pages that have a test of their own, for what they begin with is not a database."""
BEGIN_WITH = {"docs/how-to/alembic.md": "bare_database", "docs/how-to/install.md": "bare_database"}
"""Fixtures of the pages that begin with a database in which kbsearch is not installed yet."""
RUN = [
    page
    for page in PAGES
    if page not in OF_THEIR_OWN and any(block.is_executed for block in blocks((ROOT / page).read_text("utf-8")))
]


@pytest.mark.parametrize(
    ("expected", "printed", "tolerance", "same"),
    [
        ("a\n b \n", "a\n b", 0.0, True),
        ("a\n…\nd", "a\nb\nc\nd", 0.0, True),
        ("a\n…\nb", "a\nb", 0.0, True),
        ("…\na", "a", 0.0, True),
        ("…\na", "b a", 0.0, False),
        ("a\n…", "a", 0.0, True),
        ("a … c", "a b c", 0.0, True),
        ("a", "b", 0.0, False),
        ("a …", "b c", 0.0, False),
        ("0.50 x", "0.52 x", 0.03, True),
        ("0.50 x", "0.54 x", 0.03, False),
        ("0.50 x", "0.52 y", 0.03, False),
        ("0.50", "0.52", 0.0, False),
        ("1 row", "2 row", 0.03, False),
    ],
)
def test_what_counts_as_the_output_that_a_page_shows(expected: str, printed: str, tolerance: float, same: bool) -> None:
    assert (differences(expected, printed, tolerance) is None) == same


@pytest.mark.parametrize(
    "text",
    [
        "```sql\nSELECT 1 / 0;\n```\n",
        "```sh\nfalse\ntrue\n```\n",
        "```python\nassert 1 == 2\n```\n",
        '```sh\necho 1\n```\n\n```text title="Output"\n2\n```\n',
        '```python\nprint(1)\n```\n\n```text title="Output"\n2\n```\n',
        '```sql\nSELECT 1;\n```\n\n```text title="Output"\nERROR: …\n```\n',
    ],
)
def test_a_wrong_page_is_found(text: str, shared_database: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        Reader(tmp_path, {"KBSEARCH_DSN": shared_database}).follow(text, "page")


def test_a_page_is_followed_from_block_to_block(shared_database: str, tmp_path: Path) -> None:
    page = """
```sh
mkdir folder
cd folder
export WORD=seven
say() { echo "said $1"; }
```

```python title="there.py"
word = "there"
```

```python title="Not run: it is only an example"
raise ValueError
```

```sh
say "$WORD"
basename "$PWD"
```

```text title="Output"
said seven
folder
```

```python
import os

import there

number = 3
print(os.environ["WORD"], there.word)
```

```text title="Output"
seven there
```

```python
print(number)
```

```text title="Output"
3
```

```sql
SELECT nothing;
```

```text title="Output"
ERROR:  …
…
```
"""
    before = dict(os.environ), Path.cwd()
    assert Reader(tmp_path, {"KBSEARCH_DSN": shared_database}).follow(page, "page") == 5
    assert (dict(os.environ), Path.cwd()) == before


@pytest.mark.parametrize("page", PAGES)
def test_no_block_is_hidden_from_the_tests_by_its_language(page: str) -> None:
    """What is executed has one name for each language."""
    languages = {block.language for block in blocks((ROOT / page).read_text("utf-8"))}
    assert languages.isdisjoint({"bash", "console", "pgsql", "postgresql", "psql", "py", "python3", "shell", "zsh"})


@pytest.fixture
def database_of_page(page: str, request: pytest.FixtureRequest) -> tuple[str, str]:
    """Connection strings of the application and of the administrator for the database that a page begins with."""
    name = BEGIN_WITH.get(page, "database")
    dsn: str = request.getfixturevalue(name)
    databases: Databases = request.getfixturevalue("databases")
    return (dsn if page == "docs/how-to/alembic.md" else databases.application(dsn)), databases.admin(dsn)


@pytest.mark.parametrize("page", RUN)
def test_the_blocks_of_a_page_run(
    page: str, database_of_page: tuple[str, str], databases: Databases, tmp_path: Path
) -> None:
    dsn, admin = database_of_page
    restored = make_conninfo(admin, dbname="kbsearch_restored")
    given = {
        "KBSEARCH_DSN": dsn,
        "ADMIN_DSN": admin,
        "APP_ROLE": databases.role,
        "RESTORED_DSN": restored,
        "KBSEARCH_HOME": str(tmp_path / "home"),
    }
    try:
        assert Reader(tmp_path, given).follow((ROOT / page).read_text("utf-8"), page) > 0
    finally:
        if "kbsearch_restored" in (ROOT / page).read_text("utf-8"):
            databases.drop(restored)


@pytest.fixture
def checkout() -> Iterator[Path]:
    """A copy of the files that an install is built from, where a server may run, too: pytest's own directory is closed to other users."""
    directory = Path(tempfile.mkdtemp(prefix="kbsearch-tutorial-"))
    folder = directory / "kbsearch"
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("kbsearch", "sql", "alembic"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    try:
        yield folder
    finally:
        for file in directory.rglob("postmaster.pid"):
            embedded.stop(file.parent)
        shutil.rmtree(directory, ignore_errors=True)


LEND_PIP = """import sys
if "venv" in sys.orig_argv:
    import venv
    venv.EnvBuilder._setup_pip = lambda self, context: None
"""
"""Of a sitecustomize: unpacking and compiling pip takes longer than all else that the tutorial does, and is Python's own."""


def test_the_tutorial_runs_from_a_checkout_to_the_end(checkout: Path, tmp_path: Path) -> None:
    # pip fetches nothing here: pip itself and what the install needs are lent by the environment of the tests.
    (tmp_path / "sitecustomize.py").write_text(LEND_PIP, encoding="utf-8")
    lender = next(path for path in sys.path if path.endswith("site-packages"))
    lent = {
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_NO_COMPILE": "0",  # as above: 0 is what switches it off
        "PYTHONPATH": os.pathsep.join((str(tmp_path), lender)),
        "TMPDIR": str(checkout.parent),
    }
    reader = Reader(checkout, lent)
    assert reader.follow((ROOT / "docs/tutorial.md").read_text("utf-8"), "docs/tutorial.md") > 10
    finder = "import importlib.util; print(importlib.util.find_spec('kbsearch').origin)"
    installed = subprocess.run(
        [checkout / "tutorial/bin/python", "-P", "-c", finder], capture_output=True, text=True, check=True
    )
    assert str(checkout / "tutorial") in installed.stdout
