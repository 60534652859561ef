from __future__ import annotations

import os

import pytest

from tools import head


@pytest.mark.skipif("KBSEARCH_TEST_DSN" in os.environ, reason="pg_dump prints what its own major version knows")
def test_head_sql_is_what_the_revisions_give(database: str) -> None:
    assert head.HEAD.read_text(encoding="utf-8") == head.dump(database), "run: make head"


def test_what_changes_from_run_to_run_is_dropped() -> None:
    text = "\\restrict abc\n-- Dumped by pg_dump version 18.6\nSET x = 1;\n\n\n\n--\n-- Name: a\n--\n\nCREATE TABLE a;\n\\unrestrict abc\n"
    assert head.normalise(text) == "-- Name: a\n\nCREATE TABLE a;\n"
