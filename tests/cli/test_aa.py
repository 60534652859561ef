from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psycopg
import pytest
from typer.testing import CliRunner, Result

from kbsearch.cli import app
from kbsearch.evaluate.build import PREFIX


def kbsearch(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "tiny"
    root.mkdir()
    texts = {"a": "cats purr", "b": "dogs bark", "c": "cats purr", "d": "birds sing"}
    lines = [json.dumps({"id": name, "title": "", "text": text}) for name, text in texts.items()]
    (root / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (root / "queries.jsonl").write_text('{"id": "1", "text": "cats"}\n{"id": "2", "text": "dogs"}\n', encoding="utf-8")
    (root / "qrels.tsv").write_text("1\ta\t1\n2\tb\t1\n", encoding="utf-8")
    np.save(root / "minilm.docs.npy", np.eye(3, dtype=np.float32)[[0, 1, 0, 2]])
    np.save(root / "minilm.queries.npy", np.eye(3, dtype=np.float32)[:2])
    return root


def left(server_dsn: str) -> list[str]:
    with psycopg.connect(server_dsn) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", (PREFIX,))
        return [name for (name,) in rows]


def test_zero_is_success_and_what_was_not_run_is_told(folder: Path, server_dsn: str, tmp_path: Path) -> None:
    wanted = ("--vary", "order", "--vary", "rows", "--vary", "server")
    result = kbsearch("aa", folder, "--dsn", server_dsn, *wanted, "--output", tmp_path / "aa.json")
    assert result.exit_code == 0, result.output
    assert "no other server was named" in result.output
    answer = json.loads((tmp_path / "aa.json").read_text(encoding="utf-8"))
    assert {name: answer[name] for name in ("collection", "questions", "differing", "first_place", "stage")} == {
        "collection": "tiny",
        "questions": 2,
        "differing": 0,
        "first_place": None,
        "stage": None,
    }
    assert answer["largest_displacement"] == answer["ndcg_difference"] == 0
    assert list(answer["variations"]) == ["order", "rows", "server"]
    assert "not_run" in answer["variations"]["server"]
    assert left(server_dsn) == []


def test_two_databases_are_compared_as_they_are(
    folder: Path, database: str, shared_database: str, tmp_path: Path
) -> None:
    """Nothing is built; and what differs ends in exit code 1, with its stage."""
    (tmp_path / "docs").mkdir()
    for name, text in (("cats", "Cats purr."), ("dogs", "Dogs bark."), ("birds", "Birds sing.")):
        (tmp_path / "docs" / f"{name}.txt").write_text(text, encoding="utf-8")
    ingest = ("ingest", tmp_path / "docs", "--org", "aa in place", "--embedder", "none")
    for dsn in (database, shared_database):
        assert kbsearch(*ingest, "--dsn", dsn).exit_code == 0
    gold = ("--org", "aa in place", "--dsn", database)
    assert kbsearch("gold", "add", "who purrs", "--ref", "cats.txt", *gold).exit_code == 0
    compare = ("aa", "--gold", "gold", *gold, "--other-dsn", shared_database, "--profile", "keyword", "--json")
    result = kbsearch(*compare)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["variations"]["in place"]["places"] == 1
    (tmp_path / "docs" / "dogs.txt").write_text("Dogs bark and purr.", encoding="utf-8")
    assert kbsearch(*ingest, "--dsn", shared_database).exit_code == 0
    result = kbsearch(*compare)
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert (answer["stage"], answer["differing"], answer["first_place"]) == ("documents", 1, 2)
    text = " ".join(kbsearch(*compare[:-1]).output.split())
    assert "documents (1): dogs.txt" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a folder"),
        (["--gold", "gold"], "gold set by --org"),
        (["tiny", "--gold", "gold"], "name a folder"),
        (["tiny", "--org", "x"], "other database"),
        (["tiny", "--vary", "nothing"], "nothing"),
        (["nowhere"], "no folder"),
    ],
)
def test_a_wrong_request_is_a_usage_error(
    folder: Path, server_dsn: str, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    result = kbsearch("aa", *arguments, "--dsn", server_dsn)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_a_role_that_may_not_create_databases_is_told(folder: Path, database: str) -> None:
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    if row is None or row[0]:
        pytest.skip("the role of the tests may create databases")
    result = kbsearch("aa", folder, "--dsn", database)
    assert result.exit_code == 2
    assert "may not create databases" in " ".join(result.output.split())


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_what_is_interrupted_leaves_no_database_behind(folder: Path, server_dsn: str, ending: signal.Signals) -> None:
    command = [sys.executable, "-m", "kbsearch", "aa", str(folder), "--dsn", server_dsn]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ}) as process:
        deadline = time.monotonic() + 120
        while not left(server_dsn) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left(server_dsn), process.communicate()[0]
        process.send_signal(ending)
        process.communicate(timeout=120)
    assert process.returncode != 0
    assert left(server_dsn) == []
