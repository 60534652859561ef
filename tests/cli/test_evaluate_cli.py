from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from kbsearch.cli import app
from kbsearch.evaluate import METRICS


def kbsearch(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "tiny"
    root.mkdir()
    (root / "corpus.jsonl").write_text(
        '{"id": "a", "title": "A", "text": "cats"}\n{"id": "b", "title": "B", "text": "dogs"}\n', encoding="utf-8"
    )
    (root / "queries.jsonl").write_text('{"id": "1", "text": "cats"}\n', encoding="utf-8")
    (root / "qrels.tsv").write_text("1\ta\t1\n", encoding="utf-8")
    np.save(root / "minilm.docs.npy", np.eye(2, dtype=np.float32))
    np.save(root / "minilm.queries.npy", np.eye(2, dtype=np.float32)[:1])
    return root


def test_json_has_the_metrics_of_every_system(folder: Path, database: str) -> None:
    result = kbsearch("evaluate", folder, "--json", "--dsn", database)
    assert result.exit_code == 0, result.output
    perfect = dict.fromkeys(METRICS, 1.0)
    answer = json.loads(result.stdout)
    median = answer.pop("median_ms")
    assert answer == {
        "collection": "tiny",
        "systems": dict.fromkeys(("vector", "keyword", "term_count", "rrf", "weighted"), perfect),
        "documents": 2,
        "skipped": 0,
        "chunks": 2,
        "queries": 1,
        "refused": 0,
        "unjudged": 0,
        "escalated": {},
    }
    assert set(median) == set(answer["systems"])
    assert all(milliseconds > 0 for milliseconds in median.values())


def test_documents_without_text_are_counted(folder: Path, database: str) -> None:
    with (folder / "corpus.jsonl").open("a", encoding="utf-8") as corpus:
        corpus.write('{"id": "empty", "title": " ", "text": ""}\n')
    np.save(folder / "minilm.docs.npy", np.eye(3, dtype=np.float32))
    np.save(folder / "minilm.queries.npy", np.eye(3, dtype=np.float32)[:1])
    command = ("evaluate", folder, "--system", "keyword", "--dsn", database)
    answer = json.loads(kbsearch(*command, "--json").stdout)
    assert (answer["documents"], answer["skipped"]) == (2, 1)
    assert "1 document without text skipped" in " ".join(kbsearch(*command).output.split())


def test_the_table_shows_legs_and_fusions_side_by_side(folder: Path, database: str) -> None:
    result = kbsearch("evaluate", folder, "--system", "weighted", "--system", "keyword", "--dsn", database)
    assert result.exit_code == 0
    for part in ("weighted", "keyword", "nDCG@10", "MRR", "hit@5", "1.000", "2 articles"):
        assert part in result.output
    assert "rrf" not in result.output


def test_what_is_no_collection_or_no_system_is_said(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        (["empty"], "corpus.jsonl"),
        (["none"], "no folder"),
        (["tiny", "--system", "x"], "unknown system"),
    ):
        result = kbsearch("evaluate", tmp_path / arguments[0], *arguments[1:])
        assert result.exit_code == 2
        assert message in result.output


HASHES = ("--embedder", "tests.ingest.test_pipeline:HashEmbedder")


def test_an_embedder_that_is_named_computes_the_vectors(folder: Path, database: str) -> None:
    """By the folder's vectors the other document answers; by hashes, whatever they are, the one whose text is asked for."""
    (folder / "corpus.jsonl").write_text('{"id": "a", "text": "cats"}\n{"id": "b", "text": "dogs"}\n', encoding="utf-8")
    np.save(folder / "minilm.queries.npy", np.eye(2, dtype=np.float32)[1:])

    def reciprocal_rank(*options: str) -> float:
        result = kbsearch("evaluate", folder, "--system", "vector", "--json", "--dsn", database, *options)
        assert result.exit_code == 0, result.output
        return float(json.loads(result.stdout)["systems"]["vector"]["RR"])

    assert reciprocal_rank() == 0.5
    assert reciprocal_rank(*HASHES) == 1


def test_without_vectors_and_embedder_there_is_nothing_to_measure(folder: Path, database: str) -> None:
    (folder / "minilm.queries.npy").unlink()
    result = kbsearch("evaluate", folder, "--embedder", "none", "--dsn", database)
    assert result.exit_code == 2
    assert "name an --embedder" in result.output
    assert kbsearch("evaluate", folder, *HASHES, "--dsn", database).exit_code == 0


def test_without_the_extra_it_is_told_what_to_install(
    folder: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    result = kbsearch("evaluate", folder, "--dsn", database)
    assert result.exit_code == 2
    assert "ir_measures" in result.output
    assert "[evaluate]" in result.output
