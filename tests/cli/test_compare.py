from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kbsearch.cli import app
from kbsearch.evaluate.runs import SavedRun

QUERIES = [f"q{number:02}" for number in range(20)]
QRELS = {query: {"right": 1} for query in QUERIES}
GOOD, BAD = ("right", "other"), ("other", "right")


def compare(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["compare", *(str(argument) for argument in arguments)])


def save(folder: Path, system: str, ranking: tuple[str, ...], /, **record: Any) -> Path:
    whole = {"system": {"profile": f"{system}@1"}, "data": {"fingerprint": "f"}} | record
    return SavedRun(system, whole, dict.fromkeys(QUERIES, ranking), QRELS).save(folder)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return save(tmp_path / "runs", "good", GOOD)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return save(tmp_path / "runs", "bad", BAD)


def words(result: Result) -> str:
    return " ".join(result.output.split())


def test_the_verdict_and_what_it_rests_on_are_printed(good: Path, bad: Path) -> None:
    result = compare(bad, good)
    assert result.exit_code == 0, result.output
    for part in (
        "good is better than bad by nDCG@10",
        "system.profile",
        ".001",
        "0.6309",
        "1.0000",
        "+0.3691",
        "20 questions",
    ):
        assert part in words(result)


def test_as_a_gate_only_what_is_worse_fails(good: Path, bad: Path) -> None:
    assert compare(good, bad).exit_code == 0
    for first, second, code in ((good, bad, 1), (bad, good, 0), (good, good, 0)):
        result = compare(first, second, "--fail-if-worse")
        assert result.exit_code == code, result.output


def test_without_a_verdict_the_exit_code_is_3_and_it_says_what_to_do(good: Path, tmp_path: Path) -> None:
    other = save(tmp_path / "elsewhere", "bad", BAD, data={"fingerprint": "g"})
    result = compare(good, other, "--fail-if-worse")
    assert result.exit_code == 3
    for part in ("No verdict. More than the treatment differs: data.fingerprint", "--treatment data", "not declared"):
        assert part in words(result)
    assert "nDCG" not in result.output
    insisted = compare(good, other, "--allow-confounded")
    assert insisted.exit_code == 0
    assert "Confounded verdict: bad is worse than good" in words(insisted)
    assert compare(good, other, "--allow-confounded", "--fail-if-worse").exit_code == 1
    declared = compare(good, other, "--treatment", "system", "--treatment", "data", "--fail-if-worse")
    assert declared.exit_code == 1
    assert "Confounded" not in declared.output


def test_json_has_all_of_it(good: Path, bad: Path, tmp_path: Path) -> None:
    result = compare(good, bad, "--json", "--metric", "hit@1", "--metric", "RR")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert (answer["verdict"], answer["confounded"], answer["questions"]) == ("worse", False, 20)
    assert [metric["metric"] for metric in answer["metrics"]] == ["Success@1", "RR"]
    assert answer["metrics"][0]["losses"] == 20
    assert answer["fields"] == [{"name": "system.profile", "first": "good@1", "second": "bad@1", "declared": True}]
    assert len(answer["changed"]) == 10
    other = save(tmp_path / "elsewhere", "bad", BAD, data={"fingerprint": "g"})
    refused = compare(good, other, "--json")
    assert refused.exit_code == 3
    assert json.loads(refused.stdout)["verdict"] == "none"


def test_what_two_builds_differ_by_is_taken_off(good: Path, bad: Path, tmp_path: Path) -> None:
    same = tmp_path / "aa.json"
    same.write_text(
        json.dumps({"questions": 20, "differing": 20, "ndcg_difference": 0.4, "stage": "vector"}), encoding="utf-8"
    )
    result = compare(good, bad, "--aa", same, "--fail-if-worse")
    assert result.exit_code == 0, result.output
    assert "moves as much when one configuration is built twice" in words(result)
    same.write_text("{}", encoding="utf-8")
    result = compare(good, bad, "--aa", same)
    assert result.exit_code == 2
    assert "not what kbsearch aa --json writes" in words(result)


def test_a_report_is_one_file_with_the_texts_of_the_collection(good: Path, bad: Path, tmp_path: Path) -> None:
    folder = tmp_path / "collection"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text('{"id": "right", "title": "The <right> one", "text": "x"}\n', encoding="utf-8")
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps({"id": query, "text": f"which is {query}?"}) + "\n" for query in QUERIES), encoding="utf-8"
    )
    (folder / "qrels.tsv").write_text("".join(f"{query}\tright\t1\n" for query in QUERIES), encoding="utf-8")
    page = tmp_path / "report.html"
    result = compare(good, bad, "--html", page, "--collection", folder)
    assert result.exit_code == 0, result.output
    written = page.read_text(encoding="utf-8")
    for part in ("<!DOCTYPE html>", "<svg", "which is q00?", "The &lt;right&gt; one", "bad is worse than good"):
        assert part in written
    assert "which is q00?" in words(result)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_cannot_be_compared_is_said_with_exit_code_2(good: Path, tmp_path: Path) -> None:
    other = SavedRun("s", {}, {"1": ("a",)}, {"1": {"a": 1}}).save(tmp_path / "other")
    for arguments, message in (
        ([good, other], "different questions"),
        ([good, tmp_path / "none.run"], "there is no file"),
        ([good, good.with_suffix(".json")], "is no run"),
        ([good, good, "--metric", "x"], "unknown metric 'x'"),
        ([good, good, "--html", tmp_path / "none" / "page.html"], "there is no folder"),
        ([good, good, "--collection", tmp_path / "none"], "is no folder"),
        ([good], "Missing argument"),
    ):
        result = compare(*arguments)
        assert result.exit_code == 2, result.output
        assert message in words(result)


def test_without_the_extra_it_is_told_what_to_install(good: Path, bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    result = compare(good, bad)
    assert result.exit_code == 2
    assert "scipy" in result.output
    assert "[evaluate]" in result.output


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    first, second = (
        save(tmp_path / "before", "weighted", BAD),
        save(tmp_path / "after", "weighted", GOOD, system={"profile": "w@2"}),
    )
    assert "after/weighted is better than before/weighted" in words(compare(first, second))
