"""Everything of the commands works where kbsearch is installed under another name, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from rich.console import Console
from typer.testing import CliRunner

from kbsearch import demo, migrate
from kbsearch.cli import app
from kbsearch.ingest import Document, Source, Splitter, embed_missing, ingest
from kbsearch.ingest.organizations import organization_id
from kbsearch.ingest.sql_query import Query, source_connection
from kbsearch.ingest.sql_source import SqlOptions, SqlSource
from tests.ingest.test_pipeline import HashEmbedder, documents

SCHEMA = "help_search"


@pytest.fixture
def dsn(empty_database: str, admin: Callable[[str], str]) -> str:
    """A database in which only the schema help_search has kbsearch, and there is no schema kbsearch."""
    role = sql.Identifier(str(conninfo_to_dict(empty_database)["user"]))
    with psycopg.connect(admin(empty_database), autocommit=True) as connection:
        connection.execute("DROP SCHEMA kbsearch")
        connection.execute(sql.SQL("CREATE SCHEMA help_search AUTHORIZATION {}").format(role))
    migrate.upgrade(empty_database, schema=SCHEMA)
    return empty_database


def kbsearch(dsn: str, *arguments: str | Path, code: int = 0) -> Any:
    result = CliRunner().invoke(
        app, [*map(str, arguments), "--dsn", dsn, "--schema", SCHEMA, "--json"], catch_exceptions=False
    )
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_ingest_search_and_evaluate(dsn: str, tmp_path: Path) -> None:
    docs, collection = tmp_path / "docs", tmp_path / "collection"
    docs.mkdir()
    collection.mkdir()
    (docs / "a.md").write_text("---\nlang: de\n---\n# Rückgaben\n\nWir erstatten", encoding="utf-8")
    (docs / "b.md").write_text("# B\n\nbilling", encoding="utf-8")
    assert kbsearch(dsn, "ingest", docs, "--no-embed")["written"] == 2
    query = "SELECT external_ref AS id, title, body, now() AS updated_at FROM help_search.kb_articles WHERE external_ref = 'b.md'"
    rows = (
        "ingest",
        "--from-sql",
        query.replace("external_ref AS id", "'copy' AS id"),
        "--source",
        "copy",
        "--no-embed",
        "--updated-at",
        "updated_at",
    )
    assert kbsearch(dsn, *rows)["written"] == 1
    found = kbsearch(dsn, "search", "Rückgabe", "--language", "de", "--highlight", "--no-embed")
    assert [(item["external_ref"], item["title"]) for item in found["items"]] == [("a.md", "Rückgaben")]
    (docs / "b.md").unlink()
    assert kbsearch(dsn, "ingest", docs, "--no-embed", "--prune")["deleted"] == 1

    (collection / "corpus.jsonl").write_text(
        '{"id": "a", "title": "A", "text": "cats"}\n{"id": "b", "text": "dogs"}\n', encoding="utf-8"
    )
    (collection / "queries.jsonl").write_text('{"id": "1", "text": "cats"}\n', encoding="utf-8")
    (collection / "qrels.tsv").write_text("1\ta\t1\n", encoding="utf-8")
    np.save(collection / "minilm.docs.npy", np.eye(2, dtype=np.float32))
    np.save(collection / "minilm.queries.npy", np.eye(2, dtype=np.float32)[:1])
    assert kbsearch(dsn, "evaluate", collection)["systems"]["weighted"]["RR"] == 1


def test_embedders_spaces_and_the_demo(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        org_id = organization_id(connection, "o", create=True, schema=SCHEMA)
        for embedder in (None, HashEmbedder("1"), HashEmbedder("2")):
            report = ingest(
                connection, org_id, [Source("s", documents(3))], embedder=embedder, splitter=Splitter(40), schema=SCHEMA
            )
            assert report.rejected == ()
        assert report.space_active
        assert embed_missing(connection, org_id, HashEmbedder("3"), schema=SCHEMA).embedded == 6
        with source_connection(dsn) as source:
            feed = SqlSource(Query(source, "SELECT 1 AS id, 'T' AS title"), SqlOptions("t", schema=SCHEMA))
            assert ingest(connection, org_id, feed, prune=True, schema=SCHEMA).written == 1
        topics = [Document(f"pydoc:{number:02}", "Same", f"file error {number}") for number in range(8)]
        monkeypatch.setattr(demo, "read_pydoc", lambda **_: topics)
        assert demo.run(Console(record=True, width=160), connection, HashEmbedder(), SCHEMA)


def test_the_default_schema_is_not_there(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A", encoding="utf-8")
    for arguments in (["ingest", str(tmp_path), "--no-embed"], ["search", "x"]):
        result = CliRunner().invoke(app, [*arguments, "--dsn", dsn])
        assert result.exit_code == 3, result.output
        assert "KB001" in result.output
