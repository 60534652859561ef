from __future__ import annotations

from pathlib import Path

import pytest

from tools import freeze


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A directory like sql/ with two released files."""
    for name in ("schema/0001_base.sql", "functions/text/fold_v1.sql"):
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.write_text(f"-- {name}\n", encoding="utf-8")
    (tmp_path / freeze.LIST).write_text("", encoding="utf-8")
    assert len(freeze.add(tmp_path)) == 2
    return tmp_path


def test_released_files_are_as_they_were_released() -> None:
    assert freeze.problems() == []


def test_a_release_lists_every_file_once(released: Path) -> None:
    assert freeze.problems(released) == []
    assert freeze.add(released) == []
    assert set(freeze.listed(released)) == {"schema/0001_base.sql", "functions/text/fold_v1.sql"}


def test_a_planted_edit_of_a_listed_file_fails(released: Path) -> None:
    file = released / "functions/text/fold_v1.sql"
    file.write_text(file.read_text(encoding="utf-8") + " ", encoding="utf-8")
    assert freeze.problems(released) == [
        "sql/functions/text/fold_v1.sql was released and may not change: make a new version beside it (_v2, or a new file)"
    ]
    with pytest.raises(SystemExit):
        freeze.add(released)


def test_a_removed_file_fails(released: Path) -> None:
    (released / "schema/0001_base.sql").unlink()
    assert freeze.problems(released) == ["sql/schema/0001_base.sql was released and is gone"]


def test_a_new_file_may_still_change(released: Path) -> None:
    (released / "functions/text/fold_v2.sql").write_text("-- new\n", encoding="utf-8")
    assert freeze.problems(released) == []
