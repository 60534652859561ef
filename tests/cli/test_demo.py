from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from rich.console import Console

from kbsearch import demo
from kbsearch.ingest import Document
from kbsearch.models import Result
from kbsearch.walks import partition_faults
from tests.ingest.test_pipeline import HashEmbedder


def result(place: int) -> Result:
    return Result(
        place=place, article_id=place, score=1.0, chunk_id=place, kind="page", title=None, excerpt=None, excerpt_html=None,
        inspectable=True, external_ref=None, source_uri=None, metadata={}, vector_similarity=None, keyword_score=None, tied_with=0,
        settled_by_identity=False, cursor=None,
    )  # fmt: skip


WHOLE = [result(place) for place in range(1, 6)]


@pytest.mark.parametrize(
    ("pages", "fault"),
    [
        ([WHOLE[:2], WHOLE[1:]], "twice"),
        ([WHOLE[:2], WHOLE[3:]], "missing"),
        ([WHOLE[:2], [WHOLE[3], WHOLE[2]], WHOLE[4:]], "place 3 differs"),
        ([WHOLE, [result(6)]], "place 6 differs"),
        ([[replace(WHOLE[0], score=0.5)], WHOLE[1:]], "place 1 differs"),
        ([], "missing"),
    ],
)
def test_pages_that_are_no_partition_are_told(pages: list[Sequence[Result]], fault: str) -> None:
    assert any(fault in line for line in partition_faults(WHOLE, pages))


def test_pages_that_are_a_partition_have_no_fault() -> None:
    assert partition_faults(WHOLE, [WHOLE[:1], WHOLE[1:4], [], WHOLE[4:]]) == []


def test_the_demo_checks_its_answers_and_tells_what_is_wrong(
    connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [Document(f"pydoc:{number:02}", "Same", f"file error {'branch ' * (number % 3)}") for number in range(23)]
    monkeypatch.setattr(demo, "read_pydoc", lambda **_: topics)
    output = Console(record=True, width=160)
    assert demo.run(output, connection, HashEmbedder())
    shown = output.export_text()
    assert "All pages are right" in shown
    assert shown.count("✓ 23 articles") == 3
    assert ", by id" in shown
    assert "pages of 7 by snapshot (4)" in " ".join(shown.split())
    monkeypatch.setattr(demo, "WAYS", {"offset": lambda *_: iter([])})
    broken = Console(record=True, width=160)
    assert not demo.run(broken, connection, HashEmbedder())
    assert "is missing" in broken.export_text()
