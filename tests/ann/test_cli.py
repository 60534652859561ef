"""kbsearch ann: built beside writers, resumed, listed, dropped."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

from kbsearch.cli import ann as command
from tests.ann.crowd import Crowd, crowd
from tests.cli.test_ingest_cli import kbsearch


@pytest.fixture
def small(database: str) -> Iterator[Crowd]:
    with crowd(database, 400, 100, number=1) as made:
        yield made


def ann(crowd: Crowd, *arguments: str, code: int = 0, org: str = "crowd 1") -> str:
    result = kbsearch("ann", *arguments, "--org", org, "--dsn", crowd.dsn)
    assert result.exit_code == code, result.output
    return result.output


def test_create_use_status_drop(small: Crowd) -> None:
    (question,) = small.questions(1)
    assert "built in" in ann(small, "create", "--memory", "64")
    assert "there already" in ann(small, "create")
    assert "auto" in ann(small, "use", "auto")
    assert small.page(question)["retrieval"]["reason"] == "few_chunks"
    ann(small, "use", "ann", "--window", "20")
    assert small.page(question)["retrieval"]["window"] == 20
    status = json.loads(ann(small, "status", "--json"))
    assert (status["retrieval"], status["window"]) == ("ann", 20)
    (index,) = status["indexes"]
    assert (index["space"], index["state"]) == ("crowd", "ready")
    assert index["identity"] == small.page(question)["retrieval"]["index"]
    assert index["index_name"] in ann(small, "status")
    assert json.loads(ann(small, "status", "--json", org="crowd 2"))["indexes"] == []
    assert "dropped" in ann(small, "drop")
    ann(small, "drop", code=1)


def test_bad_input_is_told(small: Crowd) -> None:
    for arguments in (
        ("use", "perhaps"),
        ("use", "ann", "--window", "0"),
        ("create", "--m", "1"),
        ("create", "--memory", "0"),
    ):
        ann(small, *arguments, code=2)
    assert "KBORG" in ann(small, "create", code=3, org="nobody")
    assert "KBSPC" in ann(small, "create", "--space", "nowhere", code=3)
    assert "KBANN" in ann(small, "create", "--m", "50", "--ef-construction", "60", code=3)


def test_a_build_that_was_broken_off_is_done_again(small: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted while it waits for an older transaction, as any build CONCURRENTLY does: what it leaves is found, dropped and built."""
    (question,) = small.questions(1)

    def interrupt(*_arguments: object) -> None:
        for _ in range(200):
            if small.listed() == [("invalid", True)]:
                raise KeyboardInterrupt
            threading.Event().wait(0.05)
        raise AssertionError("the build does not wait")

    with psycopg.connect(small.dsn) as writer:
        writer.execute(
            "UPDATE kbsearch.kb_article_embeddings SET chunk_digest = chunk_digest WHERE org_id = %s",
            [small.org_ids[1]],
        )
        with monkeypatch.context() as patch:
            patch.setattr(command, "_watch", interrupt)
            result = kbsearch("ann", "create", "--org", "crowd 1", "--dsn", small.dsn)
        assert result.exit_code != 0
        writer.rollback()
    assert small.listed() == [("invalid", False)]
    small.use("ann", 20)
    with pytest.raises(psycopg.Error, match="not finished"):
        small.page(question)
    output = ann(small, "create")
    assert "was not finished" in output
    assert small.listed() == [("ready", False)]
    assert small.page(question)["retrieval"]["mode"] == "ann"


def test_writers_go_on_while_it_is_built(small: Crowd) -> None:
    """The build waits for a transaction that wrote before; another writer and a search do not wait for the build."""
    (question,) = small.questions(1)
    outcome: list[int] = []
    with psycopg.connect(small.dsn) as writer:
        writer.execute(
            "UPDATE kbsearch.kb_article_embeddings SET chunk_digest = chunk_digest WHERE org_id = %s",
            [small.org_ids[1]],
        )
        building = threading.Thread(
            target=lambda: outcome.append(kbsearch("ann", "create", "--org", "crowd 1", "--dsn", small.dsn).exit_code)
        )
        building.start()
        for _ in range(200):
            if small.listed():
                break
            threading.Event().wait(0.05)
        small.connection.execute("SET statement_timeout = '10s'")
        small.write(small.org_id, 20)
        assert small.page(question)["items"]
        assert not outcome
        writer.rollback()
        building.join(60)
    assert outcome == [0]
    small.use("ann", 20)
    assert small.page(question)["retrieval"]["mode"] == "ann"


def test_without_the_right_to_build(small: Crowd, superuser: Callable[[str], str]) -> None:
    """The database's own words: nothing of ours is between them and the reader."""
    with psycopg.connect(superuser(small.dsn), autocommit=True) as connection:
        connection.execute("CREATE ROLE kbsearch_ann_stranger NOSUPERUSER")
        try:
            connection.execute("GRANT USAGE ON SCHEMA kbsearch, ext TO kbsearch_ann_stranger")
            connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA kbsearch TO kbsearch_ann_stranger")
            connection.execute("SET ROLE kbsearch_ann_stranger")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("SELECT kbsearch.create_kb_ann_index_v1(%s)", [small.org_id])
        finally:
            connection.execute("RESET ROLE")
            connection.execute("DROP OWNED BY kbsearch_ann_stranger")
            connection.execute("DROP ROLE kbsearch_ann_stranger")
