"""What a run does where its keeper fails."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kbsearch.testing import keeper, servers
from kbsearch.testing.run import Run
from kbsearch.testing.servers import Request, ServerUnavailableError


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(Request("0123456789ab", str(tmp_path / "run"), "embedded", "--kbsearch-server"), os.getpid())


def test_a_keeper_that_does_not_come_up_is_told_with_what_it_said(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such thing >&2\nexit 1\n", encoding="utf-8")
    broken.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(broken))
    for ask in (run.choice, run.server):
        with pytest.raises(
            ServerUnavailableError, match="the process that keeps the test server has ended: no such thing"
        ):
            ask()
    assert run.finish() is None
    assert list(tmp_path.iterdir()) == [broken]


def test_an_error_that_nobody_expected_is_told_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTCONTAINERS_CONNECTION_MODE", "nonsense")
    run = Run(Request("0123456789ab", str(tmp_path / "run"), "docker", "--kbsearch-server"), os.getpid())
    try:
        with pytest.raises(
            ServerUnavailableError, match=r"(?s)Traceback.*Error parsing TESTCONTAINERS_CONNECTION_MODE"
        ):
            run.choice()
    finally:
        assert run.finish() is None
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_removed_is_told(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: servers.Embedded) -> None:
        raise OSError("the disk is on fire")

    directory = tmp_path / "run"
    directory.mkdir()
    keeper.write(directory / keeper.CHOICE, {"kind": "embedded", "reason": "as told"})
    keeper.write(directory / "pid", {"pid": 2**22 + 1})
    monkeypatch.setattr(servers.Embedded, "stop", stop)
    assert run.finish() == "the test server of this run could not be removed: the disk is on fire"
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_a_server_has_nothing_to_finish(run: Run, tmp_path: Path) -> None:
    assert run.finish() is None
    assert list(tmp_path.iterdir()) == []


def test_what_the_keeper_writes_is_for_its_owner(tmp_path: Path) -> None:
    keeper.write(tmp_path / "server.json", {"dsn": "secret"})
    assert (tmp_path / "server.json").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["server.json"]
