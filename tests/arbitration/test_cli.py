"""`kbsearch disagreement` and `kbsearch arbitration verify`."""

from __future__ import annotations

import json
import struct
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from kbsearch import arbitration
from kbsearch.cli import app
from kbsearch.embed.errors import MissingExtraError
from tests.arbitration.calls import Connection
from tests.arbitration.test_log import DISJOINT, EQUAL, entry, keep, log, manifest
from tests.sql.corpus import Corpus

SVG = "{http://www.w3.org/2000/svg}"


def kbsearch(*arguments: str | Path, given: str | None = None) -> Result:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(
        app, [str(argument) for argument in arguments], input=given
    )


@pytest.fixture
def logged(connection: Connection) -> Corpus:
    """The only organisation of a database, with a log of three days."""
    corpus = keep(Corpus(connection, "Büro $x_1$ & <Co>"), "hash")
    for at, name, keyword in (
        ("2026-03-01 05:00:00+00", "question", EQUAL),
        ("2026-03-01 06:00:00+00", "question", DISJOINT),
        ("2026-03-01 07:00:00+00", "identifier", [2, 1, 3]),
        ("2026-03-03 07:00:00+00", "question", [2, 1, 3]),
        ("2026-03-03 08:00:00+00", "keywords", []),
    ):
        entry(corpus, at, name, keyword)
    return corpus


def cells(output: str) -> list[list[str]]:
    """The rows of a table."""
    return [
        [cell.strip() for cell in line.strip("│┃").split("│")] for line in output.splitlines() if line.startswith("│")
    ]


def test_the_trend_is_shown(database: str, logged: Corpus) -> None:
    result = kbsearch("disagreement", "--dsn", database)
    assert result.exit_code == 0, result.output
    assert cells(result.stdout) == [
        ["2026-03-01", "identifier", "1", "0.333", "0.333", "1"],
        ["", "question", "2", "0.400", "0.800", "1"],
        ["2026-03-03", "keywords", "1", "-", "-", "0"],
        ["", "question", "1", "0.333", "0.333", "1"],
    ]
    assert "5 searches, 3 escalated" in result.stdout


def test_buckets_have_the_length_that_is_asked_for(database: str, logged: Corpus) -> None:
    starts = {
        bucket: [
            row[0] for row in cells(kbsearch("disagreement", "--dsn", database, "--bucket", bucket).stdout) if row[0]
        ]
        for bucket in ("week", "2 days", "6 hours", "hour")
    }
    assert starts == {
        "week": ["2026-02-23", "2026-03-02"],
        "2 days": ["2026-03-01", "2026-03-03"],
        "6 hours": ["2026-03-01 00:00", "2026-03-01 06:00", "2026-03-03 06:00"],
        "hour": [f"2026-03-0{day} 0{hour}:00" for day, hour in ((1, 5), (1, 6), (1, 7), (3, 7), (3, 8))],
    }


def test_json_is_for_programs(database: str, logged: Corpus) -> None:
    found = json.loads(kbsearch("disagreement", "--dsn", database, "--bucket", "week", "--json").stdout)
    assert [(one["query_class"], one["searches"], one["disagreement_mean"], one["escalated"]) for one in found] == [
        ("identifier", 1, "0.333333", 1),
        ("question", 2, "0.400000", 1),
        ("keywords", 1, None, 0),
        ("question", 1, "0.333333", 1),
    ]


@pytest.mark.parametrize(
    "bucket", ["month", "0 days", "-1 day", "day; SELECT 1", "", "1.5 days", "٣ days", "999999 days"]
)
def test_other_buckets_are_a_wrong_command_line(database: str, bucket: str) -> None:
    result = kbsearch("disagreement", "--dsn", database, f"--bucket={bucket}")
    assert result.exit_code == 2
    assert "--bucket" in result.stderr


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_trend_is_drawn(database: str, logged: Corpus, tmp_path: Path, suffix: str) -> None:
    files = [tmp_path / f"{name}.{suffix}" for name in ("one", "two")]
    for file in files:
        result = kbsearch("disagreement", "--dsn", database, "--plot", file)
        assert result.exit_code == 0, result.output
    drawn, again = (file.read_bytes() for file in files)
    assert drawn == again, "the same log, the same bytes"
    if suffix == "png":
        assert drawn[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", drawn[16:24]) == (1080, 720)
        return
    texts = ["".join(text.itertext()) for text in ET.fromstring(drawn).iter(f"{SVG}text")]  # noqa: S314
    assert {"identifier", "question", "keywords", "class of question", "mean disagreement (0 … 1)"} <= set(texts)
    assert {"searches", "time (UTC)", "escalated"} <= set(texts)
    assert "How much the legs disagree: Büro $x_1$ & <Co>" in texts
    assert "quoted" not in texts, "a class without searches has no line"


@pytest.mark.parametrize(
    "arguments",
    [("--plot", "x.pdf"), ("--plot", "nowhere/x.svg"), ("--escalated", "--plot", "x.svg"), ("--limit", "0")],
)
def test_a_plot_that_cannot_be_is_a_wrong_command_line(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = kbsearch("disagreement", "--dsn", database, *arguments)
    assert result.exit_code == 2, result.output
    assert list(tmp_path.iterdir()) == []


def test_a_plot_says_what_it_needs(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise MissingExtraError("plots need the package 'matplotlib', which is not installed.")

    monkeypatch.setattr("kbsearch.cli.disagreement.require", missing)
    result = kbsearch("disagreement", "--dsn", database, "--plot", tmp_path / "x.svg")
    assert result.exit_code == 2
    assert "matplotlib" in result.stderr


def test_an_empty_log_is_said(database: str, tmp_path: Path) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        Corpus(connection)
    result = kbsearch("disagreement", "--dsn", database, "--plot", tmp_path / "x.svg")
    assert (result.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "No search is logged" in result.stdout
    assert json.loads(kbsearch("disagreement", "--dsn", database, "--json").stdout) == []
    listed = kbsearch("disagreement", "--dsn", database, "--escalated")
    assert listed.exit_code == 1
    assert "No search that was escalated" in listed.stdout


def test_escalated_searches_are_listed(database: str, connection: Connection) -> None:
    corpus = keep(Corpus(connection, "mine"), "text")
    questions = ["refund\x1b[31m", "XJ-900", "later"]
    ids = []
    for question in questions:
        one = manifest(corpus, question, vector_ids=EQUAL, keyword_ids=DISJOINT)
        ids.append(log(corpus, one, None if question == "later" else question))
    log(corpus, manifest(corpus, "agreed", vector_ids=EQUAL, keyword_ids=EQUAL), "agreed")
    result = kbsearch("disagreement", "--dsn", database, "--org", "mine", "--escalated")
    assert result.exit_code == 0, result.output
    found = [(row[0], *row[2:]) for row in cells(result.stdout)]
    shown = [f"sha256 {arbitration.ranking_hash([])[:0]}", "XJ-900", "refund\N{REPLACEMENT CHARACTER}[31m"]
    assert [row[:4] for row in found] == [(str(one), "keywords", "mine@1", "0.800") for one in reversed(ids)]
    assert found[0][4].startswith(shown[0])
    assert [row[4] for row in found[1:]] == shown[1:]
    two = kbsearch("disagreement", "--dsn", database, "--escalated", "--limit", "2", "--json")
    assert [one["id"] for one in json.loads(two.stdout)] == ids[:0:-1]


def test_an_organisation_that_is_not_there_is_refused(database: str) -> None:
    result = kbsearch("disagreement", "--dsn", database, "--org", "nobody")
    assert result.exit_code == 3
    assert "KBORG" in result.stderr


def verified(one: Any, tmp_path: Path, *arguments: str) -> Result:
    file = tmp_path / "manifest.json"
    file.write_text(one if isinstance(one, str) else json.dumps(one), encoding="utf-8")
    return kbsearch("arbitration", "verify", file, *arguments)


def test_a_right_manifest_is_right(corpus: Corpus, tmp_path: Path) -> None:
    one = manifest(corpus, "refund")
    for given in (one, {"items": [], "verdict": one["verdict"], "manifest": one}):
        result = verified(given, tmp_path, "--question", "refund")
        assert result.exit_code == 0, result.output
        assert "The manifest is right" in result.stdout
        assert one["manifest_digest"] in result.stdout
        assert one["directive"] in result.stdout
    answer = json.loads(verified(one, tmp_path, "--json").stdout)
    assert answer == {"valid": True, "faults": [], "verdict": one["verdict"]}
    result = kbsearch("arbitration", "verify", "-", given=json.dumps(one))
    assert result.exit_code == 0, result.output


def test_what_is_wrong_is_said(corpus: Corpus, tmp_path: Path) -> None:
    one = manifest(corpus, "refund")
    changed = {**one, "verdict": "rankings_agree"}
    resigned = {**changed, "manifest_digest": arbitration.digest(changed)}
    for wrong, said in (
        (changed, "the digest is another"),
        (resigned, "verdict is 'rankings_agree', but"),
        ({**one, "more\x1b": 1}, "there is no more\N{REPLACEMENT CHARACTER} in a manifest"),
        ([], "not a JSON object"),
        ({"manifest": None}, "not a JSON object"),
    ):
        result = verified(wrong, tmp_path)
        assert result.exit_code == 1, result.output
        assert said in result.stdout
        answer = verified(wrong, tmp_path, "--json")
        assert answer.exit_code == 1
        assert json.loads(answer.stdout)["valid"] is False
    result = verified(one, tmp_path, "--question", "another")
    assert (result.exit_code, result.stdout.strip()) == (1, "the question is another")


@pytest.mark.parametrize("text", ["", "{", '{"a": 1, "a": 1}', "[" * 100_000, "\udcff", "1" * 5000])
def test_what_is_no_json_is_a_wrong_command_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "manifest.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    result = kbsearch("arbitration", "verify", file)
    assert result.exit_code == 2
    assert "there is no JSON" in result.stderr


def test_a_file_that_is_not_there_is_a_wrong_command_line(tmp_path: Path) -> None:
    assert kbsearch("arbitration", "verify", tmp_path / "none.json").exit_code == 2
