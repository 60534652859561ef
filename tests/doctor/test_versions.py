from __future__ import annotations

import uuid
from collections.abc import Callable

import psycopg
from psycopg.conninfo import make_conninfo

from kbsearch import doctor, migrate
from kbsearch.doctor import Level, versions
from tests.doctor.patient import Patient


def test_servers_that_are_too_old_or_too_new(patient: Patient) -> None:
    (old,) = patient.look(versions.server, server_version=140012)
    assert (old.level, old.found) == (Level.PROBLEM, "PostgreSQL 14.12")
    (new,) = patient.look(versions.server, server_version=190001)
    assert new.level is Level.WARNING
    (fine,) = patient.look(versions.server, server_version=150000)
    assert fine.level is Level.OK


def test_a_pgvector_that_is_too_old_or_behind_its_library(patient: Patient) -> None:
    patient.operate("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'")
    finding = patient.one("versions.pgvector", Level.PROBLEM)
    assert finding.found == "vector 0.7.4 in schema ext"
    assert finding.advice == "ALTER EXTENSION vector UPDATE;"
    patient.operate("UPDATE pg_extension SET extversion = '0.8.0' WHERE extname = 'vector'")
    finding = patient.one("versions.pgvector", Level.WARNING)
    assert finding.advice == "ALTER EXTENSION vector UPDATE;"


def test_no_pgvector(bare_database: str) -> None:
    patient = Patient(bare_database, bare_database)
    finding = patient.one("versions.pgvector", Level.PROBLEM)
    patient.cure(finding)
    assert patient.bad("versions.pgvector") == []


def test_another_encoding(server_dsn: str) -> None:
    name = f"kbsearch_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'".encode()
        )
        try:
            dsn = make_conninfo(server_dsn, dbname=name)
            finding = Patient(dsn, dsn).one("versions.encoding", Level.PROBLEM)
            assert finding.found == "LATIN1"
            assert "ENCODING 'UTF8'" in finding.advice
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_a_collation_that_changed_under_the_database(patient: Patient) -> None:
    patient.operate("UPDATE pg_database SET datcollversion = '0.1' WHERE datname = current_database()")
    finding = patient.one("versions.collation", Level.WARNING)
    assert "REINDEX (VERBOSE) DATABASE kbsearch_test_" in finding.advice
    assert "REFRESH COLLATION VERSION" in finding.advice


def test_a_database_without_kbsearch(empty_database: str) -> None:
    patient = Patient(empty_database, empty_database)
    findings = patient.findings()
    (finding,) = [one for one in findings if one.level is Level.PROBLEM]
    assert finding.check == "versions.kbsearch"
    assert "not installed" in finding.found
    assert finding.advice.startswith("kbsearch db upgrade")
    assert {one.check for one in findings} == {one.name for one in doctor.choose() if not one.needs_install}
    migrate.upgrade(empty_database)
    assert patient.bad("versions.kbsearch") == []


def test_a_schema_that_is_not_there(patient: Patient) -> None:
    (finding,) = patient.findings("versions.kbsearch", schema="elsewhere")
    assert finding.found == "there is no schema elsewhere"
    assert finding.advice.endswith("--schema elsewhere")


def test_another_revision(patient: Patient) -> None:
    patient.run("UPDATE kbsearch.kb_alembic_version SET version_num = '0000'")
    finding = patient.one("versions.kbsearch", Level.PROBLEM)
    assert finding.found == f"revision 0000, this package's newest is {migrate.head()}"
    patient.run("DELETE FROM kbsearch.kb_alembic_version")
    assert "no revision is noted" in patient.one("versions.kbsearch", Level.PROBLEM).found


def test_objects_that_were_changed(patient: Patient) -> None:
    patient.run(
        "ALTER FUNCTION kbsearch.kb_idf_v1(bigint, bigint) COST 7",
        "DROP TRIGGER kb_20_written ON kbsearch.kb_article_embeddings",
    )
    finding = patient.one("versions.objects", Level.PROBLEM)
    assert "kb_idf_v1" in finding.found
    assert "kb_20_written (missing)" in finding.found
    assert {one["problem"] for one in finding.details["differences"]} == {"different", "missing"}
    assert "kbsearch db check" in finding.advice


def test_a_server_that_takes_no_writes(patient: Patient) -> None:
    name = patient.run("SELECT current_database()")
    patient.operate(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    finding = patient.one("versions.objects", Level.UNCHECKED)
    assert "primary server" in finding.advice
    assert {one.check for one in patient.bad()} == {"versions.objects", "settings.read_only", "settings.transactions"}


def test_objects_that_may_not_be_looked_at(patient: Patient, role: str, as_role: Callable[..., object]) -> None:
    password = uuid.uuid4().hex
    patient.operate(
        f"ALTER ROLE {role} LOGIN PASSWORD '{password}'",
        f"GRANT USAGE ON SCHEMA kbsearch TO {role}",
        f"REVOKE TEMPORARY ON DATABASE {psycopg.conninfo.conninfo_to_dict(patient.dsn)['dbname']} FROM PUBLIC",
    )
    reader = Patient(make_conninfo(patient.admin_dsn, user=role, password=password), patient.admin_dsn)
    findings = {one.check: one for one in reader.findings("versions")}
    assert findings["versions.objects"].level is Level.UNCHECKED
    assert findings["versions.objects"].found.startswith("could not be checked: ")
    assert findings["versions.kbsearch"].level is Level.UNCHECKED
    reader.cure(findings["versions.kbsearch"])
    assert reader.bad("versions.kbsearch") == []
