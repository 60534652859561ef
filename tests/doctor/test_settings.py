from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from kbsearch import embedded
from kbsearch.doctor import Level, settings
from tests.doctor.patient import Patient


@pytest.mark.parametrize(
    ("check", "value", "level"),
    [
        ("session_replication_role", "session_replication_role = 'replica'", Level.PROBLEM),
        ("isolation", "default_transaction_isolation = 'repeatable read'", Level.WARNING),
        ("isolation", "default_transaction_isolation = 'serializable'", Level.WARNING),
        ("read_only", "default_transaction_read_only = 'on'", Level.WARNING),
        ("client_encoding", "client_encoding = 'LATIN1'", Level.PROBLEM),
        ("statement_timeout", "statement_timeout = '900ms'", Level.WARNING),
    ],
)
class TestASettingThatHurts:
    def test_of_the_database(self, patient: Patient, check: str, value: str, level: Level) -> None:
        name = conninfo_to_dict(patient.dsn)["dbname"]
        patient.operate(f"ALTER DATABASE {name} SET {value}")
        patient = Patient(without_encoding(patient.dsn), without_encoding(patient.admin_dsn))
        finding = patient.one(f"settings.{check}", level)
        assert " for this session: " in finding.found
        setting = value.partition(" = ")[0]
        assert finding.advice == f"ALTER DATABASE {name} RESET {setting};"
        with contextlib.suppress(psycopg.errors.ReadOnlySqlTransaction):
            patient.cure(finding)
        patient.operate("SET default_transaction_read_only = off", f"ALTER DATABASE {name} RESET {setting}")
        assert patient.bad(f"settings.{check}") == []

    def test_of_another_role_that_uses_kbsearch(
        self, patient: Patient, role: str, check: str, value: str, level: Level
    ) -> None:
        patient.operate(f"ALTER ROLE {role} SET {value}")
        assert patient.bad(f"settings.{check}") == [], "the role has nothing to do with kbsearch"
        patient.operate(f"GRANT SELECT, INSERT ON kbsearch.kb_article_chunks TO {role}")
        finding = patient.one(f"settings.{check}", level)
        assert f" for role {role}: " in finding.found
        patient.cure(finding)
        assert patient.bad(f"settings.{check}") == []


def without_encoding(dsn: str) -> str:
    given: dict[str, Any] = conninfo_to_dict(dsn)
    given.pop("client_encoding", None)
    return make_conninfo(**given)


def test_a_setting_of_a_role_in_this_database(patient: Patient, role: str) -> None:
    name = conninfo_to_dict(patient.dsn)["dbname"]
    patient.operate(
        f"GRANT INSERT ON kbsearch.kb_article_chunks TO {role}",
        f"ALTER ROLE {role} IN DATABASE {name} SET default_transaction_isolation = 'serializable'",
    )
    finding = patient.one("settings.isolation", Level.WARNING)
    assert finding.advice == f"ALTER ROLE {role} IN DATABASE {name} RESET default_transaction_isolation;"
    patient.cure(finding)
    assert patient.bad("settings.isolation") == []


def test_a_setting_of_the_connection_string(patient: Patient) -> None:
    given = f"{conninfo_to_dict(patient.dsn).get('options') or ''} -c default_transaction_isolation=serializable"
    finding = Patient(make_conninfo(patient.dsn, options=given), patient.admin_dsn).one(
        "settings.isolation", Level.WARNING
    )
    assert (
        finding.advice == "Take default_transaction_isolation out of the connection string (options=…) or of PGOPTIONS."
    )


def test_index_scans_and_bitmap_scans_switched_off(patient: Patient) -> None:
    name = conninfo_to_dict(patient.dsn)["dbname"]
    patient.organization("large", 200)
    patient.operate("VACUUM ANALYZE", f"ALTER DATABASE {name} SET enable_indexscan = off")
    assert patient.bad("settings.scans") == [], "bitmap scans do"
    patient.operate(f"ALTER DATABASE {name} SET enable_bitmapscan = off")
    findings = patient.bad("settings.scans")
    assert [one.level for one in findings] == [Level.PROBLEM] * 2
    assert {one.level for one in patient.bad("search.plan")} == {Level.PROBLEM}
    patient.cure(*findings)
    assert patient.bad("settings.scans", "search.plan") == []


def test_autovacuum_switched_off_for_a_table(patient: Patient) -> None:
    patient.run("ALTER TABLE kbsearch.kb_postings SET (autovacuum_enabled = off)")
    finding = patient.one("settings.autovacuum", Level.WARNING)
    assert finding.found == "autovacuum is switched off for kb_postings"
    patient.cure(finding)
    assert patient.bad("settings.autovacuum") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("250", 250), ("900ms", 900), ("1.5s", 1500), ("2min", 120_000), ("'1h'", 3_600_000)],
)
def test_times_as_settings_write_them(text: str, expected: float) -> None:
    assert settings.milliseconds(text) == expected


@pytest.fixture(scope="module")
def careless_server() -> Iterator[Path]:
    """A server that a careless administrator has set up."""
    directory = Path(tempfile.mkdtemp(prefix="kbsearch-test-"))
    data = directory / "postgres"
    given = {
        "autovacuum": "off",
        "track_counts": "off",
        "shared_buffers": "1MB",
        "max_connections": "10",
        "max_prepared_transactions": "5",
        "fsync": "off",
    }
    try:
        embedded.start(data, settings=given)
        embedded.stop(data)
        embedded.start(data)
        yield data
    finally:
        embedded.stop(data)
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def careless(careless_server: Path) -> Patient:
    server = embedded.running(careless_server)
    assert server is not None
    dsn = embedded.ensure_database(server)
    return Patient(dsn, dsn)


def test_autovacuum_and_counting_switched_off_for_the_server(careless: Patient) -> None:
    findings = careless.bad("settings.autovacuum")
    assert [one.level for one in findings] == [Level.WARNING] * 2
    assert {one.details["setting"] for one in findings} == {"autovacuum", "track_counts"}
    unchecked = careless.bad("search.plan")
    assert [one.level for one in unchecked] == [Level.UNCHECKED]
    assert "track_counts" in unchecked[0].found
    careless.cure(*findings)
    careless.operate("SELECT pg_reload_conf()", "SELECT pg_sleep(0.5)")
    assert careless.bad("settings.autovacuum") == []


def test_shared_buffers_smaller_than_an_organisations_vectors(careless: Patient) -> None:
    assert careless.bad("settings.shared_buffers") == []
    org_id = careless.organization("large", 200, vectors=False, words=3)
    careless.embed(org_id, careless.space("wide", 1000), 1000)
    finding = careless.one("settings.shared_buffers", Level.WARNING)
    assert "a search of large reads 400 vectors" in finding.found
    assert finding.advice.startswith("ALTER SYSTEM SET shared_buffers = '128MB';")


def test_a_prepared_transaction_that_was_forgotten(careless: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(careless.dsn) as connection:
        connection.execute("UPDATE kbsearch.organizations SET name = name")
        connection.execute("PREPARE TRANSACTION 'forgotten'")
    assert careless.bad("settings.transactions") == [], "not yet old"
    monkeypatch.setattr(settings, "LONG_TRANSACTION", "0 seconds")
    finding = careless.one("settings.transactions", Level.WARNING)
    assert finding.found.startswith("prepared transaction forgotten: ")
    careless.cure(finding)
    assert careless.bad("settings.transactions") == []


def test_a_transaction_that_was_left_open(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "LONG_TRANSACTION", "0 seconds")
    with psycopg.connect(patient.dsn) as connection:
        connection.execute("SELECT 1")
        finding = patient.one("settings.transactions", Level.WARNING)
        assert "idle in transaction" in finding.found
        patient.cure(finding)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_transactions_that_are_not_shown(patient: Patient, databases: object) -> None:
    finding = patient.one("settings.transactions", Level.UNCHECKED)
    assert finding.advice.startswith("GRANT pg_read_all_stats TO ")
    watching = Patient(patient.admin_dsn, patient.admin_dsn)
    assert watching.bad("settings.transactions") == []


class Pooler:
    """Passes bytes between a client and the server, but hands out process numbers of its own, as poolers do."""

    def __init__(self, target: Path, path: Path) -> None:
        self._target = target
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._target))
            threading.Thread(target=_pass, args=(client, server, False), daemon=True).start()
            threading.Thread(target=_pass, args=(server, client, True), daemon=True).start()

    def close(self) -> None:
        self._listener.close()


def _pass(source: socket.socket, target: socket.socket, renumber: bool) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            at = data.find(b"K\x00\x00\x00") if renumber else -1
            if at >= 0:  # BackendKeyData: length, process number, key
                data = data[: at + 5] + b"\x00\x01\x86\xa0" + data[at + 9 :]
                renumber = False
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_a_pooler_is_noticed(patient: Patient, tmp_path: Path) -> None:
    host, port = conninfo_to_dict(patient.admin_dsn)["host"], conninfo_to_dict(patient.admin_dsn)["port"]
    if not str(host).startswith("/"):
        pytest.skip("the pooler of this test speaks to a socket of the file system")
    folder = Path(tempfile.mkdtemp(prefix="kbs-"))
    pooler = Pooler(Path(f"{host}/.s.PGSQL.{port}"), folder / f".s.PGSQL.{port}")
    try:
        (direct,) = patient.findings("settings.pooler")
        assert direct.found == "a direct connection"
        (through,) = Patient(make_conninfo(patient.dsn, host=str(folder)), patient.admin_dsn).findings(
            "settings.pooler"
        )
        assert through.level is Level.OK
        assert through.details["told_pid"] == 100_000
        assert "prepare_threshold=None" in through.found
    finally:
        pooler.close()
        shutil.rmtree(folder)
