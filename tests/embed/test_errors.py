from __future__ import annotations

from pathlib import Path

import pytest

from kbsearch.embed import EmbeddingError, MissingExtraError, ModelFileError, TextsRefusedError
from kbsearch.embed.errors import RequestRefusedError, how_to_install, require
from kbsearch.errors import ERRORS_BY_SQLSTATE, KBSearchError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "kind", [EmbeddingError, TextsRefusedError, RequestRefusedError, MissingExtraError, ModelFileError]
)
def test_all_are_ours_with_one_code(kind: type[EmbeddingError]) -> None:
    error = kind("what")
    assert isinstance(error, KBSearchError)
    assert (str(error), error.sqlstate, error.hint, error.failures, error.vectors) == ("what", "KB004", None, {}, None)
    assert 400 <= kind.http_status < 600
    assert "KB004" not in ERRORS_BY_SQLSTATE


def test_the_errors_page_names_them() -> None:
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if "`KB004`" in line)
    assert f"| `EmbeddingError` | {EmbeddingError.http_status} |" in row
    assert f"`TextsRefusedError` ({TextsRefusedError.http_status})" in row


def test_a_missing_package_is_an_import_error_that_says_what_to_do() -> None:
    with pytest.raises(MissingExtraError, match=r"frobs need the package 'no_such', .*\[frob\]") as caught:
        require("no_such", "frobs", extra="frob")
    assert isinstance(caught.value, ImportError)
    with pytest.raises(MissingExtraError, match=r"not installed\. pip install no-such$"):
        require("no_such", "frobs")
    assert "[local]" in how_to_install("local")
