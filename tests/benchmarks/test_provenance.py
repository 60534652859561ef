"""A report says where parts were measured under something else than the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import provenance, report


def under(sql: str = "aaa", shared_buffers: str = "8GB", when: str = "2030-01-01T10:00:00+00:00") -> dict[str, Any]:
    return {
        "when": when,
        "load": 0.5,
        "sql": sql,
        "settings": {"shared_buffers": shared_buffers, "jit": "off"},
        "effort": {"rounds": "100"},
        "postgresql": "18.6",
    }


def results(**parts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Three parts of 100k and one of 1m."""
    records = {"latency": under(), "recall": under(), "pages": under(), **parts}
    small = {
        "chunks": 680,
        "organisations": {},
        **{part: [] for part in records if part != "large"},
        "measured": records,
    }
    large = {"chunks": 680, "organisations": {}, "latency": [], "measured": {"latency": parts.get("large", under())}}
    return {"100k": small, "1m": large}


def page(found: dict[str, dict[str, Any]], folder: Path) -> str:
    report.write(found, folder / "page.md", folder / "plots")
    return (folder / "page.md").read_text(encoding="utf-8")


def test_parts_measured_under_the_same_are_not_remarked_on(tmp_path: Path) -> None:
    found = results(pages={**under(), "load": 10.2})
    assert provenance.warning(found) == []
    text = page(found, tmp_path)
    assert "**" not in text
    assert "shared_buffers 8GB, jit off" in text
    assert "| 100k | latency, recall, pages | 2030-01-01 10:00 | 0.5 to 10.2 | aaa |  |" in text


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (under(sql="bbb"), "SQL bbb instead of aaa"),
        (under(shared_buffers="4GB"), "shared_buffers 4GB instead of 8GB"),
        ({**under(), "effort": {"rounds": "2"}}, "rounds 2 instead of 100"),
        ({**under(), "postgresql": "17.2"}, "PostgreSQL 17.2 instead of 18.6"),
        ({}, "settings and SQL not recorded"),
    ],
)
def test_another_part_is_named_above_and_marked_where_it_stands(
    other: dict[str, Any], difference: str, tmp_path: Path
) -> None:
    found = results(recall=other)
    if not other:
        del found["100k"]["measured"]["recall"]
    above, _, below = page(found, tmp_path).partition("## Targets")
    assert f"100k: recall ({difference})" in above
    assert "100k: latency" not in above
    _, _, section = below.partition("## What is found")
    assert f"most parts: {difference}.**" in section.partition("\n## ")[0]
    assert "most parts" not in below.partition("## What is found")[0]
    (row,) = [line for line in below.splitlines() if line.startswith("| 100k | recall |")]
    assert row.endswith(f"| {difference} |")


def test_what_was_measured_on_another_day_has_a_row_of_its_own() -> None:
    found = results(recall=under(when="2030-01-03T11:00:00+00:00"))
    assert provenance.warning(found) == []
    rows = provenance.table(found)[2:]
    assert [row.split(" | ")[1:3] for row in rows] == [
        ["latency, pages", "2030-01-01 10:00"],
        ["recall", "2030-01-03 11:00"],
        ["latency", "2030-01-01 10:00"],
    ]


def test_results_that_the_page_does_not_show_say_nothing() -> None:
    assert provenance.warning({**results(), "tiny": {"latency": [], "measured": {"latency": under(sql="ccc")}}}) == []
