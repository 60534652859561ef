from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kbsearch.evaluate.metrics import METRICS, measure, per_query
from kbsearch.evaluate.runs import RunError, SavedRun

RUN = SavedRun(
    system="weighted",
    record={"system": {"profile": "weighted@1"}, "settings": {"depth": 100}},
    rankings={"1": ("z", "a", "docs/my file.md"), "2": (), "3": ("a", "b", "c", "d", "e", "f")},
    qrels={"1": {"a": 2, "docs/my file.md": 1, "y": 0}, "2": {"a": 1}, "3": {"d": 1, "q": 3}},
)

# A lone surrogate is in no database and no UTF-8 file.
ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert SavedRun.load(RUN.save(tmp_path / "new" / "folder")) == RUN


@given(
    rankings=st.dictionaries(ids, st.lists(ids, unique=True, max_size=4).map(tuple), max_size=3),
    grades=st.dictionaries(ids, st.dictionaries(ids, st.integers(-1, 3), min_size=1, max_size=3), max_size=3),
)
@example(rankings={"a b": ("%20", " ", "\u2028x", "\x85", "%", "\u3000", "\ufeff", "\n")}, grades={})
@example(rankings={"%41": ("%C3%A9", "%E9", "é%")}, grades={"#": {"\r": 1}})
def test_ids_of_any_characters_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    rankings: dict[str, tuple[str, ...]],
    grades: dict[str, dict[str, int]],
) -> None:
    run = SavedRun("x", {}, {**dict.fromkeys(grades, ()), **rankings}, grades)
    read = SavedRun.load(run.save(tmp_path_factory.mktemp("run")))
    assert read.qrels == run.qrels
    # A query without an answer is known by its judgements alone.
    assert {query: found for query, found in read.rankings.items() if found or query in grades} == {
        query: found for query, found in run.rankings.items() if found or query in grades
    }


def test_equal_runs_are_equal_files_whatever_their_order(tmp_path: Path) -> None:
    other = SavedRun(
        RUN.system,
        dict(reversed(list(RUN.record.items()))),
        dict(reversed(list(RUN.rankings.items()))),
        {query: dict(reversed(list(grades.items()))) for query, grades in reversed(list(RUN.qrels.items()))},
    )
    for name, run in (("a", RUN), ("b", other)):
        run.save(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == ["qrels", "weighted.json", "weighted.run"]
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_scores_fall_strictly(tmp_path: Path) -> None:
    lines = [line.split() for line in RUN.save(tmp_path).read_text(encoding="utf-8").splitlines()]
    for query in ("1", "3"):
        scores = [float(line[4]) for line in lines if line[0] == query]
        assert scores == sorted(set(scores), reverse=True)
    assert lines[2][2] == "docs/my%20file.md"


def command_line(folder: Path, *, by_query: bool = False) -> list[list[str]]:
    """What ir_measures prints for a saved run, in columns."""
    command = [sys.executable, "-W", "ignore", "-m", "ir_measures", "-p", "10", "qrels", "weighted.run", *METRICS]
    if by_query:
        command.insert(5, "-q")
    printed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=120).stdout
    return [line.split() for line in printed.splitlines()]


def test_metrics_are_those_of_the_command_line_on_the_saved_files(tmp_path: Path) -> None:
    RUN.save(tmp_path)
    means = {name: float(value) for name, value in command_line(tmp_path)}
    assert measure(RUN.qrels, RUN.rankings) == pytest.approx(means, abs=1e-9)
    values = per_query(RUN.qrels, RUN.rankings)
    # It prints the means behind the queries; a query without an answer may be left out.
    printed = {(name, query): float(value) for query, name, value in command_line(tmp_path, by_query=True)}
    assert {(name, query) for name in METRICS for query in ("1", "3", "all")} <= set(printed)
    for name in METRICS:
        assert set(values[name]) == set(RUN.qrels)
        for query, value in values[name].items():
            assert value == pytest.approx(printed.get((name, query), 0.0), abs=1e-9)
    assert values["RR"] == {"1": 0.5, "2": 0, "3": 0.25}
    assert values["Success@3"] == {"1": 1, "2": 0, "3": 0}
    assert values["Success@5"] == {"1": 1, "2": 0, "3": 1}
    assert values["R@10"] == {"1": 1, "2": 0, "3": 0.5}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("weighted.run", "1 Q0 a 1 1\n", "weighted.run:1: not query id"),
        ("weighted.run", "1 Q0 a 2 1 x\n", "place 2, where 1 is the next"),
        ("weighted.run", "1 Q0 a one 1 x\n", "is no whole number"),
        ("weighted.run", "1 Q0 a 1 2 x\n1 Q0 a 2 1 x\n", "same document at two places"),
        ("weighted.json", "{", "no JSON"),
        ("weighted.json", "[]", "no JSON object"),
        ("qrels", "1 0 a\n", "qrels:1"),
        ("qrels", "1 0 a high\n", "grade 'high'"),
        ("qrels", "1 0 a 1\n1 0 a 2\n", "judged twice"),
    ],
)
def test_a_broken_run_is_refused_with_the_place(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = RUN.save(tmp_path)
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match=message):
        SavedRun.load(path)


@pytest.mark.parametrize("name", ["weighted.run", "weighted.json", "qrels"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    path = RUN.save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(RunError, match=name):
        SavedRun.load(path)
    with pytest.raises(RunError, match=r"ends in \.run"):
        SavedRun.load(path.with_suffix(".json"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"system": "../x"}, "cannot be the name"),
        ({"record": {"x": float("nan")}}, "no JSON"),
        ({"rankings": {"1": ("",)}}, "an id is empty"),
        ({"qrels": {"1": {"a": 1}}}, "other judgements"),
    ],
)
def test_what_cannot_be_saved_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    RUN.save(tmp_path)
    values = {"system": RUN.system, "record": RUN.record, "rankings": RUN.rankings, "qrels": RUN.qrels, **change}
    with pytest.raises(RunError, match=message):
        SavedRun(**values).save(tmp_path)
    assert SavedRun.load(tmp_path / "weighted.run") == RUN


def test_ids_that_are_no_text_are_measured_like_others() -> None:
    found = per_query({"q\ud800": {"a\0": 1, "b c": 2}}, {"q\ud800": ["x", "a\0"], "unjudged": ["a\0"]})
    assert found["RR"] == {"q\ud800": 0.5}
    assert found["R@10"] == {"q\ud800": 0.5}
