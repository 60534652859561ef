"""kbsearch embed shows exactly what the model is given, and what differs from what it was given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kbsearch.ingest import Splitter, read_paths
from tests.cli.test_ingest_cli import folder, kbsearch
from tests.ingest.test_pipeline import Connection, run
from tests.ingest.test_recipe import Prefixed

__all__ = ["folder"]

LONG = "# Alpha\n\n" + "word " * 60 + "\n\n## Other\n\n" + "more " * 60
SMALL = ["--embedder", "tests.ingest.test_recipe:Prefixed", "--chunk-characters", "200"]


def shown(*arguments: Any, code: int = 0) -> list[dict[str, Any]]:
    result = kbsearch("embed", *arguments, *SMALL, "--json")
    assert result.exit_code == code, result.output
    listed = json.loads(result.stdout)
    assert isinstance(listed, list)
    return listed


def test_what_is_shown_is_what_an_ingest_gives_the_model(folder: Path, connection: Connection) -> None:
    (folder / "long.md").write_text(LONG, encoding="utf-8")
    listed = shown(folder, "--show")
    embedder = Prefixed()
    run(connection, list(read_paths(folder, kind="article")), embedder=embedder, splitter=Splitter(200))
    assert [entry["text"] for entry in listed] == embedder.read
    stored = connection.execute(
        "SELECT encode(i.input_sha256, 'hex'), i.input FROM kbsearch.kb_embedding_inputs AS i"
    ).fetchall()
    assert {entry["sha256"]: entry["text"] for entry in listed} == dict(stored)
    assert [(entry["external_ref"], entry["chunk"]) for entry in listed][:2] == [("a.md", 0), ("long.md", 0)]
    text = kbsearch("embed", "--show", folder, *SMALL)
    assert text.exit_code == 0
    assert "passage: Alpha\na.md\n# Alpha\n\nreset your password in settings\n" in text.stdout
    assert f"=== sub/b.txt, chunk 0: sha256 {listed[-1]['sha256']}\npassage: Beta\nsub/b.txt\nBeta" in text.stdout


def test_what_is_skipped_is_told(folder: Path) -> None:
    (folder / "a.md").write_text(f"# Alpha\n\nin {folder}/a.md", encoding="utf-8")
    (folder / "broken.md").write_bytes(b"\xff")
    result = kbsearch("embed", "--show", folder, *SMALL)
    assert result.exit_code == 1
    assert f"a.md, chunk 0: skipped: its content has an absolute path in it, '{folder}/a.md'" in result.output
    assert "skipped: broken.md: not UTF-8" in result.output
    assert [entry["refused"] is None for entry in shown(folder / "a.md", "--show", "--allow-machine-names")] == [True]


def test_differences_are_told_until_they_are_ingested(folder: Path, database: str) -> None:
    arguments: list[str | Path] = [folder, "--dsn", database, *SMALL]
    assert kbsearch("ingest", *arguments).exit_code == 0
    assert kbsearch("embed", "--diff", *arguments).exit_code == 0
    (folder / "a.md").write_text("# Alpha\n\nreset your passphrase in settings", encoding="utf-8")
    (folder / "c.md").write_text("# New", encoding="utf-8")
    result = kbsearch("embed", "--diff", *arguments)
    assert result.exit_code == 1
    assert "--- stored: a.md\n+++ now: a.md\n" in result.stdout
    assert "-reset your password in settings\n+reset your passphrase in settings\n" in result.stdout
    assert "+passage: New\n" in result.stdout
    assert "b.txt" not in result.stdout
    listed = shown(folder, "--diff", "--dsn", database, code=1)
    assert [entry["external_ref"] for entry in listed] == ["a.md", "c.md"]
    assert listed[1]["stored"] == []
    moved = kbsearch("embed", "--diff", *arguments, "--no-path")
    assert moved.stdout.count("\n-") > 2
    assert kbsearch("ingest", *arguments).exit_code == 0
    assert kbsearch("embed", "--diff", *arguments).stdout == ""


def test_a_vector_that_nobody_knows_the_input_of_is_a_difference(
    folder: Path, database: str, connection: Connection
) -> None:
    arguments: list[str | Path] = [folder, "--dsn", database, *SMALL]
    assert kbsearch("ingest", *arguments).exit_code == 0
    connection.execute("UPDATE kbsearch.kb_article_embeddings SET input_sha256 = NULL")
    result = kbsearch("embed", "--diff", *arguments)
    assert result.exit_code == 1
    assert "nobody knows what it is of" in result.stdout


@pytest.mark.parametrize(
    "options", [[], ["--show", "--diff"], ["--show", "--embedder", "none"], ["--show", "--template", "{x}"]]
)
def test_what_cannot_be_shown_is_a_usage_error(folder: Path, options: list[str]) -> None:
    assert kbsearch("embed", folder, *options).exit_code == 2


def test_a_template_of_ones_own_is_shown(folder: Path) -> None:
    (entry,) = shown(folder / "a.md", "--show", "--template", "Title: {title}\\n{content}")
    assert entry["text"] == "passage: Title: Alpha\n# Alpha\n\nreset your password in settings"
