"""docs/errors.md says of every SQLSTATE and every refusal what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kbsearch import errors, migrate
from tools import docs_errors


def test_the_page_is_as_the_code_makes_it() -> None:
    text = docs_errors.PAGE.read_text(encoding="utf-8")
    assert docs_errors.page(text) == text, "run: python -m tools.docs_errors"


def test_every_code_of_the_sql_has_a_class_and_every_class_is_raised() -> None:
    assert docs_errors.codes() == set(errors.ERRORS_BY_SQLSTATE)


def test_every_raise_with_a_code_of_ours_is_found() -> None:
    raised = sum(
        file.read_text(encoding="utf-8").count("RAISE EXCEPTION")
        for file in migrate.sql_root().rglob("*.sql")
        if file.name != "head.sql"
    )
    without_constant = [("kb_immutable_v1", "TG_ARGV")]
    assert len(docs_errors.refusals()) + len(without_constant) == raised


def test_every_code_has_messages_and_functions() -> None:
    said = dict(docs_errors.sections())["messages"]
    for code in errors.ERRORS_BY_SQLSTATE:
        (part,) = re.findall(rf'^\?\?\? note "{code}"\n(.*?)(?=^\?\?\?|\Z)', said, re.MULTILINE | re.DOTALL)
        assert "“" in part, code
        assert "Functions that raise it" in part, code


def test_a_new_refusal_is_seen(tmp_path: Path) -> None:
    (tmp_path / "new_v1.sql").write_text(
        "RAISE EXCEPTION 'it''s % too many', 1\n    USING ERRCODE = 'KBNEW', "
        "DETAIL = jsonb_build_object('a', 'b;c')::text, HINT = 'Don''t.';\nSELECT 1;",
        encoding="utf-8",
    )
    assert docs_errors.refusals(tmp_path) == [docs_errors.Refusal("new_v1", ("KBNEW",), "it's % too many", "Don't.")]
    assert docs_errors.codes(tmp_path) == {"KBNEW"}


@pytest.mark.parametrize("name", ["codes", "messages", "casts"])
def test_a_page_without_a_place_is_refused(name: str) -> None:
    text = docs_errors.PAGE.read_text(encoding="utf-8").replace(f"<!-- made: {name} -->", "")
    with pytest.raises(ValueError, match=name):
        docs_errors.page(text)
